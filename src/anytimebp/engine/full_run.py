"""One run over all states that the evidence allows, as a generator of slices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

import numpy as np

from anytimebp.engine.belief_history import BeliefHistory
from anytimebp.engine.damping import Damper
from anytimebp.engine.estimated_error import SweepError
from anytimebp.engine.options import RunOptions
from anytimebp.engine.readout import Figures, Readable, take_snapshot
from anytimebp.engine.run import SLICE_COST, Limits, Step
from anytimebp.engine.vanishing import vanished
from anytimebp.kernels.codes import LOG, OK, OUT_OF_RANGE
from anytimebp.kernels.readout import read_beliefs
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.schedule.forest import ForestSchedule, forest_order
from anytimebp.schedule.frozen_tails import AT_ANY_COST, LIKELY, FrozenTailSchedule
from anytimebp.schedule.lazy_sweeps import LazySchedule
from anytimebp.schedule.protocol import Progress, Schedule, Settled
from anytimebp.schedule.residual import ResidualSchedule
from anytimebp.schedule.sweeps import SweepSchedule, random_orders, sequential_orders
from anytimebp.workspace.compact import CompactTables
from anytimebp.workspace.domains import Domains, domain_sizes, full_domains
from anytimebp.workspace.memory import check_memory
from anytimebp.workspace.nested import NestedWorkspace, can_nest
from anytimebp.workspace.space import Workspace, WorkspaceArrays, first_arithmetic, frozen

UNWATCHED = 16  # sweeps before which the beliefs of a run that nobody watches are not followed: most are over by then
LONG = 2**18  # entries read in a sweep, from which on reading beliefs costs little beside it, where there is a deadline
VERY_LONG = 2**22  # the same for reading them in any case, and for an estimate after every sweep


class State(NamedTuple):
    """What a snapshot is read from: messages and what goes with them."""

    arrays: WorkspaceArrays
    figures: Figures
    settled: Settled | None
    error: float | Callable[[FloatArray], SweepError]


class FullRun:
    """The state of one run of `bp` or `residual`.

    Attributes:
        limits: What the caller allows; set before each step.
        ending: Why the run is finished, or None.
        consistent: Whether the messages are at a fixed point.
    """

    def __init__(
        self,
        graph: FactorGraph,
        options: RunOptions,
        domains: Domains | None = None,
        before: NestedWorkspace | None = None,
        *,
        at_any_cost: bool = False,
        compact: CompactTables | None = None,
    ) -> None:
        """Compile the graph, if need be, and check the memory.

        Args:
            graph: The model.
            options: Of the run.
            domains: All states, if somebody has put them together already; owned.
            before: Domains and messages of an earlier stage to start from.
            at_any_cost: Whether `adaptive` is to make inner rounds even where they do not pay.
            compact: Domains and tables to run on, instead of all states.
        """
        self.options = options
        self._compact = compact
        self._at_any_cost = at_any_cost
        self._before = before
        self.compiled = compiled_graph(graph)
        if compact is None:
            check_memory(self.compiled, domain_sizes(self.compiled, options.observed), options.max_memory)
        domains = self._all_states() if domains is None else domains
        arithmetic = first_arithmetic(self.compiled, domains.log_prior_min)
        if compact is not None and compact.arithmetic == LOG:
            arithmetic = LOG
        self.workspace = Workspace(self.compiled, domains, arithmetic)
        self.damper = Damper(options.damping, self.workspace, options.tolerance)
        self.limits = Limits()
        self.updates = 0
        self.rounds = 0
        self.work_parts = {"messages": 0, "scoring": 0, "growth": 0, "priorities": domains.scored}
        self.max_residual = float("inf")
        self.mean_residual = float("inf")
        self._history = BeliefHistory(domains.slot_start)
        self._sweeps, self._sweep_began = 0, 0
        self._error: float | None = None
        self.ending: StopReason | None = None
        self.consistent = False
        self.settled_rounds = 0
        self._domains: Settled | None = None
        self._kept: State | None = None
        self._schedule: Schedule | None = None

    @property
    def choice(self) -> str:
        """What `adaptive` does at present, and why, in words; nothing to say for other methods."""
        return self._schedule.choice if isinstance(self._schedule, FrozenTailSchedule) else ""

    @property
    def can_be_judged(self) -> bool:
        """Whether there was a sweep."""
        return self._swept

    @property
    def estimated_error(self) -> float:
        """The estimated error, if it is known without further work."""
        return float("nan") if self._error is None else self._error

    def steps(self) -> Iterator[Step]:
        """Work in slices of a few milliseconds until the run is finished."""
        self._schedule = schedule = yield from self._prepare()
        while True:
            self.consistent = False
            progress = schedule.advance(
                self.limits.updates - self.updates,
                min(SLICE_COST, self.limits.work_left(self.work_parts)),
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
                self._schedule = schedule = yield from self._prepare()
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

    def _all_states(self) -> Domains:
        if self._compact is not None:
            return self._compact.domains()
        return full_domains(self.compiled, self.options.observed)

    def _start_over_in_logs(self) -> None:
        domains = self._all_states()
        self.work_parts["priorities"] += domains.scored
        self.workspace = Workspace(self.compiled, domains, LOG)
        self.damper = Damper(self.options.damping, self.workspace, self.options.tolerance)
        self._history = BeliefHistory(domains.slot_start)
        self._sweeps, self._error = 0, None
        self._before = self._kept = None
        self.rounds = 0
        self.max_residual = self.mean_residual = float("inf")

    def _prepare(self) -> Generator[Step, None, Schedule]:
        """Make the tables and pick the schedule; turn to logs if a rule's scores need them."""
        yield from self._make_tables()
        if self.workspace.out_of_range:
            self._start_over_in_logs()
            yield from self._make_tables()
        self._sweep_began = self.updates
        if self.limits.is_watched:
            self._note_beliefs()
        return self._make_schedule()

    def _make_tables(self) -> Iterator[Step]:
        """Make the tables, and count what rules are asked for, now or in the earlier run that has made them."""
        counted = self.work_parts["growth"]
        tables = self.workspace.tables
        is_quick = self._compact is None and self.workspace.tables_are_there
        making = self._compact.fill(self.workspace) if self._compact else self.workspace.prepare()
        for _ in making:
            self.work_parts["growth"] = counted + tables.scored
            if not is_quick or sum(self.work_parts.values()) >= self.limits.work:
                yield Step.WORKING
        self.work_parts["growth"] = counted + tables.scored

    def _make_schedule(self) -> Schedule:
        order = forest_order(self.workspace.layout)
        if order is not None:
            return ForestSchedule(self.workspace, order)
        if self.options.method == "residual":
            return ResidualSchedule(self.workspace, self.options.tolerance)
        if self.options.method == "adaptive" and self._compact is None and can_nest(self.workspace):
            before, self._before = self._before, None
            likely = AT_ANY_COST if self._at_any_cost else LIKELY
            return FrozenTailSchedule(self.workspace, self._orders(), self.options.tolerance, before, likely)
        if self.options.method == "adaptive":
            return LazySchedule(self.workspace, self._orders(), self.options.tolerance)
        return SweepSchedule(self.workspace, self._orders(), self.options.tolerance)

    def _orders(self) -> Iterator[IndexArray]:
        layout = self.workspace.layout
        if self.options.schedule == "random":
            return random_orders(len(layout.factor_edge_start) - 1, self.options.generator())
        return sequential_orders(layout)

    def _end_sweep(self, progress: Progress) -> None:
        self.rounds += 1
        self._sweeps += 1
        self._sweep_began = self.updates
        self.max_residual = progress.max_residual
        self.mean_residual = progress.mean_residual
        self._domains = progress.settled
        self.consistent = progress.converged or progress.settled is not None
        self.settled_rounds += self.consistent
        if progress.converged:
            self.ending = StopReason.CONVERGED
        elif self.damper.hopeless(progress.max_residual):
            self.ending = StopReason.NOT_CONVERGED
        self._follow_beliefs()
        self._kept = None  # a sweep after which nothing has settled is answered with itself
        if progress.settled and not self.ending:
            self._kept = self._state(frozen(self.workspace.arrays))

    def _follow_beliefs(self) -> None:
        """Set a mark if it is due; where sweeps take very long, estimate the error as well."""
        self._error = None
        entries, limits = self.work_parts["messages"] / self._sweeps, self.limits
        is_watched = limits.is_watched or (limits.has_deadline and entries > LONG)
        is_followed = is_watched or self._sweeps >= UNWATCHED or entries > VERY_LONG
        if is_followed and self._history.is_due(self._sweeps):
            belief = self._note_beliefs()
            if belief is not None and entries > VERY_LONG:
                estimate = self._estimate()
                self._error = estimate(belief)() if callable(estimate) else estimate

    def _note_beliefs(self) -> FloatArray | None:
        """Set a mark at the beliefs as they are, unless messages exclude each other as yet."""
        workspace, start = self.workspace, self.workspace.domains.slot_start
        belief, log_normaliser = np.empty(int(start[-1])), np.empty(len(start) - 1)
        status, _ = read_beliefs(workspace.layout, workspace.arrays, start, belief, log_normaliser)
        if status != OK:
            return None
        self._history.note(self._sweeps, belief)
        return belief

    def snapshot(self, seconds: float) -> Snapshot:
        """Return what the run knows now."""
        return self._read(self._state(self.workspace.arrays), seconds)

    def answer(self, seconds: float) -> Snapshot | None:
        """Return the last state in which likely states had settled, if the current one is not settled."""
        return None if self.consistent or self._kept is None else self._read(self._kept, seconds)

    def _state(self, arrays: WorkspaceArrays) -> State:
        return State(arrays, self._figures(), self._domains if self.consistent else None, self._estimate())

    def _figures(self) -> Figures:
        return Figures(
            seconds=0.0,
            updates=self.updates,
            work_parts=dict(self.work_parts),
            max_residual=self.max_residual,
            mean_residual=self.mean_residual,
            damping=self.damping,
            consistent=self.consistent,
            tolerance=self._domains.tolerance if self.consistent and self._domains else self.options.tolerance,
            method=self.options.method,
        )

    def _read(self, state: State, seconds: float) -> Snapshot:
        workspace, domains = self.workspace, self.workspace.domains
        source = Readable(
            self.compiled,
            state.arrays,
            domains.slot_start,
            domains.states,
            workspace.tables.log_scale,
            domains.log_prior_scale,
        )
        return take_snapshot(
            source,
            state.figures._replace(seconds=seconds),
            swept=self._swept,
            factor_marginals=self.options.factor_marginals,
            outside=state.settled.outside if state.settled else 0.0,
            error=state.error,
            domain_sizes=state.settled.size if state.settled else None,
        )

    def _estimate(self) -> float | Callable[[FloatArray], SweepError]:
        """Return the estimated error of the state as it is now, or how to compute it from beliefs."""
        if not self._swept:
            return float("inf")
        if self.consistent and isinstance(self._schedule, ForestSchedule):
            return 0.0
        if self._error is not None:
            return self._error
        arrays, start = self.workspace.arrays, self.workspace.domains.slot_start
        residual, has_settled = arrays.edge_residual.copy(), self.ending is StopReason.CONVERGED
        history, marks, time = self._history, self._history.marks, self._time
        return lambda belief: SweepError(
            self.compiled.arrays,
            residual,
            belief,
            start,
            history.trend(marks, time, belief),
            self.options.tolerance,
            has_settled=has_settled,
        )

    @property
    def _time(self) -> float:
        """Sweeps so far, with the part of the present one that is through."""
        in_sweep = self.updates - self._sweep_began
        return self._sweeps + min(0.999, in_sweep / max(1, len(self.workspace.layout.factor_edge_start) - 1))

    @property
    def _swept(self) -> bool:
        """Whether every factor has been updated."""
        return self._sweeps > 0

    @property
    def damping(self) -> float:
        """In force now."""
        return self.damper.damping

    @property
    def states(self) -> int:
        """Active states of all variables together."""
        if self.consistent and self._domains is not None:
            return int(self._domains.size.sum())
        return int(self.workspace.domains.slot_start[-1])
