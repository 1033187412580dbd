"""One line on standard error that says how far a run is."""

from __future__ import annotations

import math
import sys
from time import monotonic
from typing import Self

from anytimebp.report.choices import split_choice
from anytimebp.results.trace import Moment

INTERVAL = 0.1  # seconds between two writes; terminals are slow


class ProgressLine:
    """Rewrites one line while a run goes on, and leaves the last state standing."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._last = 0.0
        self._text = ""
        self._width = 0  # of what stands there

    def __enter__(self) -> Self:
        """Start."""
        return self

    def show(self, moment: Moment) -> None:
        """Show the figures of a moment, if the last ones have stood for a while."""
        self._text = moment_text(moment)
        now = monotonic()
        if now - self._last >= INTERVAL:
            self._last = now
            self._write("")

    def _write(self, end: str) -> None:
        """Write over what stands there, all of it."""
        sys.stderr.write(f"\r{self._text.ljust(self._width)}{end}")
        sys.stderr.flush()
        self._width = len(self._text)

    def __exit__(self, *_: object) -> None:
        """Show the last figures and end the line."""
        if self._text:
            self._write("\n")


def moment_text(moment: Moment) -> str:
    """Return the figures of a moment in a line: the estimated error where it is known, and what `adaptive` does."""
    fields = [
        f"{moment.seconds:.2f} s",
        f"{moment.states:,} states",
        f"{moment.updates:,} updates",
        f"residual {moment.max_residual:.1e}",
    ]
    if math.isfinite(moment.estimated_error):
        fields.append(f"error {moment.estimated_error:.1e}")
    if moment.choice:
        fields.append(split_choice(moment.choice)[0])
    return "  ".join(fields)
