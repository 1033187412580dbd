"""What a run is to whoever drives it: slices of work, limits, snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from anytimebp.engine.recording import UNLIMITED
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason

SLICE_COST = 2**22
"""Entries read between two looks at the clock: two to four milliseconds."""


class Step(Enum):
    """What a slice of a run ended with."""

    WORKING = "nothing to record yet"
    RECORD = "a sweep or round is through"


@dataclass
class Limits:
    """What the driver allows until it looks again.

    Attributes:
        updates: Factor updates in all.
        work: Entries read or scored in all.
        rounds: Rounds in all after which it wants to be told.
        states: Active states in all after which it wants to be told.
    """

    updates: int = UNLIMITED
    work: int = UNLIMITED
    rounds: int = UNLIMITED
    states: int = UNLIMITED

    def work_left(self, parts: Mapping[str, int]) -> int:
        """Return what is left of the work, at least 1."""
        return max(1, self.work - sum(parts.values()))


class Run(Protocol):
    """One run, as a generator of slices.

    Attributes:
        limits: Set before each step.
        updates: Factor updates so far.
        rounds: Sweeps or growth rounds so far.
        settled_rounds: How many of them ended in a consistent state.
        work_parts: Entries read or scored so far, by purpose.
        max_residual: Largest residual, as of the last sweep or round.
        mean_residual: Mean residual, as of the same.
        ending: Why the run is finished, or None.
        consistent: Whether the state as it is now is a fixed point.
    """

    limits: Limits
    updates: int
    rounds: int
    settled_rounds: int
    work_parts: dict[str, int]
    max_residual: float
    mean_residual: float
    ending: StopReason | None
    consistent: bool

    @property
    def damping(self) -> float:
        """In force now."""
        ...

    @property
    def states(self) -> int:
        """Active states of all variables together."""
        ...

    def steps(self) -> Iterator[Step]:
        """Work in slices of a few milliseconds until the run is finished."""
        ...

    def snapshot(self, seconds: float) -> Snapshot:
        """Return what the run knows now."""
        ...

    def answer(self, seconds: float) -> Snapshot | None:
        """Return the last consistent state, if the current one is not and there was one."""
        ...
