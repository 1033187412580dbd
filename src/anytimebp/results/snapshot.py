"""Snapshot and Result: the state of a run at one moment, and its answer at the end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.model.factor import FactorKey
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import VariableKey
from anytimebp.results import tables
from anytimebp.results.expected_counts import expected_counts, read_features
from anytimebp.results.factor_marginals import NOT_ASKED_FOR, FactorMarginals
from anytimebp.results.html import result_html
from anytimebp.results.marginals import Marginals
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Snapshot:
    """What a run knows at one moment. A snapshot owns its arrays and never changes.

    Until every factor has been updated once, the marginals are little more than the unary scores, `log_z` is NaN and
    the residuals are infinite.

    Attributes:
        marginals: Read-only mapping from variable name to an array over all states.
        log_z: Log of the partition function: exact if `exact` is true, otherwise the Bethe estimate.
        max_residual: Largest change of a message in the last sweep, in nats; for `residual`, the largest pending one.
        mean_residual: Mean of these changes over factors. If a stopped run went back to an earlier state, the largest.
        outside: The unexplored mass, or a function that computes it; read `unexplored_mass` instead.
        error: The estimated error, or a function that computes it; read `estimated_error` instead.
        domain_sizes: Number of active states of each variable, in order. Evidence makes it smaller, too.
        seconds: Time of the run so far, without the time spent in the caller.
        updates: Factor updates so far.
        work_parts: Table entries read or scored so far, by purpose.
        consistent: Whether the messages are at a fixed point on the domains, to within `tolerance`.
        tolerance: The tolerance of `consistent`, in nats.
        method: Name of the method.
        arithmetic: "linear", or "log" if the scores span too wide a range for linear arithmetic.
        damping: Damping at that moment.
        exact: Whether the marginals and log Z are exact: from method "exact", or from BP on a forest.
        choice: What the method chose to do, and why; empty if it had no choice.
        cost: Entries that exact inference would need, or a function that computes them; read `exact_entries` instead.
        factor_marginals: Joint marginals by factor index or name. False unless `factor_marginals=True` was given.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_factor(["weather"], table=[3.0, 1.0])
        >>> result = abp.infer(graph)  # a Result is a Snapshot
        >>> result.marginals["weather"].round(2)
        array([0.75, 0.25])
        >>> result.top("weather"), result.exact
        ([('sun', 0.75)], True)
    """

    marginals: Marginals
    log_z: float
    max_residual: float
    mean_residual: float
    outside: float | Callable[[], float] = field(repr=False)
    error: float | Callable[[], float] = field(repr=False)
    domain_sizes: IndexArray
    seconds: float
    updates: int
    work_parts: Mapping[str, int]
    consistent: bool
    tolerance: float
    method: str
    arithmetic: str
    damping: float
    exact: bool = False
    choice: str = ""
    cost: float | Callable[[], float] = field(default=float("nan"), repr=False)
    factor_marginals: FactorMarginals = field(default_factory=lambda: NOT_ASKED_FOR)

    @classmethod
    def holding(cls, **held: Any) -> Self:
        """Create one from all its fields, by name; twice as fast as the constructor of a frozen class."""
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", held)
        return made

    @classmethod
    def later(cls, make: Callable[[], dict[str, Any]], **known: Any) -> Self:
        """Create one whose fields are computed when one of them is first read; for many snapshots that nobody reads.

        Args:
            make: Returns all fields.
            known: Fields with a default, which would hide that they are to be made.
        """
        made = cls.__new__(cls)
        vars(made).update(known, _make=make)
        return made

    def __getattr__(self, name: str) -> Any:
        """Make the fields, if that was left for later."""
        held = vars(self)
        make = held.get("_make")
        if make is None or name.startswith("__"):
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=self)
        held.update(make())
        held.pop("_make", None)  # another thread may have done so
        return getattr(self, name)

    @cached_property
    def unexplored_mass(self) -> float:
        """Estimated belief outside the domain, of the variable where it is largest; 0 if all states are active.

        It is computed when it is first read, by sending one round of messages to the states outside. It is NaN if
        messages that have not settled exclude every state of a domain.
        """
        return self.outside() if callable(self.outside) else self.outside

    @cached_property
    def estimated_error(self) -> float:
        """Estimated distance of the marginals to those of BP: the L2 distance, averaged over variables.

        It estimates how far messages still have to move, and how much belief the states outside the domains hold. It
        is an estimate, not a bound. It is computed when it is first read, infinite if nothing is known, and 0 if
        `exact` is true. On models with loops, BP itself may be far from the exact marginals. After `method="exact"` on
        likely states, it is the estimated distance to the exact marginals.
        """
        return self.error() if callable(self.error) else self.error

    @property
    def estimated_to(self) -> str:
        """What `estimated_error` is the distance to: "BP" or "the exact marginals"."""
        return "the exact marginals" if self.method == "exact" and not self.exact else "BP"

    @cached_property
    def exact_entries(self) -> float:
        """Number of table entries that `method="exact"` would need; 0 on forests, where BP is exact.

        It is computed when it is first read. It is infinite if it cannot be found quickly, and NaN if it is unknown.
        """
        return self.cost() if callable(self.cost) else self.cost

    def __getstate__(self) -> dict[str, object]:
        """Leave the way to compute things behind when pickled; numbers travel."""
        _ = self.marginals  # which makes all fields, if need be
        cost = float("nan") if callable(self.cost) and "exact_entries" not in vars(self) else self.exact_entries
        return {**vars(self), "outside": self.unexplored_mass, "error": self.estimated_error, "cost": cost}

    def distance(self, other: Snapshot, measure: str = "l2") -> float:
        """Return the distance between the marginals of two snapshots, averaged over variables.

        Args:
            other: A snapshot of the same graph.
            measure: "l2", the Euclidean distance, or "tv", the total variation distance (half the L1 distance).
        """
        if measure not in {"l2", "tv"}:
            msg = f'measure must be "l2" or "tv", got {measure!r}'
            raise OptionError(msg)
        if list(self.marginals) != list(other.marginals):
            msg = "distance: the two results have different variables"
            raise OptionError(msg)
        gaps = [self.marginals[i] - other.marginals[i] for i in self.marginals.indices]
        each = [float(np.sqrt(gap @ gap)) if measure == "l2" else float(np.abs(gap).sum()) / 2 for gap in gaps]
        return sum(each) / max(1, len(each))

    @property
    def work(self) -> int:
        """Table entries read or scored so far, in all."""
        return sum(self.work_parts.values())

    @property
    def n_states(self) -> int:
        """Number of states of all variables together, active or not."""
        return int(self.marginals.variables.sizes().sum())

    def top(self, variable: VariableKey, count: int = 1) -> list[tuple[object, float]]:
        """Return the likeliest states of a variable as (label, probability), best first."""
        return self.marginals.top(variable, count)

    def probability(self, variable: VariableKey, label: Hashable) -> float:
        """Return the marginal probability of one state, given by its label."""
        variables = self.marginals.variables
        state = variables[variables.index_of(variable)].state_index(label)
        return float(self.marginals[variable][state])

    def expected_log_table(self, factors: FactorKey | range, features: Any = None) -> FloatArray:
        """Return the derivative of `log_z` with respect to the log scores of a factor, or of tied factors.

        This is the sum of the factors' joint marginals: how often each joint state is expected to occur. At a fixed
        point of BP, it is the derivative of the Bethe estimate. Needs `factor_marginals=True`.

        Args:
            factors: The index or name of a factor, or a range of indices of factors with the same shape.
            features: If the log scores of factor number k of the range are `features[k] @ weights`: an array or a
                sparse matrix of shape (factors, features). The derivative is then with respect to the weights, of shape
                (features, *shape of the factors).
        """
        if not isinstance(factors, range):
            block, offset = self.factor_marginals.located(factors)
            factors = range(block.first + offset, block.first + offset + 1)
        if not factors:
            msg = "expected_log_table: the range of factors is empty"
            raise OptionError(msg)
        read = None if features is None else read_features(features, len(factors))
        return expected_counts(self.factor_marginals, factors, read)

    def __repr__(self) -> str:
        """Return a line with what matters."""
        return f"<{type(self).__name__} of {self.method!r}: {self._figures()}>"

    def _figures(self) -> str:
        state = "consistent" if self.consistent else "not settled yet"
        return (
            f"{len(self.marginals)} variables, {int(self.domain_sizes.sum()):,} of {self.n_states:,} states, "
            f"{state}, log_z={self.log_z:.6g}, "
            f"max_residual={self.max_residual:.2g}, {self.seconds:.3g} s"
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return all marginals as a pandas data frame with columns variable, state (its label) and probability."""
        return tables.to_pandas(self.marginals)

    def to_polars(self) -> pl.DataFrame:
        """Return all marginals as a polars data frame with columns variable, state and probability.

        States are integers if all labels are integers, and text otherwise.
        """
        return tables.to_polars(self.marginals)

    def to_xarray(self) -> xr.DataArray:
        """Return all marginals as an xarray array with dimensions variable and state.

        Raises:
            OptionError: If the variables do not all have the same states.
        """
        return tables.to_xarray(self.marginals)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all marginals as an Arrow stream, as `pyarrow.table(result)` and others ask for it.

        The same columns as `to_polars`; needs pyarrow or polars.
        """
        return tables.arrow_stream(self.marginals, requested_schema)


FIGURES = tuple(item.name for item in fields(Snapshot))
"""What a result has of the snapshot that it answers with."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result(Snapshot):
    """The answer of a run. It has all attributes and methods of a `Snapshot`, and these.

    Attributes:
        stop_reason: Why the run ended.
        trace: The figures of every recorded moment.
        current: A snapshot of the state in which the run stopped, which may be later than the answer.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(2, 3)
        >>> _ = graph.add_factor([0, 1], log_table=np.eye(3))
        >>> result = abp.infer(graph)
        >>> result.stop_reason.name, result.consistent
        ('CONVERGED', True)
    """

    stop_reason: StopReason
    trace: Trace
    current: Snapshot = field(repr=False)

    @classmethod
    def of(cls, answer: Snapshot, current: Snapshot, stop_reason: StopReason, trace: Trace) -> Result:
        """Make a result that answers with a snapshot."""
        _, held = answer.marginals, vars(answer)  # with all fields, once one was read
        shared = {name: held[name] for name in FIGURES}
        return cls.holding(**shared, stop_reason=stop_reason, trace=trace, current=current)

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
                f"estimated distance to {self.estimated_to}": f"{self.estimated_error:.2g}"
                if self.estimated_error < np.inf
                else "unknown",
                "exact": "yes" if self.exact else "no",
                "largest residual": f"{self.max_residual:.2g}",
                "states in domains": f"{int(self.domain_sizes.sum()):,} of {self.n_states:,}",
                "arithmetic": self.arithmetic,
                "seconds": f"{self.seconds:.3g}",
            },
            self.marginals,
        )
