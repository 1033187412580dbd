"""`anytimebp info`: what a model is like, and what method fits."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

import anytimebp as abp
from anytimebp.cli.choice import choose_method
from anytimebp.cli.paths import model_argument
from anytimebp.model.source import IndexArray

BAR = 40  # characters of the longest bar


@click.command()
@model_argument
def info(model: Path) -> None:
    """Show sizes, universes, memory for full BP, structure, and what method fits."""
    graph = abp.read_model(model)
    summary = graph.summary()
    click.echo(f"{model}\n{summary}")
    if len(graph.variables):
        click.echo(f"\nstates             variables\n{_histogram(graph.variables.sizes())}")
    choice = choose_method(summary)
    click.echo(f"\n--method {choice.method} fits: {choice.reason}.")
    if choice.method == "bp" and not summary.is_forest:
        click.echo("--method dynamic gives consistent marginals at any moment, best where most states are unlikely.")


def _histogram(sizes: IndexArray) -> str:
    """Return a bar per range of universe sizes, ranges doubling."""
    top = np.floor(np.log2(sizes)).astype(np.int64)
    counts = np.bincount(top)
    first = int(top.min())
    lines = []
    for power in range(first, len(counts)):
        low, high = 2**power, 2 ** (power + 1) - 1
        name = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        bar = "#" * -int(-BAR * counts[power] // counts.max())
        lines.append(f"{name:<18} {counts[power]:>9,}  {bar}".rstrip())
    return "\n".join(lines)
