"""One run on sparse domains, as a generator of slices: grow, converge, grow again, until the domains are full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from anytimebp.domains.universe import Universe
from anytimebp.errors import InconsistentModelError
from anytimebp.inference.control.patience import Patience
from anytimebp.inference.control.vanishing import may_be_possible, vanished_on_domains
from anytimebp.inference.options import RunOptions
from anytimebp.inference.policies import all_scores, best_part, first_states, mode_of, part_of, policy_of, scores_of
from anytimebp.inference.readout import Figures, unary_snapshot
from anytimebp.inference.recording import UNLIMITED
from anytimebp.inference.run import SLICE_COST, Limits, Step
from anytimebp.inference.schedule.residual import full_heap
from anytimebp.inference.sparse_readout import read_sparse
from anytimebp.kernels import growth as place
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
from anytimebp.model.graph import FactorGraph
from anytimebp.paper.arrays import RankingArrays, no_ranking
from anytimebp.paper.dynamic import DynamicGrowth
from anytimebp.paper.fixed import FixedGrowth
from anytimebp.paper.policy import GrowthView
from anytimebp.paper.priorities import FixedPriorities
from anytimebp.paper.queue import make_ranking
from anytimebp.paper.served import ServedFactors
from anytimebp.paper.workspace import SparseWorkspace, first_room
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.memory import check_universe, exceeds_memory
from anytimebp.tables.workspace import WorkspaceArrays, first_arithmetic


class SparseRun:
    """The state of one run of `truncated`, `random`, `fixed`, `dynamic` or a policy of the user's.

    Attributes:
        limits: What the caller allows; set before each step.
        ending: Why the run is finished, or None.
        consistent: Whether the messages are at a fixed point on the domains.
    """

    def __init__(self, graph: FactorGraph, options: RunOptions, universe: Universe | None = None) -> None:
        """Compile the graph, if need be, and put unary factors and evidence together, unless that has been done."""
        self.options = options
        self.compiled = compiled_graph(graph)
        check_universe(self.compiled, options.max_memory)
        self.universe = universe or Universe(self.compiled, options.observed)
        self.limits = Limits()
        self.patience = Patience(options.damping)
        self.ending: StopReason | None = None
        self.workspace: SparseWorkspace | None = None
        self._policy = policy_of(options)
        self._grow = 0 if options.method == "truncated" else min(options.grow, max(1, len(self.universe.log_prior)))
        self._mode = mode_of(self._policy) if self._grow else RANKED
        self._first_sizes = part_of(self.universe, 0.0 if self._grow else options.fraction)
        limit, scores = options.max_memory, self._mode >= DYNAMIC
        self._room = first_room(self.universe, self._first_sizes, self._grow, limit, scores_candidates=scores)
        self._priorities = FixedPriorities(self.universe, 0 if universe else self.universe.scored)
        self._view = GrowthView(self.universe, self._priorities, options.generator())
        self._ranking: RankingArrays = no_ranking(len(self.universe.n_allowed))
        self._progress = np.zeros(2 * place.PLACES, dtype=np.int64)
        self._residual, self._starts_afresh, self._was_cut = np.full(1, np.inf), False, False

    def count_on(self, updates: int, work_parts: dict[str, int]) -> None:
        """Start from the counts of a stage before this one."""
        counts = updates, work_parts["messages"], work_parts["growth"], work_parts["scoring"]
        self._progress[[place.UPDATES, place.MESSAGES, place.GROWTH, place.SCORING]] = counts
        self._priorities.work += work_parts["priorities"]

    # ------------------------------------------------------------ figures
    @property
    def consistent(self) -> bool:
        """Whether the state as it is now is a fixed point on its domains."""
        journal = self.workspace.journal if self.workspace else None
        if journal is None or not self.settled_rounds:
            return False
        return not journal.counts[N_SAVED] and not journal.counts[N_GROWN]

    can_be_judged = consistent
    choice, estimated_error = "", float("nan")

    @property
    def damping(self) -> float:
        """In force now."""
        return self.patience.damping

    @property
    def updates(self) -> int:
        """Factor updates so far."""
        return int(self._progress[place.UPDATES])

    @property
    def rounds(self) -> int:
        """Growth rounds so far; the first domains count as one."""
        return int(self._progress[place.ROUNDS])

    @property
    def states(self) -> int:
        """Active states of all variables together."""
        return int(self._progress[place.STATES])

    @property
    def settled_rounds(self) -> int:
        """How many rounds ended in a consistent state."""
        return int(self.workspace.journal.counts[EPOCH]) - 1 if self.workspace else 0

    @property
    def work_parts(self) -> dict[str, int]:
        """Entries read or scored so far, by purpose."""
        return self._work_parts(0)

    def _work_parts(self, offset: int) -> dict[str, int]:
        progress = self._progress[offset:]
        guess = self._view.guess.work if self._view.guess else 0
        return {
            "messages": int(progress[place.MESSAGES]),
            "scoring": int(progress[place.SCORING]),
            "growth": int(progress[place.GROWTH]),
            "priorities": self._priorities.work + guess,
        }

    @property
    def max_residual(self) -> float:
        """Largest residual that is pending."""
        if not self.workspace or not len(self._heap.item):
            return float("inf") if not self.workspace else 0.0
        return float(self._heap.priority[self._heap.item[0]])

    @property
    def mean_residual(self) -> float:
        """Mean pending residual over the factors."""
        n = len(self.compiled.arrays.factor_edge_start) - 1
        if not self.workspace:
            return float("inf")
        return float(np.add.reduce(self._heap.priority[:n])) / n if n else 0.0

    # ------------------------------------------------------------ the loop
    def steps(self) -> Iterator[Step]:
        """Work in slices of a few milliseconds until the run is finished."""
        yield from self._prepare()
        while self.ending is None:
            status, variable = self._slice()
            if status == ROUND_DONE:
                self.patience.begin_round(settled=bool(self._progress[place.SETTLED]))
                due = self.rounds >= self.limits.rounds or self.states >= self.limits.states
                yield Step.RECORD if due and self.consistent else Step.WORKING
            elif status == FINISHED:
                yield from self._finish()
            else:
                yield from self._serve(status, variable)

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
        elif status == UNSETTLED and not self.patience.extend(int(self._running.journal.counts[N_TOUCHED])):
            self._cut_round()
        yield Step.WORKING

    def _slice(self) -> tuple[int, int]:
        workspace = self._running
        rounds = self.rounds + 1 if self.patience.is_strained else UNLIMITED
        limits = np.array(
            [
                self.limits.updates,
                min(SLICE_COST, self.limits.work_left(self.work_parts)),
                self.patience.updates,
                min(rounds, self.limits.rounds),
                self.limits.states,
            ],
            dtype=np.int64,
        )
        return growth_slice(  # type: ignore[no-any-return]
            workspace.layout,
            workspace.arrays,
            self._heap,
            workspace.journal,
            workspace.domain,
            self._ranking,
            workspace.candidates,
            self._progress,
            self._residual,
            limits,
            self.options.tolerance,
            self.patience.damping,
        )

    def _prepare(self) -> Iterator[Step]:
        """Find the first states, allocate, and fill the first tables."""
        yield Step.WORKING
        if isinstance(self._policy, DynamicGrowth) and not self.universe.has_scores.all():
            for _ in self._view.make_guess():
                yield Step.WORKING
        if isinstance(self._policy, FixedGrowth):
            yield from self._compute_priorities()
        sizes, universe = self._first_sizes, self.universe
        if self._grow:
            states = first_states(self._policy, self._view, universe)
        else:
            states = best_part(universe, self._view.all_priorities(), sizes)
        code = first_arithmetic(self.compiled, universe.log_prior_min)
        how = {"grow": self._grow, "mode": self._mode, "arithmetic": code}
        workspace = SparseWorkspace(universe, sizes, states, self._room, **how)
        self._heap = full_heap(workspace.layout, len(workspace.arrays.hub_variable))
        self._served = ServedFactors(workspace)
        for entries in workspace.fill():
            self._progress[place.GROWTH] += entries
            yield Step.WORKING
        for _ in self._served.fill():
            self._take_served_work()
            yield Step.WORKING
        workspace.make_reach()
        begin = int(sizes.sum()), int(workspace.domain.is_barren.sum()), CONVERGE
        self._progress[[place.STATES, place.BARREN, place.PHASE]] = begin
        if self._mode == RANKED and self._grow:
            self._ranking = make_ranking(universe, all_scores(self._policy, self._view))
        self.workspace = self._view.workspace = workspace
        if self._mode == POLLED:
            yield from self._score(range(len(sizes)))

    @property
    def _running(self) -> SparseWorkspace:
        assert self.workspace is not None  # noqa: S101  (`_prepare` has made it)
        return self.workspace

    def _compute_priorities(self) -> Iterator[Step]:
        for _ in self._priorities.compute(np.ones(len(self.universe.n_allowed), dtype=np.bool_)):
            yield Step.WORKING
        self._view.mark_complete()

    # ------------------------------------------------------------ what the kernels ask for
    def _make_room(self, variable: int) -> Iterator[Step]:
        workspace = self._running
        if exceeds_memory(workspace.nbytes, workspace.room_bytes(variable), self.options.max_memory):
            self.ending = StopReason.OUT_OF_MEMORY
            yield Step.RECORD if self._can_be_read else Step.WORKING
            return
        for k, (factor, edge) in enumerate(workspace.make_room(variable)):
            self._served.enlarge(factor, edge)
            if k % 256 == 255:  # noqa: PLR2004
                yield Step.WORKING

    def _fill_entries(self, variable: int) -> Iterator[Step]:
        for _ in self._served.join(variable):
            self._take_served_work()
            yield Step.WORKING
        self._running.make_reach()

    def _take_served_work(self) -> None:
        self._progress[place.GROWTH] += self._served.grown
        self._progress[place.SCORING] += self._served.scored
        self._served.grown = self._served.scored = 0

    def _rank(self) -> Iterator[Step]:
        """Make the fixed ranking that decides where every candidate is impossible as things stand."""
        if not self._view.is_complete:
            yield from self._compute_priorities()
        self._ranking = make_ranking(self.universe, self._view.all_priorities())

    def _score(self, variables: range | None = None) -> Iterator[Step]:
        """Let the policy score the variables that have moved, with a look at the clock after each."""
        candidates = self._running.candidates
        if variables is not None:
            candidates.dirty[:] = variables
            candidates.n_dirty[0] = len(variables)
        for variable in candidates.dirty[: candidates.n_dirty[0]].tolist():
            start, end = self.universe.start[variable], self.universe.start[variable + 1]
            candidates.key[start:end] = scores_of(self._policy, self._view, variable)
            yield Step.WORKING
        take_scores(self._running.domain, candidates)

    # ------------------------------------------------------------ endings
    def _out_of_range(self) -> None:
        """Turn to logs; where that has happened already, messages grow beyond all bounds and the round is cut."""
        if self._running.arrays.arithmetic == LOG:
            self._cut_round()
        else:
            self._running.to_logs()

    def _cut_round(self) -> None:
        """Give a round up that does not settle, set its messages back, which may have run off for good, and grow on."""
        self.patience.give_up()
        self._was_cut = True
        self._progress[place.SETTLED] = self._progress[place.STATUS] = 0
        self._progress[place.PHASE] = RESCORE
        self._progress[[place.ACCOUNTED, place.SCORED, place.NEXT]] = 0
        self._running.candidates.n_dirty[0] = 0
        start_over(self._running.layout, self._running.arrays, self._heap, self._running.journal)

    def _converge_anew(self) -> None:
        """Begin a round in which nothing joins, from messages set back."""
        self._running.count_all_states(growing=False)
        self._progress[[place.PHASE, place.ROUND_UPDATES]] = CONVERGE, 0
        start_over(self._running.layout, self._running.arrays, self._heap, self._running.journal)

    def _finish(self) -> Iterator[Step]:
        """End the run: there is nothing left to grow.

        Messages that were led here from small domains may rest at a fixed point that BP would not reach, even at one
        that any push would leave. So once domains are full, the messages start over, and where they settle is the
        answer; where they do not, it is what growth has led to.
        """
        status, culprit = self._progress[[place.STATUS, place.CULPRIT]].tolist()
        if status != 0:
            raise vanished_on_domains(self.compiled, self.options, self._running.domain.is_barren, status, culprit)
        settled = bool(self._progress[place.SETTLED])
        if settled and self._grow and self.rounds > 1 and not self._starts_afresh:
            self._starts_afresh = True
            self.patience.begin_round(settled=True)
            self._converge_anew()
            return
        if settled or self._starts_afresh:
            self.ending = StopReason.CONVERGED
            if not settled:
                return  # what growth has led to was recorded when it settled
        elif self.patience.is_last:
            self.ending = StopReason.NOT_CONVERGED
        else:
            self.patience.make_last()
            self._converge_anew()
            return
        yield Step.RECORD

    # ------------------------------------------------------------ reading
    def snapshot(self, seconds: float) -> Snapshot:
        """Return what the run knows now; unary scores where messages do not say anything yet."""
        figures = self._figures(seconds, consistent=self.consistent, offset=0)
        if self.workspace is not None and self._can_be_read:
            joins = self._progress[place.PHASE] == START
            unready = int(self.workspace.domain.chosen_variable[self._progress[place.NEXT]]) if joins else -1
            with suppress(InconsistentModelError):  # not yet: domains that admit no joint state
                return self._read(self.workspace.frozen(settled=False, unready=unready), figures)
        return unary_snapshot(self.universe, figures, factor_marginals=self.options.factor_marginals)

    @property
    def _can_be_read(self) -> bool:
        """Whether a joint state of the domains is possible, as far as messages tell."""
        found = self.settled_rounds > 0 or self._was_cut
        return found or may_be_possible(self._running, int(self._progress[place.STATUS]))

    def answer(self, seconds: float) -> Snapshot | None:
        """Return the last consistent state, if the current one is not and there was one."""
        if self.workspace is None or self.consistent or not self.settled_rounds:
            return None
        figures = self._figures(seconds, consistent=True, offset=place.PLACES)
        return self._read(self.workspace.frozen(settled=True), figures)

    def _read(self, arrays: WorkspaceArrays, figures: Figures) -> Snapshot:
        n, priority = len(self.compiled.arrays.factor_edge_start) - 1, self._heap.priority
        pending = np.maximum(priority[:n], priority[n:].max(initial=0.0))  # hubs may not have told their factors yet
        if figures.consistent:
            pending[:] = figures.max_residual
        swept, joint = self.settled_rounds > 0, self.options.factor_marginals
        return read_sparse(self._running, arrays, figures, pending, swept=swept, factor_marginals=joint)

    def _figures(self, seconds: float, *, consistent: bool, offset: int) -> Figures:
        settled = offset > 0
        residual = float(self._residual[0]) if settled else self.max_residual
        return Figures(
            seconds=seconds,
            updates=int(self._progress[offset + place.UPDATES]),
            work_parts=self._work_parts(offset),
            max_residual=residual,
            mean_residual=residual if settled else self.mean_residual,
            damping=self.patience.damping,
            consistent=consistent,
            tolerance=self.options.tolerance,
            method=self.options.method,
        )
