"""Writing the files of a run: each one, even if another fails."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from anytimebp.cli.names import say
from anytimebp.errors import FormatError

Write: TypeAlias = Callable[[Path], None]


def write_each(files: Sequence[tuple[Path, Write]], *, interrupted: bool) -> list[Exception]:
    """Write files; return what went wrong.

    Args:
        files: Paths, and what writes each.
        interrupted: Whether Ctrl-C was pressed before, so that pressing it now is the second time.
    """
    failures: list[Exception] = []
    with _holding_off_interrupts(hold=not interrupted):
        for path, write in files:
            try:
                write(path)
            except OSError as error:
                failures.append(FormatError(path, f"cannot be written: {error.strerror or error}"))
            except Exception as error:  # noqa: BLE001  (the other files are still to be written)
                failures.append(error)
    return failures


@contextmanager
def _holding_off_interrupts(*, hold: bool) -> Iterator[None]:
    """Delay the first Ctrl-C until all files are written; the second one aborts."""
    usual = signal.getsignal(signal.SIGINT)
    if not hold or threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return

    def wait(number: int, frame: FrameType | None) -> None:
        del number, frame
        say("anytimebp: writing the files; press again to abort", err=True)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
