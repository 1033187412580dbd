"""Elimination orders: the best of several greedy searches stays with the layout. Counts decide, not the clock.

A search for a better order must cost less than what it can save. What it costs is counted in entries of cliques, which
take about as long. The first order is the last where it adds no edge: the graph is chordal, and no other order has
smaller cliques.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anytimebp.exact.relevance import Part
from anytimebp.kernels.elimination import (
    FILL,
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
from anytimebp.model.source import FloatArray, IndexArray

SMALL = 2**11  # entries of all cliques under which another search costs more than it can save
RULES = (MIN_FILL, WEIGHTED_FILL, MIN_WEIGHT)
NOISES = (0.0, 0.1, 0.3)  # of the first, second and further searches by each rule
SEARCH_COST, VARIABLE_COST = 1500.0, 30.0  # of a search beside its steps, in entries of a clique; a step costs one
SHARE = 1.0  # of the entries of the best cliques that searches may cost together
IDLE_SHARE = 1 / 16  # of them that searches may cost after the last gain, once every rule was tried with noise, too
GAIN = 0.99  # of the entries that may be left for a gain to count as one
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


def first_order(compiled: CompiledGraph) -> IndexArray:
    """Return the order that the first search finds: good enough where many small graphs are solved as one."""
    _, n, _, arrays, _ = _greedy(compiled, np.log(compiled.universe_sizes), 0, np.inf, 2**62, None)
    found: IndexArray = arrays.order[:n]
    return found


def _search(compiled: CompiledGraph | Shape, sizes: IndexArray, most_entries: float, most_steps: float) -> Order:
    """Search by each rule and then with noise, while it may pay."""
    log_size, steps, best = np.log(np.maximum(sizes, 1)), 0, Order(None, 0.0, 0)
    arrays = _arrays(len(sizes), _first_room(compiled))
    log_most = math.log(max(1.0, most_entries))
    bound, is_known = least_clique(compiled.arrays, log_size, log_most, arrays)
    if is_known and bound > log_most:
        return Order(None, np.exp(min(700.0, bound)), 0)
    cost, idle = 0.0, 0.0
    for search in range(MOST_SEARCHES):
        limit = most_entries if best.variables is None else best.entries
        status, n, entries, arrays, taken = _greedy(compiled, log_size, search, limit, int(most_steps), arrays)
        steps += taken
        idle = steps + (search + 1) * (SEARCH_COST + VARIABLE_COST * len(sizes)) - cost
        if status == ORDERED and entries < limit:
            if entries < GAIN * limit:
                cost, idle = cost + idle, 0.0
            best = Order(arrays.order[:n].copy(), entries, steps)
            if arrays.state[FILL] == 0 or entries < SMALL:
                break
        elif best.variables is None:
            best = Order(None, max(best.entries, entries), steps)
            if status == TOO_LONG:
                break
        if _is_enough(best, search + 1, cost + idle, idle):
            break
    return best._replace(steps=steps)


def _greedy(
    compiled: CompiledGraph | Shape,
    log_size: FloatArray,
    search: int,
    most_entries: float,
    most_steps: int,
    arrays: OrderArrays | None,
) -> tuple[int, int, float, OrderArrays, int]:
    """Make one search, in arrays that are made larger where they do not hold it.

    Args:
        compiled: The graph.
        log_size: (V,) logs of domain sizes.
        search: Which one it is: says the rule and the noise.
        most_entries: See `greedy_order`.
        most_steps: See `greedy_order`.
        arrays: Of an earlier search.

    Returns:
        What `greedy_order` returns, the arrays, and the steps that were taken.
    """
    rule, noise, steps = RULES[search % len(RULES)], NOISES[min(search // len(RULES), len(NOISES) - 1)], 0
    at = arrays or _arrays(len(log_size), _first_room(compiled))
    while True:
        at.state[STEPS], at.state[RANDOM] = 0, search + 1
        status, n, entries = greedy_order(compiled.arrays, log_size, rule, noise, most_entries, most_steps, at)
        steps += int(at.state[STEPS])
        if status != NO_ROOM:
            return status, n, entries, at, steps
        at = _arrays(len(log_size), 4 * len(at.neighbours))


def _first_room(compiled: CompiledGraph | Shape) -> int:
    """Return how many neighbours there is room for at first."""
    return 4 * len(compiled.arrays.edge_variable) + 16 * len(compiled.universe_sizes)


def _is_enough(best: Order, n_searches: int, cost: float, idle: float) -> bool:
    """Tell whether another search would cost more than it can save.

    Args:
        best: Found so far.
        n_searches: How many there were.
        cost: What they have cost together.
        idle: What those after the last gain have cost.
    """
    if best.variables is None:
        return n_searches >= len(RULES)
    return cost > SHARE * best.entries or (n_searches >= 2 * len(RULES) and idle > IDLE_SHARE * best.entries)


def _arrays(n: int, room: int) -> OrderArrays:
    whole = np.zeros((8, n), dtype=np.int64)
    first, count, own_room, mark, seen, heap, position, order = whole
    state = np.zeros(5, dtype=np.int64)
    neighbours = np.empty(room, dtype=np.int64)
    return OrderArrays(neighbours, first, count, own_room, mark, seen, heap, position, np.empty(n), state, order)
