"""`anytimebp info`: what a model is like, and what method fits."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

import anytimebp as abp
from anytimebp.cli.paths import model_argument
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import IndexArray
from anytimebp.model.structure import GraphSummary, format_bytes
from anytimebp.workspace.memory import available_memory

BAR = 40  # characters of the longest bar
LARGE_UNIVERSE = 50  # mean states from which growing domains can pay


@click.command()
@model_argument
def info(model: Path) -> None:
    """Show sizes, universes, memory for full BP, structure, and what method fits."""
    graph = abp.read_model(model)
    summary = graph.summary()
    click.echo(f"{model}\n{summary}")
    if len(graph.variables):
        click.echo(f"\nstates             variables\n{_histogram(graph.variables.sizes())}")
    click.echo(f"\n{_advice(graph, summary)}")


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


def _advice(graph: FactorGraph, summary: GraphSummary) -> str:
    """Say what method to try, from sizes alone."""
    memory = available_memory()
    if memory is not None and summary.full_bp_bytes > memory:
        needed, there = format_bytes(summary.full_bp_bytes), format_bytes(memory)
        return (
            f"Try --method dynamic: full BP needs {needed}, this machine has {there} left; "
            "growing domains need only what they use."
        )
    if not graph.n_factors:
        return "Any method: there are no factors, and all marginals are uniform."
    if summary.is_forest:
        return "Try --method bp: the graph is a forest, where two passes give the exact marginals."
    if summary.universe_mean < LARGE_UNIVERSE:
        return "Try --method bp: with few states a variable, sweeps over all of them are fastest."
    return (
        "Try --method bp if you want the end, which it reaches fastest while tables fit into memory; --method dynamic "
        "with --seconds for consistent marginals at a deadline, best where most states are unlikely."
    )
