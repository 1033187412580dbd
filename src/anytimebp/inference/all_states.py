"""BP on all states that the evidence allows: leaves first, then sweeps or residual BP on the core that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains, domain_sizes, full_domains
from anytimebp.inference.adaptive.compact import CompactTables
from anytimebp.inference.adaptive.frozen_tails import AT_ANY_COST, LIKELY, FrozenTailSchedule
from anytimebp.inference.adaptive.nested import NestedWorkspace, can_nest
from anytimebp.inference.control.belief_history import BeliefHistory
from anytimebp.inference.control.damping import Damper
from anytimebp.inference.control.estimated_error import SweepError
from anytimebp.inference.control.vanishing import vanished
from anytimebp.inference.figures import Figures
from anytimebp.inference.method import LEAVES, LOGS, Step, Task
from anytimebp.inference.readout import take_snapshot
from anytimebp.inference.schedule.lazy_sweeps import LazySchedule
from anytimebp.inference.schedule.leaves_first import LeavesFirst
from anytimebp.inference.schedule.protocol import Messages, Progress, Schedule, Settled
from anytimebp.inference.schedule.residual import ResidualSchedule
from anytimebp.inference.schedule.sweeps import SweepSchedule, random_orders, sequential_orders
from anytimebp.kernels.codes import LINEAR, LOG, OK, OUT_OF_RANGE
from anytimebp.kernels.readout import read_beliefs
from anytimebp.layout.graph_layout import GraphLayout, compiled_graph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.arrays import WorkspaceArrays, frozen
from anytimebp.tables.carry_over import Start, carry_over
from anytimebp.tables.leaves import Core, Leaves, peel
from anytimebp.tables.memory import check_memory
from anytimebp.tables.readable import readable
from anytimebp.tables.workspace import Workspace, first_arithmetic

UNWATCHED = 16  # sweeps before which the beliefs of a run that nobody watches are not followed: most are over by then
LONG = 2**18  # entries read in a sweep, from which on reading beliefs costs little beside it, where there is a deadline
INSTEAD_OF_ROUNDS = 0.25  # part of a sweep that one over the core may cost, for `adaptive` to make no inner rounds
LEAF = 0.5  # error of a leaf, in that of the core's variables: what a factor passes on is less than what it is told
PENDING = 2.0  # times what is pending on a message that it is expected to move by: what it moves comes back to it
VERY_LONG = 2**22  # the same for reading them in any case, and for an estimate after every sweep


class State(NamedTuple):
    """What a snapshot is read from: messages and what goes with them."""

    arrays: WorkspaceArrays
    figures: Figures
    settled: Settled | None
    error: float | Callable[[FloatArray], SweepError]


class AllStates:
    """Runs of `bp` and `residual`, and of `adaptive` where it works on whole tables.

    Attributes:
        workspace: Messages and tables. Those to leaves are sent by `complete`.
        leaves: Trees and leaves that are summed into the core, if there are any; the core of a forest is empty.
        disturbed: Message factors that have to be updated, where the run started from given messages; None for all.
    """

    def __init__(
        self,
        task: Task,
        domains: Domains | None = None,
        before: NestedWorkspace | None = None,
        *,
        at_any_cost: bool = False,
        compact: CompactTables | None = None,
        start: Start | None = None,
        put: Callable[[Workspace], None] | None = None,
    ) -> None:
        """Compile the graph, if need be, and check the memory.

        Args:
            task: What is to be done.
            domains: All states, if somebody has put them together already; owned.
            before: Domains and messages of an earlier stage to start from.
            at_any_cost: Whether to make a core, and `adaptive` inner rounds, even where they do not pay.
            compact: Domains and tables to run on, instead of all states.
            start: Messages to start from.
            put: Puts messages to start from into a workspace in linear arithmetic.
        """
        self._task, self._options = task, task.options
        self._figures, self._limits = task.figures, task.limits
        self._compact = compact
        self._at_any_cost = at_any_cost
        self._before = before
        self._start = start
        self._put = put
        self.disturbed: IndexArray | None = None
        self._compiled = compiled_graph(task.graph)
        if compact is None:
            check_memory(self._compiled, domain_sizes(self._compiled, self._options.observed), self._options.max_memory)
        if domains is None:
            domains = self._all_states()
        arithmetic = first_arithmetic(self._compiled, domains.log_prior_min)
        if compact is not None and compact.arithmetic == LOG:
            arithmetic = LOG
        self._take_workspace(domains, arithmetic)
        self._figures.damping = self._options.damping
        self._domains: Settled | None = None
        self._kept: State | None = None
        self._error: float | None = None
        self._schedule: Schedule | None = None

    def _all_states(self) -> Domains:
        if self._compact is not None:
            domains = self._compact.domains()
        else:
            domains = full_domains(self._compiled, self._options.observed, self._task.unary)
        self._figures.work_parts["priorities"] += domains.scored
        return domains

    def _take_workspace(self, domains: Domains, arithmetic: int) -> None:
        """Start before the first sweep."""
        if arithmetic == LOG:
            self._task.load(LOGS)
        self.workspace = Workspace(self._compiled, domains, arithmetic, semiring=self._task.semiring)
        self._damper = Damper(self._options.damping, self.workspace, self._options.tolerance)
        self.leaves: Leaves | None = None
        self._history = BeliefHistory(domains.slot_start)
        self._sweeps, self._sweep_began = 0, self._figures.updates
        self._is_through = False
        figures = self._figures
        self._n_states = figures.states = int(domains.slot_start[-1])
        figures.max_residual = figures.mean_residual = float("inf")
        figures.swept = figures.consistent = False
        figures.estimated_error = float("nan")

    # ------------------------------------------------------------ beginning
    def begin(self) -> Iterator[Step]:
        """Make the tables and pick the schedule; turn to logs if a rule's scores need them."""
        yield from self._make_tables()
        if self.workspace.out_of_range:
            self._start_over_in_logs()
            yield from self._make_tables()
        if self._start is not None:
            self.disturbed = carry_over(self._start, self.workspace)
        if self._put is not None and self.workspace.tables.arithmetic == LINEAR:
            self._put(self.workspace)
        self._begin_sweeps()
        self._schedule = self._make_schedule()
        while self.leaves is not None and not self._task.load(LEAVES):
            yield Step.WORKING

    def _start_over_in_logs(self) -> None:
        self._take_workspace(self._all_states(), LOG)
        self._error = None
        self._before = self._kept = None

    def _make_tables(self) -> Iterator[Step]:
        """Make the tables, and count what rules are asked for, now or in the earlier run that has made them."""
        figures = self._figures
        counted, tables = figures.work_parts["growth"], self.workspace.tables
        is_quick = self._compact is None and self.workspace.tables_are_there
        making = self._compact.fill(self.workspace) if self._compact else self.workspace.prepare()
        for _ in making:
            figures.work_parts["growth"] = counted + tables.scored
            if not is_quick or figures.work >= self._limits.work:
                yield Step.WORKING
        figures.work_parts["growth"] = counted + tables.scored

    def _begin_sweeps(self) -> None:
        """Stand before the first sweep; follow beliefs from here on, if somebody looks."""
        self._sweep_began = self._figures.updates
        if self._limits.is_watched:
            self._note_beliefs()

    def _make_schedule(self) -> Schedule:
        self.leaves = self._peel()
        if self.leaves is not None:
            return LeavesFirst(self.leaves, and_back=self._compact is not None)
        if self._nests:
            before, self._before = self._before, None
            likely = AT_ANY_COST if self._at_any_cost else LIKELY
            orders = self._orders(self.workspace.layout)
            return FrozenTailSchedule(self.workspace, orders, self._options.tolerance, before, likely)
        return self._plain_schedule(self.workspace, self.disturbed)

    @property
    def _nests(self) -> bool:
        """Whether `adaptive` may make inner rounds, which need the whole graph."""
        return self._options.method == "adaptive" and self._compact is None and can_nest(self.workspace)

    def _peel(self) -> Leaves | None:
        """Find the leaves; where inner rounds are the alternative, only those that save more."""
        largest_part = 1.0 if not self._nests else INSTEAD_OF_ROUNDS
        if self._compact is not None or self._before is not None:
            largest_part = 0.0
        given = self.workspace, self._options.max_memory, partial(self._task.load, LEAVES)
        return peel(*given, largest_part=largest_part, at_any_cost=self._at_any_cost and largest_part == 1.0)

    def _begin_core(self, schedule: LeavesFirst, core: Core) -> None:
        """Begin with the sweeps on the core, once the pass from the leaves is through."""
        self._history = BeliefHistory(core.slot_start)
        self._begin_sweeps()
        disturbed = self.leaves.disturbed(self.disturbed) if self.leaves and self.disturbed is not None else None
        schedule.on_core = self._plain_schedule(core, disturbed)

    def _plain_schedule(self, messages: Messages, disturbed: IndexArray | None) -> Schedule:
        if self._options.method == "residual":
            return ResidualSchedule(messages, self._options.tolerance, disturbed)
        orders = self._orders(messages.layout)
        if self._options.method == "adaptive":
            return LazySchedule(messages, orders, self._options.tolerance)
        return SweepSchedule(messages, orders, self._options.tolerance)

    def _orders(self, layout: GraphLayout) -> Iterator[IndexArray]:
        if self._options.schedule == "random":
            return random_orders(len(layout.factor_edge_start) - 1, self._options.generator())
        return sequential_orders(layout)

    @property
    def _core(self) -> Core | None:
        return self.leaves.core if self.leaves is not None else None

    @property
    def _messages(self) -> Messages:
        """What is iterated on: the core, or the whole graph."""
        return self._core or self.workspace

    @property
    def _slot_start(self) -> IndexArray:
        """Where beliefs of its variables start in a row of them."""
        return self.workspace.domains.slot_start if self._core is None else self._core.slot_start

    def complete(self) -> bool:
        """Send to all leaves in the workspace; return False where linear arithmetic would lose something."""
        return self.leaves is None or not self.leaves.is_through or self.leaves.complete()

    # ------------------------------------------------------------ a sweep
    def settle(self) -> Iterator[Step]:
        """Go through one sweep, or as many updates as one has."""
        figures, self._is_through = self._figures, False
        while True:
            figures.consistent, figures.states = False, self._n_states
            progress = self._advance()
            if progress.status == OUT_OF_RANGE and self.workspace.arrays.arithmetic == LOG:
                figures.ending = StopReason.NOT_CONVERGED  # messages grow beyond all bounds
                figures.max_residual = figures.mean_residual = float("inf")
                return
            if progress.status == OUT_OF_RANGE:
                self._task.load(LOGS)
                if self._compact is not None or self.leaves is not None or not self.workspace.go_on_in_logs():
                    self._start_over_in_logs()
                    yield from self.begin()
                yield Step.WORKING
            elif progress.status != OK:
                given = " under this evidence" if self._options.observed else ""
                raise vanished(self._compiled, progress.status, progress.culprit, given)
            elif progress.end_of_sweep:
                self._end_sweep(progress)
                return
            else:
                yield Step.WORKING

    def _advance(self) -> Progress:
        schedule, figures = self._schedule, self._figures
        assert schedule is not None  # noqa: S101  (`begin` has made it)
        updates, cost = self._limits.updates - figures.updates, self._limits.slice_cost(figures.work)
        progress = schedule.advance(updates, cost, figures.damping)
        figures.updates += progress.updates
        figures.work_parts["messages"] += progress.work
        core = self._core
        if core is not None and isinstance(schedule, LeavesFirst) and schedule.on_core is None:
            self._begin_core(schedule, core)
        return progress

    def _end_sweep(self, progress: Progress) -> None:
        figures, self._is_through = self._figures, True
        figures.rounds += 1
        self._sweeps += 1
        self._sweep_began = figures.updates
        figures.swept = True
        figures.max_residual = progress.max_residual
        figures.mean_residual = progress.mean_residual
        self._domains = progress.settled
        figures.consistent = progress.converged or progress.settled is not None
        figures.settled_rounds += figures.consistent
        figures.tolerance = progress.settled.tolerance if progress.settled else self._options.tolerance
        if progress.settled:
            figures.states = int(progress.settled.size.sum())
        if isinstance(self._schedule, FrozenTailSchedule):
            figures.choice = self._schedule.choice or figures.choice
        if progress.converged:
            figures.ending = StopReason.CONVERGED
        elif self._damper.hopeless(progress.max_residual):
            figures.ending = StopReason.NOT_CONVERGED
        figures.damping = self._damper.damping

    # ------------------------------------------------------------ what is left
    def look(self) -> Iterator[Step]:
        """Follow the beliefs; keep a state in which the domains have settled."""
        if self._is_through:
            self._follow_beliefs()
            self._kept = None  # a sweep after which nothing has settled is answered with itself
            if self._domains and not self._figures.ending:
                self._kept = self._state(frozen(self.workspace.arrays))
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Do nothing: all states are active."""
        return iter(())

    def _follow_beliefs(self) -> None:
        """Set a mark if it is due; where sweeps take very long, estimate the error as well."""
        self._error = None
        entries, limits = self._figures.work_parts["messages"] / self._sweeps, self._limits
        is_watched = limits.is_watched or (limits.has_deadline and entries > LONG)
        is_followed = is_watched or self._sweeps >= UNWATCHED or entries > VERY_LONG
        if is_followed and self._history.is_due(self._sweeps):
            belief = self._note_beliefs()
            if belief is not None and entries > VERY_LONG:
                estimate = self._estimate()
                self._error = estimate(belief)() if callable(estimate) else estimate
        self._figures.estimated_error = float("nan") if self._error is None else self._error

    def _note_beliefs(self) -> FloatArray | None:
        """Set a mark at the beliefs as they are, unless messages exclude each other as yet."""
        messages, start = self._messages, self._slot_start
        belief, log_normaliser = np.empty(int(start[-1])), np.empty(len(start) - 1)
        status, _ = read_beliefs(messages.layout, messages.arrays, start, belief, log_normaliser)
        if status != OK:
            return None
        self._history.note(self._sweeps, belief)
        return belief

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what is known now, or at the last state in which likely states had settled."""
        if settled:
            return None if self._kept is None else self._read(self._kept)
        return self._read(self._state(self.workspace.arrays))

    def _state(self, arrays: WorkspaceArrays) -> State:
        figures = self._figures.copy()
        if not figures.consistent:
            figures.tolerance = self._options.tolerance
        return State(arrays, figures, self._domains if figures.consistent else None, self._estimate())

    def _read(self, state: State) -> Snapshot:
        leaves = self.leaves
        has_leaves = leaves is not None and leaves.is_through
        return take_snapshot(
            readable(self.workspace, state.arrays, leaves if has_leaves else None),
            state.figures,
            swept=self._figures.swept,
            factor_marginals=self._options.factor_marginals,
            outside=state.settled.outside if state.settled else 0.0,
            error=state.error,
            domain_sizes=state.settled.size if state.settled else None,
        )

    def _estimate(self) -> float | Callable[[FloatArray], SweepError]:
        """Return the estimated error of the state as it is now, or how to compute it from beliefs."""
        if not self._figures.swept:
            return float("inf")
        if self._figures.consistent and self.leaves is not None and self.leaves.core is None:
            return 0.0
        if self._error is not None:
            return self._error
        layout, start = self._messages.layout, self._slot_start
        residual = self._pending()
        has_settled = self._figures.ending is StopReason.CONVERGED
        history, marks, time = self._history, self._history.marks, self._time
        return lambda belief: SweepError(
            layout,
            residual,
            belief,
            start,
            history.trend(marks, time, belief),
            self._options.tolerance,
            has_settled=has_settled,
            share=self._share_of_core(),
        )

    def _pending(self) -> FloatArray:
        """Return (E,) by how much messages last moved, or less if the schedule knows that little is pending; a copy."""
        moved = self._messages.arrays.edge_residual.copy()
        schedule = self._schedule.on_core if isinstance(self._schedule, LeavesFirst) else self._schedule
        return np.minimum(moved, PENDING * schedule.pending()) if isinstance(schedule, ResidualSchedule) else moved

    def _share_of_core(self) -> float:
        """Return the part of the core's error that is the mean over all variables: leaves move less than the core."""
        core, sizes = self._core, self.workspace.domains.sizes
        if core is None:
            return 1.0
        n_leaves = int((sizes > 1).sum()) - len(core.variables)
        return (len(core.variables) + LEAF * n_leaves) / len(sizes)

    @property
    def _time(self) -> float:
        """Sweeps so far, with the part of the present one that is through."""
        in_sweep = self._figures.updates - self._sweep_began
        return self._sweeps + min(0.999, in_sweep / max(1, len(self._messages.layout.factor_edge_start) - 1))
