"""What lists and structures cost in rounds of `adaptive`, in entries that could be read in order in the time."""

from __future__ import annotations

import numpy as np

from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FactorSource, FloatArray, IndexArray, joint_states


def structured_entries(source: FactorSource, sizes: FloatArray) -> FloatArray:
    """Return (factors,) the cost of an update, by own sums or a table, over domains of (factors, arity) sizes."""
    gain, own, table = source.gain(sizes), source.update_entries(sizes), joint_states(sizes)
    return np.where(gain * own < table, np.maximum(1.0, gain) * own, table)


def structured_costs(
    compiled: CompiledGraph, sizes: IndexArray, candidates: IndexArray, ask_cost: float
) -> tuple[float, float, int]:
    """Return what all lists and structures cost.

    Args:
        compiled: The graph.
        sizes: (V,) active states.
        candidates: (V,) states that a look takes in.
        ask_cost: Of one score of a kind that does not sum by itself.

    Returns:
        The cost of updating each of them once; that of a look; and their edges.
    """
    entries, looking, edges = 0.0, 0.0, 0
    for _, block in compiled.message_blocks:
        if block.source.sums is None:
            continue
        own, outside = sizes[block.scopes].astype(np.float64), candidates[block.scopes].astype(np.float64)
        each = structured_entries(block.source, own)
        entries += float(each.sum())
        edges += block.scopes.size
        if block.source.has_log_message:
            looking += ask_cost * float(each.sum() + outside.sum())
        else:
            looking += ask_cost * float((joint_states(own)[:, np.newaxis] / own * outside).sum())
    return entries, looking, edges
