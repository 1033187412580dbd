"""Any remaining state, with equal chances."""

from __future__ import annotations

import numpy as np

from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.policy import GrowthView


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
