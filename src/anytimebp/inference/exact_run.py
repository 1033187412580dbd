"""One run of `exact`: a pass up a junction tree and a pass down, in slices."""

from __future__ import annotations

from collections.abc import Iterator

from anytimebp.domains.domains import Domains, domain_sizes, full_domains
from anytimebp.errors import MemoryLimitError, OptionError
from anytimebp.exact.cost import plan_within
from anytimebp.exact.possible import ZEROS, is_smaller, may_shrink, possible_part
from anytimebp.exact.relevance import Part, relevant_part
from anytimebp.exact.tree import Tree
from anytimebp.inference.method import Step, Task
from anytimebp.inference.readout import prior_snapshot
from anytimebp.inference.solution import Solution
from anytimebp.kernels.codes import SUM
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.memory import check_universe


class Planned:
    """What a run of `exact` is to solve: known before a table is made.

    Attributes:
        part: Of the graph, that the targets depend on.
        tree: Of cliques, over all states that the evidence allows.
        domains: These states, with their priors; None where they are not known yet.
    """

    __slots__ = ("domains", "part", "tree")

    def __init__(self, part: Part, tree: Tree, domains: Domains | None) -> None:
        """Hold them."""
        self.part, self.tree, self.domains = part, tree, domains


class ExactRun:
    """Runs of `exact`. Before its end a run knows unary scores only."""

    def __init__(self, task: Task, planned: Planned | None = None) -> None:
        """Plan the cliques, if nobody has, and check the memory.

        Args:
            task: What is to be done.
            planned: How.
        """
        if task.semiring != SUM:
            msg = 'method "exact" sums over joint states; it has no max-marginals'
            raise OptionError(msg)
        self._task, self._figures = task, task.figures
        self._compiled = compiled_graph(task.graph)
        planned = planned or _plan(task, self._compiled)
        self._domains = planned.domains or full_domains(self._compiled, task.options.observed, task.unary)
        self._solution = Solution(task, self._domains, planned.part, planned.tree)
        self._figures.states = int(self._domains.slot_start[-1])
        allowed = int(domain_sizes(self._compiled, task.options.observed).sum())
        if self._figures.states < allowed:
            left = f"the {self._figures.states:,} of {allowed:,} states that zeros leave"
            self._figures.choice = f"a junction tree over {left}"
        self._figures.work_parts["priorities"] += self._domains.scored

    def begin(self) -> Iterator[Step]:
        """Make the tables of all factors, and room for those of the cliques."""
        return self._solution.prepare()

    def settle(self) -> Iterator[Step]:
        """Go up the tree and down again."""
        yield from self._solution.calibrate()
        self._solution.end_round(exact=True, error=0.0)
        self._figures.ending = StopReason.CONVERGED

    def look(self) -> Iterator[Step]:
        """Do nothing: nothing is left."""
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Do nothing: all states are active."""
        return iter(())

    def read(self, *, settled: bool) -> Snapshot | None:
        """Return the marginals, or unary scores before they are there."""
        if self._solution.is_done:
            return self._solution.snapshot(outside=0.0)
        if settled:
            return None
        joint = self._task.options.factor_marginals
        return prior_snapshot(self._compiled, self._domains, self._figures, outside=1.0, factor_marginals=joint)


def _plan(task: Task, compiled: CompiledGraph) -> Planned:
    """Plan the cliques of what the targets depend on; where they are large, without the states that zeros exclude."""
    options, tree = task.options, None
    if options.targets is None:  # priors take memory that there may not be
        part, domains = Part(compiled.arrays, domain_sizes(compiled, options.observed)), None
    else:
        check_universe(compiled, options.max_memory)
        domains = full_domains(compiled, options.observed, task.unary)
        part = relevant_part(compiled, domains, options.targets)
    try:
        tree = plan_within(compiled, part.sizes, options.max_memory, part)
    except MemoryLimitError:
        if not may_shrink(compiled, None):
            raise
    if may_shrink(compiled, tree) and task.load(ZEROS):
        check_universe(compiled, options.max_memory)
        domains = domains or full_domains(compiled, options.observed, task.unary)
        left = possible_part(compiled, domains, part)
        if left is not None:
            smaller = plan_within(compiled, left.part.sizes, options.max_memory, left.part)
            if is_smaller(smaller, tree):
                return Planned(left.part, smaller, left.domains)
    tree = tree or plan_within(compiled, part.sizes, options.max_memory, part)
    return Planned(part, tree, domains)
