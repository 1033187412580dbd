"""Sweeps: over every factor, there and back or in a random order; or over those that have something to take in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from anytimebp.inference.options import RunOptions
from anytimebp.inference.schedule.protocol import Messages, Progress, Swept, whole_sweep
from anytimebp.inference.schedule.residual import ResidualSchedule
from anytimebp.kernels.codes import OK
from anytimebp.kernels.lazy import MOST, lazy_slice
from anytimebp.kernels.messages import EDGE_COST, sweep_slice
from anytimebp.kernels.orders import orders_slice, rank_variables
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.slices import AT_ONCE, parts
from anytimebp.tables.arrays import fill_in_parts
from anytimebp.tables.memory import table_entries

ROUNDING = 1e-14  # nats by which messages move without any news
PART_OF_TOLERANCE = 1 / 4
"""That a factor may miss of what its variables were told, before it counts as having news.

Larger, and sweeps that move less than the tolerance show less of it; smaller, and more factors are updated for
nothing."""


class News(NamedTuple):
    """Which factors would send the same messages again, or all but.

    Attributes:
        least: Nats by which all messages to a variable may have moved before its factors are told.
        times: (V,) how often messages to a variable have moved.
        rest: (V,) nats by which they have moved since that was last counted.
        seen: (E,) what was counted when the factor was last updated, plus one; 0 before that.
    """

    least: float
    times: IndexArray
    rest: FloatArray
    seen: IndexArray


def no_news(layout: GraphLayout, tolerance: float = 0.0, arity: int | None = None) -> News:
    """Return what is known before the first sweep: no factor has seen anything.

    Args:
        layout: Topology.
        tolerance: Residual of a message that has settled.
        arity: The largest of a factor, where that is not the one of all.
    """
    n_variables, n_edges = len(layout.variable_edge_start) - 1, len(layout.edge_variable)
    start = layout.factor_edge_start
    if arity is None:
        each = (start[first + 1 : last + 1] - start[first:last] for first, last in parts(len(start) - 1, AT_ONCE))
        arity = max((int(np.maximum.reduce(some)) for some in each), default=1)
    least = PART_OF_TOLERANCE * tolerance / arity
    times, seen = np.zeros(n_variables, dtype=np.int64), np.zeros(n_edges, dtype=np.int64)  # not touched before use
    return News(max(ROUNDING, least), times, np.zeros(n_variables), seen)


class SweepSchedule:
    """Goes through one order of factors after another until another sweep would move nothing.

    Attributes:
        most_sweeps: That it may make in one slice; more than one if nobody looks at messages in between.
    """

    def __init__(self, messages: Messages, orders: Iterator[IndexArray | None], tolerance: float) -> None:
        """Start before the first sweep.

        Args:
            messages: Of at least one factor: graphs without any are forests.
            orders: Orders of the next sweeps, (n, F); where there are several, they are the same again and again. None
                while the first are being found.
            tolerance: Residual of a message that has settled.
        """
        self.most_sweeps = 1
        self._messages = messages
        self._news = no_news(messages.layout, tolerance)
        self._orders = orders
        self._tolerance = tolerance
        self._order = next(orders)
        self._n_factors = len(messages.layout.factor_edge_start) - 1
        self._moved = np.zeros(len(messages.layout.variable_edge_start) - 1)
        self._position = 0
        self._largest = 0.0
        self._total = 0.0

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with the sweep, or make several."""
        order, n, begin = self._order, self._n_factors, self._position
        if order is None:
            self._order = next(self._orders)
            return Progress(OK, -1, 0, 0)
        is_fresh = begin % n == 0 and len(order) > 1
        most = max(1, min(self.most_sweeps, update_limit // n)) if is_fresh else 1
        sweeps = np.zeros((most, 3))
        sweeps[0, 1], sweeps[0, 2] = self._largest, self._total
        stop = min((begin // n + most) * n, begin + update_limit)
        status, culprit, self._position, pending = sweep_slice(
            self._messages.layout,
            self._messages.arrays,
            self._news,
            order,
            begin,
            stop,
            cost_limit,
            damping,
            self._tolerance,
            sweeps,
            self._moved,
        )
        n_over = self._position // n - begin // n
        n_earlier = n_over - 1 if n_over and status == OK else n_over
        figures = sweeps.tolist()
        earlier = [(n, int(work), most, total / n) for work, most, total in figures[:n_earlier]]
        updates = self._position - begin - n_earlier * n
        work, self._largest, self._total = figures[n_earlier]
        if n_over == n_earlier:
            return Progress(status, culprit, updates, int(work), earlier=earlier)
        if self._position >= order.size:
            self._position %= order.size
            self._order = next(self._orders)
        return self._end_of_sweep(updates, int(work), pending, earlier)

    def _end_of_sweep(self, updates: int, work: int, pending: float, earlier: Sequence[Swept]) -> Progress:
        """Report a sweep, and stand before the next.

        What is pending bounds what another sweep would move. That may be less than this one has moved, most of which
        has been passed on already.
        """
        converged = bool(pending <= self._tolerance)
        largest, mean = self._largest, self._total / self._n_factors
        if converged and largest > self._tolerance:
            largest, mean = pending, min(mean, pending)
        self._largest = self._total = 0.0
        return whole_sweep(updates, work, converged=converged, largest=largest, mean=mean, earlier=earlier)


ORDERED_AT_ONCE = 2**17  # factors and variables that are looked at in a slice: each may cost a few trips to memory


def orders_of_pairs(layout: GraphLayout, rank: IndexArray | None = None) -> Iterator[IndexArray | None]:
    """Yield (2, F) the factors by their last variable, then by their first, and in reverse, for ever; None meanwhile.

    News then travel far in one sweep, in both directions, however the factors were added: on a peaked 10 x 10 grid, 39
    sweeps instead of 190 with all horizontal factors first.

    Args:
        layout: Topology.
        rank: (V,) different numbers for the variables, which say what is first and last; None: they are in order.
    """
    ranked = layout.edge_variable if rank is None else rank[layout.edge_variable]
    n_ranks = len(layout.variable_edge_start) - 1 if rank is None else int(rank.max(initial=0)) + 1
    orders = np.empty((2, len(layout.factor_edge_start) - 1), dtype=np.int64)
    index, state = np.zeros((2, n_ranks + 1), dtype=np.int64), np.zeros(2, dtype=np.int64)
    while not orders_slice(layout.factor_edge_start, ranked, index, orders, state, ORDERED_AT_ONCE):
        yield None
    del index, ranked
    yield from repeat(orders)


def sequential_orders(layout: GraphLayout) -> Iterator[IndexArray | None]:
    """Yield the same orders one by one, in turn."""
    return one_by_one(orders_of_pairs(layout))


def one_by_one(orders: Iterator[IndexArray | None]) -> Iterator[IndexArray | None]:
    """Yield orders that come in pairs one after the other."""
    for both in orders:
        yield from (None,) if both is None else both


def there_and_back(layout: GraphLayout, rank: IndexArray | None = None) -> IndexArray:
    """Return the orders of `orders_of_pairs`, however long it takes."""
    return next(both for both in orders_of_pairs(layout, rank) if both is not None)


def parents_first(layout: GraphLayout, variables: IndexArray | None) -> IndexArray | None:
    """Return (V,) ranks of the variables of what looks like a Bayesian network, parents before children.

    Without evidence, messages to parents say nothing, so that one sweep in this order ends where others have to go on.
    None where variables are in such an order already, or there is none.

    Args:
        layout: Topology of the whole graph. A child is the last variable of its factor.
        variables: The numbers of a core's variables, whose ranks are returned; None for the whole graph.
    """
    waiting, queue, rank = np.empty((3, len(layout.variable_edge_start) - 1), dtype=np.int64)
    if not rank_variables(layout, waiting, queue, rank):
        return None
    return rank if variables is None else rank[variables]


def random_orders(n_factors: int, rng: np.random.Generator) -> Iterator[IndexArray]:
    """Yield one random order after another."""
    while True:
        yield rng.permutation(n_factors)


WAITS = 0.3  # what a factor may have to catch up with, as a part of the largest residual of the sweep before

FALLS = 0.9  # part of its least value so far that the largest residual has to fall to, once in
STUCK = 20  # passes; from then on, factors may have to catch up with half as much after every pass

HALF = 0.5  # of all factors, updated since the last report, are reported as a sweep
FULL = 1e4  # nats that a variable may have movement in all before counting starts over, so that no digit is lost


class Movement(NamedTuple):
    """What messages have moved.

    Attributes:
        moved: (V,) sum of all that messages to a variable have moved.
        seen: (E,) how much of it there was when the factor was last updated.
    """

    moved: FloatArray
    seen: FloatArray


class LazySchedule:
    """Goes through one order of factors after another; enough updates count as a sweep.

    Attributes:
        tolerance: Residual of a message that has settled.
    """

    def __init__(self, messages: Messages, orders: Iterator[IndexArray | None], tolerance: float) -> None:
        """Start before the first sweep, in which every factor is updated; orders are None while they are found."""
        layout = messages.layout
        self._messages = messages
        self._orders = orders
        self.tolerance = tolerance
        n_variables, n_edges = len(layout.variable_edge_start) - 1, len(layout.edge_variable)
        self._movement = Movement(np.zeros(n_variables), np.empty(n_edges))
        self._filling = fill_in_parts(self._movement.seen, -np.inf)
        self._is_filled = next(self._filling, True) is True
        self._threshold = float(np.finfo(np.float64).max)  # infinity is waiting
        self._in_sweep, self._total = 0, 0.0
        self._least, self._stuck = np.inf, 0
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._order = next(self._orders)
        self._position = self._in_pass = 0
        self._largest = self._left = 0.0

    def disturb(self, variables: IndexArray, moved: FloatArray) -> None:
        """Let the factors of some variables catch up with priors that moved by so many nats."""
        self._movement.moved[variables] += np.minimum(moved, MOST)
        self._least, self._stuck = np.inf, 0

    def pending(self, edges: IndexArray | None = None) -> FloatArray:
        """Return a bound on how far each message is from what its factor would send now, in nats.

        Args:
            edges: Of the messages; None for all.
        """
        layout, movement = self._messages.layout, self._movement
        if edges is None:
            unheard = movement.moved[layout.edge_variable] - movement.seen
            bound: FloatArray = np.add.reduceat(unheard, layout.factor_edge_start[:-1])[layout.edge_factor]
            return bound
        first = layout.factor_edge_start[layout.edge_factor[edges]]
        arity = layout.factor_edge_start[layout.edge_factor[edges] + 1] - first
        others = row_items(first, arity)
        unheard = movement.moved[layout.edge_variable[others]] - movement.seen[others]
        return np.add.reduceat(unheard, row_starts(arity)[:-1]) if len(edges) else unheard

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with the sweep."""
        order = self._order
        if not self._is_filled:
            self._is_filled = next(self._filling, True) is True
            return Progress(OK, -1, 0, 0)
        if order is None:
            self._order = next(self._orders)
            return Progress(OK, -1, 0, 0)
        status, culprit, self._position, updates, work, largest, total, left = lazy_slice(
            self._messages.layout,
            self._messages.arrays,
            self._movement,
            order,
            self._position,
            self._threshold,
            update_limit,
            cost_limit,
            damping,
        )
        self._in_pass += updates
        self._largest, self._left = max(self._largest, largest), max(self._left, left)
        self._total += total
        if status != OK or self._position < len(order):
            return Progress(status, culprit, updates, work)
        return self._end_of_pass(updates, work)

    def _passes_stuck(self) -> int:
        """Return for how many passes the largest residual has not fallen."""
        if self._in_pass:
            self._stuck += 1
            if self._largest < FALLS * self._least:
                self._least, self._stuck = self._largest, 0
        return self._stuck

    def _end_of_pass(self, updates: int, work: int) -> Progress:
        """Report a sweep if it is one; nothing moves any more if nobody had to be updated at the tolerance itself."""
        converged = self._in_pass == 0 and self._threshold <= self.tolerance
        largest, n = max(self._largest, self._left), max(1, len(self._messages.layout.factor_edge_start) - 1)
        self._in_sweep += self._in_pass
        self._threshold = max(self.tolerance, WAITS * self._largest * 0.5 ** max(0, self._passes_stuck() - STUCK))
        if self._movement.moved.max(initial=0.0) > FULL:
            self._movement.seen[:] -= self._movement.moved[self._messages.layout.edge_variable]
            self._movement.moved[:] = 0.0
        self._begin_pass()
        if self._in_sweep < HALF * n and not converged:
            return Progress(OK, -1, updates, work)
        mean = min(largest, self._total / max(1, self._in_sweep))
        self._in_sweep, self._total = 0, 0.0
        return whole_sweep(updates, work, converged=converged, largest=largest, mean=mean)


TINY = 2**17  # entries that could be read in the time of a sweep, under which sweeps that leave factors out cost more


def is_tiny(messages: Messages) -> bool:
    """Tell whether sweeps over a graph, or its core, cost less than deciding which factors to leave out."""
    layout = messages.layout
    if EDGE_COST * len(layout.edge_variable) >= TINY:
        return False
    entries = table_entries(layout, messages.arrays.domain_size)
    return entries + EDGE_COST * len(layout.edge_variable) < TINY


def plain_schedule(
    messages: Messages,
    options: RunOptions,
    disturbed: IndexArray | None,
    rank: IndexArray | None = None,
    *,
    is_lazy: bool,
) -> ResidualSchedule | LazySchedule | SweepSchedule:
    """Return residual BP or sweeps over a graph or its core.

    Args:
        messages: The graph, or its core.
        options: Of the run.
        disturbed: Of residual BP: the factors that have to be updated; None for all.
        rank: (V,) of the variables, by which sweeps go; None: by their numbers.
        is_lazy: Whether sweeps leave out factors whose incoming messages have hardly moved.
    """
    if options.method == "residual":
        return ResidualSchedule(messages, options.tolerance, disturbed)
    if options.schedule == "random":
        orders = random_orders(len(messages.layout.factor_edge_start) - 1, options.generator())
        if is_lazy:
            return LazySchedule(messages, orders, options.tolerance)
        return SweepSchedule(messages, (order[np.newaxis] for order in orders), options.tolerance)
    both = repeat(there_and_back(messages.layout, rank)) if rank is not None else orders_of_pairs(messages.layout)
    if is_lazy:
        return LazySchedule(messages, one_by_one(both), options.tolerance)
    return SweepSchedule(messages, both, options.tolerance)
