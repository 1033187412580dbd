"""Moves of many variables at once: a block takes its best joint state, exactly, given the states of all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.exact.possible import restricted
from anytimebp.exact.tree import Tree, plan
from anytimebp.inference.map_search import MapSearch, slots_of
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.source import BoolArray, IndexArray

MOST_ENTRIES = 2.0**18  # of all cliques of a block: a few milliseconds
SEARCH = 2.0**16  # steps of the search for an elimination order
MOST_IDLE = 16  # blocks without a better state, after which the moves end
MOST_BLOCKS = 200


class BlockMoves:
    """Moves of blocks that raise the score of a search; later calls draw other blocks."""

    def __init__(
        self, search: MapSearch, compiled: CompiledGraph, domains: Domains, observed: Mapping[int, Observation]
    ) -> None:
        """Do nothing yet.

        Args:
            search: Over these domains.
            compiled: The graph.
            domains: All states that the evidence allows.
            observed: The evidence.
        """
        self._search, self._compiled, self._domains, self._observed = search, compiled, domains, observed
        self._free = np.flatnonzero(domains.sizes > 1)
        self._rng = np.random.default_rng(0)

    def __call__(self) -> Iterator[None]:
        """Move blocks, from a possible joint state on, until some in a row have not helped.

        A block is drawn in two ways by turns, as neither is the better one everywhere: the neighbourhood of a variable,
        or variables from anywhere. It is as large as junction trees of limited size allow.
        """
        idle, search, sizes = 0, self._search, self._domains.sizes
        for number in range(MOST_BLOCKS):
            if not len(self._free) or idle >= MOST_IDLE:
                return
            order = self._rng.permutation(self._free)
            if number % 2:
                order = _around(self._compiled, int(order[0]), sizes)
            block, tree = _largest(self._compiled, sizes, order)
            yield
            if tree is None:
                idle += 1
                continue
            keep = _kept(self._domains, block, search.states)
            inner = MapSearch(self._compiled, restricted(self._domains, keep), self._observed)
            for _ in inner.exactly(tree):
                yield
            idle = 0 if search.offer(inner.states) else idle + 1
            if len(block) == len(self._free):
                search.upper_bound = search.log_score
                return


def _largest(compiled: CompiledGraph, sizes: IndexArray, order: IndexArray) -> tuple[IndexArray, Tree | None]:
    """Return the most first variables of an order that have a small junction tree, and that; None if there are none."""
    tree, least, most = None, 0, len(order) + 1
    while most - least > 1:
        middle = len(order) if most > len(order) and tree is None else (least + most) // 2
        own = np.ones_like(sizes)
        own[order[:middle]] = sizes[order[:middle]]
        found = plan(compiled, own, MOST_ENTRIES, SEARCH)
        if isinstance(found, Tree):
            tree, least = found, middle
        else:
            most = middle
    return order[:least], tree


def _around(compiled: CompiledGraph, centre: int, sizes: IndexArray) -> IndexArray:
    """Return the variables that can be reached from one, the nearest first."""
    layout, found, is_found = compiled.arrays, [centre], np.zeros(len(sizes), dtype=np.bool_)
    is_found[centre] = True
    for variable in found:  # which grows
        for edge in compiled.edges_of(variable):
            for other in layout.edge_variable[list(compiled.edges(int(layout.edge_factor[edge])))].tolist():
                if not is_found[other] and sizes[other] > 1:
                    is_found[other] = True
                    found.append(other)
    return np.array(found, dtype=np.int64)


def _kept(domains: Domains, block: IndexArray, states: IndexArray) -> BoolArray:
    """Return the slots of all states of a block, and of the given state of every other variable."""
    keep = slots_of(domains, states)
    for variable in block.tolist():
        keep[domains.slot_start[variable] : domains.slot_start[variable + 1]] = True
    return keep
