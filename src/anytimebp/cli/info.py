"""`anytimebp info`: the size of a model, and which method suits it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from anytimebp.cli.names import printable_name, say
from anytimebp.cli.paths import model_argument, read_given_model
from anytimebp.cli.standard_streams import input_name
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import IndexArray
from anytimebp.model.summary import GraphSummary, format_bytes
from anytimebp.tables.machine import available_memory

BAR = 40  # characters of the longest bar


@click.command()
@model_argument
def info(model: Path, kind: str | None) -> None:
    """Show the size of a model, the memory for full BP, and the method that `infer` takes."""
    graph = read_given_model(model, kind)
    summary = graph.summary()
    say(f"{printable_name(input_name(model))}\n{summary}")
    if len(graph.variables):
        say(f"\nstates             variables\n{_histogram(graph.variables.sizes())}")
    say(f"\n{_advice(graph, summary)}")


def _advice(graph: FactorGraph, summary: GraphSummary) -> str:
    """Return what to expect of `infer`."""
    from anytimebp.domains.domains import full_domains  # noqa: PLC0415  (loads Numba, which `--help` can do without)
    from anytimebp.exact.relevance import Part  # noqa: PLC0415
    from anytimebp.inference.auto_run import choose_possible  # noqa: PLC0415
    from anytimebp.layout.graph_layout import compiled_graph  # noqa: PLC0415

    memory = available_memory()
    if memory is not None and summary.full_bp_bytes > memory:
        needed, there = format_bytes(summary.full_bp_bytes), format_bytes(memory)
        return f"Full BP needs {needed}, this machine has {there} left: `infer` works on sparse domains."
    if summary.is_forest:
        return "The graph is a forest: `infer` gives exact marginals in two passes."
    compiled = compiled_graph(graph)
    part = Part(compiled.arrays, compiled.universe_sizes)
    chosen = choose_possible(compiled, part.sizes, part, lambda: full_domains(compiled, {})).chosen
    if chosen.tree is not None:
        return f"`infer` is exact, on a junction tree: {chosen.reason}."
    return (
        "The tables fit into memory: `infer` starts with the likely states where that saves time, and ends with all,\n"
        f"at belief propagation; {chosen.reason}."
    )


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
