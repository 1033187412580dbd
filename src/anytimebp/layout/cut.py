"""A graph cut into parts of about the same work, so that little of it lies between them.

METIS cuts (package `pymetis`); without it, variables are taken in breadth-first order. Only topology and universes
matter, so that one cut serves all runs on a graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.messages import EDGE_COST
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.optional import load_optional

SMALL = 0.05  # of all work, between the parts, that is not worth another cut
MOST_CUTS = 3
MOST_ENTRIES = 1e9  # of a factor, that count: structures read less than the product of their universes
MOST_LEVELS = 10_000  # of a breadth-first search; a graph longer than that is cut by the numbers of its variables
HEAVIEST, FINEST = 2**30, 2**10  # METIS has 32 bits for the sum of weights, and none under 1


class Cut(NamedTuple):
    """Which variables belong together.

    Attributes:
        labels: For each stage, (V,) the part of a variable. A factor belongs to the first stage in which all its
            variables are in one part, and to none if there is no such stage.
        is_fine: Whether METIS was there to cut.
    """

    labels: list[IndexArray]
    is_fine: bool


def cut_of(compiled: CompiledGraph, parts: int) -> Cut:
    """Return the cut of a graph, made now unless an earlier run left it with the layout.

    What is left between the parts is cut again, as long as that is much and another cut helps.
    """
    found = compiled.cuts.get(parts)
    if isinstance(found, Cut):
        return found
    layout, sizes = compiled.arrays, compiled.universe_sizes
    work, metis = factor_work(layout, sizes), _metis()
    left, labels = np.arange(len(work)), list[IndexArray]()
    total = float(work.sum())
    while len(left) and len(labels) < MOST_CUTS and (not labels or work[left].sum() > SMALL * total):
        label = _label(layout, left, work, min(parts, len(sizes)), metis)
        between = left[part_of_factors(layout, label)[left] < 0]
        if labels and work[between].sum() > work[left].sum() / 2:  # a hub: whatever it is cut by, it is between
            break
        labels.append(label)
        left = between
    cut = Cut(labels, metis is not None)
    compiled.cuts[parts] = cut
    return cut


def factor_work(layout: GraphLayout, sizes: IndexArray) -> FloatArray:
    """Return (F,) about what an update of each message factor costs, in entries read."""
    start = layout.factor_edge_start
    if len(start) == 1:
        return np.zeros(0)
    entries = np.multiply.reduceat(sizes[layout.edge_variable].astype(np.float64), start[:-1])
    found: FloatArray = np.minimum(entries, MOST_ENTRIES) + EDGE_COST * np.diff(start)
    return found


def part_of_factors(layout: GraphLayout, labels: IndexArray) -> IndexArray:
    """Return (F,) the part of a message factor, -1 if its variables are in several."""
    own, start = labels[layout.edge_variable], layout.factor_edge_start[:-1]
    if not len(start):
        return np.empty(0, dtype=np.int64)
    lowest, highest = np.minimum.reduceat(own, start), np.maximum.reduceat(own, start)
    return np.where(lowest == highest, lowest, -1)


def _metis() -> Any:
    try:
        return load_optional("pymetis", "parallel")
    except ModuleNotFoundError:
        return None


def _label(layout: GraphLayout, factors: IndexArray, work: FloatArray, parts: int, metis: Any) -> IndexArray:
    """Return (V,) parts of about the same work of the given factors; 0 for variables that have none of these."""
    start, pairs, weight, load = _neighbours(layout, factors, work)
    n = len(start) - 1
    if parts < 2 or not len(pairs):  # noqa: PLR2004
        return np.zeros(n, dtype=np.int64)
    if metis is None:
        return _breadth_first(start, pairs, load, parts)
    heaviest = float(load.sum())
    nodes = np.maximum(1, load * (min(HEAVIEST, FINEST * n) / heaviest)).astype(np.int32)
    edges = np.maximum(1, weight * (FINEST / weight.max())).astype(np.int32)
    options = metis.Options(seed=1)
    adjacency = metis.CSRAdjacency(start.astype(np.int32), pairs.astype(np.int32))
    _, found = metis.part_graph(parts, adjacency, vweights=nodes, eweights=edges, options=options)
    return np.asarray(found, dtype=np.int64)


def _neighbours(
    layout: GraphLayout, factors: IndexArray, work: FloatArray
) -> tuple[IndexArray, IndexArray, FloatArray, FloatArray]:
    """Return the graph of variables that share one of the factors.

    Returns:
        (V + 1,) where a variable's neighbours start, these, the work that each neighbourhood costs if it is cut, and
        (V,) the work that a variable brings with it. The variables of a factor form a ring: as many pairs as edges.
    """
    n = len(layout.variable_edge_start) - 1
    first, arity = layout.factor_edge_start[factors], np.diff(layout.factor_edge_start)[factors]
    edges, own = row_items(first, arity), np.repeat(np.arange(len(factors)), arity)
    after = edges + 1
    after[np.cumsum(arity) - 1] = first
    here, there = layout.edge_variable[edges], layout.edge_variable[after]
    share = (work[factors] / arity)[own]
    load = np.bincount(here, weights=share, minlength=n).astype(np.float64)
    is_pair = here != there
    here, there, share = here[is_pair], there[is_pair], share[is_pair]
    key = np.concatenate([here * n + there, there * n + here])
    order = np.argsort(key, kind="stable")
    key, weight = key[order], np.concatenate([share, share])[order]
    is_new = np.append(True, key[1:] != key[:-1]) if len(key) else np.zeros(0, dtype=np.bool_)
    positions = np.flatnonzero(is_new)
    pairs = key[positions]
    weight = np.add.reduceat(weight, positions) if len(positions) else weight
    return row_starts(np.bincount(pairs // n, minlength=n)), pairs % n, weight, load


def _breadth_first(start: IndexArray, pairs: IndexArray, load: FloatArray, parts: int) -> IndexArray:
    """Return (V,) parts that follow each other in breadth-first order, from a variable at an end of the graph."""
    level = _levels(start, pairs, 0)
    level = _levels(start, pairs, int(np.argmax(level)))
    order = np.lexsort([np.arange(len(level)), level])
    before = np.cumsum(load[order]) - load[order] / 2
    found = np.empty(len(level), dtype=np.int64)
    found[order] = np.minimum(parts - 1, before * (parts / load.sum()))
    return found


def _levels(start: IndexArray, pairs: IndexArray, first: int) -> IndexArray:
    """Return (V,) the distance from a variable; other components follow."""
    level = np.full(len(start) - 1, -1)
    front, number, unseen = np.array([first]), 0, 0
    while number < MOST_LEVELS:
        level[front] = number
        number += 1
        near = pairs[row_items(start[front], start[front + 1] - start[front])]
        front = np.unique(near[level[near] < 0])
        if not len(front):
            while unseen < len(level) and level[unseen] >= 0:
                unseen += 1
            if unseen == len(level):
                break
            front = np.array([unseen])
    return np.where(level < 0, number, level)
