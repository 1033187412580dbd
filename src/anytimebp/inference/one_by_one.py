"""The published methods: domains that grow state by state, converge, and grow again, until they are full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.errors import InconsistentModelError
from anytimebp.inference.control.round_limits import RoundLimits
from anytimebp.inference.control.vanishing import may_be_possible, vanished_on_domains
from anytimebp.inference.figures import UNLIMITED, Figures
from anytimebp.inference.look.unexplored import UnexploredMass
from anytimebp.inference.method import Step, Task
from anytimebp.inference.readout import prior_snapshot, take_snapshot
from anytimebp.inference.schedule.residual import full_heap
from anytimebp.kernels import growth as counter
from anytimebp.kernels.codes import (
    CONVERGE,
    DYNAMIC,
    FINISHED,
    LOG,
    NEEDS_ENTRIES,
    NEEDS_RANKING,
    NEEDS_ROOM,
    NEEDS_SCORES,
    OUT_OF_RANGE,
    POLLED,
    RANKED,
    RESCORE,
    ROUND_DONE,
    START,
    UNSETTLED,
)
from anytimebp.kernels.growth import growth_slice, take_scores
from anytimebp.kernels.joining import start_over
from anytimebp.kernels.journal import EPOCH, N_GROWN, N_SAVED, N_TOUCHED
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.paper.arrays import RankingArrays, no_ranking
from anytimebp.paper.asked import AskedFactors
from anytimebp.paper.growing_domains import GrowingDomains, first_room
from anytimebp.paper.policy import GrowthView
from anytimebp.paper.priorities import FixedPriorities
from anytimebp.paper.rankings import (
    DynamicGrowth,
    FixedGrowth,
    all_scores,
    best_part,
    first_states,
    make_ranking,
    mode_of,
    part_of,
    policy_of,
    scores_of,
)
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.memory import check_axes, check_universe, exceeds_memory
from anytimebp.tables.readable import readable
from anytimebp.tables.workspace import Workspace, first_arithmetic


class OneByOne:
    """Runs of `truncated`, `random`, `fixed`, `dynamic`, or a policy of the user's.

    Attributes:
        workspace: Messages and tables; None until they are made.
        growing: The domains, and what may join them; None until then.
    """

    def __init__(self, task: Task) -> None:
        """Compile the graph, if need be, and put unary factors and evidence together."""
        self._task, self._options = task, task.options
        self._figures, self._limits = task.figures, task.limits
        options = task.options
        self._compiled = compiled_graph(task.graph)
        check_axes(self._compiled, options.method)
        check_universe(self._compiled, options.max_memory)
        self._universe = Universe(self._compiled, options.observed)
        self._round_limits = RoundLimits(options.damping)
        self.workspace: Workspace | None = None
        self.growing: GrowingDomains | None = None
        self._policy = policy_of(options.method) if options.policy is None else options.policy
        self._grow = 0 if options.method == "truncated" else min(options.grow, max(1, len(self._universe.log_prior)))
        self._mode = mode_of(self._policy) if self._grow else RANKED
        self._first_sizes = part_of(self._universe.n_allowed, 0.0 if self._grow else options.fraction)
        limit, scores = options.max_memory, self._mode >= DYNAMIC
        self._room = first_room(self._universe, self._first_sizes, self._grow, limit, scores_candidates=scores)
        self._priorities = FixedPriorities(self._universe, self._universe.scored)
        self._view = GrowthView(self._universe, self._priorities, options.generator())
        self._ranking: RankingArrays = no_ranking(len(self._universe.n_allowed))
        self._progress = np.zeros(2 * counter.COUNTERS, dtype=np.int64)
        self._residual, self._starts_afresh, self._was_cut = np.full(1, np.inf), False, False
        self._before = self._figures.copy()  # counts of what another method has done
        self._figures.max_residual = self._figures.mean_residual = float("inf")
        self._figures.consistent, self._figures.estimated_error = False, float("nan")
        self._figures.tolerance = options.tolerance
        self._tell()

    # ------------------------------------------------------------ figures
    def _tell(self) -> None:
        """Bring the figures up to date."""
        figures, before, progress = self._figures, self._before, self._progress
        figures.updates = before.updates + int(progress[counter.UPDATES])
        figures.rounds = before.rounds + int(progress[counter.ROUNDS])
        figures.states = int(progress[counter.STATES])
        figures.work_parts = self._work_parts(0)
        figures.damping = self._round_limits.damping
        if self.growing is None:
            return
        counts, heap = self.growing.journal.counts, self._heap
        figures.settled_rounds = before.settled_rounds + self._n_settled
        figures.consistent = bool(self._n_settled and not counts[N_SAVED] and not counts[N_GROWN])
        n = len(self._compiled.arrays.factor_edge_start) - 1
        figures.max_residual = float(heap.priority[heap.item[0]]) if len(heap.item) else 0.0
        figures.mean_residual = float(np.add.reduce(heap.priority[:n])) / n if n else 0.0

    @property
    def _n_settled(self) -> int:
        """How many rounds ended in a consistent state."""
        return int(self.growing.journal.counts[EPOCH]) - 1 if self.growing else 0

    def _work_parts(self, offset: int) -> dict[str, int]:
        progress, before = self._progress[offset:], self._before.work_parts
        guess = self._view.guess.work if self._view.guess else 0
        return {
            "messages": before["messages"] + int(progress[counter.MESSAGES]),
            "scoring": before["scoring"] + int(progress[counter.SCORING]),
            "growth": before["growth"] + int(progress[counter.GROWTH]),
            "priorities": before["priorities"] + self._priorities.work + guess,
        }

    # ------------------------------------------------------------ the loop
    def settle(self) -> Iterator[Step]:
        """Let messages settle, grow, settle: as many rounds as nobody wants to see, in one kernel."""
        while self._figures.ending is None:
            status, variable = self._slice()
            if status == ROUND_DONE:
                self._round_limits.begin_round(settled=bool(self._progress[counter.SETTLED]))
                self._figures.is_news = self._figures.consistent
                return
            if status == FINISHED:
                self._finish()
            else:
                yield from self._serve(status, variable)
            self._tell()

    def look(self) -> Iterator[Step]:
        """Do nothing: candidates are looked at in the kernel, and what is left when a snapshot is asked for it."""
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Do nothing: growth is a part of the kernel that settles, which goes on with it."""
        return iter(())

    def _serve(self, status: int, variable: int) -> Iterator[Step]:
        """Do what the kernels ask for."""
        if status == NEEDS_ROOM:
            yield from self._make_room(variable)
        elif status == NEEDS_RANKING:
            yield from self._rank()
        elif status == NEEDS_ENTRIES:
            yield from self._fill_entries(variable)
        elif status == NEEDS_SCORES:
            yield from self._score()
        elif status == OUT_OF_RANGE:
            self._out_of_range()
        elif status == UNSETTLED and not self._round_limits.extend(int(self._running.journal.counts[N_TOUCHED])):
            self._cut_round()
        if self._figures.ending is None:
            self._tell()
            yield Step.WORKING

    def _slice(self) -> tuple[int, int]:
        running, before = self._running, self._before
        rounds = int(self._progress[counter.ROUNDS]) + 1 if self._round_limits.is_strained else UNLIMITED
        limits = np.array(
            [
                self._limits.updates - before.updates,
                self._limits.slice_cost(self._figures.work),
                self._round_limits.updates,
                min(rounds, self._limits.rounds - before.rounds),
                self._limits.states,
            ],
            dtype=np.int64,
        )
        status, variable = growth_slice(
            running.workspace.layout,
            running.workspace.arrays,
            self._heap,
            running.journal,
            running.domain,
            self._ranking,
            running.candidates,
            self._progress,
            self._residual,
            limits,
            self._options.tolerance,
            self._round_limits.damping,
        )
        self._tell()
        return status, variable

    def begin(self) -> Iterator[Step]:
        """Find the first states, allocate, and fill the first tables."""
        yield Step.WORKING
        if isinstance(self._policy, DynamicGrowth) and not self._universe.has_scores.all():
            for _ in self._view.make_guess():
                self._tell()
                yield Step.WORKING
        if isinstance(self._policy, FixedGrowth):
            yield from self._compute_priorities()
        sizes, universe = self._first_sizes, self._universe
        if self._grow:
            states = first_states(self._policy, self._view, universe)
        else:
            states = best_part(universe, self._view.all_priorities(), sizes)
        code = first_arithmetic(self._compiled, universe.log_prior_min)
        workspace = Workspace(self._compiled, universe.domains(sizes.copy(), states), code, room=self._room)
        growing = GrowingDomains(universe, workspace, grow=self._grow, mode=self._mode)
        self._heap = full_heap(workspace.layout, len(workspace.arrays.hub_variable))
        self._asked = AskedFactors(growing)
        for entries in growing.fill():
            self._progress[counter.GROWTH] += entries
            self._tell()
            yield Step.WORKING
        for _ in self._asked.fill():
            self._take_asked_work()
            self._tell()
            yield Step.WORKING
        growing.make_zero_queue()
        begin = int(sizes.sum()), int(growing.domain.is_impossible.sum()), CONVERGE
        self._progress[[counter.STATES, counter.N_IMPOSSIBLE, counter.PHASE]] = begin
        if self._mode == RANKED and self._grow:
            self._ranking = make_ranking(universe, all_scores(self._policy, self._view))
        self.workspace = self._view.workspace = workspace
        self.growing = growing
        if self._mode == POLLED:
            yield from self._score(range(len(sizes)))
        self._tell()

    @property
    def _running(self) -> GrowingDomains:
        assert self.growing is not None  # noqa: S101  (`begin` has made it)
        return self.growing

    def _compute_priorities(self) -> Iterator[Step]:
        for _ in self._view.compute_priorities():
            self._tell()
            yield Step.WORKING

    # ------------------------------------------------------------ what the kernels ask for
    def _make_room(self, variable: int) -> Iterator[Step]:
        growing = self._running
        if exceeds_memory(growing.nbytes, growing.room_bytes(variable), self._options.max_memory):
            self._figures.ending = StopReason.OUT_OF_MEMORY
            self._figures.is_news = self._can_be_read
            return
        for k, (factor, edge) in enumerate(growing.make_room(variable)):
            self._asked.enlarge(factor, edge)
            if k % 256 == 255:  # noqa: PLR2004
                yield Step.WORKING

    def _fill_entries(self, variable: int) -> Iterator[Step]:
        for _ in self._asked.join(variable):
            self._take_asked_work()
            self._tell()
            yield Step.WORKING
        self._running.make_zero_queue()

    def _take_asked_work(self) -> None:
        self._progress[counter.GROWTH] += self._asked.grown
        self._progress[counter.SCORING] += self._asked.scored
        self._asked.grown = self._asked.scored = 0

    def _rank(self) -> Iterator[Step]:
        """Make the fixed ranking that decides where every candidate is impossible as things stand."""
        yield from self._compute_priorities()
        self._ranking = make_ranking(self._universe, self._view.all_priorities())

    def _score(self, variables: range | None = None) -> Iterator[Step]:
        """Let the policy score the variables that have moved, with a look at the clock after each."""
        candidates = self._running.candidates
        if variables is not None:
            candidates.dirty[:] = variables
            candidates.n_dirty[0] = len(variables)
        for variable in candidates.dirty[: candidates.n_dirty[0]].tolist():
            start, end = self._universe.start[variable], self._universe.start[variable + 1]
            candidates.key[start:end] = scores_of(self._policy, self._view, variable)
            yield Step.WORKING
        take_scores(self._running.domain, candidates)

    # ------------------------------------------------------------ endings
    def _out_of_range(self) -> None:
        """Turn to logs; where that has happened already, messages grow beyond all bounds and the round is cut."""
        if self._running.workspace.arrays.arithmetic == LOG:
            self._cut_round()
        else:
            self._running.to_logs()

    def _cut_round(self) -> None:
        """Give a round up that does not settle, set its messages back, which may have run off for good, and grow on."""
        self._round_limits.give_up()
        self._was_cut = True
        self._progress[counter.SETTLED] = self._progress[counter.STATUS] = 0
        self._progress[counter.PHASE] = RESCORE
        self._progress[[counter.ACCOUNTED, counter.SCORED, counter.NEXT]] = 0
        self._running.candidates.n_dirty[0] = 0
        self._start_over()

    def _converge_anew(self) -> None:
        """Begin a round in which nothing joins, from messages set back."""
        self._progress[[counter.PHASE, counter.ROUND_UPDATES]] = CONVERGE, 0
        self._start_over()

    def _start_over(self) -> None:
        workspace = self._running.workspace
        start_over(workspace.layout, workspace.arrays, self._heap, self._running.journal)

    def _finish(self) -> None:
        """End the run, or begin its last round: there is nothing left to grow.

        Messages that were led here from small domains may rest at a fixed point that BP would not reach, even at one
        that any push would leave. So once domains are full, the messages start over, and where they settle is the
        answer; where they do not, it is what growth has led to.
        """
        status, culprit = self._progress[[counter.STATUS, counter.CULPRIT]].tolist()
        if status != 0:
            raise vanished_on_domains(
                self._compiled, self._options, self._running.domain.is_impossible, status, culprit
            )
        settled = bool(self._progress[counter.SETTLED])
        if settled and self._grow and self._progress[counter.ROUNDS] > 1 and not self._starts_afresh:
            self._starts_afresh = True
            self._round_limits.begin_round(settled=True)
            self._converge_anew()
        elif settled or self._starts_afresh:
            self._figures.ending = StopReason.CONVERGED
            self._figures.is_news = settled  # what growth has led to was recorded when it settled
        elif self._round_limits.is_last:
            self._figures.ending, self._figures.is_news = StopReason.NOT_CONVERGED, True
        else:
            self._round_limits.make_last()
            self._converge_anew()

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what the run knows now, unary scores where messages do not say anything yet; or what it knew last."""
        if settled:
            return self._read_settled()
        if self.growing is not None and self._can_be_read:
            joins = self._progress[counter.PHASE] == START
            unready = int(self.growing.domain.chosen_variable[self._progress[counter.NEXT]]) if joins else -1
            with suppress(InconsistentModelError):  # not yet: domains that admit no joint state
                return self._read(self.growing.frozen(settled=False, unready=unready), self._figures)
        joint = self._options.factor_marginals
        return prior_snapshot(self._compiled, self._universe.every, self._figures, outside=1.0, factor_marginals=joint)

    @property
    def _can_be_read(self) -> bool:
        """Whether a joint state of the domains is possible, as far as messages tell."""
        found = self._n_settled > 0 or self._was_cut
        return found or may_be_possible(self._running, int(self._progress[counter.STATUS]))

    def _read_settled(self) -> Snapshot | None:
        """Return the last consistent state, if there was one."""
        if self.growing is None or not self._n_settled:
            return None
        residual = float(self._residual[0])
        figures = replace(
            self._figures,
            updates=self._before.updates + int(self._progress[counter.COUNTERS + counter.UPDATES]),
            work_parts=self._work_parts(counter.COUNTERS),
            max_residual=residual,
            mean_residual=residual,
            consistent=True,
        )
        return self._read(self.growing.frozen(settled=True), figures)

    def _read(self, arrays: WorkspaceArrays, figures: Figures) -> Snapshot:
        n, priority = len(self._compiled.arrays.factor_edge_start) - 1, self._heap.priority
        pending = np.maximum(priority[:n], priority[n:].max(initial=0.0))  # hubs may not have told their factors yet
        if figures.consistent:
            pending[:] = figures.max_residual
        source = readable(self._running.workspace, arrays)
        return take_snapshot(
            source,
            figures,
            swept=self._n_settled > 0,
            factor_marginals=self._options.factor_marginals,
            outside=partial(UnexploredMass, self._universe, source, pending),
        )
