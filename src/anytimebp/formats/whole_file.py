"""Writes files completely or not at all, compressed if their names say so; and reads formats from names."""

from __future__ import annotations

import errno
import gzip
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, cast

HALF = ".*.part"  # prefix of files that a killed writer leaves behind


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name once it is complete, and leaves no trace otherwise.

    It is compressed if the name ends in .gz, without a time stamp, so that the same content gives the same bytes. If
    the name is not that of an ordinary file, but of a pipe or /dev/stdout, for example, it is written to directly.
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
    """Make errors of the operating system name the file to be written, not a temporary one or none."""
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
