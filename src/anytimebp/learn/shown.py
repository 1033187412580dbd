"""How far a training is, on standard error: a bar on a terminal, a line per iteration elsewhere."""

from __future__ import annotations

import math
import sys
from typing import Self

from anytimebp.learn.state import State
from anytimebp.report.progress import new_bar


class TrainingDisplay:
    """Shows a training that goes on."""

    def __init__(self, max_iterations: int, *, is_shown: bool) -> None:
        """Show nothing yet."""
        self._most, self._is_shown, self._n_shown = max(1, max_iterations), is_shown, 0
        self._bar = new_bar() if is_shown and sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        """Wait for the first iteration."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        if self._bar:
            self._bar.stop()

    def watch(self, state: State) -> None:
        """Show the last iteration, unless it was shown before."""
        if not self._is_shown or len(state.rows) == self._n_shown:
            return
        self._n_shown, row = len(state.rows), state.rows[-1]
        texts = [f"iteration {self._n_shown}", f"objective {row.objective:.6g}", f"gradient {row.gradient:.1e}"]
        if not math.isnan(row.held_out):
            texts.append(f"held-out log likelihood {row.held_out:.6g}")
        texts.append(f"messages to {row.tolerance:.0e}")
        if row.unsettled:
            texts.append(f"{row.unsettled} batches not settled")
        if self._bar is None:
            sys.stderr.write("  ".join(texts) + "\n")
            return
        done = min(1.0, self._n_shown / self._most)
        self._bar.update(self._bar.task_ids[0], completed=done, description="  ".join(texts))
        self._bar.start()  # does nothing from the second time on
