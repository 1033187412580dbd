"""The growth policies of the paper: any remaining state, priorities computed once, priorities kept up to date."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.kernels.codes import EXHAUSTED, LEAST
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.arrays import RankingArrays
from anytimebp.paper.policy import GrowthView


def make_ranking(universe: Universe, scores: FloatArray) -> RankingArrays:
    """Return a ranking of all states by scores; states that have joined are passed over when they come up."""
    score = np.where(universe.allowed, np.maximum(scores, LEAST), -np.inf)
    state = universe.ranked(score)
    n = len(universe.n_allowed)
    best = score[universe.start[:-1] + state[universe.start[:-1]]] if n else np.empty(0)
    priority = np.where(universe.n_allowed > 0, best, EXHAUSTED)
    item = np.lexsort((np.arange(n), -priority))  # sorted, and so a heap
    place = np.empty(n, dtype=np.int64)
    place[item] = np.arange(n)
    return RankingArrays(score, state, np.zeros(n, dtype=np.int64), item, place, priority)


class RandomGrowth:
    """States join in random order, uniform over all (variable, state) pairs; the first ones are random too."""

    rescores = False

    def first_states(self, view: GrowthView) -> IndexArray:
        """Return a random allowed state of each variable."""
        return view.best(view.rng.random(int(view.variables.sizes().sum())))

    def scores(self, view: GrowthView, variable: int) -> FloatArray:
        """Return random numbers."""
        return view.rng.random(view.variables[variable].n_states)

    def all_scores(self, view: GrowthView) -> FloatArray:
        """Return random numbers for all states of all variables in a row, independent of the first states."""
        return np.asarray(view.rng.random(int(view.variables.sizes().sum())))


class FixedGrowth:
    """States join by fixed priorities: a guess of the marginals from every factor alone.

    Args:
        raw: Whether to compare the sums as the paper prints them, which depend on constants in the tables and hardly
            compare between variables, instead of normalising them per variable.
    """

    rescores = False

    def __init__(self, *, raw: bool = False) -> None:
        """Choose between raw and normalised priorities."""
        self.raw = raw

    def first_states(self, view: GrowthView) -> IndexArray:
        """Return the best states by priority."""
        return view.best(view.all_priorities(raw=self.raw))

    def scores(self, view: GrowthView, variable: int) -> FloatArray:
        """Return the priorities of a variable's states."""
        return view.priorities(variable, raw=self.raw)

    def all_scores(self, view: GrowthView) -> FloatArray:
        """Return the priorities of all states of all variables in a row."""
        return view.all_priorities(raw=self.raw)


class DynamicGrowth:
    """States join by their estimated belief, relative to that of their variable's domain.

    The kernel computes these scores itself, and only those that can still win (`kernels/candidates.py`).

    Args:
        raw: Whether to take the sum of log messages and the number of factors, as the paper prints it, instead of the
            ratio to the belief of the domain. Messages count with their largest number over the domain as 1.
    """

    rescores = True

    def __init__(self, *, raw: bool = False) -> None:
        """Choose between raw and relative priorities."""
        self.raw = raw

    def first_states(self, view: GrowthView) -> IndexArray:
        """Return the best states by unary scores, by fixed priorities for variables without any."""
        return view.best(view.first_guess())

    def scores(self, view: GrowthView, variable: int) -> FloatArray:
        """Return the estimated log belief ratios of a variable's states."""
        return view.estimates(variable)
