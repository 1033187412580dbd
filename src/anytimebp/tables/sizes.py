"""What is summed over given domains: tables or structures, of how many entries."""

from __future__ import annotations

import numpy as np

from anytimebp.kernels.codes import TABLE
from anytimebp.kernels.structures import SUMS
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.source import FloatArray, IndexArray


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
