"""What one call may use up, and when an estimated error is worth computing."""

from __future__ import annotations

from dataclasses import dataclass

from anytimebp.engine.recording import UNLIMITED
from anytimebp.engine.run import Run
from anytimebp.results.snapshot import Snapshot

GROWTH_BETWEEN_LOOKS = 1.2  # of all active states: looking costs about as much as scoring every candidate


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What one call may use up.

    Attributes:
        stop_at: Seconds of the run at which the call ends.
        updates: Factor updates, counted from the start of the run.
        work: Entries read or scored, counted from the start of the run.
        target_error: Estimated mass outside the domains at which the call ends.
    """

    stop_at: float = float("inf")
    updates: int = UNLIMITED
    work: int = UNLIMITED
    target_error: float | None = None


class Target:
    """Looks at the mass outside the domains, whenever they have grown by a fifth."""

    def __init__(self, target_error: float | None) -> None:
        """Look at the first occasion."""
        self._target_error = target_error
        self._states = 0.0

    def is_worth_a_look(self, run: Run) -> bool:
        """Tell whether a run is consistent and has grown enough since the last look."""
        return self._target_error is not None and run.consistent and run.states >= self._states

    def is_reached(self, snapshot: Snapshot) -> bool:
        """Take a look."""
        self._states = GROWTH_BETWEEN_LOOKS * int(snapshot.domain_sizes.sum())
        return self._target_error is not None and snapshot.unexplored_mass <= self._target_error
