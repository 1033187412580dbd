"""MapResult: the best joint state that a search has found."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from anytimebp.model.source import FloatArray
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Rows


class MapMoment(NamedTuple):
    """The figures of a search for the best joint state at one moment.

    Attributes:
        seconds: Time of the search so far, without the time spent in the caller.
        log_score: Log score of the best joint state so far.
        upper_bound: Upper bound on the log score of every joint state; infinite if none is known yet.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(2, 3)
        >>> _ = graph.add_factor([0, 1], log_table=np.eye(3))
        >>> abp.infer_map(graph).trace[-1].log_score
        1.0
    """

    seconds: float
    log_score: float
    upper_bound: float


class MapTrace(Rows[MapMoment]):
    """The moments at which a search for the best joint state improved, in order: a tuple of `MapMoment`.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(2, 3)
        >>> _ = graph.add_factor([0, 1], log_table=np.eye(3))
        >>> list(abp.infer_map(graph).trace.to_pandas().columns)
        ['seconds', 'log_score', 'upper_bound']
    """

    __slots__ = ()
    row = MapMoment


@dataclass(frozen=True, eq=False, kw_only=True)
class MapResult:
    """The answer of `infer_map`.

    Attributes:
        assignment: Mapping from variable name to its label in the best joint state that was found.
        log_score: Sum of the log scores of all factors, and of soft evidence, at that state. It is -inf only if no
            possible joint state was found.
        upper_bound: No joint state has a higher log score than this, up to rounding; infinite if nothing is known.
        max_marginals: Mapping from variable name to an array over all states: the score of the best joint state that
            contains each state, divided by the score of the best joint state of all. These are estimates unless `exact`
            is true.
        exact: Whether the state is known to be the best, from a junction tree or because its score reaches the bound.
        method: "exact" or "bp".
        choice: What "bp" had to do without, and why; empty if nothing.
        stop_reason: Why the search ended.
        trace: The moments at which the state or the bound improved.
        seconds: Time of the search.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("sky", ["clear", "grey"])
        >>> _ = graph.add_variable("ground", ["dry", "wet"])
        >>> _ = graph.add_factor(["sky", "ground"], log_table=[[1.0, -2.0], [0.0, 0.5]])
        >>> best = abp.infer_map(graph)
        >>> dict(best.assignment), best.log_score, best.exact
        ({'sky': 'clear', 'ground': 'dry'}, 1.0, True)
    """

    assignment: Mapping[str, Hashable]
    log_score: float
    upper_bound: float
    max_marginals: Mapping[str, FloatArray]
    exact: bool
    method: str
    choice: str
    stop_reason: StopReason
    trace: MapTrace
    seconds: float

    def __repr__(self) -> str:
        """Return a line with what matters."""
        return (
            f"<MapResult of {self.method!r}: {self.stop_reason.name}, {len(self.assignment)} variables, "
            f"log_score={self.log_score:.6g}, upper_bound={self.upper_bound:.6g}, {self.seconds:.3g} s>"
        )
