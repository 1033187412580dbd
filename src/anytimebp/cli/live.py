"""The progress bar of a run on a terminal."""

from __future__ import annotations

import math
import os
import stat
import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from anytimebp.report.choices import split_choice
from anytimebp.results.trace import Moment

BAR_WIDTH = 20  # characters


def wants_bar() -> bool:
    """Tell whether standard error is a terminal that nothing else is about to draw on."""
    try:
        piped = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        piped = False
    return sys.stderr.isatty() and not piped


class LiveBar:
    """Shows figures as they come: from `watch` many times a second, from snapshots now and then.

    Args:
        n_states: All states of all variables, in the domains or not.
        seconds: The run's budget, if it has one.
    """

    def __init__(self, n_states: int, seconds: float | None) -> None:
        """Show nothing yet: kernels may have to be compiled first, which says so itself."""
        self._n_states = max(1, n_states)
        self._seconds = seconds
        self._log_z = self._error = "..."
        self._progress = Progress(
            BarColumn(bar_width=BAR_WIDTH),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=1.0)

    def __enter__(self) -> Self:
        """Wait for the first figures."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._progress.stop()

    def watch(self, moment: Moment) -> None:
        """Show the figures of this moment."""
        if not self._progress.live.is_started:
            self._progress.start()
        share = moment.states / self._n_states
        done = share if self._seconds is None else max(share, moment.seconds / max(self._seconds, 1e-9))
        left = "" if self._seconds is None else f"  {max(0.0, self._seconds - moment.seconds):.1f} s left"
        self._note(moment)
        fields = [
            f"{moment.seconds:.1f} s{left}",
            f"domains {share:.0%}",
            f"error {self._error}",
            f"residual {moment.max_residual:.1e}",
            *([split_choice(moment.choice)[0]] if moment.choice else []),
            f"log Z {self._log_z}",
        ]
        while len(fields) > 1 and len("  ".join(fields)) > self._progress.console.width - BAR_WIDTH - 2:
            fields.pop()
        self._progress.update(self._task, completed=min(1.0, done), description="  ".join(fields))

    def _note(self, moment: Moment) -> None:
        """Keep the last log Z and estimated error that are known."""
        error = moment.estimated_error
        if not math.isnan(moment.log_z):
            self._log_z = f"{moment.log_z:.6g}"
        if not math.isnan(error):
            self._error = f"{error:.1e}" if math.isfinite(error) else "unknown"
