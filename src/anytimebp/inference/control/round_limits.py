"""How long a growth round may take to settle, and when to damp: decided on counts, never on the clock."""

from __future__ import annotations

FIRST = 2_000  # updates after which a round is looked at
PER_FACTOR = 60  # updates per touched factor at each damping; residual BP settles in a few, or in a few dozen
LATER = 8  # the same after a round had to be cut, so that runs that never settle still grow
LAST = 500  # the same in the last round, when nothing is left to grow
STEPS = (0.0, 0.5, 0.75, 0.9)


class RoundLimits:
    """Allows a round more updates, then more damping, then gives it up.

    Attributes:
        damping: In force now.
        updates: Updates that the present round may make before it is looked at again.
        is_last: Whether nothing is left to grow.
    """

    def __init__(self, damping: float) -> None:
        """Start with the damping that the user asked for."""
        self.damping = self._first_damping = damping
        self.updates = FIRST
        self.is_last = False
        self._per_factor = PER_FACTOR
        self._started_at = 0

    @property
    def is_strained(self) -> bool:
        """Whether the present round is not like any other, so that its end must be noticed."""
        return self.updates != FIRST or self._per_factor != PER_FACTOR

    def begin_round(self, *, settled: bool) -> None:
        """Start anew with a round; one that has settled restores the limits."""
        self.updates = FIRST
        self._started_at = 0
        if settled:
            self._per_factor = PER_FACTOR

    def extend(self, n_touched: int) -> bool:
        """Allow the round more updates, or damp it more; tell whether it may go on.

        Args:
            n_touched: Factors that the round has updated.
        """
        allowed = self._started_at + int(self._per_factor * n_touched / (1.0 - self.damping))
        if self.updates < allowed:
            self.updates = min(allowed, 4 * self.updates)
            return True
        stronger = [step for step in STEPS if step > self.damping]
        if not stronger:
            return False
        self.damping = stronger[0]
        self._started_at = self.updates
        self.updates += max(1, int(self._per_factor * n_touched / (1.0 - self.damping)))
        return True

    def give_up(self) -> None:
        """Be less patient with the rounds that follow; what did not help is dropped."""
        self._per_factor = LATER
        self.damping = self._first_damping

    def make_last(self) -> None:
        """Be as patient as can be: nothing is left to grow."""
        self.is_last = True
        self._per_factor = LAST
        self.updates = FIRST
        self._started_at = 0
