"""One query of a session on a kept junction tree: evidence is replaced, and what that makes stale is passed again."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains, full_domains
from anytimebp.errors import no_joint_state
from anytimebp.exact.kept_tree import NOBODY, KeptTree
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.readout import CliqueMarginals
from anytimebp.exact.tree import Tree
from anytimebp.inference.method import Step, Task
from anytimebp.inference.readout import prior_snapshot
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.model.variable import VariableTable
from anytimebp.results.factor_marginals import NOT_ASKED_FOR, FactorMarginals
from anytimebp.results.marginals import Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.store import Tables

KEPT = "kept junction trees"  # the kernels that only sessions need
WORTH_A_LOOK = 2**16  # entries read in a slice, from which on Ctrl-C is looked for

NO_STATES: IndexArray = np.empty(0, dtype=np.int64)  # every domain is the universe in order


class TargetSlots(NamedTuple):
    """Where the marginals of the variables that a query asks for are.

    Attributes:
        variables: Their indices, rising.
        start: (targets + 1,) where their states start in a row of them.
        slots: Where these are in a row of the states of all variables; a slice where there is one target.
        states: These states; empty where they are the universes.
    """

    variables: IndexArray
    start: IndexArray
    slots: IndexArray | slice
    states: IndexArray

    @classmethod
    def of(cls, targets: IndexArray, slot_start: IndexArray, slot_state: IndexArray = NO_STATES) -> TargetSlots:
        """Return where the marginals of some variables are."""
        first, sizes = slot_start[targets], slot_start[targets + 1] - slot_start[targets]
        one = slice(int(first[0]), int(first[0] + sizes[0]))
        slots = one if len(targets) == 1 else row_items(first, sizes)
        return cls(targets, row_starts(sizes), slots, slot_state[slots] if len(slot_state) else slot_state)

    def marginals(self, variables: VariableTable, belief: FloatArray) -> Marginals:
        """Return the marginals of the targets alone, out of beliefs of all variables."""
        return Marginals(variables, belief[self.slots].copy(), self.start, self.states, self.variables)


class Evidence(NamedTuple):
    """What a query has observed: one state of each of some variables, or anything else that evidence may say.

    Attributes:
        variables: Observed in one state each.
        states: These.
        observed: The whole evidence, where it says more than that; None otherwise.
    """

    variables: list[int]
    states: list[int]
    observed: dict[int, Observation] | None = None

    def mapping(self) -> dict[int, Observation]:
        """Return it as other runs take it."""
        if self.observed is not None:
            return self.observed
        return {v: Observation(np.array([s]), None) for v, s in zip(self.variables, self.states, strict=True)}

    def sizes(self, universes: IndexArray) -> IndexArray:
        """Return (V,) how many states it leaves."""
        sizes = universes.copy()
        if self.observed is None:
            for index in self.variables:
                sizes[index] = 1
        else:
            for index, seen in self.observed.items():
                sizes[index] = sizes[index] if seen.states is None else len(seen.states)
        return sizes


def make_kept_tree(
    task: Task, compiled: CompiledGraph, tree: Tree, unary: Mapping[int, FloatArray]
) -> Generator[Step, None, KeptTree]:
    """Make the tables of all factors, and return a tree to keep."""
    domains = full_domains(compiled, {}, unary)
    task.figures.work_parts["priorities"] += domains.scored
    tables = yield from make_all_tables(task, compiled, domains)
    return KeptTree(compiled, domains, tree, tables)


def make_all_tables(task: Task, compiled: CompiledGraph, domains: Domains) -> Generator[Step, None, Tables]:
    """Return the tables of all factors over all states."""
    making = make_potentials(compiled, domains)
    while True:
        try:
            task.figures.work_parts["growth"] = next(making)
        except StopIteration as end:
            tables: Tables = end.value
            break
        yield Step.WORKING
    task.figures.work_parts["growth"] = tables.scored
    return tables


class KeptExactRun:
    """A query on a kept tree. Before its end a run knows unary scores only."""

    def __init__(
        self, task: Task, compiled: CompiledGraph, kept: KeptTree, evidence: Evidence, targets: TargetSlots | None
    ) -> None:
        """Put the evidence in.

        Args:
            task: What is to be done; its options have no evidence.
            compiled: The graph.
            kept: The tree.
            evidence: Of the query.
            targets: Of the query; None for all variables.
        """
        self._task, self._figures, self._compiled = task, task.figures, compiled
        self._kept, self._evidence, self._targets = kept, evidence, targets
        self._belief: FloatArray = np.ones(int(kept.slot_start[-1]))

    def begin(self) -> Iterator[Step]:
        """Stand before the first clique."""
        self._kept.begin()
        self._figures.states = len(self._belief)
        return iter(())

    def settle(self) -> Iterator[Step]:
        """Go up through stale cliques, and down to those that are wanted."""
        kept, figures, limits = self._kept, self._figures, self._task.limits
        wanted = NOBODY if self._targets is None else self._targets.variables
        joints = self._task.options.factor_marginals
        while not kept.is_done:
            left = limits.updates - figures.updates, limits.slice_cost(figures.work)
            is_possible, updates, work = kept.advance(wanted, self._belief, *left, with_joints=joints)
            figures.count(updates, work)
            if not is_possible:
                raise no_joint_state(is_observed=bool(self._evidence.variables or self._evidence.observed))
            if not kept.is_done and (figures.updates >= limits.updates or limits.has_budget or work >= WORTH_A_LOOK):
                yield Step.WORKING
        figures.rounds = figures.settled_rounds = 1
        figures.max_residual = figures.mean_residual = figures.estimated_error = 0.0
        figures.consistent = figures.swept = figures.exact = True
        figures.ending = StopReason.CONVERGED

    def look(self) -> Iterator[Step]:
        """Do nothing: nothing is left."""
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Do nothing: all states are active."""
        return iter(())

    def read(self, *, settled: bool) -> Snapshot | None:
        """Return the marginals, or unary scores before they are there."""
        kept, targets = self._kept, self._targets
        if not kept.is_done:
            return None if settled else self._unary()
        variables = self._compiled.variables
        if targets is None:
            marginals = Marginals(variables, self._belief, kept.slot_start, NO_STATES)
        else:
            marginals = targets.marginals(variables, self._belief)
        joint: FactorMarginals = NOT_ASKED_FOR
        if self._task.options.factor_marginals:
            joint = CliqueMarginals(marginals, self._compiled.blocks, kept.joints())
        return Snapshot.holding(
            marginals=marginals,
            log_z=kept.log_z,
            outside=0.0,
            error=0.0,
            domain_sizes=read_only(self._evidence.sizes(self._compiled.universe_sizes)),
            arithmetic="log" if kept.in_logs else "linear",
            factor_marginals=joint,
            **self._figures.shown(),
        )

    def _unary(self) -> Snapshot:
        """Return what is known before the end."""
        domains = full_domains(self._compiled, self._evidence.mapping(), self._task.unary)
        joint = self._task.options.factor_marginals
        return prior_snapshot(self._compiled, domains, self._figures, outside=1.0, factor_marginals=joint)
