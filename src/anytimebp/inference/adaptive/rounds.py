"""Rounds of `adaptive`: BP on few active states, a look at the others, and growth, until whole tables are worth it.

A round makes tables over the active states and lets messages settle on them, as BP would if there were no others. The
first ones are those with the best priors. After that a look sends one round of messages to the states outside; those
whose belief is above a threshold join. Looks take in the states whose priors do not rule them out, as far as messages
have been seen to raise any.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

import numpy as np

from anytimebp.inference.adaptive.active_model import ActiveModel, ImpossibleRoundError, OutOfRangeError
from anytimebp.inference.adaptive.choice import Beginning, look_cost, round_cost
from anytimebp.inference.adaptive.settling import settle
from anytimebp.inference.adaptive.whole_model import ActiveLists, Reach, WholeModel
from anytimebp.inference.adaptive.widening import widened
from anytimebp.inference.beliefs import beliefs_of, bethe_terms
from anytimebp.inference.control.estimated_error import domains_error
from anytimebp.inference.figures import Figures
from anytimebp.inference.look.pair_readout import pairs_of_rounds
from anytimebp.inference.method import LOGS, Step, Task
from anytimebp.inference.readout import take_snapshot
from anytimebp.inference.schedule.sweeps import sequential_orders
from anytimebp.kernels.active import look_outside, message_spread, weigh_outside
from anytimebp.kernels.codes import LINEAR, LOG, OK, STRUCTURED
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.marginals import NOT_ASKED_FOR, Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.readable import readable
from anytimebp.tables.workspace import Workspace

THRESHOLDS = (1e-3, 2e-6, 1e-8)
"""Of belief, above which states join after the first look, the second and the third.

A larger first one, and the second look starts from too few states to know who is likely. The error of a round is about
ten times its threshold: what is left of it, full BP takes out by sweeps over whole tables."""
FIRST_THRESHOLD = 0.02  # of belief, that states outside the first domains may have, or about that
FAR = 2.0
"""Standard deviations by which messages may raise a state, for a look to take it in.

