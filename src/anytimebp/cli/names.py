"""Escapes names from files, so that they cannot control a terminal. All output of the command goes through here."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click

UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable_name(name: object) -> str:
    """Return a name with control characters, which could drive a terminal, written out."""
    return "".join(
        character if unicodedata.category(character) not in UNSHOWN else character.encode("unicode_escape").decode()
        for character in str(name)
    )


def printable_text(text: object) -> str:
    """Return a text of several lines that may contain names, with control characters written out."""
    return "\n".join(map(printable_name, str(text).split("\n")))


def say(text: object, *, err: bool = False) -> None:
    """Print a text on standard output, or on standard error."""
    click.echo(printable_text(text), err=err)


def warn(text: object) -> None:
    """Print a warning, a line on standard error."""
    say(f"anytimebp: warning: {printable_name(text)}", err=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print warnings of the library as lines, without file names and line numbers."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: warn(message)
        yield
