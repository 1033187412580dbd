"""What one call may use up, and when an estimated error is worth computing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anytimebp.inference.figures import UNLIMITED, Figures
from anytimebp.results.snapshot import Snapshot

GROWTH_BETWEEN_LOOKS = 1.2  # of all active states: looking costs about as much as scoring every candidate


@dataclass(kw_only=True, slots=True)
class Budget:
    """What one call may use up.

    Attributes:
        stop_at: Seconds of the run at which the call ends.
        updates: Factor updates, counted from the start of the figures.
        work: Entries read or scored, counted from the start of the figures.
        target_error: Estimated error at which the call ends.
        is_watched: Whether somebody looks at the run after every sweep, or stops it at a certain one.
    """

    stop_at: float = float("inf")
    updates: int = UNLIMITED
    work: int = UNLIMITED
    target_error: float | None = None
    is_watched: bool = True


class Target:
    """Looks at the estimated error after each round; on domains that grow state by state, when they have by a fifth.

    A state that has not settled must be under the target after two rounds in a row: one sweep's rate may be luck.
    """

    def __init__(self, target_error: float | None) -> None:
        """Look at the first occasion."""
        self._target_error = target_error
        self._states = 0.0
        self._rounds = -1
        self._under = 0

    def is_worth_a_look(self, figures: Figures) -> bool:
        """Tell whether there is a new state to look at."""
        if self._target_error is None or figures.rounds == self._rounds:
            return False
        if math.isnan(figures.estimated_error):
            return figures.can_be_judged and figures.states >= self._states
        is_under = figures.estimated_error <= self._target_error
        self._under = self._under if is_under else 0
        return figures.can_be_judged and is_under

    def is_reached(self, figures: Figures, snapshot: Snapshot) -> bool:
        """Take a look."""
        self._rounds = figures.rounds
        grown = int(snapshot.domain_sizes.sum())
        self._states = GROWTH_BETWEEN_LOOKS * grown if grown < snapshot.n_states else 0.0
        is_under = self._target_error is not None and snapshot.estimated_error <= self._target_error
        self._under = self._under + 1 if is_under else 0
        return self._under >= (1 if snapshot.consistent else 2)
