"""Sweeps over the parts of a graph at the same time, each thread over factors that share no variable with the others'.

A sweep has stages. In each, factors are updated whose variables are all in one part; what is left, between the parts,
comes in the next stage, and last of all in one thread. Threads neither read nor write what another one writes in the
same stage. So a sweep does, to the last bit, what one thread would do that takes the factors stage after stage and part
after part: how many threads there are changes nothing but the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, pairwise, repeat
from typing import NamedTuple, TypeAlias

import numpy as np

from anytimebp.inference.options import RunOptions
from anytimebp.inference.schedule.protocol import Messages, Progress
from anytimebp.inference.schedule.sweeps import LazySchedule, SweepSchedule, random_orders, there_and_back
from anytimebp.kernels.codes import OK
from anytimebp.kernels.lazy import lazy_slice
from anytimebp.kernels.messages import sweep_slice
from anytimebp.layout.cut import Cut, cut_of, factor_work, part_of_factors
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.core import Core
from anytimebp.tables.workspace import make_structure_inputs

LEAST_WORK = 2.0**19
"""Entries that could be read in the time of a stage, under which one thread is as quick: waking another takes 50 us."""

SCRATCH = ("incoming", "outgoing", "weight", "prefix", "dots", "peak", "row_start")


class Piece(NamedTuple):
    """Places of an order that one thread goes through.

    Attributes:
        first: The first of them.
        last: The end.
    """

    first: int
    last: int


class Division(NamedTuple):
    """How sweeps are divided.

    Attributes:
        piece: (F,) the number of a factor's piece, in the order in which pieces are swept.
        stages: By stage and thread, its pieces.
        rest: The piece that one thread sweeps at the end; not empty.
    """

    piece: IndexArray
    stages: list[list[list[Piece]]]
    rest: Piece

    def sorted(self, order: IndexArray) -> IndexArray:
        """Return the factors of an order by piece, and within each as they were."""
        return order[np.argsort(self.piece[order], kind="stable")]


def divide(layout: GraphLayout, sizes: IndexArray, cut: Cut, variables: IndexArray | None, threads: int) -> Division:
    """Return how to sweep over a graph, or the core of one.

    Args:
        layout: Topology.
        sizes: (V,) active states.
        cut: Of the whole graph.
        variables: (V,) their numbers in the whole graph; None for the whole graph itself.
        threads: How many there are.
    """
    work, n_parts = factor_work(layout, sizes), 0
    piece = np.full(len(work), -1)
    ends = [0]
    for labels in cut.labels:
        part = part_of_factors(layout, labels if variables is None else labels[variables])
        is_here = (piece < 0) & (part >= 0)
        piece[is_here] = n_parts + part[is_here]
        n_parts += int(labels.max(initial=0)) + 1
        ends.append(n_parts)
    piece[piece < 0] = n_parts
    if len(piece) and piece.max() < n_parts:
        piece[np.argmax(piece)] = n_parts  # somebody has to find out, at the end, what is pending in all
    start = row_starts(np.bincount(piece, minlength=n_parts + 1)).tolist()
    costs = np.bincount(piece, weights=work, minlength=n_parts + 1).tolist()
    stages = [_share_out(range(*stage), start, costs, threads) for stage in pairwise(ends)]
    return Division(piece, stages, Piece(start[n_parts], start[n_parts + 1]))


def _share_out(pieces: range, start: list[int], costs: list[float], threads: int) -> list[list[Piece]]:
    """Return which thread takes which pieces: the dearest first, each by who has least to do; one thread for little."""
    if sum(costs[pieces.start : pieces.stop]) < LEAST_WORK:
        threads = 1
    shares: list[list[int]] = [[] for _ in range(threads)]
    loads = [0.0] * threads
    for number in sorted(pieces, key=lambda number: -costs[number]):
        least = loads.index(min(loads))
        loads[least] += costs[number]
        shares[least].append(number)
    found = [[Piece(start[n], start[n + 1]) for n in share if start[n] < start[n + 1]] for share in shares]
    return [share for share in found if share]


Call: TypeAlias = Callable[[WorkspaceArrays, int, int, int], tuple[int, int, int, int]]
"""Sweeps from one position to another, for at most a cost; returns status, what vanished, position and work."""


class StagedThreads:
    """Threads that go through the pieces of a sweep, in slices.

    Attributes:
        is_through: Whether all stages are, so that the rest is next.
        rest: The position in the order at which that begins.
    """

    def __init__(self, messages: Messages, division: Division, threads: int) -> None:
        """Stand before a sweep."""
        self._messages, self._stages, self._threads = messages, [stage for stage in division.stages if stage], threads
        self.rest = division.rest.first
        self._pool: ThreadPoolExecutor | None = None
        self._shared: WorkspaceArrays | None = None
        self._own: list[WorkspaceArrays] = []
        self.begin()

    def begin(self) -> None:
        """Stand before the next sweep."""
        self._stage, self.is_through = 0, not self._stages
        self._left = self._pieces_of_stage()

    def _pieces_of_stage(self) -> list[list[Piece]]:
        """Return what is left of a stage that begins, by thread."""
        return [] if self.is_through else [list(reversed(share)) for share in self._stages[self._stage]]

    def advance(self, call: Call, update_limit: int, cost_limit: int) -> Progress:
        """Go on with the stage, every thread until it is through with its pieces, or has used up its share of the cost.

        Near the end of a budget of updates, one thread goes on alone, so that the budget is kept to.
        """
        left, arrays = self._left, self._arrays()
        n_left = sum(piece.last - piece.first for share in left for piece in share)
        if len(left) == 1 or update_limit < n_left:
            found = []
            for share in left:
                found.append(_sweep(call, arrays[0], share, update_limit, cost_limit))
                update_limit -= found[-1].updates
                if share or found[-1].status != OK:
                    break
        else:
            each = cost_limit // len(left) + 1
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads - 1, "anytimebp")
            rest = [
                self._pool.submit(_sweep, call, own, share, update_limit, each)
                for own, share in zip(arrays[1:], left[1:], strict=False)
            ]
            found = [_sweep(call, arrays[0], left[0], update_limit, each), *(future.result() for future in rest)]
        failed = next((one for one in found if one.status != OK), found[0])
        if failed.status == OK and not any(left):
            self._stage += 1
            self.is_through = self._stage == len(self._stages)
            self._left = self._pieces_of_stage()
        updates, work = sum(one.updates for one in found), sum(one.work for one in found)
        return Progress(failed.status, failed.culprit, updates, work)

    def _arrays(self) -> list[WorkspaceArrays]:
        """Return the arrays of each thread: shared but for scratch."""
        shared = self._messages.arrays
        if shared is not self._shared:  # a run that turns to logs gets others
            self._shared = shared
            self._own = [shared, *(_with_scratch(self._messages.layout, shared) for _ in range(self._threads - 1))]
        return self._own


def _with_scratch(layout: GraphLayout, arrays: WorkspaceArrays) -> WorkspaceArrays:
    """Return the same arrays with scratch of their own."""
    own = arrays._replace(**{name: np.empty_like(getattr(arrays, name)) for name in SCRATCH})
    return own._replace(structure_inputs=make_structure_inputs(layout, own)) if len(arrays.structure_inputs) else own


def _sweep(call: Call, arrays: WorkspaceArrays, pieces: list[Piece], update_limit: int, cost_limit: int) -> Progress:
    """Sweep over pieces, the last one first, which is shortened by what is done."""
    updates = work = 0
    while pieces and work < cost_limit and updates < update_limit:
        first, last = pieces.pop()
        stop = min(last, first + update_limit - updates)
        status, culprit, position, entries = call(arrays, first, stop, cost_limit - work)
        updates, work = updates + position - first, work + entries
        if position < last:
            pieces.append(Piece(position, last))
        if status != OK:
            return Progress(status, culprit, updates, work)
        if position < stop:
            break
    return Progress(OK, -1, updates, work)


class SweepsInParts(SweepSchedule):
    """Sweeps as `SweepSchedule` makes them, over parts at the same time and then over the rest; orders are by piece.

    Attributes:
        staged: Who goes over the parts; set before the first sweep.
    """

    staged: StagedThreads

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with the sweep."""
        if self.staged.is_through:
            progress = super().advance(update_limit, cost_limit, damping)
            if progress.end_of_sweep:
                self.staged.begin()
            return progress
        base, figures = self._position - self._position % self._n_factors, list[FloatArray]()

        def call(arrays: WorkspaceArrays, first: int, stop: int, cost: int) -> tuple[int, int, int, int]:
            own, given = np.zeros((1, 3)), (self._messages.layout, arrays, self._news, self._order)
            limits = base + first, base + stop, cost, damping, self._tolerance
            status, culprit, position, _ = sweep_slice(*given, *limits, own, self._moved)
            figures.append(own[0])
            return status, culprit, position - base, int(own[0, 0])

        progress = self.staged.advance(call, update_limit, cost_limit)
        self._largest = max([self._largest, *(float(own[1]) for own in figures)])
        self._total += sum(sorted(float(own[2]) for own in figures))  # threads come in any order
        if self.staged.is_through:
            self._position = base + self.staged.rest
        return progress


