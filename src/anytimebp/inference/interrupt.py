"""Ctrl-C as a flag that is looked at between slices, never in the middle of an update."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from time import monotonic
from types import FrameType
from typing import Any, ClassVar, Self

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
