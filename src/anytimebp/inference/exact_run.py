"""One run of `exact`: a pass up a junction tree and a pass down, in slices."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from anytimebp.domains.domains import Domains, domain_sizes, full_domains
from anytimebp.errors import InconsistentModelError, OptionError
from anytimebp.exact.cost import plan_within
from anytimebp.exact.passes import Passes
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.readout import CliqueMarginals
from anytimebp.exact.tree import Tree
from anytimebp.inference.figures import Figures
from anytimebp.inference.method import Step, Task
from anytimebp.inference.readout import prior_snapshot
from anytimebp.kernels.codes import SUM
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.model.source import read_only
from anytimebp.results.marginals import NOT_ASKED_FOR, FactorMarginals, Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.store import Tables

WORTH_A_LOOK = 2**16  # entries read in a slice, from which on Ctrl-C is looked for


class ExactRun:
    """Runs of `exact`. Before its end a run knows unary scores only."""

    def __init__(self, task: Task, tree: Tree | None = None) -> None:
        """Plan the cliques, if nobody has, and check the memory.

        Args:
            task: What is to be done.
            tree: Of cliques, over all states that the evidence allows.
        """
        if task.semiring != SUM:
            msg = 'method "exact" sums over joint states; it has no max-marginals'
            raise OptionError(msg)
        self._task, self._options, self._figures = task, task.options, task.figures
        compiled = self._compiled = compiled_graph(task.graph)
        if tree is None:
            tree = plan_within(compiled, domain_sizes(compiled, self._options.observed), self._options.max_memory)
        self._domains = full_domains(compiled, self._options.observed, task.unary)
        self._tree = tree
        self._passes: Passes | None = None
        self._figures.states = int(self._domains.slot_start[-1])
        self._figures.work_parts["priorities"] += self._domains.scored

    def begin(self) -> Iterator[Step]:
        """Make the tables of all factors, and room for those of the cliques."""
        self._tables = yield from make_tables(self._compiled, self._domains, self._figures)
        self._passes = Passes(self._compiled, self._domains, self._tree, self._tables)

    def settle(self) -> Iterator[Step]:
        """Go up the tree and down again."""
        passes, figures, limits = self._passes, self._figures, self._task.limits
        assert passes is not None  # noqa: S101  (`begin` has made it)
        while not passes.is_done:
            updates, work = passes.advance(limits.updates - figures.updates, limits.slice_cost(figures.work))
            figures.count(updates, work)
            if not passes.is_possible:
                given = " under this evidence" if self._options.observed else ""
                msg = f"no joint state is possible{given}: every one has a factor that excludes it"
                raise InconsistentModelError(msg)
            if not passes.is_done and (figures.updates >= limits.updates or limits.has_budget or work >= WORTH_A_LOOK):
                yield Step.WORKING
        self._end()

    def _end(self) -> None:
        figures = self._figures
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
        passes, domains = self._passes, self._domains
        if passes is None or not passes.is_done:
            return None if settled else self._unary()
        given = self._compiled, domains, self._tables, passes, self._figures
        return exact_snapshot(*given, outside=0.0, factor_marginals=self._options.factor_marginals)

    def _unary(self) -> Snapshot:
        """Return what is known before the end."""
        joint = self._options.factor_marginals
        return prior_snapshot(self._compiled, self._domains, self._figures, outside=1.0, factor_marginals=joint)


def make_tables(compiled: CompiledGraph, domains: Domains, figures: Figures) -> Generator[Step, None, Tables]:
    """Return the tables of all factors over some states, and count the scores that were asked for."""
    making, asked = make_potentials(compiled, domains), figures.work_parts["growth"]
    while True:
        try:
            figures.work_parts["growth"] = asked + next(making)
        except StopIteration as end:
            tables: Tables = end.value
            figures.work_parts["growth"] = asked + tables.scored
            return tables
        yield Step.WORKING


def exact_snapshot(
    compiled: CompiledGraph,
    domains: Domains,
    tables: Tables,
    passes: Passes,
    figures: Figures,
    *,
    outside: float,
    factor_marginals: bool,
) -> Snapshot:
    """Return the answer of two passes over a junction tree.

    Args:
        compiled: The graph.
        domains: The states that the tree is over.
        tables: Of the factors.
        passes: Which are through.
        figures: What goes with it.
        outside: The unexplored mass.
        factor_marginals: Whether the snapshot can give those.
    """
    marginals = Marginals(compiled.variables, passes.belief, domains.slot_start, domains.slot_state)
    joint: FactorMarginals = NOT_ASKED_FOR
    if factor_marginals:
        joint = CliqueMarginals(marginals, compiled.blocks, passes.joints())
    return Snapshot.holding(
        marginals=marginals,
        log_z=float(passes.log_total + tables.log_scale.sum() + domains.log_prior_scale.sum()),
        outside=outside,
        error=figures.estimated_error,
        domain_sizes=read_only(domains.sizes),
        arithmetic="log" if passes.in_logs else "linear",
        factor_marginals=joint,
        **figures.shown(),
    )
