"""Priorities from one round of messages out of the domains, kept up to date."""

from __future__ import annotations

from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.policy import GrowthView


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