The deviation is what messages have been seen to add to active states, or more if the ranges of tables allow for it."""
MORE = 2.0  # times what a round has cost that the next one is expected to
MOST = 700.0  # nats that messages are expected to add, so that numbers stay finite
SMALL_SPREAD = 1.5  # nats that messages spread by, under which one look is enough
FIRST_TOLERANCE = 0.05  # nats to which the first domains settle
SETTLED = 10.0  # times the threshold that later ones settle to
WORTH = 0.4  # part of the cost of full BP that a look and the round after it may cost
NO_STATES: IndexArray = np.empty(0, dtype=np.int64)  # beliefs are over the universes in order

T = TypeVar("T")


class Outcome(Enum):
    """Why there are no more rounds; the texts complete "left the domains because"."""

    DEAR = "a further round would cost too much beside whole tables"
    CLOSE = "what is left out hardly counts"
    UNSETTLED = "messages on the domains do not settle"
    IMPOSSIBLE = "no joint state of the domains is possible"


class Known(NamedTuple):
    """What is known at the end of a round; nothing of it changes.

    Attributes:
        model: States and messages.
        figures: Of the run, then.
        reach: What the last look has found, None before the first.
        outside: (V,) belief outside the domains that it has found.
        cut: (V,) belief that it may have left out.
        left: What the round has moved the marginals by, times the part that the next one is expected to.
    """

    model: ActiveModel
    figures: Figures
    reach: Reach | None
    outside: FloatArray
    cut: FloatArray
    left: float

    def mass(self) -> float:
        """Return the largest, over variables, belief outside the domain."""
        return min(1.0, float((self._with_pairs() + self.cut).max()))

    def error(self) -> float:
        """Return the estimated error."""
        if self.reach is None:
            return math.inf
        return domains_error(self._with_pairs().mean(), self.figures.tolerance, self.cut.mean(), self.left)

    def _with_pairs(self) -> FloatArray:
        """Return the belief outside the domains, pairs of states included where there are hard zeros."""
        outside = self.outside.copy()
        if self.reach is not None and self.model.whole.constrains.any():
            pairs_of_rounds(self.model, self.reach, outside)
        return outside


class Rounds:
    """Rounds on active states.

    Attributes:
        outcome: Why there are no more, or None.
    """

    def __init__(self, task: Task, whole: WholeModel, begin: Beginning, *, at_any_cost: bool = False) -> None:
        """Stand before the first round.

        Args:
            task: What is to be done.
            whole: The graph.
            begin: The first states, and what full BP would cost.
            at_any_cost: Whether to go on even where it does not pay.
        """
        self._task, self._figures, self._whole = task, task.figures, whole
        self._at_any_cost = at_any_cost
        self.outcome: Outcome | None = None
        self._arithmetic = LINEAR
        self._locate(whole)
        self._most_cost = WORTH * begin.full_cost
        self._left = list(THRESHOLDS)
        self._loose = FIRST_TOLERANCE
        self._known: Known | None = None
        self._shrinks = 1.0
        self._reach: Reach | None = None
        self._ranges = np.empty(0)
        self._outside = self._cut = np.ones(len(whole.is_leaf))  # nobody has looked outside
        self._begin_round(begin.likely)

    def _locate(self, whole: WholeModel) -> None:
        """Find where tables lie, and the orders of sweeps."""
        self._whole = whole
        whole.locate()
        orders = sequential_orders(whole.compiled.arrays)
        self._there, self._back = next(orders), next(orders)

    def _begin_round(self, lists: ActiveLists, before: ActiveModel | None = None) -> None:
        """Stand before a round on some states, from the messages of another one; in logs where it must be."""
        try:
            self._model = ActiveModel(self._whole, lists, before, self._arithmetic)
        except OutOfRangeError:
            self._begin_in_logs(lists)
        self._figures.states = int(_sizes(self._model).sum())

    def _begin_in_logs(self, lists: ActiveLists) -> None:
        """Stand before the same round in log arithmetic; leaves are summed out no more, and all their states active."""
        self._task.load(LOGS)
        self._arithmetic, before = LOG, self._whole
        is_active = np.zeros(len(before.domains.log_prior), dtype=np.bool_)
        is_active[lists[2]] = True
        if before.has_leaves:
            is_active |= np.repeat(before.is_leaf, before.domains.sizes)
            self._locate(WholeModel(before.graph, before.domains, sum_out=False))
        self._model = ActiveModel(self._whole, self._whole.listed(is_active), None, LOG)

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
                has_settled = yield from settle(self._task, self._model, orders, self._tolerance)
                self.outcome = None if has_settled else Outcome.UNSETTLED
            except ImpossibleRoundError as found:
                yield from self._widen(found.factors)
            except OutOfRangeError:
                active = self._model.active
                self._begin_in_logs((self._model.size, active.start, active.slot))
        if self.outcome is None:
            self._end_round()
        self._figures.is_news = self.outcome is None

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
            yield Step.WORKING

    @property
    def _tolerance(self) -> float:
        return max(self._task.options.tolerance, self._loose)

    def _widen(self, factors: list[int]) -> Iterator[Step]:
        """Let states join domains that admit no joint state; or find that it does not pay."""
        lists = yield from self._counted("growth", widened(self._whole, self._model.active, factors))
        if lists is None:
            self.outcome = Outcome.IMPOSSIBLE
        elif not self._pays(round_cost(self._whole, lists[0])):
            self.outcome = Outcome.DEAR
        else:
            self._begin_round(lists)

    def _end_round(self) -> None:
        """Take down what is known now."""
        figures, tolerance = self._figures, self._tolerance
        figures.rounds += 1
        figures.settled_rounds += 1
        figures.max_residual = figures.mean_residual = figures.tolerance = tolerance
        figures.consistent = True
        left = self._shrinks * self._moved() if self._known is not None else 1.0
        known = Known(self._model, figures.copy(), self._reach, self._outside, self._cut, left)
        # pairs are looked at when somebody asks
        figures.estimated_error = math.nan if self._whole.constrains.any() and self._reach else known.error()
        known.figures.estimated_error = figures.estimated_error
        self._known = known

    def _moved(self) -> float:
        """Return the mean L2 distance by which the round has moved the marginals of variables that are not leaves."""
        assert self._known is not None  # noqa: S101  (there was a round before)
        start, is_leaf = self._whole.domains.slot_start, self._known.model.whole.is_leaf
        moved = np.zeros(int(start[-1]))
        for sign, model in ((1.0, self._model), (-1.0, self._known.model)):
            belief, _ = beliefs_of(model.whole.compiled, model.layout, model.arrays, model.active.start)
            moved[model.active.slot] += sign * belief
        distance = np.sqrt(np.add.reduceat(moved**2, start[:-1]))
        return float(distance[~is_leaf].mean())

    @property
    def error(self) -> float:
        """The estimated error of the last round; infinite where it is not known without asking for scores."""
        if self._known is None or self._whole.constrains.any():
            return math.inf
        return self._known.error()

    # ------------------------------------------------------------ growth
    def _grow(self) -> Iterator[Step]:
        whole, model = self._whole, self._model
        if self._left and not len(self._ranges):
            self._ranges = yield from self._counted("priorities", self._whole.ranges())
        seen = math.sqrt(message_spread(model.layout, model.arrays))
        spread = np.maximum(seen, whole.spread(self._ranges)) if self._left else np.empty(0)
        for threshold in self._left[1::-1] if seen < SMALL_SPREAD else self._left[:1]:
            reach = whole.reach(model.active, FAR * spread - math.log(threshold))
            cost = look_cost(whole, model.size, np.diff(reach.start))
            if self._pays(cost + MORE * round_cost(whole, model.size)):
                break
        else:
            self.outcome = Outcome.DEAR if self._left else Outcome.CLOSE
            return
        yield from self._look(reach)
        if self.outcome is None:
            self._join(reach, threshold, cost, spread)

    def _counted(self, part: str, asking: Generator[int, None, T]) -> Generator[Step, None, T]:
        """Return what was asked for, and count the scores that it took as a part of the work."""
        while True:
            try:
                self._figures.work_parts[part] += next(asking)
            except StopIteration as end:
                found: T = end.value
                return found
            yield Step.WORKING

    def _pays(self, cost: float) -> bool:
        return cost <= self._most_cost or self._at_any_cost

    def _join(self, reach: Reach, threshold: float, cost: float, spread: FloatArray) -> None:
        """Let states of a belief above the threshold join; or above a higher one, if those are too many.

        Args:
            reach: The states within reach, with what a look has found.
            threshold: See above.
            cost: Of the look.
            spread: (V,) standard deviation of what messages add to log priors, in nats.
        """
        whole, model, left = self._whole, self._model, np.empty(len(self._model.size))
        for limit in (t for t in self._left[::-1] if t >= threshold):
            weigh_outside(model.layout, model.arrays, reach, limit, left)
            lists = whole.joined(model.active, reach, limit)
            if self._pays(cost + round_cost(whole, lists[0])):
                break
        else:
            self.outcome = Outcome.DEAR
            return
        before = next((t for t in reversed(THRESHOLDS) if t > self._left[0]), FIRST_THRESHOLD)
        self._shrinks = limit / before
        self._left = [t for t in self._left if t < limit]
        self._loose = SETTLED * limit
        self._reach, self._outside = reach, np.minimum(1.0, left + whole.excluded(reach, self._ranges))
        self._cut = np.minimum(1.0, reach.cut * np.exp(np.minimum(MOST, np.minimum(0.5 * spread**2, FAR * spread))))
        self._begin_round(lists, model)

    def _look(self, reach: Reach) -> Iterator[Step]:
        """Add up what factors say of the states within reach."""
        model, sources, position, figures = self._model, self._whole.sources, 0, self._figures
        while position < len(sources.kind):
            status, position, read = look_outside(
                model.layout,
                model.arrays,
                sources,
                model.active,
                reach,
                model.scratch,
                position,
                self._task.limits.slice_cost(figures.work),
            )
            figures.work_parts["scoring"] += read
            if status != OK:
                self.outcome = Outcome.IMPOSSIBLE
                return
            yield Step.WORKING
        for asked in model.ask_outside(reach):
            figures.work_parts["scoring"] += asked
            yield Step.WORKING

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
        if self._known is not None and not self._has_constraints:
            model, start = self._known.model, self._whole.domains.slot_start
            model.put_messages(workspace.layout, workspace.arrays, start, NO_STATES, model.whole.edge)

    @property
    def _has_constraints(self) -> bool:
        """Whether there are hard zeros, or structures."""
        whole = self._whole
        return bool(
            whole.compiled.extent.has_zero.any()
            or self._model.arrays.table_has_zero.any()
            or (whole.sources.kind == STRUCTURED).any()
        )

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what was known at the end of the last round; None before."""
        known = self._known
        if known is None:
            return None
        figures = known.figures.copy()
        if settled or self._figures.consistent:
            figures.seconds = self._figures.seconds
        else:
            figures = self._figures.copy()
        if self._task.options.factor_marginals:
            source = readable(known.model.workspace, known.model.arrays)
            return take_snapshot(
                source, figures, swept=True, factor_marginals=True, outside=known.mass(), error=known.error()
            )
        return self._snapshot(known, figures)

    def _snapshot(self, known: Known, figures: Figures) -> Snapshot:
        model, whole = known.model, known.model.whole
        compiled = whole.compiled
        start, states = model.active.start, model.active.state
        belief, log_normaliser = beliefs_of(compiled, model.layout, model.arrays, start)
        log_z = bethe_terms(model.layout, model.arrays, log_normaliser)
        log_z += float(model.workspace.tables.log_scale.sum() + whole.domains.log_prior_scale.sum())
        if whole.has_leaves:
            all_beliefs: FloatArray = np.zeros(int(whole.universe_start[-1]))
            all_beliefs[np.repeat(whole.universe_start[:-1], model.size) + states] = belief
            model.add_leaves(all_beliefs)
            belief, start, states = all_beliefs, whole.universe_start, NO_STATES
        is_quick = not whole.constrains.any()
        return Snapshot(
            marginals=Marginals(compiled.variables, belief, start, states),
            log_z=log_z,
            outside=known.mass() if is_quick else known.mass,
            error=known.error() if is_quick else known.error,
            domain_sizes=read_only(_sizes(model)),
            arithmetic="linear" if model.arrays.arithmetic == LINEAR else "log",
            factor_marginals=NOT_ASKED_FOR,
            **figures.shown(),
        )


def _sizes(model: ActiveModel) -> IndexArray:
    """Return (V,) the active states; all of those of a leaf are."""
    return np.where(model.whole.is_leaf, model.whole.domains.sizes, model.size)
