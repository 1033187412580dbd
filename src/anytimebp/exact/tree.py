"""A tree of cliques for given domains, and what it costs: known before any table is made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.exact.order import Order, Shape, find_order
from anytimebp.kernels.elimination import NO_ROOM, ORDERED
from anytimebp.kernels.junction_tree import TreeArrays, has_loop, plan_tree
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import IndexArray

WORTH_ANOTHER = 2**15  # entries of all cliques, from which on an order of its own for the evidence is searched for
MOST_ENTRIES = 2.0**56  # what no machine holds
MEASURING = 2**26  # steps of a search that only tells how much would be needed: some tenths of a second


class Tree(NamedTuple):
    """A tree of cliques; one for each variable that is not observed.

    Attributes:
        arrays: The tree.
        n: Number of cliques.
        entries: Of all tables.
        message_entries: Of all messages.
        largest_message: Entries of the largest one.
        work: Entries that both passes read.
    """

    arrays: TreeArrays
    n: int
    entries: float
    message_entries: int
    largest_message: int
    work: float


class TooWide(NamedTuple):
    """What is known where no tree is within the limits.

    Attributes:
        entries: That cliques have at the least, by the orders that were tried.
    """

    entries: float


def plan(
    compiled: CompiledGraph | Shape, sizes: IndexArray, most_entries: float = MOST_ENTRIES, most_steps: float = 2.0**62
) -> Tree | TooWide:
    """Return a tree for domains of these sizes.

    An order found without evidence serves with any, as observed variables only leave cliques; where that costs much,
    one is searched for the evidence.

    Args:
        compiled: The graph.
        sizes: (V,) domain sizes.
        most_entries: Of all tables together, that are of use.
        most_steps: Numbers that each search for an order may look at.
    """
    whole = compiled.universe_sizes
    order = find_order(compiled, whole, most_entries, most_steps)
    found = _planned(compiled, sizes, order, most_entries)
    if sizes is whole or (isinstance(found, Tree) and found.entries < WORTH_ANOTHER):
        return found
    limit = found.entries if isinstance(found, Tree) else most_entries
    own = find_order(compiled, sizes, limit, most_steps)
    better = _planned(compiled, sizes, own, limit)
    return better if isinstance(better, Tree) or isinstance(found, TooWide) else found


def plan_by(shape: CompiledGraph | Shape, sizes: IndexArray, order: IndexArray) -> Tree | TooWide:
    """Return the tree that belongs to an order, which holds all variables of more than one state."""
    return _planned(shape, sizes, Order(order, 0.0, 0), MOST_ENTRIES)


def is_forest(compiled: CompiledGraph | Shape, sizes: IndexArray) -> bool:
    """Tell whether the factors and the variables of more than one state form no loop."""
    n_nodes = len(sizes) + len(compiled.arrays.factor_edge_start) - 1
    return not has_loop(compiled.arrays, sizes, np.empty(n_nodes, dtype=np.int64))


def predicted_entries(shape: Shape, sizes: IndexArray) -> float:
    """Return the entries of all cliques that exact inference would need, 0 on a forest, where BP is exact.

    Infinite where that is more than any machine holds, or cannot be found out quickly.
    """
    if is_forest(shape, sizes):
        return 0.0
    found = plan(shape, sizes, MOST_ENTRIES, MEASURING)
    return found.entries if isinstance(found, Tree) else float("inf")


def _planned(compiled: CompiledGraph | Shape, sizes: IndexArray, order: Order, most_entries: float) -> Tree | TooWide:
    """Return the tree that belongs to an order."""
    if order.variables is None:
        return TooWide(order.entries)
    room = 2 * len(compiled.arrays.edge_variable) + 4 * len(sizes)
    while True:
        arrays = _arrays(len(sizes), len(compiled.arrays.factor_edge_start) - 1, room)
        status, n, entries, largest, work = plan_tree(compiled.arrays, sizes, order.variables, most_entries, arrays)
        if status == ORDERED:
            return Tree(arrays, n, entries, int(arrays.message_start[n]), largest, work)
        if status != NO_ROOM:
            return TooWide(entries)
        room *= 4


def _arrays(n_variables: int, n_factors: int, room: int) -> TreeArrays:
    whole = np.empty((10, n_variables + 1), dtype=np.int64)
    clique_of, variable, scope_start, parent, first_child, next_child, factor_start, table, message, mark = whole
    scope, factor = np.empty(room, dtype=np.int64), np.empty(n_factors, dtype=np.int64)
    return TreeArrays(
        clique_of,
        variable,
        scope_start,
        scope,
        parent,
        first_child,
        next_child,
        factor_start,
        factor,
        table,
        message,
        mark,
    )
