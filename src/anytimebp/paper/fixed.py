"""Priorities computed once, before the run."""

from __future__ import annotations

from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.policy import GrowthView


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
