"""What a run is to whoever drives it: slices of work, limits, snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from anytimebp.inference.recording import UNLIMITED
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
        is_watched: Whether somebody looks at the run after every sweep, or stops it at a certain one.
        has_deadline: Whether the clock may stop it.
    """

    updates: int = UNLIMITED
    work: int = UNLIMITED
    rounds: int = UNLIMITED
    states: int = UNLIMITED
    is_watched: bool = True
    has_deadline: bool = False

    def work_left(self, parts: Mapping[str, int]) -> int:
        """Return what is left of the work, at least 1."""
        return max(1, self.work - sum(parts.values()))


class Run(Protocol):
    """One run, as a generator of slices."""

    limits: Limits  # set before each step

    @property
    def ending(self) -> StopReason | None:
        """Why the run is finished, or None."""
        ...

    @property
    def updates(self) -> int:
        """Factor updates so far."""
        ...

    @property
    def rounds(self) -> int:
        """Sweeps or growth rounds so far."""
        ...

    @property
    def settled_rounds(self) -> int:
        """How many of them ended in a consistent state."""
        ...

    @property
    def work_parts(self) -> dict[str, int]:
        """Entries read or scored so far, by purpose."""
        ...

    @property
    def max_residual(self) -> float:
        """Largest residual."""
        ...

    @property
    def mean_residual(self) -> float:
        """Mean residual over the factors."""
        ...

    @property
    def consistent(self) -> bool:
        """Whether the state as it is now is a fixed point."""
        ...

    @property
    def damping(self) -> float:
        """In force now."""
        ...

    @property
    def can_be_judged(self) -> bool:
        """Whether the error of the state as it is now can be estimated."""
        ...

    @property
    def choice(self) -> str:
        """What the run does at present, and why, in words; nothing where there is no choice."""
        ...

    @property
    def estimated_error(self) -> float:
        """The estimated error, if it is known without further work; NaN otherwise."""
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
