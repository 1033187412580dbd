"""Setting up a run on a large graph in slices: priors, room for the answer, and topology, before its method is made.

An answer needs priors at the least, so they come first. From then on the clock can end the run at any slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy

from anytimebp.domains.domains import Domains, fold_all
from anytimebp.inference.adaptive.adaptive_run import QUICK
from anytimebp.inference.caveats import warn_of_unconnected
from anytimebp.inference.method import Method, Stages, Step, Task
from anytimebp.inference.reading_time import PER_STATE, expect_reading_priors
from anytimebp.inference.readout import prior_snapshot
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.arrays import touched

ON_ALL_STATES = ("bp", "residual", "adaptive", "auto")  # methods that begin with the priors of all states


def goes_in_slices(task: Task) -> bool:
    """Tell whether a graph is so large that setting up pauses.

    Not where rules may have to be asked, nor where memory is limited: a run that needs more is refused before priors
    are made.
    """
    graph, options = task.graph, task.options
    is_limited = options.max_memory is not None or options.policy is not None
    if graph.rows.n_slots <= QUICK or options.method not in ON_ALL_STATES or is_limited:
        return False
    return not graph.rows.asked


class SetUp(Stages):
    """A method on a large graph: priors and topology in slices, and then whatever was asked for."""

    def __init__(self, task: Task, make: Callable[[Task], Method], price: Callable[[CompiledGraph], None]) -> None:
        """Do nothing yet.

        Args:
            task: What is to be done.
            make: Makes the method, given a task whose graph is compiled.
            price: Is told of the topology once it is there.
        """
        super().__init__()
        self._task, self._make, self._price = task, make, price
        self._is_laid_out = isinstance(task.graph.compiled, CompiledGraph)
        self._compiled = compiled_graph(task.graph) if self._is_laid_out else CompiledGraph(task.graph, in_slices=True)
        self._rows = task.graph.rows.packed()
        task.figures.reading = PER_STATE * self._compiled.n_states
        self._domains: Domains | None = None
        self._setting_up = self._set_up()

    def _set_up(self) -> Iterator[None]:
        """Put priors and topology together."""
        task, compiled = self._task, self._compiled
        domains = yield from fold_all(compiled, task.options.observed, task.unary)
        task.figures.states = int(domains.slot_start[-1])
        self._domains = domains
        yield
        if task.limits.has_deadline:
            task.ahead.room = yield from touched(len(domains.log_prior))
        expect_reading_priors(task, domains)
        yield
        if not self._is_laid_out:
            yield from compiled.lay_out()
            self._is_laid_out = True
        yield
        self._price(compiled)
        yield

    def _laid_out(self) -> Task:
        """Return the task on a graph that is compiled."""
        task, graph = self._task, self._task.graph
        if graph.rows.packed() != self._rows or len(graph.variables) != len(self._compiled.universe_sizes):
            task = task._replace(graph=copy(graph))  # somebody has added to it meanwhile
            task.graph.compiled = self._compiled
            return task
        graph.compiled = self._compiled
        warn_of_unconnected(graph, task.options.observed)
        return task

    def begin(self) -> Iterator[Step]:
        """Set up, and let the method begin."""
        for _ in self._setting_up:
            yield Step.WORKING
        task = self._laid_out()
        task.ahead.domains, self._domains = self._domains, None
        self.now = self._make(task)
        yield Step.WORKING
        yield from self.now.begin()

    def read(self, *, settled: bool) -> Snapshot | None:
        """Read the method; unary scores before that, as soon as they are there."""
        if self.now is not None:
            return self.now.read(settled=settled)
        if settled:
            return None
        joint = self._task.options.factor_marginals
        while self._domains is None or (joint and not self._is_laid_out):
            next(self._setting_up)
        given = self._compiled, self._domains, self._task.figures
        room = self._task.ahead.take_room(len(self._domains.log_prior))
        return prior_snapshot(*given, outside=1.0, factor_marginals=joint, room=room)
