"""Leaves first: one pass up the trees to the core, and then any schedule on the core. A forest is all trees."""

from __future__ import annotations

from anytimebp.inference.schedule.protocol import Progress, Schedule
from anytimebp.kernels.codes import OK, VARIABLE_VANISHED
from anytimebp.tables.leaves import Leaves


class LeavesFirst:
    """A pass that is not damped, then the core. In a forest there is none, and the pass is exact.

    Attributes:
        leaves: That the pass goes through.
        on_core: The schedule of the core, to be set once the core is there.
    """

    def __init__(self, leaves: Leaves) -> None:
        """Start before the pass up."""
        self.leaves = leaves
        self.on_core: Schedule | None = None

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with the pass, or on the core."""
        if self.on_core is None:
            return self._pass(update_limit, cost_limit)
        progress = self.on_core.advance(update_limit, cost_limit, damping)
        core = self.leaves.core
        if progress.status == OK or core is None:
            return progress
        number = core.variables if progress.status == VARIABLE_VANISHED else core.factors
        return progress._replace(culprit=int(number[progress.culprit]))

    def _pass(self, update_limit: int, cost_limit: int) -> Progress:
        leaves = self.leaves
        progress = Progress(*leaves.pass_up(update_limit, cost_limit))
        if progress.status != OK or not leaves.is_through or leaves.core is not None:
            return progress
        return progress._replace(end_of_sweep=True, converged=True, max_residual=0.0, mean_residual=0.0)
