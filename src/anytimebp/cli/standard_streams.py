"""Standard input and output in place of files: `-`; and whether a bar can be drawn on standard error."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from anytimebp.errors import FormatError

INPUT_NAME, OUTPUT_NAME = "standard input", "standard output"
STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0"})
STANDARD_OUTPUT = "-"
MOST_BYTES = 2**31  # of standard input, which goes to the disk before it is read
AT_ONCE = 2**20


def is_standard_input(path: Path) -> bool:
    """Tell whether a name on the command line means standard input."""
    return str(path) in STANDARD_INPUT


def input_name(path: Path) -> str:
    """Return what to call a file that is read."""
    return INPUT_NAME if is_standard_input(path) else str(path)


@contextmanager
def input_file(path: Path) -> Iterator[Path]:
    """Give a file with what a name on the command line leads to: itself, or a copy of standard input.

    Errors read a file again to find the line, which a pipe does not allow.
    """
    if not is_standard_input(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "input")
        with copy.open("wb") as file:
            _copy_input(file)
        yield copy


def _copy_input(file: BinaryIO) -> None:
    if sys.stdin is None or sys.stdin.closed:
        raise FormatError(INPUT_NAME, "it is closed")
    left = MOST_BYTES
    while data := sys.stdin.buffer.read(AT_ONCE):
        left -= len(data)
        if left < 0:
            raise FormatError(INPUT_NAME, f"more than {MOST_BYTES:,} bytes; write them to a file and name the file")
        file.write(data)


@contextmanager
def output_stream() -> Iterator[BinaryIO]:
    """Open a file for writing that goes to standard output when all went well."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        while data := file.read(AT_ONCE):
            sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def wants_bar() -> bool:
    """Tell whether standard error is a terminal on which nothing else draws."""
    try:
        piped = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        piped = False
    return sys.stderr.isatty() and not piped
