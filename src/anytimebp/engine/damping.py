"""When to damp, and when to give up: decided on residuals and counts, never on the clock."""

from __future__ import annotations

import math

WINDOW = 20  # sweeps in which the residual must fall, or the run is said to stall; longer by what damping slows it down
ENOUGH = 0.9  # to this part of the best before; a slow but steady run falls by more in 20 sweeps
STEPS = (0.0, 0.5, 0.75, 0.9)  # a run that stalls goes to the next one
LAST_WINDOWS = 3  # at the strongest damping, stalls that are allowed before giving up
MAX_SWEEPS = 20_000


class Damper:
    """Watches the residual of each sweep; damps a run that stalls or oscillates."""

    def __init__(self, damping: float) -> None:
        """Start with the damping that the user asked for."""
        self.damping = damping
        self._sweeps = 0
        self._best = math.inf
        self._best_in_window = math.inf
        self._in_window = 0
        self._stalls = 0

    def hopeless(self, residual: float) -> bool:
        """Take note of a sweep's undamped residual, adapt the damping, and tell whether to give up."""
        self._sweeps += 1
        if math.isinf(residual):  # states are still being excluded, which comes to an end by itself
            self._in_window = 0
            return self._sweeps >= MAX_SWEEPS
        self._best_in_window = min(self._best_in_window, residual)
        self._in_window += 1
        if self._in_window >= WINDOW / (1.0 - self.damping):
            self._close_window()
        return self._stalls > LAST_WINDOWS or self._sweeps >= MAX_SWEEPS

    def _close_window(self) -> None:
        stalled = self._best_in_window > ENOUGH * self._best
        self._best = min(self._best, self._best_in_window)
        self._best_in_window, self._in_window = math.inf, 0
        if not stalled:
            return
        stronger = [step for step in STEPS if step > self.damping]
        if stronger:
            self.damping = stronger[0]
            self._best = math.inf
        else:
            self._stalls += 1
