"""What `adaptive` says of itself before it has decided how to begin: unary scores are all there is."""

from __future__ import annotations

from dataclasses import dataclass, field

from anytimebp.domains.domains import Domains
from anytimebp.domains.universe import Universe
from anytimebp.inference.options import RunOptions
from anytimebp.inference.readout import Figures, unary_snapshot
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.results.snapshot import Snapshot


def _no_work() -> dict[str, int]:
    return {"messages": 0, "scoring": 0, "growth": 0, "priorities": 0}


@dataclass
class Beginning:
    """Figures of a run that has not begun, as a run has them.

    Attributes:
        states: That the evidence allows.
        damping: In force.
        work_parts: Scores asked for so far: of unary rules, and samples.
    """

    states: int
    damping: float
    work_parts: dict[str, int] = field(default_factory=_no_work)
    updates: int = 0
    rounds: int = 0
    max_residual: float = float("inf")
    mean_residual: float = float("inf")
    consistent: bool = False
    can_be_judged: bool = False
    estimated_error: float = float("nan")

    def snapshot(self, compiled: CompiledGraph, domains: Domains, options: RunOptions, seconds: float) -> Snapshot:
        """Return unary scores."""
        figures = Figures(
            seconds=seconds,
            updates=self.updates,
            work_parts=dict(self.work_parts),
            max_residual=self.max_residual,
            mean_residual=self.mean_residual,
            damping=self.damping,
            consistent=self.consistent,
            tolerance=options.tolerance,
            method=options.method,
        )
        universe = Universe(compiled, options.observed, domains)
        return unary_snapshot(universe, figures, factor_marginals=options.factor_marginals)
