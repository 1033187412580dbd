"""Rounds of `adaptive`: BP on few active states, a look at the others, and growth, until whole tables are worth it.

A round makes tables over the active states and lets messages settle on them, as BP would if there were no others. The
first ones are those with the best priors. After that a look sends one round of messages to the states outside; those
whose belief is above a threshold join. Looks take in the states whose priors do not rule them out, as far as messages
have been seen to raise any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.inference.adaptive.active_model import ActiveModel, ImpossibleRoundError, OutOfRangeError
from anytimebp.inference.adaptive.choice import (
    FIRST_SLICE,
    FIXED_COST,
    STRUCTURE_COST,
    Beginning,
    look_cost,
    round_cost,
)
from anytimebp.inference.adaptive.known import (
    FAR,
    LEFT_OUT,
    LEFT_UNREAD,
    NEGLIGIBLE,
    NO_STATES,
    SMALL_SPREAD,
    Known,
    Outcome,
    Tail,
    cut_off,
    moved,
    moved_on,
)
from anytimebp.inference.adaptive.looks import Looks
from anytimebp.inference.adaptive.relations import FirstRound
from anytimebp.inference.adaptive.settling import FIRST_TOLERANCE, settle
from anytimebp.inference.adaptive.whole_model import ActiveLists, Candidates, WholeModel
from anytimebp.inference.adaptive.widening import widened
from anytimebp.inference.control.estimated_error import TINY
from anytimebp.inference.figures import UNLIMITED
from anytimebp.inference.method import LOGS, Step, Task
from anytimebp.inference.reading_time import expect_look
from anytimebp.inference.readout import take_snapshot
from anytimebp.inference.schedule.sweeps import there_and_back
from anytimebp.kernels.active import message_spread, weigh_outside
from anytimebp.kernels.codes import LINEAR, LOG
from anytimebp.model.source import FloatArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.readable import readable
from anytimebp.tables.workspace import Workspace

THRESHOLDS = (1e-3, 1.5e-6, 1e-8)
"""Of belief, above which states join after the first look, the second and the third.

