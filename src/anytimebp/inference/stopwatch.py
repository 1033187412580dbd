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

    def start(self) -> None:
        """Let it run."""
        self._started = perf_counter()

    def stop(self) -> None:
        """Let it stand still."""
        self._before, self._started = self.seconds, None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still for a while, between `start` and `stop`."""
        self.stop()
        try:
            yield
        finally:
            self.start()
