"""FactorGraph: the model that a user builds. Every call checks its input, and computes nothing else.

Factors are kept in blocks of one call each, so that a million factors on one table cost two arrays.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError, UnknownFactorError
from anytimebp.model.changes import TableWatch, is_shared
from anytimebp.model.factor import BlockRows, FactorBlock, FactorKey, describe_factor, factor_title, scope_names
from anytimebp.model.kinds.dense import DenseSource
from anytimebp.model.kinds.registry import Stated
from anytimebp.model.kinds.rule import Propose, Rule
from anytimebp.model.restating import restated_table
from anytimebp.model.rule_labels import warn_of_labels
from anytimebp.model.scopes import read_scope, read_scopes
from anytimebp.model.source import MAX_ARITY, FactorSource, FloatArray, IndexArray, Structure
from anytimebp.model.summary import GraphSummary, summarise
from anytimebp.model.variable import Variable, VariableKey, VariableTable, read_states

Entries: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike] | Any
"""Indices and log values, or a scipy.sparse matrix."""


class FactorGraph:
    """A factor graph: variables with labelled states, and factors that score their joint states.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> weather = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_variable("ground", 3)
        >>> _ = graph.add_factor([weather], log_table=[0.0, -1.0])
        >>> _ = graph.add_factor(["weather", "ground"], table=[[0.8, 0.1, 0.1], [0.1, 0.4, 0.5]])
        >>> graph.n_factors, graph.factor_scope(1)
        (2, ('weather', 'ground'))
    """

    def __init__(self) -> None:
        """Start empty."""
        self._variables = VariableTable()
        self._sizes: IndexArray = np.empty(0, dtype=np.int64)
        self._blocks: list[FactorBlock] = []
        self._rows = BlockRows()
        self._firsts: list[int] = []
        self._n_factors = 0
        self._factor_names: dict[str, int] = {}
        self._watch = TableWatch()
        self.lends_tables = False
        """Whether a user may hold arrays that the graph reads, and change them."""
        self.compiled: object | None = None
        """Room for the compiled layout, which later runs reuse; dropped by every `add_*`."""
        self._tried_rules: set[int] = set()  # code objects that were checked for labels
        self.warned_of_unconnected = False
        """Whether a run has warned of variables without factors."""

    # ---------------------------------------------------------------- variables
    def add_variable(self, name: str, states: int | Iterable[Hashable]) -> Variable:
        """Add a variable with labelled states, or with `states` of them labelled 0, 1, ...

        Args:
            name: A unique name, not empty.
            states: The number of states, or their labels (hashable, no label twice).
        """
        labels = read_states(states, str(name))
        index = self._variables.append(labels, (name,), 1)[0]
        self.compiled = None
        return Variable(index, name, labels)

    def add_variables(self, count: int, states: int | Iterable[Hashable], names: Sequence[str] | None = None) -> range:
        """Add `count` variables with the same states. Without `names`, they are named x0, x1, ... by index.

        Returns:
            The indices of the variables.
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

    def variable(self, key: VariableKey) -> Variable:
        """Return the handle of a variable, given its name (or its handle or index)."""
        return self._variables[self._variables.index_of(key)]

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
        name: str | None = None,
    ) -> int:
        """Add one factor. Give its scores in exactly one of these ways.

        Args:
            scope: The variables of the factor (handles, names or indices), in the order of the table's axes.
            log_table: Log scores; -inf is a hard zero. A contiguous float64 array is kept and not copied, here and for
                `table`. If you change it in place, the next run notices, checks the new numbers and uses them. Graphs
                whose arrays hold more than 1,048,576 numbers in all are not checked for changes: build them again.
            table: Non-negative potentials, for example P(child | parents) with one axis per variable.
            rule: A function `rule(a_states, b_states, ...)` that takes arrays of state indices, which broadcast
                together, and returns log scores. A function compiled by `numba.njit` gets one state index per variable
                and returns one log score.
            entries: `(indices, log_values)` with one row of state indices per value, or, for two variables, a
                scipy.sparse matrix of log scores. All other joint states score `default`.
            default: Log score of joint states that `entries` does not list; -inf by default.
            structure: `Equality`, `Deterministic`, `Difference`, `AtMostOne`, `Xor`, `And`, `Or`, `ModularSum`,
                `FieldCheck`, `Cardinality`, `NoisyOr` or `LowRank`.
            propose: For a `rule`, a function `propose(states, k)` that returns up to `k` likely states of one variable.
                `states` has likely states (index arrays) of the other variables, and None in the place of this one.
            name: A unique name by which `factor` finds the factor.

        Returns:
            The index of the factor.
        """
        title = factor_title(self._n_factors, self._read_factor_name(name))
        indices = read_scope(self._variables, scope, title, MAX_ARITY if structure is None else math.inf)
        what = f"{title} ({self._scope_names(indices)})"
        shape = tuple([self._variables.size(i) for i in indices])
        scopes = np.array([indices], dtype=np.int64)
        stated = Stated(log_table, table, rule, entries, structure, default, propose)
        stated.check(what)
        source = stated.source(shape, what, lambda _: what)
        self._warn_of_labels(rule, indices, what)
        return self._append(scopes, source, stated.given_table, name).start

    def add_factors(
        self,
        scopes: npt.ArrayLike | Sequence[Sequence[VariableKey]],
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
            scopes: The variables of each factor, of shape (factors, arity): an array of indices or names, or a list of
                rows of indices, names or handles.
            log_table: Log scores: one table for all factors (tied, stored once), or one each, stacked along a first
                axis. Kept as by `add_factor`.
            table: Potentials, in the same two ways.
            rule: As for `add_factor`, shared by all factors.
            entries: As for `add_factor`, shared by all factors.
            default: As for `add_factor`.
            structure: As for `add_factor`, shared by all factors.
            propose: As for `add_factor`, shared by all factors.

        Returns:
            The indices of the factors.
        """
        rows = read_scopes(self._variables, scopes, MAX_ARITY if structure is None else math.inf)
        what = f"factors {self._n_factors} to {self._n_factors + len(rows) - 1}"
        if len(rows) == 1:
            what = f"factor {self._n_factors} ({self._scope_names(rows[0])})"
        stated = Stated(log_table, table, rule, entries, structure, default, propose)
        stated.check(what)
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
        first = self._n_factors
        source = stated.source(
            shape, what, lambda k: f"factor {first + k} ({self._scope_names(rows[k])})", stack=len(rows)
        )
        self._warn_of_labels(rule, rows[0].tolist(), what)
        return self._append(rows, source, stated.given_table)

    def factor(self, name: str) -> int:
        """Return the index of the factor with this name."""
        found = self._factor_names.get(name)
        if found is None:
            known = ", ".join(map(repr, list(self._factor_names)[:6])) or "no factor has a name"
            msg = f"there is no factor named {name!r}; known: {known}"
            raise UnknownFactorError(msg)
        return found

    def factor_scope(self, key: FactorKey) -> tuple[str, ...]:
        """Return the names of a factor's variables, in the order of its axes, given its index or name."""
        block, offset = self.locate(key)
        return tuple(self._variables.name(int(i)) for i in block.scopes[offset])

    def factor_log_table(self, key: FactorKey) -> FloatArray:
        """Return a factor's log scores as a new dense array, given its index or name."""
        block, offset = self.locate(key)
        states = [np.arange(n) for n in block.source.shape]
        return np.array(block.log_values(offset, states, self._variables))

    def locate(self, key: FactorKey) -> tuple[FactorBlock, int]:
        """Return the block of a factor, by index or name, and its place in the block."""
        index = self.factor(key) if isinstance(key, str) else key
        is_index = isinstance(index, int | np.integer) and not isinstance(index, bool)
        if not is_index or not 0 <= index < self._n_factors:
            known = f"0 to {self._n_factors - 1}" if self._n_factors else "but there is none"
            msg = f"expected the index of a factor, {known}, got {index!r}"
            raise UnknownFactorError(msg)
        block = self._blocks[bisect_right(self._firsts, index) - 1]
        return block, index - block.first

    @property
    def blocks(self) -> tuple[FactorBlock, ...]:
        """The factors, in blocks of one call each."""
        return tuple(self._blocks)

    @property
    def asked_sources(self) -> list[FactorSource]:
        """The sources of factors that have no tables."""
        return [self._blocks[position].source for position in self._rows.asked]

    @property
    def rows(self) -> BlockRows:
        """The rows of the blocks, from which the graph is compiled."""
        return self._rows

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self._n_factors

    # ---------------------------------------------------------------- looking at it
    def summary(self) -> GraphSummary:
        """Return the size of the graph and the memory that full BP would need. It prints as a small table."""
        return summarise(self._blocks, self._variables.sizes())

    def __repr__(self) -> str:
        """Return one line."""
        sizes = self._variables.sizes()
        states = f", universes {sizes.min()} to {sizes.max()}" if sizes.size else ""
        return f"<FactorGraph: {len(sizes)} variables{states}, {self._n_factors} factors>"

    def __copy__(self) -> FactorGraph:
        """Return a graph that shares the tables, and to which factors can be added independently."""
        twin = FactorGraph()
        twin._variables = self._variables.copy()
        twin._blocks = self._blocks.copy()
        twin._rows = self._rows.copy()
        twin._firsts = self._firsts.copy()
        twin._n_factors = self._n_factors
        twin._factor_names = self._factor_names.copy()
        twin._watch, twin.lends_tables = self._watch.copy(), self.lends_tables
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled layout, which is rebuilt when needed, and the watch, whose copies stay here.

        Rows hold addresses, which mean nothing elsewhere.
        """
        self.take_changes()
        own = {"_watch": TableWatch(), "lends_tables": False}
        return self.__dict__ | own | {"compiled": None, "_tried_rules": set(), "_rows": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Write the rows anew."""
        self.__dict__.update(state)
        self._rows = BlockRows(self._blocks)

    def own_tables(self) -> None:
        """Stop watching tables: the caller who added the factors has kept none of their arrays."""
        self._watch, self.lends_tables = TableWatch(), False

    def take_changes(self) -> None:
        """Check tables that were changed in place since they were added or last checked, and use the new numbers.

        Every run calls this before it starts.

        Raises:
            ModelError: If the new numbers are no scores; as when the factor was added.
        """
        changed = self._watch.changed()
        if not changed:
            return
        blocks = self._blocks.copy()
        for position in changed:
            block, old = blocks[position], blocks[position].source.tables
            assert old is not None  # noqa: S101  (no others are watched)
            renewed = DenseSource(old.values, is_log=old.is_log, what=partial(self._member_name, block))
            blocks[position] = replace(block, source=renewed)
        self._blocks = blocks
        self._rows = BlockRows(blocks)
        self._watch = self._watch.renewed()
        self.compiled = None

    def add_blocks(self, blocks: Iterable[FactorBlock], first: int) -> None:
        """Add factors of another graph, which share its sources; its variable 0 is variable `first` here."""
        for block in blocks:
            self._append(block.scopes + first, block.source)

    def take_log_table(self, factors: FactorKey | range, log_table: npt.ArrayLike) -> range:
        """Replace the table of a factor, of all that are tied to it, or of a range of factors that were added together.

        Sessions call this on graphs of their own.

        Returns:
            The factors that have other scores now.
        """
        first = factors.start if isinstance(factors, range) and factors else factors
        block, offset = self.locate(first)  # type: ignore[arg-type]
        last = offset + len(factors) if isinstance(factors, range) else offset + 1
        source, chosen = restated_table(block, range(offset, last), log_table, partial(self._member_name, block))
        position = bisect_right(self._firsts, block.first) - 1
        self._blocks[position] = renewed = replace(block, source=source)
        self._rows = self._rows.replaced(position, renewed)
        self._watch = self._watch.without(position)
        self.compiled = None
        return range(block.first + chosen.start, block.first + chosen.stop)

    # ---------------------------------------------------------------- inside
    def _append(self, scopes: IndexArray, source: FactorSource, given: object = None, name: str | None = None) -> range:
        """Add a block of factors; `given` is the table from which a source of tables was made."""
        first = self._n_factors
        scopes.flags.writeable = False
        tables = source.tables
        if tables is not None and is_shared(given, tables.values):
            self._watch.add(len(self._blocks), tables.values)
            self.lends_tables = True
        if name is not None:
            self._factor_names[name] = first
        block = FactorBlock(first, scopes, source, name)
        self._blocks.append(block)
        self._rows.add(block)
        self._firsts.append(first)
        self._n_factors += len(scopes)
        self.compiled = None
        return range(first, self._n_factors)

    def _universe_sizes(self) -> IndexArray:
        if len(self._sizes) != len(self._variables):
            self._sizes = self._variables.sizes()
        return self._sizes

    def _read_factor_name(self, name: object) -> str | None:
        if name is not None and (not isinstance(name, str) or not name):
            msg = f"a factor's name must be a non-empty string, got {name!r}"
            raise ModelError(msg)
        if name in self._factor_names:
            msg = f"factor {self._factor_names[name]} is named {name!r} already"
            raise ModelError(msg)
        return name

    def _member_name(self, block: FactorBlock, k: int) -> str:
        """Return what errors call a member of a block's source."""
        if len(block.scopes) > 1 and block.source.n_members == 1:
            return f"factors {block.first} to {block.first + len(block.scopes) - 1}"
        return describe_factor((block,), self._variables, block.first + k)

    def _warn_of_labels(self, rule: Rule | None, scope: list[int], what: str) -> None:
        """Warn of a rule that compares states with labels, once for all factors that share its code."""
        code = id(getattr(rule, "__code__", rule))  # the graph keeps the rule, so that the number stays its own
        if rule is not None and code not in self._tried_rules:
            self._tried_rules.add(code)
            warn_of_labels(rule, [self._variables[i] for i in scope], what)

    def _scope_names(self, indices: Sequence[int] | IndexArray) -> str:
        return scope_names(self._variables, indices)
