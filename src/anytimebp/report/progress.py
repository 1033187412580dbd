"""One line on standard error that says how far a run is."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Self

from anytimebp.results.trace import Moment

INTERVAL = 0.1  # seconds between two writes; terminals are slow


class ProgressLine:
    """Rewrites one line while a run goes on, and leaves the last state standing."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._last = 0.0
        self._text = ""

    def __enter__(self) -> Self:
        """Start."""
        return self

    def show(self, moment: Moment) -> None:
        """Show the figures of a moment, if the last ones have stood for a while."""
        self._text = (
            f"{moment.seconds:8.2f} s  {moment.states:>12,} states  {moment.updates:>12,} updates  "
            f"largest residual {moment.max_residual:.2e}"
        )
        now = monotonic()
        if now - self._last >= INTERVAL:
            self._last = now
            sys.stderr.write(f"\r{self._text}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        """Show the last figures and end the line."""
        if self._text:
            sys.stderr.write(f"\r{self._text}\n")
            sys.stderr.flush()
