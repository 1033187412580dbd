"""The order in which a forest's factors are passed, leaves first."""

from __future__ import annotations

import numpy as np

from anytimebp.kernels.leaves import elimination_order
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import IndexArray


def forest_order(layout: GraphLayout) -> IndexArray | None:
    """Return the message factors, leaves first, or None if the graph has a loop."""
    n_factors, n_variables = len(layout.factor_edge_start) - 1, len(layout.variable_edge_start) - 1
    order, n_open = np.empty(n_factors, dtype=np.int64), np.zeros(n_factors, dtype=np.int64)
    n_left, left_key = np.zeros(n_variables, dtype=np.int64), np.zeros(n_variables, dtype=np.int64)
    way, every = np.empty(len(layout.edge_variable), dtype=np.int64), np.full(n_variables, 2)
    ordered, _, _ = elimination_order(layout, every, order, n_left, left_key, n_open, way)
    return order if ordered == n_factors else None
