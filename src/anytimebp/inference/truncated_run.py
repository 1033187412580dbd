"""`truncated` where tables over its domains would be large, and structures sum without: residual BP on the domains.

The chosen states are given to BP as if evidence excluded all others, so that structures are summed as in `residual`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from anytimebp.domains.domains import Universe, domain_sizes
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.look.unexplored import UnexploredMass
from anytimebp.inference.method import Stages, Step, Task
from anytimebp.inference.readout import prior_snapshot, take_snapshot
from anytimebp.kernels.codes import TABLE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import Observation
from anytimebp.model.source import IndexArray
from anytimebp.paper.policy import GrowthView
from anytimebp.paper.priorities import FixedPriorities
from anytimebp.paper.rankings import best_part, part_of
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.arrays import frozen
from anytimebp.tables.memory import check_universe, factor_entries, factor_kinds, without_table
from anytimebp.tables.readable import readable

MOST_ENTRIES = 2**20  # of all structures written out as tables: filling and reading so many takes a few milliseconds


def truncated_run(task: Task) -> TruncatedRun | None:
    """Return a run that writes no structure out as a table; None where these tables would be small."""
    compiled, options = compiled_graph(task.graph), task.options
    if options.method != "truncated" or compiled.has_tables_only or without_table(compiled):
        return None
    sizes = part_of(domain_sizes(compiled, options.observed), options.fraction)
    structured = factor_kinds(compiled, sizes) != TABLE
    if float(factor_entries(compiled.arrays, sizes)[structured].sum()) <= MOST_ENTRIES:
        return None
    return TruncatedRun(task)


class TruncatedRun(Stages):
    """Chooses the states, and leaves the rest to BP on them."""

    def __init__(self, task: Task) -> None:
        """Put unary factors and evidence together."""
        super().__init__()
        self._task, options = task, task.options
        compiled = compiled_graph(task.graph)
        check_universe(compiled, options.max_memory)
        self._universe = Universe(compiled, options.observed)
        self._priorities = FixedPriorities(self._universe, self._universe.scored)

    def begin(self) -> Iterator[Step]:
        """Choose the states by their fixed priorities, and let BP begin."""
        task, universe = self._task, self._universe
        view = GrowthView(universe, self._priorities, task.options.generator())
        for _ in view.compute_priorities():
            task.figures.work_parts["priorities"] = self._priorities.work
            yield Step.WORKING
        sizes = part_of(universe.n_allowed, task.options.fraction)
        chosen = np.split(best_part(universe, view.all_priorities(), sizes), np.cumsum(sizes)[:-1])
        while not task.load("residual"):
            yield Step.WORKING
        task = task._replace(options=task.options.residual_on(_only(chosen, task.options.observed)))
        self.now = OnSomeStates(task, universe)
        task.figures.work_parts["priorities"] = self._priorities.work
        yield from self.now.begin()

    def read(self, *, settled: bool) -> Snapshot | None:
        """Read what BP knows; unary scores before it has begun."""
        if self.now is not None:
            return self.now.read(settled=settled)
        if settled:
            return None
        joint, universe = self._task.options.factor_marginals, self._universe
        every = universe.compiled, universe.every
        return prior_snapshot(*every, self._task.figures, outside=1.0, factor_marginals=joint)


class OnSomeStates(AllStates):
    """BP on some states, that looks at the others when somebody asks how much they weigh."""

    def __init__(self, task: Task, universe: Universe) -> None:
        """Begin with the states that the options of the task leave.

        Args:
            task: What is to be done.
            universe: All states.
        """
        super().__init__(task)
        self._universe = universe

    def _peel(self) -> Iterator[Step]:
        """Leave the graph as it is: to look outside, messages of all factors are needed."""
        return iter(())

    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what is known now; nothing has settled before the end."""
        if settled:
            return None
        figures, compiled = self._figures.copy(), self._universe.compiled
        joint = self._options.factor_marginals
        if not figures.swept:
            return prior_snapshot(compiled, self.workspace.domains, figures, outside=1.0, factor_marginals=joint)
        pending = np.full(len(compiled.arrays.factor_edge_start) - 1, figures.max_residual)
        source = readable(self.workspace, frozen(self.workspace.in_use))
        return take_snapshot(
            source,
            figures,
            swept=True,
            factor_marginals=joint,
            outside=partial(UnexploredMass, self._universe, source, pending),
        )


def _only(chosen: list[IndexArray], observed: dict[int, Observation]) -> dict[int, Observation]:
    """Return evidence that leaves nothing but the chosen states, with the scores that evidence gives them."""
    found = {}
    for index, own in enumerate(chosen):
        states, given = np.sort(own), observed.get(index)
        scores = None if given is None else given.log_scores
        if given is not None and scores is not None:
            at = states if given.states is None else np.searchsorted(given.states, states)
            scores = scores[at]
        found[index] = Observation(states, scores)
    return found
