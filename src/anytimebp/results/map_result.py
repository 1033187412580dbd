"""MapResult: the best joint state that a search has found."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from anytimebp.model.source import FloatArray
from anytimebp.results.stop import StopReason


class MapMoment(NamedTuple):
    """How a search for the best joint state stood at a moment.

    Attributes:
        seconds: Time of the search so far, without the caller's.
        log_score: Of the best joint state so far.
        upper_bound: On the log score of every joint state; infinite where none is known yet.
    """

    seconds: float
    log_score: float
    upper_bound: float


@dataclass(frozen=True, eq=False, kw_only=True)
class MapResult:
    """The answer of `infer_map`.

    Attributes:
        assignment: The label of each variable in the best joint state that was found.
        log_score: Sum of the log scores of all factors, and of soft evidence, at that state; -inf only where no
            possible joint state was found.
        upper_bound: No joint state has a log score above this, but for rounding; infinite where nothing is known.
        max_marginals: By variable name, over the universe: the score of the best joint state with each state, divided
            by that of the best of all, so that the largest number is 1. Only where `exact` is true are these the true
            ones; otherwise they are estimates, from the numbers that the bound is made of.
        exact: Whether the state is known to be the best: by a junction tree, or because the bound is reached.
        method: "exact" or "bp".
        stop_reason: Why the search ended.
        trace: The moments at which the state or the bound has improved.
        seconds: Time of the search.
    """

    assignment: Mapping[str, Hashable]
    log_score: float
    upper_bound: float
    max_marginals: Mapping[str, FloatArray]
    exact: bool
    method: str
    stop_reason: StopReason
    trace: tuple[MapMoment, ...]
    seconds: float

    def __repr__(self) -> str:
        """Return a line with what matters."""
        return (
            f"<MapResult of {self.method!r}: {self.stop_reason.name}, {len(self.assignment)} variables, "
            f"log_score={self.log_score:.6g}, upper_bound={self.upper_bound:.6g}, {self.seconds:.3g} s>"
        )
