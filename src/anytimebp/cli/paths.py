"""Files named on the command line: checked before any work is done, and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from anytimebp.cli.names import warn
from anytimebp.cli.standard_streams import input_file, input_name, is_standard_input
from anytimebp.errors import FormatError
from anytimebp.formats.files import READERS, WRITERS, check_ending, read_evidence_file, read_model_file
from anytimebp.formats.input_file import open_input
from anytimebp.model.graph import FactorGraph

Function = TypeVar("Function", bound=Callable[..., Any])

FORMATS, WRITTEN_FORMATS = (
    tuple(ending[1:] for ending in endings if ending not in {".bifxml", ".xml"}) for endings in (READERS, WRITERS)
)


def model_argument(function: Function) -> Function:
    """Add the argument MODEL and the option --format."""
    function = click.option(
        "--format",
        "kind",
        type=click.Choice(FORMATS),
        help="Format of MODEL, if its name does not say it (for example on standard input, -).",
    )(function)
    return click.argument("model", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))(function)


def read_given_model(model: Path, kind: str | None) -> FactorGraph:
    """Read MODEL, in the format of its ending or of --format, and warn of odd numbers."""
    if is_standard_input(model) and kind is None:
        msg = f"standard input has no ending that says its format; add --format {'|'.join(FORMATS)}"
        raise click.UsageError(msg)
    with input_file(model) as file:
        graph, odd = read_model_file(file, kind and f"model.{kind}", input_name(model))
    for remark in odd:
        warn(f"{input_name(model)}: {remark}")
    return graph


def read_given_evidence(path: Path, graph: FactorGraph) -> dict[str, object]:
    """Read an evidence file; on standard input, what starts like JSON is JSON."""
    with input_file(path) as file:
        like = f"evidence{_sniffed(file)}" if is_standard_input(path) else None
        return read_evidence_file(file, graph, like, input_name(path))


def _sniffed(file: Path) -> str:
    with open_input(file) as source:
        start = source.read(1000).removeprefix(b"\xef\xbb\xbf").lstrip()
    return ".json" if start.startswith((b"{", b"[")) else ".evid"


def check_output(
    path: Path, known: Mapping[str, object], what: str, inputs: Iterable[Path] = (), like: str | None = None
) -> None:
    """Raise FormatError if a file could not be written, as far as can be told beforehand.

    Args:
        path: To be written.
        known: Endings.
        what: To be written.
        inputs: Files that are read.
        like: A file name whose ending says the format, if that of the file does not.
    """
    check_ending(like or path, known, what)
    for given in inputs:
        if path.exists() and given.exists() and path.samefile(given):
            raise FormatError(path, "this would overwrite a file that is read")
    if path.is_dir():
        raise FormatError(path, "this is a folder")
    if not path.parent.is_dir():
        raise FormatError(path, f"there is no folder {str(path.parent)!r}")
