"""Signals while kernels are loaded or compiled: their handlers run between two kernels.

LLVM fetches machine code through callbacks into Python. A handler that raises in one of them, as that of Ctrl-C does,
raises to nobody: the signal is lost, or the buffer that was being filled is used half-written.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class LoadingStoppedError(BaseException):
    """Loading was given up between two kernels. No Exception, which the compiler would take for an error of its own."""


class _Held:
    """Handlers that wait, and the signals that have come for them."""

    def __init__(self, is_stopped: Callable[[], bool]) -> None:
        """Take over from all handlers that are written in Python."""
        self._is_stopped = is_stopped
        self._waiting: list[tuple[int, FrameType | None]] = []
        self._handlers: dict[int, Any] = {}
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append((number, frame))

    def let_in(self) -> None:
        """Run the handlers of what has come; raise LoadingStoppedError if one of them has asked for an end."""
        while self._waiting:
            number, frame = self._waiting.pop(0)
            self._handlers[number](number, frame)
        if self._is_stopped():
            raise LoadingStoppedError

    def end(self) -> None:
        """Give signals back to their handlers, but for those that somebody else has taken since, and run them."""
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)
        while self._waiting:
            number, frame = self._waiting.pop(0)
            self._handlers[number](number, frame)


_held: list[_Held] = []  # one or none; of the main thread


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def hold_signals(is_stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Let the handlers of signals wait until `let_signals_in` or the end.

    Within another one, or in a thread other than the main one, where no handler ever runs, this does nothing.

    Args:
        is_stopped: Whether what a handler has done is to stop the loading; asked between two kernels.
    """
    if _held or not _in_main_thread():
        yield
        return
    held = _Held(is_stopped)
    _held.append(held)
    try:
        yield
    finally:
        _held.clear()
        held.end()


def let_signals_in() -> None:
    """Run the handlers of signals that have come while they were held; called between two kernels."""
    if _held and _in_main_thread():
        _held[0].let_in()
