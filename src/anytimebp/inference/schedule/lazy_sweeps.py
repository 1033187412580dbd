"""Sweeps that leave out the factors whose incoming messages have hardly moved since their last update.

As long as some messages move much, those that have only little to catch up with can wait. On models of which a small
part is slow to settle, that part is all that is still worked on. The bound is that of residual BP, without its heap.
Where messages come to move as much in every sweep, nobody waits for them any longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from anytimebp.inference.schedule.protocol import Messages, Progress
from anytimebp.kernels.codes import OK
from anytimebp.kernels.lazy import lazy_slice
from anytimebp.model.source import FloatArray, IndexArray

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
    """Goes through one order of factors after another; enough updates count as a sweep."""

    def __init__(self, messages: Messages, orders: Iterator[IndexArray], tolerance: float) -> None:
        """Start before the first sweep, in which every factor is updated."""
        layout = messages.layout
        self._messages = messages
        self._orders = orders
        self._tolerance = tolerance
        self._movement = Movement(
            np.zeros(len(layout.variable_edge_start) - 1), np.full(len(layout.edge_variable), -np.inf)
        )
        self._threshold = float(np.finfo(np.float64).max)  # infinity is waiting
        self._in_sweep, self._total = 0, 0.0
        self._least, self._stuck = np.inf, 0
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._order = next(self._orders)
        self._position = self._in_pass = 0
        self._largest = self._left = 0.0

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with the sweep."""
        status, culprit, self._position, updates, work, largest, total, left = lazy_slice(
            self._messages.layout,
            self._messages.arrays,
            self._movement,
            self._order,
            self._position,
            self._threshold,
            update_limit,
            cost_limit,
            damping,
        )
        self._in_pass += updates
        self._largest, self._left = max(self._largest, largest), max(self._left, left)
        self._total += total
        if status != OK or self._position < len(self._order):
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
        converged = self._in_pass == 0 and self._threshold <= self._tolerance
        largest, n = max(self._largest, self._left), max(1, len(self._order))
        self._in_sweep += self._in_pass
        self._threshold = max(self._tolerance, WAITS * self._largest * 0.5 ** max(0, self._passes_stuck() - STUCK))
        if self._movement.moved.max(initial=0.0) > FULL:
            self._movement.seen[:] -= self._movement.moved[self._messages.layout.edge_variable]
            self._movement.moved[:] = 0.0
        self._begin_pass()
        if self._in_sweep < HALF * n and not converged:
            return Progress(OK, -1, updates, work)
        mean = min(largest, self._total / max(1, self._in_sweep))
        self._in_sweep, self._total = 0, 0.0
        return Progress(
            OK,
            -1,
            updates,
            work,
            end_of_sweep=True,
            converged=converged,
            max_residual=largest,
            mean_residual=mean,
        )
