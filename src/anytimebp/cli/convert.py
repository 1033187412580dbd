"""`anytimebp convert`: a model from one file format to another."""

from __future__ import annotations

from pathlib import Path

import click

from anytimebp.cli.names import printable_name, say
from anytimebp.cli.paths import FORMATS, check_output, model_argument, read_given_model
from anytimebp.cli.standard_streams import OUTPUT_NAME, STANDARD_OUTPUT, output_stream
from anytimebp.formats.files import WRITERS, write_model_file


@click.command()
@model_argument
@click.argument("out", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--to", type=click.Choice(FORMATS), help="Format of OUT, if its name does not say it (for example -).")
def convert(model: Path, kind: str | None, out: Path, to: str | None) -> None:
    """Write MODEL to OUT in the format of OUT's ending.

    Either can be - (standard input or output); then --format or --to says the format. Formats: .uai, .fg (libDAI),
    .bif, .xmlbif and .npz (our own, lossless), plain or gzipped. Potentials keep every bit. The command prints what the
    format of OUT cannot hold, such as names or log scores.
    """
    piped = str(out) == STANDARD_OUTPUT
    if piped and to is None:
        msg = f"standard output has no ending that says its format; add --to {'|'.join(FORMATS)}"
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


def say_what_is_lost(dropped: list[str]) -> None:
    """Print what a format cannot hold."""
    for loss in dropped:
        say(f"not kept: {printable_name(loss)}", err=True)
