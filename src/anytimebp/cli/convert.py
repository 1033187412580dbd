"""`anytimebp convert`: a model from one file format to another."""

from __future__ import annotations

from pathlib import Path

import click

import anytimebp as abp
from anytimebp.cli.names import printable_name
from anytimebp.cli.paths import check_output, model_argument
from anytimebp.formats.files import WRITERS, write_model_file


@click.command()
@model_argument
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
def convert(model: Path, out: Path) -> None:
    """Write MODEL to OUT in the format of OUT's ending.

    Formats: .uai, .fg (libDAI), .bif, .xmlbif, .npz (our own, lossless), and .gz of each. Potentials are kept to the
    last bit; what the format of OUT cannot hold, such as names or log scores, is said.
    """
    check_output(out, WRITERS, "a model", [model])
    graph = abp.read_model(model)
    dropped = write_model_file(graph, out)
    click.echo(f"{out}: {len(graph.variables):,} variables, {graph.n_factors:,} factors")
    say_what_is_lost(dropped)


def say_what_is_lost(dropped: list[str]) -> None:
    """Print what a format cannot hold."""
    for loss in dropped:
        click.echo(f"not kept: {printable_name(loss)}", err=True)
