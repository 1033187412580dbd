"""Rounds of `adaptive` on sparse domains: strips of tables, inner rounds, growth by estimated belief.

A round: the states whose estimated belief is above a threshold join their domains; strips are filled for them; one
sweep through the strips sends messages to every state within reach; inner rounds settle the domains with the rest
standing still; beliefs are read. The threshold shrinks from round to round. `kernels/strips.py` and `kernels/inner.py`
have the mathematics, `inference/adaptive/choice.py` the costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.inference.adaptive.asked_strips import AskedStrips, NotPositiveError
from anytimebp.inference.adaptive.choice import pick_costs, round_cost, whole_cost
from anytimebp.inference.adaptive.leaf_axes import domains_left
from anytimebp.inference.adaptive.nested import NestedWorkspace, within_reach
from anytimebp.inference.adaptive.reach import MOST_NEW, REACHES, WORTH_CUTTING, guessed_gain, least_prior
from anytimebp.inference.adaptive.round_end import Outcome, RoundEnd
from anytimebp.inference.adaptive.strip_readout import read_stage
from anytimebp.inference.adaptive.strip_sources import StripSources
from anytimebp.inference.control.estimated_error import domains_error
from anytimebp.inference.look.pair_readout import pairs_of_strips
from anytimebp.inference.method import Step, Task
from anytimebp.inference.schedule.forest import forest_order
from anytimebp.inference.schedule.sweeps import sequential_orders
from anytimebp.kernels.codes import CONVERGED, FACTOR_VANISHED, LINEAR, NEEDS_ENTRIES, OK, UNSETTLED
from anytimebp.kernels.readout import read_beliefs
from anytimebp.kernels.rounds import (
    CHANGE,
    COUNTERS,
    FILL,
    LOG_Z,
    OUTSIDE,
    PHASE,
    PICKED,
    READ,
    RESIDUAL,
    TABLES,
    TOLERANCE,
    UPDATES,
    round_slice,
    share_out_of_reach,
)
from anytimebp.kernels.strips import join_above
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.arrays import frozen
from anytimebp.tables.memory import exceeds_memory
from anytimebp.tables.sizes import strip_entries, table_entries
from anytimebp.tables.workspace import Workspace

THRESHOLDS = (5e-3, 5e-4)  # of estimated belief above which states join first: the lower one, if it is affordable
SHRINKS = 0.1  # to this part, each round
LAST_THRESHOLD = 1e-20  # after which the rest joins at once
REACHES_FOR = 100.0  # times the threshold that the beliefs out of reach may be under
UNHEARD = 1e-30  # weight of states outside the domains before any message has reached them
MAX_SWEEPS = 300  # inner sweeps after which a round does not settle
FIRST_TOLERANCE = 0.1  # to which the first domains settle before anything is heard from outside them
WORTH = 0.5  # part of the cost of whole tables, and a sweep over them, that all strips together may cost
MANY_PICKED = 1e6  # cost of the first strips, from which on there is an answer before they are filled
LOOSE = 0.1  # inner rounds settle to this part of what the sweep before them has moved


class StripStage:
    """Rounds on sparse domains.

    Attributes:
        compiled: The graph, without the leaves that are summed out.
        sources: Where strips come from.
        outcome: Why the rounds have ended, or None.
        settled: The end of the last round, or None before the first.
        workspace: Messages and domains.
        threshold: Of estimated belief, above which states have joined.
    """

    def __init__(
        self,
        task: Task,
        domains: Domains,
        sources: StripSources,
        spread: FloatArray,
        *,
        nats: float,
        full_fits: bool,
        at_any_cost: bool = False,
    ) -> None:
        """Hold what the rounds need.

        Args:
            task: What is to be done.
            domains: All states that the evidence leaves; not changed.
            sources: Where strips come from, and which leaves they sum out.
            spread: (V,) standard deviation of what messages add to a state's log prior, in nats, as far as tables vary.
            nats: Under the best prior, within which states are in the first domains.
            full_fits: Whether whole tables are an alternative.
            at_any_cost: Whether to go on until the domains hold every state.
        """
        axes = sources.axes
        self.compiled = compiled = axes.compiled
        self.variables, self.sources = compiled.variables, sources
        self._all, self._domains = domains, domains_left(axes, domains)
        self._spread = spread[axes.variables]
        self._n_leaf_states = int(domains.sizes[axes.leaves].sum())
        self._run, self._limits, options = task.figures, task.limits, task.options
        self._tolerance, self._max_memory = options.tolerance, options.max_memory
        self._factor_marginals = options.factor_marginals
        self._full_fits, self._at_any_cost = full_fits and not at_any_cost, at_any_cost
        self._pick_cost = pick_costs(axes, sources.kind)
        self._most_cost = WORTH * whole_cost(axes, self._domains.sizes, 1.0)
        self._asked = AskedStrips(compiled, sources.kind)
        self.outcome: Outcome | None = None
        self.settled: RoundEnd | None = None
        self._reach_level = -1
        self.threshold = THRESHOLDS[-1]
        self._whole_rounds = self._rounds = 0
        self._progress = np.zeros(COUNTERS, dtype=np.int64)
        self._figures = np.zeros(5)
        self._log_scale = float(domains.log_prior_scale.sum())
        order = forest_order(compiled.arrays)
        orders = sequential_orders(compiled.arrays) if order is None else iter((order, order[::-1].copy()))
        self._there, self._back = next(orders), next(orders)
        self.workspace = workspace = self._within(0)
        join_above(workspace.layout, workspace.space, workspace.nested, workspace.space.prior, math.exp(-nats))
        strips = strip_entries(workspace.layout, workspace.nested.size, workspace.space.domain_size)
        self._looks = self._asked.is_needed or float((self._pick_cost * strips).sum()) < MANY_PICKED
        self._run.states = self._n_leaf_states + int(workspace.nested.size.sum())

    def sizes_with_leaves(self, sizes: IndexArray) -> IndexArray:
        """Return the sizes of the domains of all variables; all states of leaves take part."""
        whole = self._all.sizes.copy()
        whole[self.sources.axes.variables] = sizes
        return whole

    def domains(self) -> list[IndexArray]:
        """Return the states in each variable's domain."""
        nested, start = self.workspace.nested, self.workspace.space.variable_slot_start[:-1].tolist()
        return [
            nested.slot_state[first + nested.member[first : first + n]]
            for first, n in zip(start, nested.size.tolist(), strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes held: by the workspace, and by that of the last round where it was another."""
        before = self.settled.workspace if self.settled else self.workspace
        return self.workspace.nbytes + (before.nbytes if before is not self.workspace else 0)

    def release(self) -> None:
        """Let go of strips and tables; what is known stays."""
        self.workspace.release()
        if self.settled:
            self.settled.workspace.release()

    # ------------------------------------------------------------ what takes part
    def _within(self, level: int) -> NestedWorkspace:
        """Return a workspace over the states within reach at some level, or one that is worth the difference."""
        reach = None
        while REACHES[level] > 0.0 and reach is None:
            least = least_prior(REACHES[level], self._spread)
            reach = within_reach(self._domains, least)
            if len(reach.place) > WORTH_CUTTING * len(self._domains.log_prior):
                level, reach = level + 1, None
        self._reach_level = level
        reach = reach or within_reach(self._domains, None)
        self._out_of_reach = np.empty(len(self._domains.sizes))
        share_out_of_reach(self._domains.log_prior, self._domains.slot_start, reach.place, self._out_of_reach)
        workspace = NestedWorkspace(
            Workspace(self.compiled, reach.domains, LINEAR, structures=False), reach, self.sources
        )
        workspace.space.edge_scale[:] = UNHEARD
        return workspace

    def _heard_gain(self, outside: FloatArray) -> FloatArray:
        """Return (V,) by how much messages raise the states within reach, but outside the domains, on average."""
        if not self._out_of_reach.any():
            return np.ones(len(outside))
        space, start = self.workspace.space, self.workspace.space.variable_slot_start[:-1]
        prior = np.add.reduceat(space.prior, start) / (1.0 - self._out_of_reach)
        heard = np.add.reduceat(np.where(self.workspace.nested.is_member, 0.0, space.prior), start) / prior
        return np.divide(outside, heard, out=np.ones(len(outside)), where=heard > 0.0)

    def _extend_reach(self, belief: FloatArray) -> FloatArray:
        """Go over to a workspace with more states, if the threshold asks for it; return beliefs over its states."""
        level = self._reach_level
        while level < len(REACHES) - 1 and REACHES[level] > REACHES_FOR * self.threshold:
            level += 1
        if level == self._reach_level:
            return belief
        before, self.workspace = self.workspace, self._within(level)
        self.workspace.carry_over(before)
        if not self._asked.is_needed:
            before.release()
        return self._beliefs()

    def _beliefs(self) -> FloatArray:
        """Read the beliefs of the states within reach."""
        workspace, space = self.workspace, self.workspace.space
        belief, log_normaliser = np.empty(len(space.prior)), np.empty(len(space.domain_size))
        status, _ = read_beliefs(workspace.layout, space, space.variable_slot_start[:-1], belief, log_normaliser)
        if status != OK:
            raise NotPositiveError
        return belief

    # ------------------------------------------------------------ the loop
    def begin(self) -> Iterator[Step]:
        """Do nothing: the first states are in their domains."""
        return iter(())

    def settle(self) -> Iterator[Step]:
        """Go through a round."""
        try:
            yield from self._round()
        except NotPositiveError:
            self.outcome = Outcome.NOT_POSITIVE
        self._run.is_news = self.outcome is None

    def look(self) -> Iterator[Step]:
        """Do nothing: sweeps through the strips are the look."""
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Let states join for the next round, or find out why there will be none."""
        if self.outcome is None:
            try:
                self._grow()
            except NotPositiveError:
                self.outcome = Outcome.NOT_POSITIVE
        return iter(())

    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what is known at the end of the last round, or now; nothing before the first if there are leaves."""
        if self.settled is None and (settled or len(self.sources.axes.leaves)):
            return None
        return read_stage(self, self._run, settled=settled or self._run.consistent, joint=self._factor_marginals)

    def _round(self) -> Iterator[Step]:
        """Fill, sweep, settle, read; looks at the clock where a slice is used up."""
        workspace, before = self.workspace, self.settled
        self._run.consistent = False
        workspace.make_room(strips=self._looks)
        space = workspace.space
        belief, outside = np.empty(len(space.prior)), np.empty(len(space.domain_size))
        known = before.belief if before is not None and before.workspace is workspace else np.empty(0)
        if before is not None and not len(known):
            known = self._beliefs()
        tightest = 0.1 * self._tolerance if self._whole_rounds else self._tolerance
        progress, goals = self._progress, np.array([tightest, self.threshold, LOOSE, FIRST_TOLERANCE])
        progress[:] = 0
        progress[PHASE] = FILL if self._looks else TABLES
        self._figures[RESIDUAL] = self._figures[TOLERANCE] = FIRST_TOLERANCE
        status = OK
        while status != CONVERGED:
            progress[[UPDATES, READ, PICKED]] = 0
            limits = np.array([MAX_SWEEPS, self._updates_left(), self._slice_cost()], dtype=np.int64)
            status = round_slice(
                workspace.layout,
                space,
                workspace.inner,
                workspace.nested,
                self._there,
                self._back,
                belief,
                known,
                outside,
                progress,
                self._figures,
                goals,
                limits,
            )
            self._count(progress)
            if status == NEEDS_ENTRIES:
                try:
                    for _ in self._asked.fill(workspace):
                        self._count_asked()
                        yield Step.WORKING
                except NotPositiveError:
                    status = FACTOR_VANISHED
                self._count_asked()
            if status not in {OK, CONVERGED, NEEDS_ENTRIES}:
                self.outcome = Outcome.UNSETTLED if status == UNSETTLED else Outcome.NOT_POSITIVE
                return
            if status == OK:
                yield Step.WORKING
        pairs = 0.0
        if not (self._full_fits or self._at_any_cost):  # otherwise whole tables will be looked at soon
            single = float(outside.mean()) if len(outside) else 0.0
            for asked in pairs_of_strips(self.compiled, workspace, belief, outside):
                self._run.work_parts["scoring"] += asked
                yield Step.WORKING
            pairs = float(outside.mean()) - single if len(outside) else 0.0
        self._end_round(belief, outside, pairs)

    def _count(self, progress: IndexArray) -> None:
        self._run.updates += int(progress[UPDATES])
        self._run.work_parts["messages"] += int(progress[READ])
        self._run.work_parts["growth"] += int(progress[PICKED])

    def _count_asked(self) -> None:
        self._run.work_parts["growth"] += self._asked.asked
        self._asked.asked = 0

    def _updates_left(self) -> int:
        return max(1, self._limits.updates - self._run.updates)

    def _slice_cost(self) -> int:
        return self._limits.slice_cost(self._run.work)

    def _end_round(self, belief: FloatArray, outside: FloatArray, pairs: float) -> None:
        """Take down what is known now."""
        workspace, space = self.workspace, self.workspace.space
        run = self._run
        run.rounds += 1
        run.settled_rounds += 1
        self._rounds += self._looks
        workspace.release_old_strips()
        run.max_residual = run.mean_residual = float(self._figures[RESIDUAL])  # the mean is not kept
        run.tolerance = float(self._figures[TOLERANCE])
        run.states = self._n_leaf_states + int(workspace.nested.size.sum())
        gain = (guessed_gain(self._spread), self._heard_gain(outside))
        unseen = np.minimum(1.0, self._out_of_reach * np.maximum(*gain))
        self.settled = RoundEnd(
            workspace,
            frozen(space),
            belief,
            workspace.nested.size.copy(),
            float(self._figures[TOLERANCE]),
            run.max_residual,
            float(self._figures[CHANGE]),
            float((outside + (1.0 - outside) * unseen).max(initial=0.0)) if self._looks else 1.0,
            self._error(float(unseen.mean()) if len(unseen) else 0.0, pairs),
            float(self._figures[LOG_Z] + self.sources.shift.sum()) + self._log_scale,
            run.updates,
            dict(run.work_parts),
        )
        run.consistent, run.estimated_error = True, self.settled.error
        self._there, self._back = self._back, self._there

    @property
    def _holds_everything(self) -> bool:
        return self.workspace.is_whole and self._reach_level == len(REACHES) - 1

    def _error(self, cut: float, pairs: float) -> float:
        """Return the estimated error at the end of a round; nothing is left where all states have settled."""
        if not self._looks:
            return float("inf")
        if self._holds_everything and self._figures[TOLERANCE] <= self._tolerance:
            return float(self._figures[TOLERANCE])
        return domains_error(float(self._figures[OUTSIDE]) + pairs, float(self._figures[CHANGE]), cut)

    # ------------------------------------------------------------ growth
    def _grow(self) -> None:
        """Let states join for the next round, or find out why there will be none."""
        settled, workspace = self.settled, self.workspace
        assert settled is not None  # noqa: S101  (a round has ended)
        if not self._looks:
            self._looks = True
            return
        if self._holds_everything:
            if settled.residual <= self._tolerance:
                self.outcome = Outcome.CONVERGED
            self._whole_rounds += 1
            if self._whole_rounds > MAX_SWEEPS:
                self.outcome = self.outcome or Outcome.UNSETTLED
            return
        if self._full_fits and settled.error < self._tolerance:
            self.outcome = Outcome.CLOSE
            return
        thresholds = THRESHOLDS if self._rounds == 1 else (SHRINKS * self.threshold,)
        if thresholds[-1] < LAST_THRESHOLD:
            thresholds = (-1.0,)  # all that is left
        self.threshold = thresholds[-1]
        belief = self._extend_reach(settled.belief)
        while not self._is_affordable(belief, self.threshold):
            if self.outcome or self.threshold == thresholds[0]:
                self.outcome = self.outcome or Outcome.DEAR
                return
            self.threshold = thresholds[0]
        workspace = self.workspace
        join_above(workspace.layout, workspace.space, workspace.nested, belief, self.threshold)

    def _is_affordable(self, belief: FloatArray, threshold: float) -> bool:
        """Tell whether strips cost less than a part of what whole tables do, if these fit; look at the memory."""
        workspace, nested = self.workspace, self.workspace.nested
        will = nested.is_member | (belief > threshold)
        sizes = np.add.reduceat(will, workspace.space.variable_slot_start[:-1], dtype=np.int64)
        strip = strip_entries(workspace.layout, sizes, workspace.space.domain_size)
        strips = float(strip.sum())
        more = int(8.0 * (strips + table_entries(workspace.layout, sizes)))
        if exceeds_memory(self.nbytes, more, self._max_memory):
            self.outcome = Outcome.MEMORY
            return False
        if not self._full_fits:
            if strips - nested.pool.size > MOST_NEW and not self._at_any_cost:
                self.outcome = Outcome.WIDE
            return self.outcome is None
        return round_cost(strips, float((self._pick_cost * strip).sum()), len(strip)) <= self._most_cost
