"""Writing down the factors that are no tables, as `kernels/structures.py` reads them: words of 8 bytes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.codes import AT_MOST_ONE, DIFFERENCE, LISTED, TABLE
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.listed import ListedSource, joint_order, listed_range
from anytimebp.model.source import FloatArray, IndexArray, States, TableRange, TableSource
from anytimebp.model.structures import AtMostOneSource, DifferenceSource, has_structure, is_structured


class Scores(NamedTuple):
    """A factor's structure over given states, before its numbers are scaled.

    Attributes:
        kind: LISTED, DIFFERENCE or AT_MOST_ONE.
        range: Of its log scores.
        before: Whole numbers that come first.
        log_scores: The default first, where there is one.
        after: Whole numbers that come last.
        twice: Whether the scores come a second time, backwards.
        work: Entries that an update reads.
    """

    kind: int
    range: TableRange
    before: IndexArray
    log_scores: FloatArray
    after: IndexArray
    twice: bool
    work: int

    def words(self, log_scale: float, *, in_logs: bool) -> FloatArray:
        """Return what kernels read, with the scores divided by their largest, as logs or not."""
        scores = self.log_scores - log_scale
        if not in_logs:
            np.exp(scores, out=scores)
        backwards = scores[:0:-1] if self.twice else scores[:0]
        return np.concatenate([self.before.view(np.float64), scores, backwards, self.after.view(np.float64)])


def factor_kinds(compiled: CompiledGraph, sizes: IndexArray) -> IndexArray:
    """Return (F,) what each factor is over domains of these sizes: TABLE, or a structure."""
    kinds = np.full(len(compiled.arrays.factor_edge_start) - 1, TABLE)
    for first, block in compiled.message_blocks:
        if not has_structure(block.source):
            continue
        each = sizes[block.scopes].astype(np.float64)
        code = AT_MOST_ONE if isinstance(block.source, AtMostOneSource) else LISTED
        if isinstance(block.source, DifferenceSource):
            code = DIFFERENCE
        kinds[first : first + len(block.scopes)] = np.where(is_structured(block.source, each), code, TABLE)
    return kinds


def has_structures(compiled: CompiledGraph, sizes: IndexArray) -> bool:
    """Tell whether a factor goes by its structure over domains of these sizes."""
    return bool((factor_kinds(compiled, sizes) != TABLE).any())


def scores_on(source: TableSource, states: States) -> Scores:
    """Return the structure of a source over the product of given states."""
    if isinstance(source, AtMostOneSource):
        return _at_most_one(source, states)
    if isinstance(source, DifferenceSource):
        first, second = states
        if _is_range(first) and _is_range(second):
            return _difference(source, first, second)
        return _list(*_pairs(source, first, second), source.default, states)
    assert isinstance(source, ListedSource)  # noqa: S101  (rules and tables have no structure)
    entries, places = source.inside(states)
    return _list(source.log_scores[entries], places, source.default, states)


def flat(sizes: IndexArray) -> Scores:
    """Return a structure over universes of these sizes that scores everything alike."""
    nothing = np.empty(0, dtype=np.int64)
    return _list(np.empty(0), [nothing] * len(sizes), 0.0, [np.arange(n) for n in sizes.tolist()])


def _list(log_scores: FloatArray, places: list[IndexArray], default: float, states: States) -> Scores:
    """Return entries in the order of their places, with an order by each axis where sums may cancel."""
    total = math.prod(len(axis) for axis in states)
    if len(log_scores) >= total:
        default = -np.inf  # no joint state has it, and it may be out of all proportion to those that are listed
    if default == -np.inf:  # what is impossible anyway need not be listed
        possible = np.flatnonzero(log_scores > -np.inf)
        log_scores, places = log_scores[possible], [place[possible] for place in places]
    order = joint_order(places, tuple(len(axis) for axis in states))
    log_scores, places = log_scores[order], [place[order] for place in places]
    extent = listed_range(log_scores, default, is_complete=len(log_scores) >= total)
    by_axis = [np.argsort(place, kind="stable") for place in places[1:]] if default > -np.inf else []
    if default > -np.inf:
        by_axis.insert(0, np.arange(len(log_scores)))  # they are in the order of their first axis
    return Scores(
        LISTED,
        extent,
        np.array([len(log_scores), int(default > -np.inf)]),
        np.concatenate([[default], log_scores]),
        np.concatenate([*places, *by_axis]),
        twice=False,
        work=len(log_scores) + sum(len(axis) for axis in states),
    )


def _difference(source: DifferenceSource, first: IndexArray, second: IndexArray) -> Scores:
    """Return the part of a kernel that two ranges of states need."""
    shift = source.first - int(first[0]) + int(second[0])
    low, high = max(shift, 1 - len(second)), min(shift + len(source.log_kernel), len(first))
    kernel = source.log_kernel[low - shift : high - shift] if low < high else np.array([source.default])
    low = low if low < high else 0
    is_complete = len(kernel) >= len(first) + len(second) - 1
    default = -np.inf if is_complete else source.default  # nothing has it then: see `_list`
    offsets = np.arange(low, low + len(kernel))
    pairs = np.minimum(len(first), len(second) + offsets) - np.maximum(0, offsets)
    return Scores(
        DIFFERENCE,
        listed_range(kernel, default, is_complete=is_complete),
        np.array([low, len(kernel)]),
        np.concatenate([[default], kernel]),
        np.empty(0, dtype=np.int64),
        twice=True,
        work=int(pairs.sum()) + len(first) + len(second),
    )


def _pairs(source: DifferenceSource, first: IndexArray, second: IndexArray) -> tuple[FloatArray, list[IndexArray]]:
    """Return the entries within a kernel's reach on the product of states that are no ranges."""
    order = np.argsort(second)
    low = np.searchsorted(second, first - source.first - len(source.log_kernel) + 1, side="left", sorter=order)
    high = np.searchsorted(second, first - source.first, side="right", sorter=order)
    count = high - low
    left = np.repeat(np.arange(len(first)), count)
    right = order[np.arange(int(count.sum())) + np.repeat(low - (np.cumsum(count) - count), count)]
    return source.log_kernel[first[left] - second[right] - source.first], [left, right]


def _at_most_one(source: AtMostOneSource, states: States) -> Scores:
    found = [np.flatnonzero(given == state) for given, state in zip(states, source.states, strict=True)]
    slots = np.array([place[0] if len(place) else -1 for place in found], dtype=np.int64)
    stuck = sum(len(given) == 1 and slot == 0 for given, slot in zip(states, slots, strict=True))
    log_max = np.array([0.0 if stuck <= 1 else -np.inf])
    return Scores(
        AT_MOST_ONE,
        TableRange(log_max, log_max, np.array([True])),
        slots,
        np.empty(0),
        np.empty(0, dtype=np.int64),
        twice=False,
        work=sum(len(axis) for axis in states),
    )


def _is_range(states: IndexArray) -> bool:
    """Tell whether states follow each other."""
    return bool((np.diff(states) == 1).all())
