"""One run over all states that the evidence allows, as a generator of slices."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from anytimebp.engine.damping import Damper
from anytimebp.engine.options import RunOptions
from anytimebp.engine.readout import Figures, Readable, take_snapshot
from anytimebp.engine.run import SLICE_COST, Limits, Step
from anytimebp.engine.vanishing import vanished
from anytimebp.kernels.codes import LOG, OK, OUT_OF_RANGE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import IndexArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.schedule.forest import ForestSchedule, forest_order
from anytimebp.schedule.protocol import Progress, Schedule
from anytimebp.schedule.residual import ResidualSchedule
from anytimebp.schedule.sweeps import SweepSchedule, random_orders, sequential_orders
from anytimebp.workspace.domains import domain_sizes, full_domains
from anytimebp.workspace.memory import check_memory
from anytimebp.workspace.space import Workspace, first_arithmetic


class FullRun:
    """The state of one run of `bp` or `residual`.

    Attributes:
        limits: What the caller allows; set before each step.
        ending: Why the run is finished, or None.
        consistent: Whether the messages are at a fixed point.
    """

    def __init__(self, graph: FactorGraph, options: RunOptions) -> None:
        """Compile the graph, if need be, and check the memory."""
        self.options = options
        self.compiled = compiled_graph(graph)
        check_memory(self.compiled, domain_sizes(self.compiled, options.observed), options.max_memory)
        domains = full_domains(self.compiled, options.observed)
        self.damper = Damper(options.damping)
        arithmetic = first_arithmetic(self.compiled, domains.log_prior_min)
        self.workspace = Workspace(self.compiled, domains, arithmetic, options.threads)
        self.limits = Limits()
        self.updates = 0
        self.rounds = 0
        self.work_parts = {"messages": 0, "scoring": 0, "growth": 0, "priorities": 0}
        self.max_residual = float("inf")
        self.mean_residual = float("inf")
        self.ending: StopReason | None = None
        self.consistent = False

    def steps(self) -> Iterator[Step]:
        """Work in slices of a few milliseconds until the run is finished."""
        schedule = yield from self._prepare()
        while True:
            with self.workspace.crew as crew:
                progress = schedule.advance(
                    self.limits.updates - self.updates,
                    min(SLICE_COST * crew.size, self.limits.work_left(self.work_parts)),
                    self.damper.damping,
                )
            self.updates += progress.updates
            self.work_parts["messages"] += progress.work
            if progress.status == OUT_OF_RANGE and self.workspace.tables.arithmetic == LOG:
                self.ending = StopReason.NOT_CONVERGED  # messages grow beyond all bounds
                self.max_residual = self.mean_residual = float("inf")
                yield Step.RECORD
                return
            if progress.status == OUT_OF_RANGE:
                self._start_over_in_logs()
                schedule = yield from self._prepare()
                yield Step.WORKING
            elif progress.status != OK:
                given = " under this evidence" if self.options.observed else ""
                raise vanished(self.compiled, progress.status, progress.culprit, given)
            elif progress.end_of_sweep:
                self._end_sweep(progress)
                yield Step.RECORD
                if self.ending:
                    return
            else:
                yield Step.WORKING

    def _start_over_in_logs(self) -> None:
        domains = full_domains(self.compiled, self.options.observed)
        self.workspace = Workspace(self.compiled, domains, LOG, self.options.threads)
        self.damper = Damper(self.options.damping)
        self.rounds = 0
        self.max_residual = self.mean_residual = float("inf")

    def _prepare(self) -> Generator[Step, None, Schedule]:
        """Make the tables and pick the schedule; turn to logs if a rule's scores need them."""
        for _ in self.workspace.prepare():
            yield Step.WORKING
        self.work_parts["growth"] += self.workspace.tables.scored
        if self.workspace.out_of_range:
            self._start_over_in_logs()
            for _ in self.workspace.prepare():
                yield Step.WORKING
            self.work_parts["growth"] += self.workspace.tables.scored
        return self._schedule()

    def _schedule(self) -> Schedule:
        order = forest_order(self.workspace.layout)
        if order is not None:
            return ForestSchedule(self.workspace, order)
        if self.options.method == "residual":
            return ResidualSchedule(self.workspace, self.options.tolerance)
        return SweepSchedule(self.workspace, self._orders(), self.options.tolerance)

    def _orders(self) -> Iterator[IndexArray]:
        layout = self.workspace.layout
        if self.options.schedule == "random":
            return random_orders(len(layout.factor_edge_start) - 1, self.options.generator())
        return sequential_orders(layout)

    def _end_sweep(self, progress: Progress) -> None:
        self.rounds += 1
        self.max_residual = progress.max_residual
        self.mean_residual = progress.mean_residual
        if progress.converged:
            self.consistent = True
            self.ending = StopReason.CONVERGED
        elif self.damper.hopeless(progress.max_residual):
            self.ending = StopReason.NOT_CONVERGED

    def snapshot(self, seconds: float) -> Snapshot:
        """Return what the run knows now."""
        workspace, domains = self.workspace, self.workspace.domains
        source = Readable(
            self.compiled,
            workspace.arrays,
            domains.slot_start,
            domains.states,
            workspace.tables.log_scale,
            domains.log_prior_scale,
        )
        figures = Figures(
            seconds=seconds,
            updates=self.updates,
            work_parts=dict(self.work_parts),
            max_residual=self.max_residual,
            mean_residual=self.mean_residual,
            damping=self.damping,
            consistent=self.consistent,
            tolerance=self.options.tolerance,
            method=self.options.method,
        )
        return take_snapshot(
            source, figures, swept=self.rounds > 0, factor_marginals=self.options.factor_marginals, outside=0.0
        )

    def answer(self, seconds: float) -> Snapshot | None:
        """Return None: the current state is the answer."""
        del seconds
        return None

    @property
    def settled_rounds(self) -> int:
        """How many sweeps ended in a consistent state: the last one, or none."""
        return int(self.consistent)

    @property
    def damping(self) -> float:
        """In force now."""
        return self.damper.damping

    @property
    def states(self) -> int:
        """Active states of all variables together."""
        return int(self.workspace.domains.slot_start[-1])
