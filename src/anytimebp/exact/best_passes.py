"""The best joint state, max-marginals and random joint states, out of passes over a tree of cliques."""

from __future__ import annotations

import numpy as np

from anytimebp.exact.passes import Passes
from anytimebp.kernels.best_cliques import choose_best, collect_best_slice, distribute_best_slice, draw_states
from anytimebp.kernels.codes import OK
from anytimebp.model.source import IndexArray

DRAWN_AT_ONCE = 2**18  # random numbers that are held at a time


class BestPasses(Passes):
    """Passes with max in place of sums: `belief` holds max-marginals in the end, each with a largest number of 1.

    Attributes:
        state: (V,) the slot of each variable in the best joint state, once the way up is through.
    """

    state: IndexArray

    def advance(self, cliques: int, cost: int) -> tuple[int, int]:
        """Go on; return the cliques that were passed, and the entries that were read."""
        arrays, tree = self._arrays, self.tree.arrays
        if not self.is_up:
            before, stop = self._up, min(self.tree.n, self._up + cliques)
            status, self._up, work, log_total, in_logs = collect_best_slice(
                self._layout, self._sizes, tree, arrays, self._up, stop, cost
            )
            self.log_total += log_total
            self.in_logs |= bool(in_logs)
            self.is_possible = status == OK
            if self.is_up and self.is_possible:
                self.state = np.zeros(len(self._sizes), dtype=np.int64)
                choose_best(self._sizes, tree, arrays, self.tree.n, self.state)
            return self._up - before, work
        before = self._down
        self._down, work = distribute_best_slice(self._sizes, tree, arrays, self.belief, self._down, cost)
        return before - self._down, work


class DrawingPasses(Passes):
    """Passes of which only the way up is needed: joint states are drawn on the way down."""

    def draw(self, n: int, rng: np.random.Generator) -> IndexArray:
        """Return (n, V) slots of random joint states; once the way up is through."""
        states = np.zeros((n, len(self._sizes)), dtype=np.int64)
        step = max(1, DRAWN_AT_ONCE // max(1, self.tree.n))
        for first in range(0, n, step):
            some = states[first : first + step]
            uniform = rng.random((len(some), self.tree.n))
            draw_states(self._sizes, self.tree.arrays, self._arrays, self.tree.n, uniform, some)
        return states
