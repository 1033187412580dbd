"""When to damp, and when to give up: decided on residuals, messages and counts, never on the clock.

Damping is for messages that go to and fro. Where the residual hardly falls, or so slowly that the run would take many
more sweeps, it is looked at which way messages go: the distance they have come, as a part of their path. Messages that
go straight on are slow, and damped they would be slower still, so they are left to it. Those that go to and fro, ever
less, settle several times as fast if they are damped a little.
"""

from __future__ import annotations

import math

import numpy as np

from anytimebp.inference.schedule.protocol import Messages
from anytimebp.kernels.codes import LOG
from anytimebp.model.source import FloatArray

WINDOW = 20  # sweeps in which the residual must fall, or the run is said to stall; longer by what damping slows it down
ENOUGH = 0.9  # to this part of the best before, or fast enough to get to the tolerance within TOO_MANY
LOOKS = (0.6, 0.8, 1.0)
"""Parts of a window after which messages are followed to its end, where the residual has not fallen far enough by then.

Nobody looks in between, so that several sweeps can be made at once."""
FIRST_LOOKS = tuple(math.ceil(look * WINDOW) for look in LOOKS)
STRAIGHT = 0.5  # part of the messages' path that leads on, from which on they are slow and do not oscillate
SLOW = 40  # sweeps that an undamped run may still have to make, before it is looked at which way its messages go
STEPS = (0.0, 0.2, 0.5, 0.75, 0.9)
"""Dampings; a run that stalls goes to the next one. Most that oscillate settle with the first, in half the sweeps that
the second takes; those that need more lose a window by it."""
LAST_WINDOWS = 3  # at the strongest damping, stalls that are allowed before giving up
TOO_MANY = 20_000  # sweeps; a residual that takes longer to fall to the tolerance is said to stall
LONGEST = 1000.0  # nats that messages may go straight on without the residual falling; states are gone long before
MAX_SWEEPS = 60_000


class _Course:
    """Follows messages from sweep to sweep: how far they go, and how far that leads them.

    Messages that have settled do not take part, nor do states that turn to zero or back.
    """

    def __init__(self, messages: Messages, tolerance: float) -> None:
        """Start where messages are now."""
        self._messages = messages
        self._tolerance = tolerance
        self._first = self._last = self._logs()
        self._path = np.zeros(len(messages.layout.edge_variable))

    def follow(self) -> None:
        """Take note of where messages are after another sweep."""
        now = self._logs()
        self._path += self._ranges(now, self._last)
        self._last = now

    @property
    def straightness(self) -> float:
        """The distance to where messages were at first, as a part of their path; NaN if all have settled."""
        unsettled = self._messages.arrays.edge_residual > self._tolerance
        path = float(self._path[unsettled].sum())
        return float(self._ranges(self._last, self._first)[unsettled].sum()) / path if path > 0.0 else math.nan

    def _logs(self) -> FloatArray:
        arrays = self._messages.arrays
        if arrays.arithmetic == LOG:
            return arrays.message.copy()
        with np.errstate(divide="ignore"):
            return np.log(arrays.message)

    def _ranges(self, new: FloatArray, old: FloatArray) -> FloatArray:
        """Return the dynamic range of the change of every edge's message."""
        with np.errstate(invalid="ignore"):
            change = new - old
        possible, start = np.isfinite(change), self._messages.arrays.edge_slot_start
        high: FloatArray = np.maximum.reduceat(np.where(possible, change, -np.inf), start)
        low: FloatArray = np.minimum.reduceat(np.where(possible, change, np.inf), start)
        ranges: FloatArray = np.maximum(high - low, 0.0)
        return ranges


class Damper:
    """Watches the residual of each sweep; damps a run that oscillates, and lets one go on that is slow."""

    def __init__(self, damping: float, messages: Messages, tolerance: float) -> None:
        """Start with the damping that the user asked for.

        Args:
            damping: Part of the old message that is kept.
            messages: What is swept over.
            tolerance: Residual of a message that has settled.
        """
        self.damping = damping
        self._messages = messages
        self._tolerance = tolerance
        self._sweeps = 0
        self._best = math.inf
        self._stalls = 0
        self._way = 0.0  # nats since the residual has last fallen
        self._begin_window(WINDOW / (1.0 - damping))

    def _begin_window(self, length: float) -> None:
        self._window = length
        self._looks = FIRST_LOOKS if length == WINDOW else tuple([math.ceil(look * length) for look in LOOKS])
        self._in_window = 0
        self._first_in_window = self._best_in_window = math.inf
        self._course: _Course | None = None

    @property
    def quiet_sweeps(self) -> int:
        """How many sweeps can be made before it looks at messages, or changes its mind; the last one it may look at."""
        until_look = 1
        if self._course is None:
            until_look = next((look - self._in_window for look in self._looks if look > self._in_window), 1)
        return max(1, min(until_look, MAX_SWEEPS - self._sweeps))

    @property
    def is_following(self) -> bool:
        """Whether it follows messages, and looks at the residuals of all of them at the end of a window."""
        return self._course is not None

    def hopeless(self, residual: float) -> bool:
        """Take note of a sweep's undamped residual, adapt the damping, and tell whether to give up."""
        self._sweeps += 1
        if math.isinf(residual):  # states are still being excluded, which comes to an end by itself
            self._begin_window(self._window)
            return self._sweeps >= MAX_SWEEPS
        if self._in_window == 0:
            self._first_in_window = residual
        self._best_in_window = min(self._best_in_window, residual)
        self._in_window += 1
        self._way += residual * (1.0 - self.damping)
        if self._course is not None:
            self._course.follow()
        elif self._in_window in self._looks and (self._stalls_now() or self._is_slow):
            self._course = _Course(self._messages, self._tolerance)
        if self._in_window >= self._window:
            self._close_window()
        return self._stalls > LAST_WINDOWS or self._sweeps >= MAX_SWEEPS

    def _stalls_now(self) -> bool:
        """Tell whether the residual has fallen too little in this window."""
        best = self._best_in_window
        if best <= ENOUGH * self._best:
            return False
        fall = math.log(self._best / best) if best < self._best else 0.0
        return self._window * math.log(max(math.e, best / self._tolerance)) > TOO_MANY * fall

    @property
    def _is_slow(self) -> bool:
        """Whether an undamped run is expected to take many more sweeps, at the pace of this window."""
        best = self._best_in_window
        if self.damping > 0.0 or best <= self._tolerance:
            return False
        fall = math.log(self._first_in_window / best)
        return self._in_window * math.log(best / self._tolerance) > SLOW * fall

    def _close_window(self) -> None:
        stalls, straightness = self._stalls_now(), self._course.straightness if self._course is not None else math.nan
        self._best = min(self._best, self._best_in_window)
        if not stalls and self._is_slow and straightness <= STRAIGHT:
            self._damp_more()
        elif not stalls:
            self._way = 0.0
            self._begin_window(self._window)
        elif self._way < LONGEST and straightness > STRAIGHT:
            self._begin_window(2.0 * self._window)  # a longer one shows what takes longer to come back
        else:
            self._damp_more()

    def _damp_more(self) -> None:
        """Go to the next stronger damping; at the strongest, give up after some more stalls."""
        stronger = [step for step in STEPS if step > self.damping]
        if stronger:
            self.damping = stronger[0]
            self._best, self._way = math.inf, 0.0
        else:
            self._stalls += 1
        self._begin_window(WINDOW / (1.0 - self.damping))
