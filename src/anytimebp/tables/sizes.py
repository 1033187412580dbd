"""What is summed over given domains: tables or structures, of how many entries; how far tables can move beliefs."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from anytimebp.kernels.codes import TABLE
from anytimebp.kernels.structures import SUMS
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import FactorBlock
from anytimebp.model.source import FloatArray, IndexArray

SAMPLE = 2048  # scores of a rule that are looked at


def factor_kinds(compiled: CompiledGraph, sizes: IndexArray) -> IndexArray:
    """Return (F,) what each factor is over domains of these sizes: TABLE, or a structure."""
    kinds = np.full(len(compiled.arrays.factor_edge_start) - 1, TABLE)
    for first, block in compiled.message_blocks:
        if block.source.sums is not None:
            structured = block.source.is_structured(sizes[block.scopes].astype(np.float64))
            kinds[first : first + len(block.scopes)] = np.where(structured, SUMS[block.source.sums], TABLE)
    return kinds


def factor_entries(layout: GraphLayout, sizes: IndexArray) -> FloatArray:
    """Return (F,) the entries of each factor's table over domains of these sizes."""
    edge_size = sizes[layout.edge_variable].astype(np.float64)
    return np.multiply.reduceat(edge_size, layout.factor_edge_start[:-1]) if len(edge_size) else np.empty(0)


def table_entries(layout: GraphLayout, sizes: IndexArray) -> float:
    """Return the entries of all tables together."""
    return float(factor_entries(layout, sizes).sum())


def update_entries(compiled: CompiledGraph, sizes: IndexArray) -> float:
    """Return the entries that an update of every factor reads over domains of these sizes: of tables or structures."""
    if compiled.has_tables_only and sizes is compiled.universe_sizes:
        return compiled.n_joint_states
    if compiled.has_tables_only or all(block.source.sums is None for _, block in compiled.message_blocks):
        return table_entries(compiled.arrays, sizes)
    total = 0.0
    for _, block in compiled.message_blocks:
        each = sizes[block.scopes].astype(np.float64)
        structured = block.source.is_structured(each)
        total += float(np.prod(each[~structured], axis=1).sum())
        total += float(block.source.update_entries(each[structured]).sum())
    return total


def strip_entries(layout: GraphLayout, sizes: IndexArray, universe_sizes: IndexArray) -> FloatArray:
    """Return (E,) the entries of each edge's strip: the domains of the others times its own universe."""
    table = factor_entries(layout, sizes)[layout.edge_factor]
    return table / sizes[layout.edge_variable] * universe_sizes[layout.edge_variable]


def message_spread(compiled: CompiledGraph) -> Generator[int, None, FloatArray]:
    """Return (V,) the standard deviation, in nats, of what the tables at a variable say of its states.

    If a table's N log scores were normal, their range would be about 2 sqrt(2 log N) standard deviations; sums of
    independent messages spread with the root of their number. Where the range is not known, a sample is asked for.

    Yields:
        How many scores were asked for, after each call.
    """
    layout, extent = compiled.arrays, compiled.extent
    log_range = np.array(extent.log_max - extent.log_min)
    for first, block in compiled.message_blocks:
        if block.source.range is None:  # asked for, and shared by the block
            scores = _sampled_scores(block, compiled)
            log_range[first : first + len(block.scopes)] = np.inf if np.isneginf(scores).any() else np.ptp(scores)
            yield scores.size
    entries = np.maximum(factor_entries(layout, compiled.universe_sizes), 2.0)
    deviation = 0.5 * log_range / np.sqrt(2.0 * np.log(entries))
    variance = np.bincount(
        layout.edge_variable, weights=deviation[layout.edge_factor] ** 2, minlength=len(compiled.universe_sizes)
    )
    return np.sqrt(variance)


def _sampled_scores(block: FactorBlock, compiled: CompiledGraph) -> FloatArray:
    """Return some of the scores that a block's factors share."""
    shape = block.source.shape
    each = max(2, int(SAMPLE ** (1.0 / len(shape))))
    states = [np.unique(np.linspace(0, n - 1, each).astype(np.int64)) for n in shape]
    return block.log_values(0, states, compiled.variables)
