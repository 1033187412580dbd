"""BP on all states that the evidence allows: leaves first, then sweeps or residual BP on the core that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from anytimebp.domains.domains import Domains, domain_sizes
from anytimebp.inference.control.damping import Damper
from anytimebp.inference.control.estimated_error import SweepError, share_of_core
from anytimebp.inference.control.following import Following
from anytimebp.inference.control.vanishing import vanished
from anytimebp.inference.method import LARGER, LEAVES, LOGS, Step, Task
from anytimebp.inference.reading_time import LARGE, expect_reading, first_domains
from anytimebp.inference.readout import prior_snapshot, take_snapshot
from anytimebp.inference.schedule.in_parts import schedule_in_parts
from anytimebp.inference.schedule.leaves_first import LeavesFirst
from anytimebp.inference.schedule.protocol import Messages, Progress, Schedule
from anytimebp.inference.schedule.sweeps import SweepSchedule, is_tiny, parents_first, plain_schedule
from anytimebp.kernels.codes import LINEAR, LOG, OK, OUT_OF_RANGE, SUM
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.arrays import may_have_hubs
from anytimebp.tables.carry_over import Start, carry_over
from anytimebp.tables.core import Core
from anytimebp.tables.leaves import Leaves, TreeOrder, peel
from anytimebp.tables.making import NEVER, make_bands, sweeps_before_bands
from anytimebp.tables.memory import check_memory
from anytimebp.tables.readable import readable
from anytimebp.tables.wide_beliefs import outgrows_doubles
from anytimebp.tables.workspace import Workspace, first_arithmetic

QUICK_SWEEPS = 12  # of `bp`, that `adaptive` begins with where they are tiny; the few longer runs gain by lazy sweeps
UNWATCHED = 64  # sweeps before which the beliefs of a run that nobody watches are not followed: most are over by then
LONG = 2**18  # entries read in a sweep, from which on reading beliefs costs little beside it, where there is a deadline
VERY_LONG = 2**22  # the same for reading them in any case, and for an estimate after every sweep


class AllStates:
    """Runs of `bp` and `residual`, and of `adaptive` where it works on whole tables.

    Attributes:
        workspace: Messages and tables, of a large graph once `begin` has set them up. `complete` sends to leaves.
        leaves: Trees and leaves that are summed into the core, if there are any; the core of a forest is empty.
        disturbed: Message factors that have to be updated, where the run started from given messages; None for all.
        may_be_quick: Whether `adaptive` begins with plain sweeps where they are tiny.
    """

    may_be_quick = True

    def __init__(
        self,
        task: Task,
        domains: Domains | None = None,
        *,
        at_any_cost: bool = False,
        is_checked: bool = False,
        start: Start | None = None,
        put: Callable[[Workspace], None] | None = None,
        error: float = float("inf"),
    ) -> None:
        """Compile the graph, if need be, and check the memory.

        Args:
            task: What is to be done.
            domains: All states, if somebody has put them together already; owned.
            at_any_cost: Whether to make a core, and lazy sweeps, even where they do not pay.
            is_checked: Whether the memory has been checked.
            start: Messages to start from.
            put: Puts messages to start from into a workspace.
            error: Estimated, of the marginals that belong to those messages.
        """
        self._task, self._options = task, task.options
        self._n_threads = task.options.n_threads
        self._figures, self._limits = task.figures, task.limits
        self._at_any_cost = at_any_cost
        self._start, self._put, self._error_before = start, put, error
        self.disturbed: IndexArray | None = None
        self._compiled = compiled_graph(task.graph)
        if may_have_hubs(self._compiled.arrays):
            task.load(LARGER)
        if not is_checked:
            check_memory(self._compiled, domain_sizes(self._compiled, self._options.observed), self._options.max_memory)
        if domains is None:
            domains = first_domains(task, self._compiled)
        arithmetic = first_arithmetic(self._compiled, domains.log_prior_min)
        if arithmetic == LINEAR and outgrows_doubles(self._compiled, domains.log_prior_min):
            arithmetic = LOG
        self._take_workspace(domains, arithmetic)
        self._figures.damping = self._options.damping
        self._error: float | None = None
        self._schedule: Schedule | None = None

    def _take_workspace(self, domains: Domains, arithmetic: int) -> None:
        """Start before the first sweep."""
        if arithmetic == LOG:
            self._task.load(LOGS)
        self._is_large = len(domains.log_prior) > LARGE
        given = self._compiled, domains, arithmetic
        self.workspace = Workspace(*given, semiring=self._task.semiring, in_slices=self._is_large)
        self._damper = Damper(self._options.damping, self.workspace, self._options.tolerance)
        self.leaves: Leaves | None = None
        self._following, self._follows_core = Following(domains.slot_start, self._error_before), False
        self._sweeps, self._sweep_began, self._is_quick = 0, self._figures.updates, False
        self._bands_due = NEVER
        self._is_through = False
        figures = self._figures
        self._n_states = figures.states = int(domains.slot_start[-1])
        figures.max_residual = figures.mean_residual = float("inf")
        figures.swept = figures.consistent = figures.exact = False
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
        if self._put is not None:
            self._put(self.workspace)
        if self._is_large:
            yield Step.WORKING
        self._begin_sweeps()
        if self._is_large:
            yield Step.WORKING
        yield from self._peel()
        leaves = self.leaves
        self._schedule = LeavesFirst(leaves) if leaves else self._plain_schedule(self.workspace, self.disturbed)
        while self.leaves is not None and not self._task.load(LEAVES):
            yield Step.WORKING

    def _peel(self) -> Iterator[Step]:
        """Find the leaves and trees that are summed into the core."""
        trees = TreeOrder(self.workspace, may_be_needless=not self._at_any_cost)
        while not (trees.is_needless or self._task.load(LARGER)):
            yield Step.WORKING
        while not trees.advance():
            yield Step.WORKING
        if self._is_large:
            yield Step.WORKING
        given = self.workspace, self._options.max_memory, partial(self._task.load, LEAVES), trees
        self.leaves = peel(*given, at_any_cost=self._at_any_cost)
        if self._is_large:
            yield Step.WORKING

    def go_on_in_logs(self) -> Iterator[Step]:
        """Turn to log arithmetic; start over where the messages cannot be kept."""
        self._task.load(LOGS)
        if self.leaves is not None or not self.workspace.go_on_in_logs():
            self._start_over_in_logs()
            yield from self.begin()
        yield Step.WORKING

    def _start_over_in_logs(self) -> None:
        self._take_workspace(first_domains(self._task, self._compiled), LOG)
        self._error = None

    def _make_tables(self) -> Iterator[Step]:
        """Make the tables, and count what rules are asked for, now or in the earlier run that has made them."""
        figures = self._figures
        counted, tables = figures.work_parts["growth"], self.workspace.tables
        is_quick = self.workspace.tables_are_there and not self._is_large
        for _ in self.workspace.prepare():
            figures.work_parts["growth"] = counted + tables.scored
            if not is_quick or figures.work >= self._limits.work:
                yield Step.WORKING
        figures.work_parts["growth"] = counted + tables.scored

    def _begin_sweeps(self) -> None:
        """Stand before the first sweep; follow beliefs from here on, if somebody looks."""
        self._sweep_began, arrays = self._figures.updates, self._messages.arrays
        has_room = self._task.ahead.room is not None
        expect_reading(self._figures, self._messages.layout, arrays, self._slot_start, has_room=has_room)
        is_new = self._start is None and self._put is None and arrays.semiring == SUM
        if self._limits.is_watched and is_new:
            self._following.note_priors(self._sweeps, self._messages)
        elif self._limits.is_watched:
            self._following.note(self._sweeps, self._messages)

    def _begin_core(self) -> None:
        """Begin with the sweeps on the core, in two steps: follow its beliefs; make the schedule."""
        schedule, leaves, core = self._schedule, self.leaves, self._core
        assert isinstance(schedule, LeavesFirst) and leaves is not None and core is not None  # noqa: S101, PT018
        if not self._follows_core:
            self._following, self._follows_core = Following(core.slot_start, self._error_before), True
            self._begin_sweeps()
        else:
            disturbed = leaves.disturbed(self.disturbed) if self.disturbed is not None else None
            schedule.on_core = self._plain_schedule(core, disturbed)

    def _plain_schedule(self, messages: Messages, disturbed: IndexArray | None) -> Schedule:
        is_adaptive = self._options.method == "adaptive"
        if self._options.max_memory is None and not self._sweeps:
            due = sweeps_before_bands(messages.layout, messages.arrays)
            self._bands_due = 0 if self._at_any_cost else max(due, is_adaptive)  # a first answer is sooner without
        may_be_quick = is_adaptive and self.may_be_quick and not self._at_any_cost
        self._is_quick = may_be_quick and self._sweeps < QUICK_SWEEPS and is_tiny(messages)
        is_lazy, options, core = is_adaptive and not self._is_quick, self._options, self._core
        if options.has_parts:
            is_lazy = is_lazy or options.method == "residual"  # a heap would make the order depend on the threads
            return schedule_in_parts(self._compiled, messages, core, options, is_lazy=is_lazy)
        rank = parents_first(self._compiled.arrays, None if core is None else core.variables) if is_adaptive else None
        return plain_schedule(messages, options, disturbed, rank, is_lazy=is_lazy)

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

    @property
    def _is_exact(self) -> bool:
        """Whether BP is exact once it has settled: on a forest, with all its states and scores."""
        return self._task.semiring == SUM and self.leaves is not None and self.leaves.core is None

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
                yield from self.go_on_in_logs()
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
        sweeps: Schedule | None = schedule
        if isinstance(schedule, LeavesFirst):
            if schedule.leaves.readers:
                schedule.leaves.keep_for_readers()
            if self._core_waits:
                self._begin_core()
                return Progress(OK, -1, 0, 0)
            sweeps = schedule.on_core
        if self._sweeps >= self._bands_due:
            make_bands(self._messages.layout, self._messages.arrays, self.workspace.tables, self._task.load)
            self._bands_due = NEVER
        updates, cost = self._limits.updates - figures.updates, self._limits.slice_cost(figures.work, self._n_threads)
        if isinstance(sweeps, SweepSchedule):
            sweeps.most_sweeps = self._quiet_sweeps()
        progress = schedule.advance(updates, cost, figures.damping)
        if progress.earlier:
            figures.pass_over(progress.earlier)
            for _, _, largest, _ in progress.earlier:
                self._damper.hopeless(largest)  # which it does not find before it looks
            self._sweeps, self._sweep_began = self._sweeps + len(progress.earlier), figures.updates
        figures.count(progress.updates, progress.work)
        while self._core_waits and not self._is_large:
            self._begin_core()
        return progress

    @property
    def _core_waits(self) -> bool:
        """Whether the pass from the leaves is through, and nobody sweeps over the core yet."""
        return self._core is not None and isinstance(self._schedule, LeavesFirst) and self._schedule.on_core is None

    def _quiet_sweeps(self) -> int:
        """Return how many sweeps can be made until somebody looks at messages."""
        if self._limits.is_watched:
            return 1
        next_look = QUICK_SWEEPS if self._is_quick else max(UNWATCHED, self._following.history.next_due(self._sweeps))
        return min(self._damper.quiet_sweeps, next_look - self._sweeps, self._bands_due - self._sweeps)

    def _end_sweep(self, progress: Progress) -> None:
        figures, self._is_through = self._figures, True
        figures.rounds, self._sweeps, self._sweep_began = figures.rounds + 1, self._sweeps + 1, figures.updates
        figures.swept, figures.max_residual, figures.mean_residual = True, progress.max_residual, progress.mean_residual
        figures.consistent = progress.converged
        figures.exact = progress.converged and self._is_exact
        figures.settled_rounds += progress.converged
        figures.tolerance = self._options.tolerance
        if self._damper.is_following and self.leaves is not None:
            self.leaves.note_residuals()
        if progress.converged:
            figures.ending = StopReason.CONVERGED
        elif self._damper.hopeless(progress.max_residual):
            figures.ending = StopReason.NOT_CONVERGED
        figures.damping = self._damper.damping
        if self._is_quick and self._sweeps == QUICK_SWEEPS and figures.ending is None:
            schedule = self._plain_schedule(self._messages, None)
            if isinstance(self._schedule, LeavesFirst):
                self._schedule.on_core = schedule
            else:
                self._schedule = schedule

    # ------------------------------------------------------------ what is left
    def look(self) -> Iterator[Step]:
        """Follow the beliefs."""
        return self._follow_beliefs() if self._is_through else iter(())

    def grow(self) -> Iterator[Step]:
        """Do nothing: all states are active."""
        return iter(())

    def _follow_beliefs(self) -> Iterator[Step]:
        """Set a mark if it is due; where sweeps take very long, estimate the error as well."""
        self._error = None
        entries, limits = self._figures.work_parts["messages"] / self._sweeps, self._limits
        is_watched = limits.is_watched or (limits.has_deadline and entries > LONG)
        is_followed = is_watched or self._sweeps >= UNWATCHED or entries > VERY_LONG
        pauses = self._is_large and self._figures.ending is None  # whoever watches is told of the end in any case
        if is_followed and self._following.history.is_due(self._sweeps):
            if pauses:
                yield Step.WORKING
            belief = self._following.note(self._sweeps, self._messages)
            if belief is not None and entries > VERY_LONG:
                if pauses:
                    yield Step.WORKING
                estimate = self._estimate(of_part=True)
                self._error = estimate(belief)() if callable(estimate) else estimate
        self._figures.estimated_error = float("nan") if self._error is None else self._error

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what is known now; nothing has settled before the end."""
        if settled:
            return None
        if self._is_large and self._knows_priors_alone:
            given, n = (self._compiled, self.workspace.domains, self._figures), self.workspace.n_priors
            joint, room = self._options.factor_marginals, self._task.ahead.take_room(self._n_states)
            return prior_snapshot(*given, outside=0.0, factor_marginals=joint, n_priors=n, room=room)
        figures, leaves = self._figures.copy(), self.leaves
        figures.tolerance = self._options.tolerance
        has_leaves = leaves is not None and leaves.is_through
        return take_snapshot(
            readable(self.workspace, self.workspace.arrays, leaves if has_leaves else None),
            figures,
            swept=figures.swept,
            factor_marginals=self._options.factor_marginals,
            outside=0.0,
            error=self._estimate(),
            room=None if has_leaves else self._task.ahead.take_room(self._n_states),
        )

    @property
    def _knows_priors_alone(self) -> bool:
        """Whether no message has been sent or set, so that priors, which are quicker to read, say all."""
        is_new = not self._figures.updates and self._start is None and self._put is None
        return not self.workspace.is_set_up or (is_new and self._task.semiring == SUM)

    def _estimate(self, *, of_part: bool = False) -> float | Callable[[FloatArray], SweepError]:
        """Return the estimated error, or how to compute it from beliefs, of all variables or of those followed."""
        if not self._figures.swept:
            return float("inf")
        if self._figures.consistent and self.leaves is not None and self.leaves.core is None:
            return 0.0
        if self._error is not None:
            return self._error
        return self._following.estimate(
            self._time,
            self._messages,
            self._schedule.on_core if isinstance(self._schedule, LeavesFirst) else self._schedule,
            self._options.tolerance,
            1.0 if self._core is None else share_of_core(len(self._slot_start) - 1, self.workspace.domains.sizes),
            has_settled=self._figures.ending is StopReason.CONVERGED,
            of_part=of_part,
        )

    @property
    def _time(self) -> float:
        """Sweeps so far, with the part of the present one that is through."""
        in_sweep = self._figures.updates - self._sweep_began
        return self._sweeps + min(0.999, in_sweep / max(1, len(self._messages.layout.factor_edge_start) - 1))
