"""Snapshot and Result: what a run says at one moment, and what it says at the end."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from anytimebp.model.source import IndexArray
from anytimebp.model.variable import VariableKey
from anytimebp.results.html import result_html
from anytimebp.results.marginals import FactorMarginals, Marginals
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Trace, load_pandas

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Snapshot:
    """What a run knows at one moment. It owns its arrays and never changes.

    Before every factor has been updated once, the marginals are little more than the unary scores, `log_z` is NaN and
    the residuals are infinite.

    Attributes:
        marginals: By variable name, over the whole universe.
        log_z: Bethe estimate of the log partition function; exact on forests.
        max_residual: Largest change of a message in the last sweep (largest pending one for `residual`), in nats.
        mean_residual: The same, averaged over factors.
        unexplored_mass: Largest estimated belief outside a domain; zero for full methods.
        domain_sizes: Active states per variable, in order; below the universe where evidence excludes states.
        seconds: Time of the run so far, without the caller's.
        updates: Factor updates so far.
        work_parts: Table entries read or scored, by purpose.
        consistent: Whether this is a fixed point to within `tolerance`.
        tolerance: See `consistent`.
        method: Name of the method.
        arithmetic: "linear", or "log" where the model's range needs it.
        damping: In force at that moment.
        factor_marginals: By factor index, if asked for.
    """

    marginals: Marginals
    log_z: float
    max_residual: float
    mean_residual: float
    unexplored_mass: float
    domain_sizes: IndexArray
    seconds: float
    updates: int
    work_parts: Mapping[str, int]
    consistent: bool
    tolerance: float
    method: str
    arithmetic: str
    damping: float
    factor_marginals: FactorMarginals | None = None

    @property
    def work(self) -> int:
        """Table entries read or scored, in all."""
        return sum(self.work_parts.values())

    def top(self, variable: VariableKey, count: int = 1) -> list[tuple[object, float]]:
        """Return the likeliest states of a variable as (label, probability), best first."""
        return self.marginals.top(variable, count)

    def probability(self, variable: VariableKey, label: Hashable) -> float:
        """Return the marginal probability of one state, given by its label."""
        variables = self.marginals.variables
        state = variables[variables.index_of(variable)].state_index(label)
        return float(self.marginals[variable][state])

    def __repr__(self) -> str:
        """Return a line with what matters."""
        return f"<{type(self).__name__} of {self.method!r}: {self._figures()}>"

    def _figures(self) -> str:
        state = "consistent" if self.consistent else "not settled yet"
        return (
            f"{len(self.marginals)} variables, {state}, log_z={self.log_z:.6g}, "
            f"max_residual={self.max_residual:.2g}, {self.seconds:.3g} s"
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return all marginals in one data frame: variable, state (its label), probability. Needs pandas."""
        pd = load_pandas()

        variables = self.marginals.variables
        sizes = variables.sizes()
        return pd.DataFrame(
            {
                "variable": np.repeat(np.array([v.name for v in variables], dtype=object), sizes),
                "state": pd.Series([label for v in variables for label in v.labels], dtype=object),
                "probability": np.concatenate([self.marginals[i] for i in range(len(sizes))] or [np.empty(0)]),
            }
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result(Snapshot):
    """The answer of a run.

    Attributes:
        stop_reason: Why the run ended.
        trace: Figures of every recorded moment.
        current: The state in which the run stopped, which may be later than the answer.
    """

    stop_reason: StopReason
    trace: Trace
    current: Snapshot = field(repr=False)

    @classmethod
    def of(cls, answer: Snapshot, current: Snapshot, stop_reason: StopReason, trace: Trace) -> Result:
        """Make a result that answers with a snapshot."""
        return cls(**vars(answer), stop_reason=stop_reason, trace=trace, current=current)

    def __repr__(self) -> str:
        """Return a line with what matters."""
        return f"<Result of {self.method!r}: {self.stop_reason.name}, {self._figures()}>"

    def _repr_html_(self) -> str:
        """Return a small view for notebooks."""
        return result_html(
            {
                "method": self.method,
                "ended": str(self.stop_reason),
                "log Z": f"{self.log_z:.6g}",
                "largest residual": f"{self.max_residual:.2g}",
                "arithmetic": self.arithmetic,
                "seconds": f"{self.seconds:.3g}",
            },
            self.marginals,
        )
