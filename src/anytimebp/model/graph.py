"""FactorGraph: what a user states. Checks everything at the call that states it; computes nothing else.

Factors are kept in blocks of one call each, so that a million factors on one table cost two arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError, UnknownVariableError
from anytimebp.model.factor import FactorBlock, plain_name
from anytimebp.model.listed import ListedSource, read_entries
from anytimebp.model.rule import Propose, Rule, RuleSource, check_propose
from anytimebp.model.source import (
    DenseSource,
    FloatArray,
    IndexArray,
    TableSource,
    read_table,
)
from anytimebp.model.structures import Structure
from anytimebp.model.summary import GraphSummary, summarise
from anytimebp.model.variable import Variable, VariableKey, VariableTable, read_states

Entries: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike] | Any
"""Indices and log values, or a scipy.sparse matrix."""

MAX_ARITY = 30  # NumPy before 2.0 allows 32 dimensions, and stacked tables take one more than the arity


class FactorGraph:
    """Variables with named states, and factors with log scores over the joint states of their variables."""

    def __init__(self) -> None:
        """Start empty."""
        self._variables = VariableTable()
        self._sizes: IndexArray = np.empty(0, dtype=np.int64)
        self._blocks: list[FactorBlock] = []
        self._firsts: list[int] = []
        self._n_factors = 0
        self.compiled: object | None = None
        """Room for the compiled layout, which later runs reuse; dropped by every `add_*`."""

    # ---------------------------------------------------------------- variables
    def add_variable(self, name: str, states: int | Iterable[Hashable]) -> Variable:
        """Add a variable with labelled states, or with `states` of them labelled 0, 1, ...

        Args:
            name: Unique, non-empty.
            states: The number of states, or their labels (hashable, each once).
        """
        labels = read_states(states, str(name))
        index = self._variables.append(labels, (name,), 1)[0]
        self.compiled = None
        return Variable(index, name, labels)

    def add_variables(self, count: int, states: int | Iterable[Hashable], names: Sequence[str] | None = None) -> range:
        """Add `count` variables with the same universe, named x0, x1, ... by index unless `names` are given.

        Returns:
            Their indices.
        """
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            msg = f"the count of variables must be a whole number of at least 0, got {count!r}"
            raise ModelError(msg)
        if names is not None and not (
            isinstance(names, Sequence) and not isinstance(names, str) and len(names) == count
        ):
            msg = f"expected {count} names, one per variable, got {names!r:.80}"
            raise ModelError(msg)
        labels = read_states(states, f"x{len(self._variables)}" if names is None else "of the bulk call")
        if count == 0:
            return range(len(self._variables), len(self._variables))
        self.compiled = None
        return self._variables.append(labels, None if names is None else tuple(names), int(count))

    @property
    def variables(self) -> VariableTable:
        """The variables, in order."""
        return self._variables

    # ---------------------------------------------------------------- factors
    def add_factor(
        self,
        scope: Sequence[VariableKey],
        *,
        log_table: npt.ArrayLike | None = None,
        table: npt.ArrayLike | None = None,
        rule: Rule | None = None,
        entries: Entries | None = None,
        default: float | None = None,
        structure: Structure | None = None,
        propose: Propose | None = None,
    ) -> int:
        """Add one factor; exactly one of the ways to give its scores.

        Args:
            scope: Its variables (handles, names or indices), in the order of the table's axes.
            log_table: Log scores; -inf is a hard zero. Like `table`, kept and not copied if it is a contiguous float64
                array: do not change it afterwards.
            table: Non-negative potentials; of a Bayesian network, P(child | parents) with an axis per variable.
            rule: `rule(a_states, b_states, ...)`: arrays of state indices in, broadcast together; log scores out. A
                function that Numba compiles (`numba.njit`) gets one state index per variable and returns one log score.
            entries: `(indices, log_values)` with a row of state indices per value; the rest is `default`. Of two
                variables, a scipy.sparse matrix of log scores.
            default: Log score of what `entries` does not list; -inf unless given.
            structure: `Equality`, `Deterministic`, `Difference` or `AtMostOne`.
            propose: With `rule`: `propose(states, k)` returns up to `k` likely states of the variable whose place in
                the tuple `states` is None, given index arrays of likely states of the others.

        Returns:
            The index of the factor.
        """
        indices = self._read_scope(scope, self._read_scope_name(scope))
        what = f"factor {self._n_factors} ({self._scope_names(np.array(indices))})"
        shape = tuple([len(self._variables[i].labels) for i in indices])
        scopes = np.array([indices], dtype=np.int64)
        self._check_one_given(
            what, default, log_table=log_table, table=table, rule=rule, entries=entries, structure=structure
        )
        check_propose(what, rule, propose)
        if log_table is None and table is None:
            source = self._sparse_source(shape, rule, entries, default, structure, what, propose)
            return self._append(scopes, source).start
        values = read_table(log_table if log_table is not None else table, what)
        if values.shape != shape:
            hint = "; are its axes in another order?" if sorted(values.shape) == sorted(shape) else ""
            msg = (
                f"the table of {what} must have shape {shape}, the universes of its variables; got {values.shape}{hint}"
            )
            raise ModelError(msg)
        source = DenseSource(values[np.newaxis], is_log=log_table is not None, what=lambda _: what)
        return self._append(scopes, source).start

    def add_factors(
        self,
        scopes: npt.ArrayLike,
        *,
        log_table: npt.ArrayLike | None = None,
        table: npt.ArrayLike | None = None,
        rule: Rule | None = None,
        entries: Entries | None = None,
        default: float | None = None,
        structure: Structure | None = None,
        propose: Propose | None = None,
    ) -> range:
        """Add many factors of the same shape at once.

        Args:
            scopes: Variable indices, shape (factors, arity).
            log_table: Log scores, one table for all (tied, stored once) or stacked along a first axis.
            table: Potentials, likewise.
            rule: As for `add_factor`, shared by all.
            entries: As for `add_factor`, shared by all.
            default: As for `add_factor`.
            structure: As for `add_factor`, shared by all.
            propose: As for `add_factor`, shared by all.

        Returns:
            The indices of the factors.
        """
        rows = self._read_scopes(scopes)
        what = f"factors {self._n_factors} to {self._n_factors + len(rows) - 1}"
        if len(rows) == 1:
            what = f"factor {self._n_factors} ({self._scope_names(rows[0])})"
        self._check_one_given(
            what, default, log_table=log_table, table=table, rule=rule, entries=entries, structure=structure
        )
        check_propose(what, rule, propose)
        if not len(rows):
            return range(self._n_factors, self._n_factors)
        universes = self._universe_sizes()[rows]
        shape = tuple(universes[0].tolist())
        odd = np.flatnonzero((universes != universes[0]).any(axis=1))
        if odd.size:
            msg = (
                f"factors added together need universes of the same sizes: row 0 has {shape}, "
                f"row {odd[0]} has {tuple(universes[odd[0]].tolist())}"
            )
            raise ModelError(msg)
        if log_table is None and table is None:
            return self._append(rows, self._sparse_source(shape, rule, entries, default, structure, what, propose))
        values = read_table(log_table if log_table is not None else table, what)
        if values.shape == shape:
            values = values[np.newaxis]
        elif values.shape != (len(rows), *shape):
            msg = (
                f"the table of {what} must have shape {shape} (shared) or {(len(rows), *shape)} (stacked), "
                f"got {values.shape}"
            )
            raise ModelError(msg)
        first, tied = self._n_factors, values.shape[0] == 1
        source = DenseSource(
            values,
            is_log=log_table is not None,
            what=lambda k: what if tied else f"factor {first + k} ({self._scope_names(rows[k])})",
        )
        return self._append(rows, source)

    def factor_scope(self, index: int) -> tuple[str, ...]:
        """Return the names of a factor's variables, in the order of its axes."""
        block, offset = self.locate(index)
        return tuple(self._variables.name(int(i)) for i in block.scopes[offset])

    def factor_log_table(self, index: int) -> FloatArray:
        """Return a factor's log scores as a new dense array."""
        block, offset = self.locate(index)
        states = [np.arange(n) for n in block.source.shape]
        return np.array(block.log_values(offset, states, self._variables))

    def locate(self, index: int) -> tuple[FactorBlock, int]:
        """Return the block of a factor and its place in the block."""
        if not isinstance(index, int | np.integer) or not 0 <= index < self._n_factors:
            msg = f"expected the index of a factor, 0 to {self._n_factors - 1}, got {index!r}"
            raise IndexError(msg)
        block = self._blocks[bisect_right(self._firsts, index) - 1]
        return block, index - block.first

    @property
    def blocks(self) -> tuple[FactorBlock, ...]:
        """The factors, in blocks of one call each."""
        return tuple(self._blocks)

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self._n_factors

    # ---------------------------------------------------------------- looking at it
    def summary(self) -> GraphSummary:
        """Return sizes, memory that full BP would need, and structure; it prints as a small table."""
        return summarise(self._blocks, self._variables.sizes())

    def __repr__(self) -> str:
        """Return one line."""
        sizes = self._variables.sizes()
        states = f", universes {sizes.min()} to {sizes.max()}" if sizes.size else ""
        return f"<FactorGraph: {len(sizes)} variables{states}, {self._n_factors} factors>"

    def __copy__(self) -> FactorGraph:
        """Return a graph that shares the tables, but to which factors can be added apart."""
        twin = FactorGraph()
        twin._variables = self._variables.copy()
        twin._blocks = self._blocks.copy()
        twin._firsts = self._firsts.copy()
        twin._n_factors = self._n_factors
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Leave the compiled layout out: it is rebuilt when needed."""
        return self.__dict__ | {"compiled": None}

    # ---------------------------------------------------------------- inside
    def _append(self, scopes: IndexArray, source: TableSource) -> range:
        first = self._n_factors
        scopes.flags.writeable = False
        self._blocks.append(FactorBlock(first, scopes, source))
        self._firsts.append(first)
        self._n_factors += len(scopes)
        self.compiled = None
        return range(first, self._n_factors)

    def _universe_sizes(self) -> IndexArray:
        if len(self._sizes) != len(self._variables):
            self._sizes = self._variables.sizes()
        return self._sizes

    def _read_scope_name(self, scope: Sequence[VariableKey]) -> str:
        if isinstance(scope, str) or not isinstance(scope, Sequence | np.ndarray) or getattr(scope, "ndim", 1) == 0:
            msg = f"the scope of factor {self._n_factors} must be a list of variables, got {scope!r}"
            raise ModelError(msg)
        if not 1 <= len(scope) <= MAX_ARITY:
            msg = f"factor {self._n_factors} must have 1 to {MAX_ARITY} variables, got {len(scope)}"
            raise ModelError(msg)
        names = ", ".join([key.name if isinstance(key, Variable) else str(key) for key in scope])
        return f"factor {self._n_factors} ({names})"

    def _read_scope(self, scope: Sequence[VariableKey], what: str) -> list[int]:
        try:
            indices = [self._variables.index_of(key) for key in scope]
        except UnknownVariableError as error:
            msg = f"{what}: {error}"
            raise ModelError(msg) from None
        if len(set(indices)) < len(indices):
            twice = next(i for i in indices if indices.count(i) > 1)
            msg = f"{what}: variable {self._variables.name(twice)!r} is in the scope twice"
            raise ModelError(msg)
        return indices

    def _read_scopes(self, scopes: npt.ArrayLike) -> IndexArray:
        try:
            rows = np.array(scopes)
        except ValueError:
            msg = "scopes must be variable indices of shape (factors, arity), got rows of different lengths"
            raise ModelError(msg) from None
        if rows.size == 0:
            return np.empty((0, 1), dtype=np.int64)
        if rows.ndim != 2 or rows.dtype.kind not in "iu" or rows.shape[1] > MAX_ARITY:  # noqa: PLR2004
            msg = f"scopes must be variable indices of shape (factors, arity), got {rows.dtype} of shape {rows.shape}"
            raise ModelError(msg)
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        n = len(self._variables)
        outside = (rows < 0) | (rows >= n)
        if outside.any():
            row = int(np.argwhere(outside)[0, 0])
            msg = f"row {row} of the scopes, {rows[row].tolist()}, is outside the variables 0 to {n - 1}"
            raise ModelError(msg)
        ordered = np.sort(rows, axis=1)
        twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if twice.size:
            row = int(twice[0])
            msg = f"row {row} of the scopes, {rows[row].tolist()}, has a variable twice"
            raise ModelError(msg)
        return rows

    def _scope_names(self, indices: IndexArray) -> str:
        return ", ".join([plain_name(self._variables.name(int(i))) for i in indices])

    def _sparse_source(
        self,
        shape: tuple[int, ...],
        rule: Rule | None,
        entries: object,
        default: float | None,
        structure: Structure | None,
        what: str,
        propose: Propose | None,
    ) -> TableSource:
        if structure is not None:
            if isinstance(structure, type) or not hasattr(structure, "source"):
                msg = f"the structure of {what} must be such as Equality() or AtMostOne(), got {structure!r:.80}"
                raise ModelError(msg)
            return structure.source(shape, what)
        if rule is not None:
            if not callable(rule):
                msg = f"the rule of {what} must be a function of state indices, got {rule!r}"
                raise ModelError(msg)
            return RuleSource(shape, rule, what, propose)
        return ListedSource(shape, *read_entries(entries, -np.inf if default is None else default, shape, what))

    @staticmethod
    def _check_one_given(what: str, default: float | None, **ways: object) -> None:
        given = [way for way, value in ways.items() if value is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            msg = f"{what} needs exactly one of {', '.join(ways)}; got {got}"
            raise ModelError(msg)
        if default is not None and ways["entries"] is None:
            msg = f"{what}: `default` goes with entries only"
            raise ModelError(msg)