class LazyInParts(LazySchedule):
    """Sweeps as `LazySchedule` makes them, over parts at the same time and then over the rest; orders are by piece.

    Attributes:
        staged: Who goes over the parts; set before the first sweep.
    """

    staged: StagedThreads

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with the sweep."""
        if not self._is_filled:
            return super().advance(update_limit, cost_limit, damping)
        if self.staged.is_through:
            if self._position == 0:
                self._position = self.staged.rest
            progress = super().advance(update_limit, cost_limit, damping)
            if self._position == 0:  # a new pass
                self.staged.begin()
            return progress
        figures, order = list[tuple[int, float, float, float]](), self._order
        assert order is not None  # noqa: S101  (orders by piece are all made before)

        def call(arrays: WorkspaceArrays, first: int, stop: int, cost: int) -> tuple[int, int, int, int]:
            given = self._messages.layout, arrays, self._movement, order[:stop], first
            limits = self._threshold, stop - first, cost, damping
            status, culprit, position, updates, work, *moved = lazy_slice(*given, *limits)
            figures.append((updates, *moved))
            return status, culprit, position, work

        progress = self.staged.advance(call, update_limit, cost_limit)
        updates = sum(made for made, *_ in figures)
        self._in_pass += updates
        self._largest = max([self._largest, *(largest for _, largest, _, _ in figures)])
        self._left = max([self._left, *(left for *_, left in figures)])
        self._total += sum(sorted(total for _, _, total, _ in figures))
        return progress._replace(updates=updates)


def schedule_in_parts(
    compiled: CompiledGraph, messages: Messages, core: Core | None, options: RunOptions, *, is_lazy: bool
) -> SweepsInParts | LazyInParts:
    """Return sweeps over the parts of a graph or of its core.

    Args:
        compiled: The graph.
        messages: Of the graph, or of its core.
        core: That, if it is one.
        options: Of the run, which has parts.
        is_lazy: Whether sweeps leave out factors whose incoming messages have hardly moved.
    """
    assert options.parts is not None  # noqa: S101  (the caller has looked)
    layout, threads, cut = messages.layout, options.n_threads, cut_of(compiled, options.parts)
    division = divide(layout, messages.arrays.domain_size, cut, None if core is None else core.variables, threads)
    order: Iterator[IndexArray]
    pairs: Iterator[IndexArray]
    if options.schedule == "random":
        order = (division.sorted(order) for order in random_orders(len(division.piece), options.generator()))
        pairs = (one[np.newaxis] for one in order)
    else:
        both = np.array([division.sorted(order) for order in there_and_back(layout)])
        pairs, order = repeat(both), cycle(both)
    made: SweepsInParts | LazyInParts
    if is_lazy:
        made = LazyInParts(messages, order, options.tolerance)
    else:
        made = SweepsInParts(messages, pairs, options.tolerance)
    made.staged = StagedThreads(messages, division, threads)
    return made
