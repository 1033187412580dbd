"""Whether the belief of some variable is likely to span more than doubles do, as its priors and factors say.

Linear arithmetic would find out during the run, and structures would have to be written anew for log arithmetic. This
decides nothing but how soon a run turns to logs.
"""

from __future__ import annotations

import numpy as np

from anytimebp.kernels.codes import MAX_LINEAR_RANGE
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FloatArray
from anytimebp.tables.arrays import HUB_DEGREE

STEPS = 2  # factors that scores pass on the way to the variable; further away, they have met too much else
AGREE = 1 / 8
"""Part of the sum of the ranges of many messages that the range of their product comes to. On attacks of one key from
1,000 traces (Hamming weights, noise 5 to 0.5) it is 0.08 to 0.18, and 0.13 where the product begins to leave doubles.
"""


def outgrows_doubles(compiled: CompiledGraph, log_prior_min: FloatArray) -> bool:
    """Tell whether the product of the messages to a variable with many structures is likely to leave doubles.

    A factor passes on at most the sum of the ranges of what it is told, and of its scores; without hard zeros, no more
    than the latter.

    Args:
        compiled: The graph.
        log_prior_min: (V,) smallest finite log prior of each variable; the largest is 0.
    """
    layout, extent = compiled.arrays, compiled.extent
    if compiled.has_tables_only or not extent.has_zero.any():
        return False
    edge_variable, edge_factor, start = layout.edge_variable, layout.edge_factor, layout.factor_edge_start[:-1]
    is_hub = np.diff(layout.variable_edge_start) > HUB_DEGREE
    if not (is_hub[edge_variable] & extent.has_zero[edge_factor]).any():
        return False
    own = np.nan_to_num(extent.log_max - extent.log_min)
    most = np.where(extent.has_zero, np.inf, own)[edge_factor]
    spread, message = -log_prior_min, np.zeros(len(edge_variable))
    for _ in range(STEPS):
        told = spread[edge_variable] - message
        message = np.minimum((np.add.reduceat(told, start) + own)[edge_factor] - told, most)
        spread = np.bincount(edge_variable, message, len(log_prior_min)) - log_prior_min
    return bool(AGREE * spread[is_hub].max() > MAX_LINEAR_RANGE)
