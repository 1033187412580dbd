"""Opening files: compressed ones as if they were not, and output that is written whole or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, cast

from anytimebp.errors import FormatError

GZIP_MAGIC = b"\x1f\x8b"
MAX_COMPRESSION = 1032  # what deflate can do at the very best
UNPACKED = 2**24  # bytes that are read at once; Python allocates them before it knows whether they are there


@contextmanager
def open_input(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file for reading, gzip or plain by its first bytes; also give the bytes that it holds at the most."""
    with path.open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
        size = os.fstat(raw.fileno()).st_size if stat.S_ISREG(os.fstat(raw.fileno()).st_mode) else 2**40
        raw.seek(0)
        if not packed:
            yield raw, size
            return
        try:
            with gzip.GzipFile(fileobj=raw) as file:
                yield cast("BinaryIO", file), size * MAX_COMPRESSION
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FormatError(path, f"the gzip file is damaged or cut short ({error})") from None


def read_at_most(path: Path, most: int) -> bytes:
    """Return what a file holds, unpacked; refuse to read more than so many bytes."""
    pieces: list[bytes] = []
    with open_input(path) as (file, n_bytes):
        while piece := file.read(min(n_bytes + 1, UNPACKED)):
            pieces.append(piece)
            if sum(map(len, pieces)) > most:
                raise FormatError(path, f"the file holds more than {most:,} bytes, the most that is read of its kind")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name when all went well, and leaves no trace otherwise.

    Compressed if the name ends in .gz, without a time stamp, so that the same content gives the same bytes. What is no
    ordinary file, such as a pipe or /dev/stdout, is written to as it is.
    """
    target = Path(path)
    with _named(target):
        opened = target.open("wb") if target.exists() and not target.is_file() else _part(target)
        with opened as raw, _packed(raw, target) as file:
            yield file


@contextmanager
def _part(target: Path) -> Iterator[BinaryIO]:
    """Open a file beside the target, under a name that no other writer has, and put it in the target's place."""
    target = Path(os.path.realpath(target))  # replace what a link points to, not the link
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    part = target.with_name(f".{token_hex(8)}.part")
    with part.open("xb") as raw:  # not by tempfile, whose files are for their owner alone whatever the umask says
        try:
            yield raw
            raw.flush()
            os.fsync(raw.fileno())
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            part.replace(target)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let errors of the system name the file that was to be written, not a part of it or none at all."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None or str(error.filename).endswith(".part")
        if unnamed and error.errno is not None:  # without a number, the name would take the place of the text
            error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def _packed(raw: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    if path.suffix.lower() != ".gz":
        yield raw
        return
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as file:
        yield cast("BinaryIO", file)


def ending(path: str | os.PathLike[str]) -> str:
    """Return what a file's name says of its format: its last ending, in lower case, with .gz left out."""
    name = Path(path)
    if name.suffix.lower() == ".gz":
        name = name.with_suffix("")
    return name.suffix.lower()
