"""How a run stands, and what it may still do: two records that the driver and the method share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment

UNLIMITED = 2**62

SLICE_COST = 2**22
"""Entries read between two looks at the clock: two to four milliseconds."""

THREAD_COST = 2 * SLICE_COST
"""The same for each of several threads, which wait for each other at the end of a slice."""


@dataclass
class Limits:
    """What the driver allows until it looks again; it writes, the method reads.

    Attributes:
        updates: Factor updates in all.
        work: Entries read or scored in all.
        rounds: Rounds in all after which it wants to be told.
        states: Active states in all after which it wants to be told.
        is_watched: Whether somebody looks at the run after every sweep, or stops it at a certain one.
        has_deadline: Whether the clock may stop it.
        has_target: Whether an estimated error may stop it.
    """

    updates: int = UNLIMITED
    work: int = UNLIMITED
    rounds: int = UNLIMITED
    states: int = UNLIMITED
    is_watched: bool = True
    has_deadline: bool = False
    has_target: bool = False

    @property
    def has_budget(self) -> bool:
        """Whether something may stop the run before its end."""
        return self.has_deadline or self.has_target or self.updates < UNLIMITED or self.work < UNLIMITED

    def work_left(self, done: int) -> int:
        """Return what is left of the work, at least 1."""
        return max(1, self.work - done)

    def slice_cost(self, done: int, threads: int = 1) -> int:
        """Return how many entries may be read until the next look at the clock, by all threads together."""
        cost = SLICE_COST if threads == 1 else THREAD_COST * threads
        return min(cost, self.work_left(done))


def _no_work() -> dict[str, int]:
    return {"messages": 0, "scoring": 0, "growth": 0, "priorities": 0}


Passed: TypeAlias = tuple[int, int, int, float, float, float]
"""A sweep that is over: the number of its round; updates and work so far; largest and mean residual; damping."""


@dataclass
class Figures:
    """How a run stands; the method writes, the driver reads. Snapshots and moments are made of it.

    Attributes:
        method: As the user calls it.
        tolerance: To which messages count as settled in the present round.
        damping: In force now.
        seconds: Of the run's clock; the driver sets it before it reads.
        updates: Factor updates so far.
        rounds: Sweeps or growth rounds so far.
        settled_rounds: How many of them ended in a consistent state.
        work_parts: Entries read or scored so far, by purpose.
        max_residual: Largest residual.
        mean_residual: Mean residual over the factors.
        states: Active states of all variables together.
        consistent: Whether the state as it is now is a fixed point on its domains.
        swept: Whether every factor has been updated over all states.
        exact: Whether marginals are those of the whole model.
        estimated_error: If it is known without further work; NaN otherwise.
        choice: What the method does at present, and why, in words; empty where there is no choice.
        reason: Why `auto` has chosen the method.
        cost: How to compute the entries that exact inference would need.
        is_news: Whether the end of the present round is worth a snapshot; the loop sets it, a method may object.
        passed: Sweeps that the driver was not told of one by one; the driver records them.
        reading: Seconds that a snapshot of a large graph is expected to take: so much earlier the clock ends a call.
        ending: Why the run is finished, or None.
    """

    method: str
    tolerance: float
    damping: float = 0.0
    seconds: float = 0.0
    updates: int = 0
    rounds: int = 0
    settled_rounds: int = 0
    work_parts: dict[str, int] = field(default_factory=_no_work)
    max_residual: float = float("inf")
    mean_residual: float = float("inf")
    states: int = 0
    consistent: bool = False
    swept: bool = False
    exact: bool = False
    estimated_error: float = float("nan")
    choice: str = ""
    reason: str = ""
    cost: float | Callable[[], float] = float("nan")
    is_news: bool = True
    passed: list[Passed] = field(default_factory=list)
    reading: float = 0.0
    ending: StopReason | None = None

    @property
    def work(self) -> int:
        """Entries read or scored so far."""
        parts = self.work_parts
        return parts["messages"] + parts["scoring"] + parts["growth"] + parts["priorities"]

    @property
    def chosen(self) -> str:
        """What is done, and why: "way: reason"."""
        if not self.reason:
            return self.choice
        return f"{self.choice}{'; ' if ': ' in self.choice else ': '}{self.reason}" if self.choice else ""

    def count(self, updates: int, work: int) -> None:
        """Add factor updates, and the entries that they have read."""
        self.updates += updates
        self.work_parts["messages"] += work

    def pass_over(self, sweeps: Sequence[tuple[int, int, float, float]]) -> None:
        """Count sweeps that the driver was not told of: updates, entries read, largest and mean residual of each."""
        updates, work, rounds = self.updates, self.work, self.rounds
        for more_updates, more_work, self.max_residual, self.mean_residual in sweeps:
            updates, work, rounds = updates + more_updates, work + more_work, rounds + 1
            self.passed.append((rounds, updates, work, self.max_residual, self.mean_residual, self.damping))
        self.count(updates - self.updates, work - self.work)
        self.rounds, self.swept = rounds, True

    @property
    def can_be_judged(self) -> bool:
        """Whether the error of the state as it is now can be estimated."""
        return self.consistent or self.swept

    def copy(self) -> Figures:
        """Return the figures as they are now."""
        twin = Figures.__new__(Figures)
        twin.__dict__.update(self.__dict__, work_parts=self.work_parts.copy())
        return twin

    def shown(self) -> dict[str, Any]:
        """Return what a snapshot shows of them."""
        return {
            "seconds": self.seconds,
            "updates": self.updates,
            "work_parts": dict(self.work_parts),
            "max_residual": self.max_residual,
            "mean_residual": self.mean_residual,
            "damping": self.damping,
            "consistent": self.consistent,
            "tolerance": self.tolerance,
            "method": self.method,
            "exact": self.exact,
            "choice": self.chosen,
            "cost": self.cost,
        }

    def moment(self, log_z: float) -> Moment:
        """Return what a trace keeps of them."""
        return Moment(
            self.seconds,
            self.updates,
            self.work,
            self.max_residual,
            self.mean_residual,
            self.damping,
            self.states,
            log_z,
            self.estimated_error,
            self.chosen,
        )