A larger first one, and the second look starts from too few states to know who is likely. The error of a round is about
ten times its threshold: what is left of it, full BP takes out by sweeps over whole tables."""
MORE = 2.0  # times what a round has cost that the next one is expected to
SETTLED = 150.0  # times the threshold that later ones settle to: what is left then is little beside what is left out
WORTH = 0.4  # part of the cost of full BP that a look and the round after it may cost
LOST = 0.25  # the same of all rounds together, where full BP does not go on from their messages
LATER = 0.1  # part of the prior outside the domains that may be left for the second half of a look
QUICK = 0.6  # part of the cost of a look that its first half may have, or there is none
LOSES = 1.0
"""Times what a round has moved the marginals by, beyond what the look before has counted: the belief that it counts no
longer, above which the answer after that look stays the answer."""


class Rounds(Looks):
    """Rounds on active states.

    Attributes:
        outcome: Why there are no more, or None.
        is_quick: Whether the first round is so cheap that nobody looks at the clock before it has settled.
    """

    def __init__(
        self,
        task: Task,
        whole: WholeModel,
        begin: Beginning,
        *,
        at_any_cost: bool = False,
        first: FirstRound | None = None,
        all_domains: Callable[[], Domains] | None = None,
    ) -> None:
        """Stand before the first round, or behind it.

        Args:
            task: What is to be done.
            whole: The graph.
            begin: The first states, and what full BP would cost.
            at_any_cost: Whether to go on even where it does not pay.
            first: The first round, if it has been made.
            all_domains: Returns domains with the log priors of leaves, where those of the graph are without.
        """
        self._first = first
        self._handed: Known | None = None
        self._all_domains = all_domains or (lambda: whole.domains)
        self._task, self._figures, self._whole = task, task.figures, whole
        self._at_any_cost = at_any_cost
        self.outcome: Outcome | None = None
        self._arithmetic = LINEAR
        self._locate(whole)
        self._spent = 0.0
        self._is_lost = whole.n_structures > 0 or bool(whole.compiled.extent.has_zero.any())
        self._most_cost = (LOST if self._is_lost else WORTH) * begin.full_cost
        self.is_quick = begin.cost <= FIRST_SLICE and not whole.asked and not task.limits.work < UNLIMITED
        self._nats = begin.nats
        self._left_out = 0.0
        self._threshold: float | None = None
        self._left = [t for t in THRESHOLDS if t < math.exp(-begin.nats)]
        self._loose = FIRST_TOLERANCE
        self._known: Known | None = None
        self._told: Known | None = None  # what is answered with: the same, or the look before it
        self._answer: tuple[Known, dict[str, Any]] | None = None
        self._shrinks = 1.0
        self._reach: Candidates | None = None
        self._ranges = np.empty(0)
        self._outside = self._cut = np.ones(len(whole.is_leaf))  # nobody has looked outside
        self._begin_round(begin.likely)
        if first is not None:
            first.put_messages(self._model)
            self.is_quick = False
            self._note(first.known(self._model))
            self._handed = self._known

    def _locate(self, whole: WholeModel) -> None:
        """Find where tables lie, and the orders of sweeps."""
        self._whole = whole
        whole.locate()
        self._there, self._back = there_and_back(whole.compiled.arrays)

    def _begin_round(self, lists: ActiveLists, before: ActiveModel | None = None) -> None:
        """Stand before a round on some states, from the messages of another one; in logs where it must be."""
        try:
            self._model = self._cut_down(lists, before)
        except OutOfRangeError:
            self._begin_in_logs(lists)
        self._figures.states = int(self._model.active_sizes.sum())
        if self._is_lost:
            self._spent += FIXED_COST + round_cost(self._whole, self._model.size)

    def _begin_in_logs(self, lists: ActiveLists) -> None:
        """Stand before the same round in log arithmetic; leaves are summed out no more, and all their states active."""
        self._task.load(LOGS)
        self._arithmetic, before = LOG, self._whole
        is_active = np.zeros(len(before.domains.log_prior), dtype=np.bool_)
        is_active[lists[2]] = True
        if before.has_leaves:
            is_active |= np.repeat(before.is_leaf, before.domains.sizes)
            self._locate(WholeModel(before.graph, self._all_domains(), sum_out=False))
        self._model = self._cut_down(self._whole.listed(is_active), None)

    def _cut_down(self, lists: ActiveLists, before: ActiveModel | None) -> ActiveModel:
        """Return the model of some states."""
        return ActiveModel(self._whole, lists, before, self._arithmetic)

    # ------------------------------------------------------------ the loop
    def begin(self) -> Iterator[Step]:
        """Do nothing: the first states are chosen."""
        return iter(())

    def settle(self) -> Iterator[Step]:
        """Make the tables of a round, and let messages settle on them."""
        self._figures.consistent = False
        has_settled = False
        while self.outcome is None and not has_settled:
            try:
                yield from self._fill()
                orders = self._there, self._back
                has_settled = yield from settle(
                    self._task, self._model, orders, self._tolerance, gives_up=self._gives_up
                )
                self.outcome = None if has_settled else Outcome.UNSETTLED
            except ImpossibleRoundError as found:
                yield from self._widen(found.factors)
            except OutOfRangeError:
                active = self._model.active
                self._begin_in_logs((self._model.size, active.start, active.slot))
        if self.outcome is None:
            self._end_round()
        self._figures.is_news = self.outcome is None and self._told is self._known

    def look(self) -> Iterator[Step]:
        """Do nothing: the round is answered with before anybody looks further."""
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Look at the states outside, and let some join; or find that it does not pay."""
        if self.outcome is None:
            yield from self._grow()

    # ------------------------------------------------------------ a round
    def _fill(self) -> Iterator[Step]:
        for read in self._model.fill():
            self._figures.work_parts["growth"] += read
            if not self.is_quick:
                yield Step.WORKING

    @property
    def _gives_up(self) -> bool:
        """Whether there is another way to go, where messages do not settle."""
        return True

    @property
    def _tolerance(self) -> float:
        return max(self._task.options.tolerance, self._loose)

    def _widen(self, factors: list[int]) -> Iterator[Step]:
        """Let states join domains that admit no joint state; or find that it does not pay."""
        lists = yield from self._counted("growth", widened(self._whole, self._model.active, factors))
        self._spent += STRUCTURE_COST * len(factors)
        if lists is None:
            self.outcome = Outcome.IMPOSSIBLE
        elif not self._pays(round_cost(self._whole, lists[0])):
            self.outcome = Outcome.DEAR
        else:
            self._begin_round(lists)

    def _end_round(self) -> None:
        """Take down what is known now."""
        figures, tolerance = self._figures, self._tolerance
        self.is_quick = False
        figures.rounds += 1
        figures.settled_rounds += 1
        figures.tolerance = tolerance
        figures.consistent = True
        left = self._shrinks * moved(self._model, self._known.model) if self._known is not None else 1.0
        known = Known(self._model, figures.copy(), self._reach, self._outside, self._cut, left)
        self._note(known._replace(left_out=self._left_unread), is_told=not self._loses_more(known))

    def _loses_more(self, known: Known) -> bool:
        """Tell whether the answer after the last look is better than that of the round after it.

        The look has counted the states outside that did not join. Where messages spread little, it has weighed them
        well, and a round that moves the marginals by less than these states hold makes them worse.
        """
        before = self._told
        if before is None or before.tail is None or before.tail.spread >= SMALL_SPREAD:
            return False
        is_core = ~self._whole.is_leaf
        return moved_on(known, before) < LOSES * float(known.outside[is_core].mean())

    @property
    def _left_unread(self) -> float:
        """Part of the weight of joint active states that leaves do not count; next to what the domains leave out."""
        if self._whole.is_constrained:
            return 0.0
        return LEFT_UNREAD * (self._threshold or math.exp(-self._nats))

    @property
    def error(self) -> float:
        """The estimated error of the last round; infinite where it is not known without asking for scores."""
        if self._known is None or self._whole.is_constrained:
            return math.inf
        return self._known.error()

    # ------------------------------------------------------------ growth
    def _grow(self) -> Iterator[Step]:
        whole, model = self._whole, self._model
        if self._left and not len(self._ranges):
            self._ranges = yield from self._counted("priorities", self._whole.ranges())
        seen = math.sqrt(message_spread(model.layout, model.arrays))
        spread = np.maximum(seen, whole.spread(self._ranges)) if self._left else np.empty(0)
        looked = self._known.candidates if self._known is not None and self._known.tail is not None else None
        for threshold in self._left[1::-1] if seen < SMALL_SPREAD else self._left[:1]:
            candidates = looked or whole.candidates(model.active, FAR * spread - math.log(threshold))
            cost = look_cost(whole, model.size, candidates.start[1:] - candidates.start[:-1]) if looked is None else 0.0
            if self._pays(cost + MORE * round_cost(whole, model.size)):
                break
        else:
            self.outcome = Outcome.DEAR if self._left else Outcome.CLOSE
            return
        self._spent += cost if self._is_lost else 0.0
        self._left_out = 0.0 if whole.is_constrained else min(LEFT_OUT, math.exp(-0.25 * seen**2))
        near = self._nearest(candidates, cost) if seen < SMALL_SPREAD and looked is None else None
        halves = [] if near is None else [(near, np.zeros(len(model.size)))]  # states left for later keep their priors
        for found, raised in [*halves, (candidates, spread)] if looked is None else ():
            if self._task.limits.has_deadline:
                yield from expect_look(self._task, look_cost(whole, model.size, np.diff(found.start)))
            yield from self._look(found)
            if self.outcome is not None:
                return
            yield from self._count_outside(found, raised, seen)
        self._join(candidates, threshold, cost, spread, seen)

    def _nearest(self, candidates: Candidates, cost: float) -> Candidates | None:
        """Return those candidates that hold most of the prior, to look at them first; None where that is no quicker.

        Runs that ask for factor marginals do not answer after looks, and hard zeros make priors worth little.
        """
        if self._task.options.factor_marginals or self._is_lost or not len(candidates.slot):
            return None
        near = self._whole.nearest(self._model.active, candidates, LATER)
        is_quick = look_cost(self._whole, self._model.size, np.diff(near.start)) <= QUICK * cost
        return near if is_quick and len(near.slot) else None

    def _pays(self, cost: float) -> bool:
        return cost <= self._most_cost - self._spent or self._at_any_cost

    def _join(self, candidates: Candidates, threshold: float, cost: float, spread: FloatArray, seen: float) -> None:
        """Let states of a belief above the threshold join; or above a higher one, if those are too many.

        Args:
            candidates: The candidates, with what a look has found.
            threshold: See above.
            cost: Of the look.
            spread: (V,) standard deviation of what messages may add to log priors, in nats.
            seen: What they have been seen to add.
        """
        whole, model = self._whole, self._model
        cost = 0.0 if self._is_lost else cost  # which is among what was spent
        for limit in (t for t in self._left[::-1] if t >= threshold):
            lists, left = whole.joined(model.active, candidates, limit)
            if self._pays(cost + round_cost(whole, lists[0])):
                break
        else:
            self.outcome = Outcome.DEAR
            return
        before = self._threshold or math.exp(min(0.0, FAR * seen - self._nats))  # messages may raise what is left out
        self._shrinks, self._threshold = limit / before, limit
        self._left = [t for t in self._left if t < limit]
        self._loose = SETTLED * limit
        self._reach, self._outside = candidates, np.minimum(1.0, left + whole.excluded(candidates, self._ranges))
        self._cut = cut_off(candidates, spread)
        self._begin_round(lists, model)

    def _count_outside(self, candidates: Candidates, spread: FloatArray, seen: float) -> Iterator[Step]:
        """Answer with the candidates, too: they are worth what the look has found.

        Factor marginals are those of the domains, so runs that ask for them wait for the next round.

        Args:
            candidates: The candidates, with what a look has found.
            spread: (V,) standard deviation of what messages may add to log priors, in nats.
            seen: What they have been seen to add.
        """
        model, figures, odds = self._model, self._figures, np.empty(len(self._model.size))
        weigh_outside(model.layout, model.arrays, candidates, odds)
        if self._task.options.factor_marginals:
            return
        figures.rounds += 1
        outside = np.minimum(1.0, odds / (1.0 + odds) + self._whole.excluded(candidates, self._ranges))
        least = NEGLIGIBLE * float(odds.sum()) / max(1, len(odds) - int(self._whole.is_leaf.sum()))
        tail = Tail(odds, math.log(max(least, TINY)), seen)
        cut = cut_off(candidates, spread)
        self._note(Known(model, figures.copy(), candidates, outside, cut, 0.0, tail, self._left_unread))
        yield Step.RECORD

    def _note(self, known: Known, *, is_told: bool = True) -> None:
        """Take down what is known now, and whether to answer with it; pairs are looked at when somebody asks."""
        known.figures.estimated_error = known.error() if known.is_quick else math.nan
        self._known = known
        if is_told:
            self._told, self._figures.estimated_error = known, known.figures.estimated_error

    # ------------------------------------------------------------ what others take from here
    def release(self) -> None:
        """Let go of tables; what is known can still be read."""
        self._model.release()
        self._whole.release()

    def put_messages(self, workspace: Workspace) -> None:
        """Put the messages of the last round in place of those that a workspace over all states starts with.

        Not those of constraints: where states are likely only together, few of them may lead to a fixed point that is
        far from the one that all of them lead to.
        """
        if self._known is not None and not self._is_lost and not self._model.arrays.table_has_zero.any():
            model, start = self._known.model, self._whole.domains.slot_start
            model.put_messages(workspace.layout, workspace.arrays, start, NO_STATES, model.whole.edge)

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what was known at the end of the last round, or after the look before it; None before."""
        known = self._told
        if known is None:
            return None
        if known is self._handed and self._first is not None:
            return self._first.read(settled=settled)
        figures = known.figures.copy()
        if settled or self._figures.consistent:
            figures.seconds = self._figures.seconds
        else:
            figures = self._figures.copy()
        if self._task.options.factor_marginals and known.model.undecided is None:
            source = readable(known.model.workspace, known.model.arrays)
            return take_snapshot(
                source, figures, swept=True, factor_marginals=True, outside=known.mass(), error=known.error()
            )
        if self._answer is None or self._answer[0] is not known:
            self._answer = known, known.answer()
        return Snapshot.holding(**self._answer[1], **figures.shown())
