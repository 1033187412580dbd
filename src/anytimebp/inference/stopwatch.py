"""The run's own clock: it stands still while the caller has the word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stopwatch:
    """Adds up the time between starts and stops."""

    def __init__(self) -> None:
        """Start at zero, standing still."""
        self._before = 0.0
        self._started: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds that it has been running."""
        return self._before + (perf_counter() - self._started if self._started is not None else 0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let it run."""
        self._started = perf_counter()
        try:
            yield
        finally:
            self._before, self._started = self.seconds, None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still, within `running`."""
        self._before, self._started = self.seconds, None
        try:
            yield
        finally:
            self._started = perf_counter()
