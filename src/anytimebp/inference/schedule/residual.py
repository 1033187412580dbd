"""Residual BP: always the factor whose messages have the most to catch up with.

A factor's priority is the sum of what its incoming messages have moved since it was last updated, each as the dynamic
range of the log ratio of new and old message. It bounds the factor's true residual from above (a factor never stretches
ranges), so no update is computed just to be ranked. In runs that take long, every eighth update goes to the next factor
that has anything to catch up with, so that one that never settles does not keep others waiting.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.inference.schedule.protocol import Messages, Progress, whole_sweep
from anytimebp.kernels.codes import CONVERGED, OK
from anytimebp.kernels.residual import residual_slice
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.arrays import no_journal


class HeapArrays(NamedTuple):
    """An indexed heap of message factors (items 0 to F - 1) and hubs (F to F + H - 1).

    Attributes:
        item: (F + H,) items in heap order.
        position: (F + H,) where each item is in `item`.
        priority: (F + H,) of each item.
        unspread: (E,) what an edge's message has moved since its hub last passed news on.
        turn: (2,) updates since all were last under the tolerance, and the factor whose turn comes next.
    """

    item: IndexArray
    position: IndexArray
    priority: FloatArray
    unspread: FloatArray
    turn: IndexArray


def full_heap(layout: GraphLayout, n_hubs: int) -> HeapArrays:
    """Return a queue in which every factor is at infinite priority."""
    n_factors = len(layout.factor_edge_start) - 1
    order = np.arange(n_factors + n_hubs)
    priority = np.zeros(n_factors + n_hubs)
    priority[:n_factors] = np.inf
    return HeapArrays(order, order.copy(), priority, np.zeros(len(layout.edge_variable)), np.zeros(2, dtype=np.int64))


class ResidualSchedule:
    """Updates by priority; as many updates as there are factors count as a sweep."""

    def __init__(self, messages: Messages, tolerance: float, disturbed: IndexArray | None = None) -> None:
        """Start with every factor, or those that are disturbed, at infinite priority."""
        self._messages = messages
        self._tolerance = tolerance
        self._n_factors = len(messages.layout.factor_edge_start) - 1
        self._heap = full_heap(messages.layout, len(messages.arrays.hub_variable))
        if disturbed is not None:
            self._heap.priority[: self._n_factors] = 0.0
            self._heap.priority[disturbed] = np.inf
            rest = np.setdiff1d(self._heap.item, disturbed, assume_unique=True)
            self._heap.item[:] = np.concatenate([disturbed, rest])
            self._heap.position[self._heap.item] = np.arange(len(self._heap.item))
        self._journal = no_journal()
        self._in_sweep = 0

    def pending(self, edges: IndexArray | None = None) -> FloatArray:
        """Return a bound on how far each message is from what its factor would send now, in nats.

        Args:
            edges: Of the messages; None for all.
        """
        layout, priority = self._messages.layout, self._heap.priority
        at_hub = np.append(priority[self._n_factors :], 0.0)  # what a hub has not passed on yet; the last is for no hub
        unheard = at_hub[self._messages.arrays.variable_hub[layout.edge_variable]]
        of_factor = priority[: self._n_factors] + np.bincount(layout.edge_factor, unheard, self._n_factors)
        bound: FloatArray = of_factor[layout.edge_factor if edges is None else layout.edge_factor[edges]]
        return bound

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Update what is at the top of the heap."""
        limit = min(update_limit, self._n_factors - self._in_sweep)
        status, culprit, updates, work, _ = residual_slice(
            self._messages.layout,
            self._messages.arrays,
            self._heap,
            self._journal,
            limit,
            cost_limit,
            self._tolerance,
            damping,
        )
        self._in_sweep += updates
        if status != CONVERGED and (status != OK or self._in_sweep < self._n_factors):
            return Progress(status, culprit, updates, work)
        self._in_sweep = 0
        priority, top = self._heap.priority, self._heap.item[:1]
        largest = float(priority[top[0]]) if len(top) else 0.0
        mean = float(np.add.reduce(priority[: self._n_factors])) / max(1, self._n_factors)
        return whole_sweep(updates, work, converged=status == CONVERGED, largest=largest, mean=mean)
