"""Opens files to read: regular files only, unpacked while read, with limits that depend on their size.

A file of a few kilobytes can unpack to gigabytes, and text of a few bytes can ask for objects of a kilobyte. So there
is a limit on what a packed file unpacks to, and one on the memory of what a file states; both grow with its size.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from anytimebp.errors import FormatError

GZIP_MAGIC = b"\x1f\x8b"
MAX_COMPRESSION = 1032  # what deflate can do at the very best
FREE_UNPACKED = 2**26
UNPACKED_PER_BYTE = 200
"""Bytes that a packed file may unpack to, whatever its size, and per byte of its size if that is more."""

FREE_ROOM = 2**28
ROOM_PER_BYTE = 256
"""Bytes of memory for variables, labels and factors: in any file, and per byte of its size, packed or not. Text that is
not packed stays under that by itself: a factor takes 8 bytes of text at the least, and `FACTOR_BLOCK` of memory."""

FACTOR_BLOCK = 1200
FACTOR = 100
VARIABLE = 400
NAMED_VARIABLE = 1500
LABEL = 100
ROW = 300
"""Bytes of memory, measured, of what a file states: a run of factors of one shape, a factor of such a run, a variable
without a name and one with a name and a distribution, a label, a row of a distribution."""

AT_ONCE = 2**20  # bytes per read; Python allocates them before it knows whether the file has them
KINDS = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))


class Source:
    """A file that is open for reading.

    Attributes:
        path: For errors.
        size: Bytes that the file takes.
        n_bytes: What it holds at the most, unpacked.
    """

    def __init__(self, path: Path, file: BinaryIO, size: int, n_bytes: int) -> None:
        """Start at the beginning of a file that takes `size` bytes on the disk."""
        self.path = path
        self.file = file
        self.n_bytes = n_bytes
        self.size = size
        self._left = n_bytes
        self._room = FREE_ROOM + ROOM_PER_BYTE * size

    def read(self, count: int) -> bytes:
        """Return up to `count` bytes, none at the end; refuse to go on beyond `n_bytes`."""
        data = self.file.read(count)
        self._left -= len(data)
        if self._left < 0:
            self.fail_unpacked()
        return data

    def make_room(self, n_bytes: int) -> None:
        """Add to the memory of what the file states; refuse more than a file of this size may take."""
        self._room -= n_bytes
        if self._room < 0:
            message = (
                f"the file takes {self.size:,} bytes and states more variables, labels or factors than fit into "
                f"{FREE_ROOM + ROOM_PER_BYTE * self.size:,} bytes of memory, the most for a file of this size; if it "
                "is packed and you trust it, unpack it"
            )
            raise FormatError(self.path, message)

    def fail_unpacked(self) -> NoReturn:
        """Raise because the file unpacks to too much."""
        message = (
            f"the file takes {self.size:,} bytes and unpacks to more than {most_unpacked(self.size):,}, the most of "
            "a packed file of this size that is read; unpack it if you trust it"
        )
        raise FormatError(self.path, message)


@contextmanager
def open_input(path: Path) -> Iterator[Source]:
    """Open a regular file for reading, gzip or plain by its first bytes."""
    _refuse_devices(path, path.stat())
    with open(path, "rb", opener=_open_at_once) as raw:
        status = os.fstat(raw.fileno())
        _refuse_devices(path, status)  # the name may lead elsewhere by now
        size = status.st_size
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        if not packed:
            yield Source(path, raw, size, size)
            return
        most = min(size * MAX_COMPRESSION, most_unpacked(size))
        try:
            with gzip.GzipFile(fileobj=raw) as file:
                yield Source(path, cast("BinaryIO", file), size, most)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FormatError(path, f"the gzip file is damaged or cut short ({error})") from None


def most_unpacked(size: int) -> int:
    """Return how many bytes a packed file of this size may hold."""
    return max(FREE_UNPACKED, size * UNPACKED_PER_BYTE)


def _open_at_once(path: str, flags: int) -> int:
    """Open without blocking, in case the file has been replaced by a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _refuse_devices(path: Path, status: os.stat_result) -> None:
    """Raise if a name is not a regular file and might never end; the system itself refuses folders."""
    for is_kind, what in KINDS:
        if is_kind(status.st_mode):
            message = f"this is {what}, not a file; the command line reads standard input as -"
            raise FormatError(path, message)


def read_at_most(path: Path, most: int) -> tuple[bytes, Source]:
    """Return the unpacked content of a file, and the closed file; refuse more than so many bytes."""
    pieces: list[bytes] = []
    total = 0
    with open_input(path) as source:
        while piece := source.read(min(source.n_bytes, most, AT_ONCE) + 1):
            pieces.append(piece)
            total += len(piece)
            if total > most:
                raise FormatError(path, f"the file holds more than {most:,} bytes, the most that is read of its kind")
    return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), source
