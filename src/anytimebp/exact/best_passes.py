"""The best joint state, max-marginals and random joint states, out of passes over a tree of cliques."""

from __future__ import annotations

from typing import Any

import numpy as np

from anytimebp.exact.passes import Passes
from anytimebp.kernels.codes import MAX
from anytimebp.kernels.joint_states import choose_best, draw_states
from anytimebp.model.source import IndexArray

DRAWN_AT_ONCE = 2**18  # random numbers that are held at a time


class BestPasses(Passes):
    """Passes with max in place of sums: `belief` holds max-marginals in the end, each with a largest number of 1.

    Attributes:
        state: (V,) the slot of each variable in the best joint state, once the way up is through.
    """

    semiring = MAX

    def __init__(self, *given: Any) -> None:
        """Make room; where every variable has one state, there is no clique, and no way up."""
        super().__init__(*given)
        self.state: IndexArray = np.zeros(len(self._sizes), dtype=np.int64)

    def advance(self, cliques: int, cost: int) -> tuple[int, int]:
        """Go on; return the cliques that were passed, and the entries that were read."""
        was_up = self.is_up
        passed = super().advance(cliques, cost)
        if self.is_up and self.is_possible and not was_up:
            choose_best(self._sizes, self.tree.arrays, self._arrays, self.tree.n, self.state)
        return passed


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
