"""Elimination orders: the best of several greedy searches stays with the layout. Counts decide, not the clock."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anytimebp.exact.relevance import Part
from anytimebp.kernels.elimination import (
    MIN_FILL,
    MIN_WEIGHT,
    NO_ROOM,
    ORDERED,
    RANDOM,
    STEPS,
    TOO_LONG,
    WEIGHTED_FILL,
    OrderArrays,
    greedy_order,
    least_clique,
)
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.source import IndexArray

SMALL = 2**11  # entries of all cliques under which another search costs more than it can save
RULES = (MIN_FILL, WEIGHTED_FILL, MIN_WEIGHT)
NOISES = (0.0, 0.1, 0.3)  # of the first, second and further searches by each rule
STEP_COST = 4.0  # what a step of a search costs, in entries of a clique
SHARE = 0.5  # of the predicted cost that searches may cost together, beyond the first three
MOST_SEARCHES = 60
KEPT, KEPT_BYTES = 64, 2**25  # orders for different evidence that stay with a layout, and what they may take


ORDERS = "orders of parts"  # where they are kept with a layout


class Shape(NamedTuple):
    """What of a compiled graph orders depend on: no more of it stays alive with what is asked later.

    Attributes:
        arrays: The topology.
        universe_sizes: (V,).
        orders: Found by earlier runs, by domain sizes.
    """

    arrays: GraphLayout
    universe_sizes: IndexArray
    orders: dict[bytes, object]

    @classmethod
    def of(cls, compiled: CompiledGraph) -> Shape:
        """Return that of a graph."""
        return cls(compiled.arrays, compiled.universe_sizes, compiled.orders)

    @classmethod
    def of_part(cls, compiled: CompiledGraph, part: Part) -> Shape:
        """Return that of a part of a graph, whose orders are kept apart."""
        orders = compiled.shared_tables.setdefault(ORDERS, {})
        assert isinstance(orders, dict)  # noqa: S101  (nobody else puts something there)
        return cls(part.layout, part.sizes, orders)


class Order(NamedTuple):
    """An elimination order, or how the search for one ended.

    Attributes:
        variables: In the order of elimination; None where there is no order within the limits.
        entries: Of all cliques; where there is no order, how many had been counted when the search gave up.
        steps: That the searches took.
    """

    variables: IndexArray | None
    entries: float
    steps: int


def find_order(compiled: CompiledGraph | Shape, sizes: IndexArray, most_entries: float, most_steps: float) -> Order:
    """Return the best order that some searches find, or that an earlier call has found for the same evidence.

    Args:
        compiled: The graph.
        sizes: (V,) domain sizes; variables of one state, or of none, are left out.
        most_entries: Entries of all cliques together beyond which no order is of use.
        most_steps: Numbers that each search may look at.
    """
    key = sizes.tobytes()
    kept = compiled.orders.get(key)
    if isinstance(kept, Order) and (
        kept.variables is not None or kept.entries > most_entries or kept.steps > most_steps
    ):
        return kept
    found = _search(compiled, sizes, most_entries, most_steps)
    if len(compiled.orders) >= max(2, min(KEPT, KEPT_BYTES // (2 * len(key) + 1))):
        without_evidence = compiled.universe_sizes.tobytes()
        oldest = [other for other in list(compiled.orders) if other != without_evidence][:1]
        for other in oldest:
            compiled.orders.pop(other, None)  # another thread may have done so
    compiled.orders[key] = found
    return found


def first_order(compiled: CompiledGraph) -> None:
    """Leave the order that the first search finds with a layout: enough where many small graphs are solved as one."""
    sizes, room = compiled.universe_sizes, 4 * len(compiled.arrays.edge_variable) + 16 * len(compiled.universe_sizes)
    while True:
        arrays = _arrays(len(sizes), room)
        arrays.state[STEPS], arrays.state[RANDOM] = 0, 1
        given = compiled.arrays, np.log(sizes), RULES[0], NOISES[0], np.inf, 2**62
        status, n, entries = greedy_order(*given, arrays)
        if status != NO_ROOM:
            break
        room *= 4
    if status == ORDERED:
        found = Order(arrays.order[:n].copy(), entries, int(arrays.state[STEPS]))
        compiled.orders[sizes.tobytes()] = found


def _search(compiled: CompiledGraph | Shape, sizes: IndexArray, most_entries: float, most_steps: float) -> Order:
    """Search by each rule, and while it may pay, again with noise."""
    log_size, steps, best = np.log(np.maximum(sizes, 1)), 0, Order(None, 0.0, 0)
    arrays = _arrays(len(sizes), 4 * len(compiled.arrays.edge_variable) + 16 * len(sizes))
    log_most = math.log(max(1.0, most_entries))
    bound, is_known = least_clique(compiled.arrays, log_size, log_most, arrays)
    if is_known and bound > log_most:
        return Order(None, np.exp(min(700.0, bound)), 0)
    for search in range(MOST_SEARCHES):
        rule, noise = RULES[search % len(RULES)], NOISES[min(search // len(RULES), len(NOISES) - 1)]
        limit = most_entries if best.variables is None else best.entries
        while True:
            arrays.state[STEPS], arrays.state[RANDOM] = 0, search + 1
            status, n, entries = greedy_order(compiled.arrays, log_size, rule, noise, limit, int(most_steps), arrays)
            steps += int(arrays.state[STEPS])
            if status != NO_ROOM:
                break
            arrays = _arrays(len(sizes), 4 * len(arrays.neighbours))
        if status == ORDERED and entries < limit:
            best = Order(arrays.order[:n].copy(), entries, steps)
        elif best.variables is None:
            best = Order(None, max(best.entries, entries), steps)
            if status == TOO_LONG:
                break
        is_hopeless = best.variables is None and search + 1 >= len(RULES)
        is_dear = search + 1 >= len(RULES) and STEP_COST * steps > SHARE * best.entries
        if (best.variables is not None and best.entries < SMALL) or is_hopeless or is_dear:
            break
    return best._replace(steps=steps)


def _arrays(n: int, room: int) -> OrderArrays:
    whole = np.zeros((8, n), dtype=np.int64)
    first, count, own_room, mark, seen, heap, place, order = whole
    state = np.zeros(4, dtype=np.int64)
    neighbours = np.empty(room, dtype=np.int64)
    return OrderArrays(neighbours, first, count, own_room, mark, seen, heap, place, np.empty(n), state, order)
