"""Files named on the command line: checked before any work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from anytimebp.errors import FormatError
from anytimebp.formats.files import check_ending

Function = TypeVar("Function", bound=Callable[..., Any])


def model_argument(function: Function) -> Function:
    """Add the argument MODEL."""
    return click.argument("model", type=click.Path(dir_okay=False, path_type=Path))(function)


def check_output(path: Path, known: Mapping[str, object], what: str, inputs: Iterable[Path] = ()) -> None:
    """Raise FormatError if a file could not be written, as far as can be told beforehand."""
    check_ending(path, known, what)
    for given in inputs:
        if path.exists() and given.exists() and path.samefile(given):
            raise FormatError(path, "this would overwrite what is read")
    if path.is_dir():
        raise FormatError(path, "this is a folder")
    if not path.parent.is_dir():
        raise FormatError(path, f"there is no folder {str(path.parent)!r}")
