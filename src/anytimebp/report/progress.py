"""Shows the progress of a run on standard error: a bar on a terminal, one line in a notebook, some lines elsewhere."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Self

from anytimebp.report.wording import estimate_text, split_choice
from anytimebp.results.trace import Moment

if TYPE_CHECKING:
    from rich.progress import Progress

BAR_WIDTH = 20  # characters
REDRAW = 0.1  # seconds between two updates of the display; terminals are slow
BETWEEN_LINES = 1.0  # seconds, and at least a tenth of the run so far: a hundred lines in a day


class RunDisplay:
    """Shows a run in progress: `with display: inference.run(watch=display.watch)`.

    Args:
        n_states: States of all variables together that can be active.
        seconds: The run's budget, if it has one.
        leaves_line: Whether the last figures remain as a line.
    """

    def __init__(self, n_states: int, seconds: float | None = None, *, leaves_line: bool = True) -> None:
        """Show nothing yet: kernels may have to be compiled first, which prints a message of its own."""
        self._n_states = max(1, n_states)
        self._seconds = seconds
        self._leaves_line = leaves_line
        self._bar = new_bar() if sys.stderr.isatty() else None
        self._rewrites = type(sys.stderr).__module__.startswith("ipykernel")
        self._due = 0.0 if self._bar or self._rewrites else BETWEEN_LINES
        self._fields: list[str] = []
        self._log_z = self._error = math.nan
        self._written = ""

    def __enter__(self) -> Self:
        """Wait for the first figures."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar, and leave the last figures if they are to stay."""
        if self._bar:
            self._bar.stop()
        if self._leaves_line and self._fields:
            self._write()
            if self._rewrites:
                sys.stderr.write("\n")

    def watch(self, moment: Moment) -> None:
        """Show the figures of this moment and the last known estimates, unless the display was updated just before."""
        if not math.isnan(moment.log_z):
            self._log_z = moment.log_z
        if not math.isnan(moment.estimated_error):
            self._error = moment.estimated_error
        self._fields = self._texts(moment)
        if moment.seconds < self._due:
            return
        self._due = moment.seconds + REDRAW
        if self._bar:
            self._draw(self._bar, moment)
            return
        self._write()
        if not self._rewrites:
            self._due = moment.seconds + max(BETWEEN_LINES, moment.seconds / 10)

    def _texts(self, moment: Moment) -> list[str]:
        """Return what is known, in the order of importance."""
        left = "" if self._seconds is None else f"  {max(0.0, self._seconds - moment.seconds):.1f} s left"
        return [
            f"{moment.seconds:.2f} s{left}",
            f"domains {moment.states / self._n_states:.0%}",
            *([] if math.isnan(self._error) else [f"to BP {estimate_text(self._error)}"]),
            f"residual {moment.max_residual:.1e}",
            *([split_choice(moment.choice)[0]] if moment.choice else []),
            *([] if math.isnan(self._log_z) else [f"log Z {self._log_z:.6g}"]),
            f"{moment.states:,} states",
            f"{moment.updates:,} updates",
        ]

    def _draw(self, bar: Progress, moment: Moment) -> None:
        """Change the bar, with as many figures as fit."""
        fields = list(self._fields)
        while len(fields) > 1 and len("  ".join(fields)) > bar.console.width - BAR_WIDTH - 2:
            fields.pop()
        share = moment.states / self._n_states
        done = share if self._seconds is None else max(share, moment.seconds / max(self._seconds, 1e-9))
        bar.update(bar.task_ids[0], completed=min(1.0, done), description="  ".join(fields))
        bar.start()  # does nothing from the second time on

    def _write(self) -> None:
        """Write a line unless it is already shown, or replace the line that is shown."""
        text = "  ".join(self._fields)
        if self._rewrites:
            sys.stderr.write(f"\r{text.ljust(len(self._written))}")
        elif text != self._written:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
        self._written = text


def new_bar() -> Progress:
    """Return a bar that is removed at the end; text that is printed meanwhile appears above it."""
    from rich.console import Console  # noqa: PLC0415  (loads slowly, and most runs show nothing)
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    bar = Progress(
        BarColumn(bar_width=BAR_WIDTH),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what goes to a file must not end up on the terminal
    )
    bar.add_task("", total=1.0)
    return bar
