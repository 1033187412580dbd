"""Snapshot and Result: what a run says at one moment, and what it says at the end."""

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
from anytimebp.results.expected_counts import expected_counts
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
    """What a run knows at one moment. It owns its arrays and never changes.

    Before every factor has been updated once, the marginals are little more than the unary scores, `log_z` is NaN and
    the residuals are infinite.

    Attributes:
        marginals: By variable name, over the whole universe.
        log_z: Bethe estimate of the log partition function; exact on forests.
        max_residual: Largest change of a message in the last sweep (largest pending one for `residual`), in nats.
        mean_residual: The same, averaged over factors; where a stopped run went back to an earlier state, the largest.
        outside: The unexplored mass, or how to compute it.
        error: The estimated error, or how to compute it.
        domain_sizes: Active states per variable, in order; below the universe where evidence excludes states.
        seconds: Time of the run so far, without the caller's.
        updates: Factor updates so far.
        work_parts: Table entries read or scored, by purpose.
        consistent: Whether this is a fixed point to within `tolerance`.
        tolerance: See `consistent`.
        method: Name of the method.
        arithmetic: "linear", or "log" where the model's range needs it.
        damping: In force at that moment.
        exact: Whether the marginals and log Z are those of the whole model: of method "exact", or of BP on a forest.
        choice: What was done and why, where the method had a choice.
        cost: The entries that exact inference would need, or how to compute them.
        factor_marginals: By factor index or name. False, and an OptionError on use, unless asked for.
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
        """Make one of all its fields, by name; twice as fast as the constructor of a frozen class, which sets each."""
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", held)
        return made

    @classmethod
    def later(cls, make: Callable[[], dict[str, Any]], **known: Any) -> Self:
        """Make one whose fields are made when one of them is first read: where there are many that nobody reads.

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
        """Largest, over variables, estimated belief outside the domain; zero for full methods.

        Computed when it is first asked for, from one round of messages out of the domains. NaN where messages that have
        not settled exclude every state of a domain.
        """
        return self.outside() if callable(self.outside) else self.outside

    @cached_property
    def estimated_error(self) -> float:
        """Estimated distance of the marginals to those of BP, as a mean over variables of the L2 distance.

        On models with loops BP itself may be far from the true marginals. Zero where `exact` is true. After
        `method="exact"` on likely states it is the estimated distance to the exact marginals.
        An estimate, not a bound: of what messages have still to move, and of what states outside the domains hold.
        Computed when it is first asked for; infinite where nothing is known.
        """
        return self.error() if callable(self.error) else self.error

    @property
    def estimated_to(self) -> str:
        """What `estimated_error` is the distance to, in words: BP, or the exact marginals."""
        return "the exact marginals" if self.method == "exact" and not self.exact else "BP"

    @cached_property
    def exact_entries(self) -> float:
        """Entries of all cliques that `method="exact"` would need, 0 on forests, where BP is exact.

        Computed when it is first asked for; infinite where it cannot be found out quickly, NaN where nobody knows.
        """
        return self.cost() if callable(self.cost) else self.cost

    def __getstate__(self) -> dict[str, object]:
        """Leave the way to compute things behind when pickled; numbers travel."""
        _ = self.marginals  # which makes all fields, if need be
        cost = float("nan") if callable(self.cost) and "exact_entries" not in vars(self) else self.exact_entries
        return {**vars(self), "outside": self.unexplored_mass, "error": self.estimated_error, "cost": cost}

    def distance(self, other: Snapshot, measure: str = "l2") -> float:
        """Return how far the marginals are from another snapshot's, as a mean over variables.

        Args:
            other: Of the same graph.
            measure: "l2", the Euclidean distance, or "tv", the total variation (half the L1 distance).
        """
        if measure not in {"l2", "tv"}:
            msg = f'measure must be "l2" or "tv", got {measure!r}'
            raise OptionError(msg)
        if list(self.marginals) != list(other.marginals):
            msg = "distance: the two results are not of the same variables"
            raise OptionError(msg)
        gaps = [self.marginals[i] - other.marginals[i] for i in self.marginals.indices]
        each = [float(np.sqrt(gap @ gap)) if measure == "l2" else float(np.abs(gap).sum()) / 2 for gap in gaps]
        return sum(each) / max(1, len(each))

    @property
    def work(self) -> int:
        """Table entries read or scored, in all."""
        return sum(self.work_parts.values())

    @property
    def n_states(self) -> int:
        """All states of all variables, in the domains or not."""
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
        """Return the derivative of `log_z` by the log scores of one factor, or of several that share theirs.

        This is the sum of the factors' marginals: how often each joint state is expected. At a fixed point of BP it is
        the derivative of the Bethe estimate. Needs `factor_marginals=True`; only some are in memory at a time.

        Args:
            factors: The index or name of a factor, or a range of indices, of factors of one shape.
            features: Where the log scores of factor number k of the range are `features[k] @ weights`: an array or a
                sparse matrix of shape (factors, features). The derivative is by the weights then, of shape
                (features, *shape of the factors).
        """
        if not isinstance(factors, range):
            block, offset = self.factor_marginals.located(factors)
            factors = range(block.first + offset, block.first + offset + 1)
        if not factors:
            msg = "expected_log_table: the range of factors is empty"
            raise OptionError(msg)
        if features is not None and (len(features.shape) != 2 or features.shape[0] != len(factors)):  # noqa: PLR2004
            msg = f"expected_log_table: features need a row for each of {len(factors)} factors, got {features.shape}"
            raise OptionError(msg)
        return expected_counts(self.factor_marginals, factors, features)

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
        """Return all marginals in one data frame: variable, state (its label), probability. Needs pandas."""
        return tables.to_pandas(self.marginals)

    def to_polars(self) -> pl.DataFrame:
        """Return all marginals in one polars data frame: variable, state, probability. Needs polars.

        States are whole numbers if all labels are, and text otherwise.
        """
        return tables.to_polars(self.marginals)

    def to_xarray(self) -> xr.DataArray:
        """Return all marginals in one array of dimensions variable and state. Needs xarray.

        Raises:
            OptionError: If the variables do not share one universe.
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
