"""Factors for files of potentials: each as a full table, with a list of what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np

from anytimebp.errors import FormatError
from anytimebp.model.factor import FactorBlock, describe_factor
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FactorSource, FloatArray

LARGEST_LOG = 709.0  # exp of more is infinite
SMALLEST_LOG = -708.0  # exp of less has fewer digits, and soon none
MOST_ENTRIES = 2**24  # of a factor that is not a table but is written as one; each takes about 100 bytes on the way

ROUNDED = "log scores are written as potentials, rounded in their last digit"


def factor_potentials(graph: FactorGraph, path: Path, dropped: list[str]) -> Iterator[tuple[list[int], FloatArray]]:
    """Give the scope and the potentials of each factor, in order; tied factors share one array.

    Args:
        graph: The model.
        path: Of the file to be written, for errors.
        dropped: What is lost is added here.
    """
    for block in graph.blocks:
        yield from tables_of_block(graph, block, path, dropped)


def tables_of_block(
    graph: FactorGraph, block: FactorBlock, path: Path, dropped: list[str]
) -> Iterator[tuple[list[int], FloatArray]]:
    """Give the scope and the potentials of each factor of a block."""
    for offset, scope in enumerate(block.scopes.tolist()):
        if offset == 0 or block.source.n_members > 1:
            table = block_potentials(graph, block, offset, path)
        yield scope, table
    note_rounding(block.source, dropped)


def note_rounding(source: FactorSource, dropped: list[str]) -> None:
    """Note that log scores are rounded, if a source has any."""
    tables = source.tables
    if (tables is None or tables.is_log) and ROUNDED not in dropped:
        dropped.append(ROUNDED)


def block_potentials(graph: FactorGraph, block: FactorBlock, offset: int, path: Path) -> FloatArray:
    """Return the potentials of one factor of a block; the graph's own numbers where it holds potentials."""
    source, tables = block.source, block.source.tables
    if tables is not None and not tables.is_log:
        values: FloatArray = tables.values[block.member(offset)]
        return values
    refuse_rule(graph, block, path)
    what = describe_factor((block,), graph.variables, block.first + offset)
    if not can_be_filled(source):
        message = (
            f"{what} is not a table, and as a table it has {prod(source.shape):,} entries, more than the "
            f"{MOST_ENTRIES:,} that are written in full; write .npz, which keeps lists and structures as they are"
        )
        raise FormatError(path, message)
    return as_potentials(graph.factor_log_table(block.first + offset), what, path)


def can_be_filled(source: FactorSource) -> bool:
    """Tell whether a source's scores can be made a table for writing."""
    return source.tables is not None or prod(source.shape) <= MOST_ENTRIES


def as_potentials(log_scores: FloatArray, what: str, path: Path) -> FloatArray:
    """Return exp of log scores; raise where potentials could not hold them."""
    finite = log_scores[log_scores > -np.inf]
    if finite.size and not (finite.max() <= LARGEST_LOG and finite.min() >= SMALLEST_LOG):
        message = (
            f"{what} has log scores from {finite.min():.6g} to {finite.max():.6g}, which potentials cannot hold; "
            "write .npz, which keeps log scores"
        )
        raise FormatError(path, message)
    return np.exp(log_scores)


def refuse_rule(graph: FactorGraph, block: FactorBlock, path: Path) -> None:
    """Raise if a block's scores are computed by a function, which no file can hold."""
    if block.source.is_rule:
        what = describe_factor((block,), graph.variables, block.first)
        raise FormatError(path, f"{what} is a rule: a file holds numbers, not functions")


def lost_names(graph: FactorGraph) -> list[str]:
    """Return what a format without names loses; nothing if all names are automatic."""
    named = [name for index, name in enumerate(graph.variables.names()) if name != f"x{index}"]
    return [f"names of variables ({len(named):,}, such as {named[0]!r}); they become x0, x1, ..."] if named else []


def lost_labels(graph: FactorGraph) -> list[str]:
    """Return what a format without labels loses; nothing if all labels are numbers from 0."""
    labelled = [block for block in graph.variables.blocks if not isinstance(block.labels, range)]
    if not labelled:
        return []
    count, such = sum(block.n for block in labelled), graph.variables.name(labelled[0].first)
    return [f"labels of states (of {count:,} variables, such as {such!r}); they become 0, 1, ..."]
