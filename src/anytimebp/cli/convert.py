"""`anytimebp convert`: a model from one file format to another."""

from __future__ import annotations

from pathlib import Path

import click

import anytimebp
from anytimebp.cli.names import printable_name, say
from anytimebp.cli.paths import WRITTEN_FORMATS, check_output, model_argument, read_given_model
from anytimebp.cli.standard_streams import OUTPUT_NAME, STANDARD_OUTPUT, output_stream
from anytimebp.formats.files import WRITERS, write_model_file


@click.command()
@model_argument
@click.argument("out", type=click.Path(allow_dash=True, path_type=Path))
@click.option(
    "--to", type=click.Choice(WRITTEN_FORMATS), help="Format of OUT, if its name does not say it (for example -)."
)
@click.option(
    "--parts", type=click.IntRange(1), help="Cut MODEL into so many parts; OUT is the folder for their files."
)
def convert(model: Path, kind: str | None, out: Path, to: str | None, parts: int | None) -> None:
    """Write MODEL to OUT in the format of OUT's ending, or its parts into the folder OUT.

    Either can be - (standard input or output); then --format or --to says the format. Formats: .uai, .fg (libDAI),
    .bif, .xmlbif and .npz (our own, lossless), plain or gzipped. Potentials keep every bit. The command prints what the
    format of OUT cannot hold, such as names or log scores.
    """
    piped = str(out) == STANDARD_OUTPUT
    if parts is not None:
        _write_parts(model, kind, out, parts, has_format=piped or to is not None)
        return
    if out.is_dir():
        msg = f"{printable_name(out)} is a folder; add --parts to write the parts of a model into one"
        raise click.UsageError(msg)
    if piped and to is None:
        msg = f"standard output has no ending that says its format; add --to {'|'.join(WRITTEN_FORMATS)}"
        raise click.UsageError(msg)
    if not piped:
        check_output(out, WRITERS, "a model", [model], f"model.{to}" if to else None)
    graph = read_given_model(model, kind)
    if piped:
        with output_stream() as file:
            dropped = WRITERS[f".{to}"](graph, file, Path(OUTPUT_NAME))
    else:
        dropped = write_model_file(graph, out, f"model.{to}" if to else None)
    name = OUTPUT_NAME if piped else out
    say(f"{name}: {len(graph.variables):,} variables, {graph.n_factors:,} factors", err=piped)
    say_what_is_lost(dropped)


def _write_parts(model: Path, kind: str | None, folder: Path, parts: int, *, has_format: bool) -> None:
    """Cut a model, and write its parts into a folder that is empty or new."""
    if has_format:
        msg = "--parts writes .npz files into a folder: OUT must be one, and --to does not go with it"
        raise click.UsageError(msg)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{printable_name(folder)} is there already; parts are written into a new folder, or an empty one"
        raise click.UsageError(msg)
    graph = read_given_model(model, kind)
    made = anytimebp.parallel.write_parts(graph, folder, parts)  # which loads Numba
    say(f"{folder}: {len(graph.variables):,} variables, {graph.n_factors:,} factors, in {made:,} parts")


def say_what_is_lost(dropped: list[str]) -> None:
    """Print what a format cannot hold."""
    for loss in dropped:
        say(f"not kept: {printable_name(loss)}", err=True)
