"""What one call may use up: limits, the clock that they go by, and Ctrl-C."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from time import monotonic, perf_counter
from types import FrameType
from typing import Any, ClassVar, Self

from anytimebp.inference.figures import UNLIMITED, Figures
from anytimebp.results.snapshot import Snapshot

GROWTH_BETWEEN_LOOKS = 1.2  # of all active states: looking costs about as much as scoring every candidate


@dataclass(kw_only=True, slots=True)
class Budget:
    """What one call may use up.

    Attributes:
        stop_at: Seconds of the run at which the call ends.
        updates: Factor updates, counted from the start of the figures.
        work: Entries read or scored, counted from the start of the figures.
        target_error: Estimated error at which the call ends.
        is_watched: Whether somebody looks at the run after every sweep, or stops it at a certain one.
    """

    stop_at: float = float("inf")
    updates: int = UNLIMITED
    work: int = UNLIMITED
    target_error: float | None = None
    is_watched: bool = True


class Target:
    """Looks at the estimated error after each round; on domains that grow state by state, when they have by a fifth.

    A state that has not settled must be under the target after two rounds in a row: one sweep's rate may be luck.
    """

    def __init__(self, target_error: float | None) -> None:
        """Look at the first occasion."""
        self._target_error = target_error
        self._states = 0.0
        self._rounds = -1
        self._under = 0

    def is_worth_a_look(self, figures: Figures) -> bool:
        """Tell whether there is a new state to look at."""
        if self._target_error is None or figures.rounds == self._rounds:
            return False
        if math.isnan(figures.estimated_error):
            return figures.can_be_judged and figures.states >= self._states
        is_under = figures.estimated_error <= self._target_error
        self._under = self._under if is_under else 0
        return figures.can_be_judged and is_under

    def is_reached(self, figures: Figures, snapshot: Snapshot) -> bool:
        """Take a look."""
        self._rounds = figures.rounds
        grown = int(snapshot.domain_sizes.sum())
        self._states = GROWTH_BETWEEN_LOOKS * grown if grown < snapshot.n_states else 0.0
        is_under = self._target_error is not None and snapshot.estimated_error <= self._target_error
        self._under = self._under + 1 if is_under else 0
        return self._under >= (1 if snapshot.consistent else 2)


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


_get_handler: Callable[..., Any] = signal.getsignal
_set_handler: Callable[..., Any] = signal.signal
with suppress(ImportError, AttributeError):  # the same without a search for names of handlers, which costs 10 us a run
    _functions = import_module("_signal")
    _get_handler, _set_handler = _functions.getsignal, _functions.signal

AGAIN = 2.0
"""Seconds after a call that Ctrl-C has ended in which it raises when pressed again, to end a loop of calls."""


class InterruptFlag:
    """While entered, the first Ctrl-C sets a flag and the second one raises; only in the main thread.

    The second one may come in another call, with a flag of its own, if it comes soon.

    Attributes:
        is_set: Whether Ctrl-C was pressed since it was last entered.
    """

    _ended_a_call: ClassVar[float] = float("-inf")  # when a call last returned after Ctrl-C, in this process

    def __init__(self) -> None:
        """Start without an interrupt."""
        self.is_set = False
        self._active = False

    def __enter__(self) -> Self:
        """Take over Ctrl-C, unless somebody else than Python's default handles it already."""
        self.is_set = False
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and _get_handler(signal.SIGINT) is signal.default_int_handler:
            _set_handler(signal.SIGINT, self._handle)
            self._active = True
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Give Ctrl-C back, unless a callback has taken it."""
        if self._active and _get_handler(signal.SIGINT) == self._handle:
            _set_handler(signal.SIGINT, signal.default_int_handler)
        self._active = False
        if self.is_set and error is None:
            InterruptFlag._ended_a_call = monotonic()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_set or monotonic() - InterruptFlag._ended_a_call < AGAIN:
            signal.default_int_handler(number, frame)
        self.is_set = True
