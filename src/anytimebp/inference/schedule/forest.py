"""Forests: from the leaves to the roots and back, and every message is exact."""

from __future__ import annotations

import numpy as np

from anytimebp.inference.schedule.protocol import Progress
from anytimebp.kernels.codes import OK
from anytimebp.kernels.forest import elimination_order
from anytimebp.kernels.messages import sweep_slice
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import IndexArray
from anytimebp.tables.workspace import Workspace


def forest_order(layout: GraphLayout) -> IndexArray | None:
    """Return the message factors, leaves first, or None if the graph has a loop."""
    order = np.empty(len(layout.factor_edge_start) - 1, dtype=np.int64)
    n_variables = len(layout.variable_edge_start) - 1
    n_left, left_key = np.zeros(n_variables, dtype=np.int64), np.zeros(n_variables, dtype=np.int64)
    n_open = np.zeros(len(order), dtype=np.int64)
    return order if elimination_order(layout, order, n_left, left_key, n_open) == len(order) else None


class ForestSchedule:
    """Two passes in all. Damping would spoil them and is not used."""

    def __init__(self, workspace: Workspace, order: IndexArray) -> None:
        """Start before the first pass."""
        self._workspace = workspace
        self._order = np.concatenate([order, order[::-1]])
        self._position = 0

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with the passes; the end of the second is exact, so its residual is zero."""
        del damping
        stop = min(len(self._order), self._position + update_limit)
        status, culprit, position, work, _, _ = sweep_slice(
            self._workspace.layout, self._workspace.arrays, self._order, self._position, stop, cost_limit, 0.0
        )
        updates = position - self._position
        self._position = position
        if status == OK and position == len(self._order):
            return Progress(
                OK, -1, updates, work, end_of_sweep=True, converged=True, max_residual=0.0, mean_residual=0.0
            )
        return Progress(status, culprit, updates, work)
