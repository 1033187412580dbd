"""Rounds of `adaptive` where whole tables do not fit into memory, so that domains grow as far as it reaches.

They differ from other rounds (`rounds.py`) in how domains grow. Variables of which too little is known wait for what
their neighbours' domains tell (`first_domains.py`); looks find the states that may count by proposals or rough sums
(`rough_look.py`); and there is no full BP to go over to: the last round settles to the tolerance that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.adaptive.choice import Beginning, Choice
from anytimebp.inference.adaptive.first_domains import FIRST_DOMAIN, first_domains_of, smallest_domain
from anytimebp.inference.adaptive.known import Known, Outcome, Tail, moved
from anytimebp.inference.adaptive.rough_look import RoughLook
from anytimebp.inference.adaptive.rounds import SETTLED, Rounds
from anytimebp.inference.adaptive.settling import FIRST_TOLERANCE
from anytimebp.inference.adaptive.whole_model import ActiveLists, Candidates, WholeModel
from anytimebp.inference.adaptive.widening import widened
from anytimebp.inference.control.vanishing import vanished
from anytimebp.inference.method import Step, Task
from anytimebp.kernels.active import weigh_outside
from anytimebp.kernels.codes import FACTOR_VANISHED, LOG_TABLE, SCALED
from anytimebp.model.factor import row_starts
from anytimebp.model.source import ASKED_AT_ONCE, BoolArray, FloatArray, IndexArray
from anytimebp.model.summary import BYTES_PER_SCORE
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.memory import check_first_domains, exceeds_memory, factor_entries

FIRST_THRESHOLD, SHRINKS_BY, LEAST_THRESHOLD = 1e-3, 0.01, 1e-20
"""Of belief above which states join: first, times what in each round, and the last one, after which all others join."""
SMALL_STEP = 2.0  # times the threshold, if the memory does not hold all that would join
FINE = 0.1  # part of the threshold that sums of a look may leave out of a variable's weight
BYTES_PER_STATE = 20  # priors over the universes, and room to work on them
BYTES_PER_LOOK = 90  # estimates and beliefs of a state that is looked at, now and before
BYTES_PER_SLOT = 60  # of a message, its copies, and what goes with it
BYTES_PER_ENTRY = 32  # scratch for one entry of the largest table that is read where it lies
ASKED = 0.05  # part of the memory that may be used to ask for scores
BLOCKS = (4, ASKED_AT_ONCE)  # scores asked for at a time, at least and at most


def large_model(task: Task, whole: WholeModel) -> WholeModel:
    """Return the same model, prepared for rounds whose memory is limited."""
    limit, compiled = task.options.max_memory, whole.compiled
    block = BLOCKS[1] if limit is None else max(BLOCKS[0], min(BLOCKS[1], int(ASKED * limit / BYTES_PER_SCORE)))
    whole.block = int(min(block, factor_entries(compiled.arrays, whole.domains.sizes).max(initial=1.0)))
    whole.sources.kind[whole.sources.kind == SCALED] = LOG_TABLE  # no table is made in full
    return whole


class LargeRounds(Rounds):
    """Rounds whose domains grow until they hold all states, or as many as there is memory for."""

    def __init__(self, task: Task, whole: WholeModel, choice: Choice) -> None:
        """Choose the first domains.

        Args:
            task: What is to be done.
            whole: The graph; no leaves are summed out.
            choice: What was decided.
        """
        self._limit = task.options.max_memory
        self._whole = large_model(task, whole)
        self._rough = RoughLook(whole)
        blocks = self._whole.compiled.message_blocks
        self._structures = [(first, block) for first, block in blocks if block.source.sums is not None]
        n = len(whole.is_leaf)
        self._undecided: BoolArray = np.ones(n, dtype=np.bool_)
        self._is_last = self._is_exhausted = False
        self._has_settled = True
        self._found: Candidates | None = None
        self._settled: Known | None = None
        self._grows_above = FIRST_THRESHOLD
        start = whole.domains.slot_start
        self._n_possible = np.add.reduceat(whole.domains.log_prior > -np.inf, start[:-1], dtype=np.int64)
        is_active = np.zeros(int(start[-1]), dtype=np.bool_)
        is_active[[int(start[v] + whole.domains.log_prior[start[v] : start[v + 1]].argmax()) for v in range(n)]] = True
        self._decide(is_active, None)
        super().__init__(task, whole, Beginning(choice, math.inf, math.inf, whole.listed(is_active), FIRST_DOMAIN))

    def _cut_down(self, lists: ActiveLists, before: ActiveModel | None) -> ActiveModel:
        if before is not None:
            before.release()  # the new tables take the place of the old ones
        undecided = self._undecided.copy() if self._undecided.any() else None
        return ActiveModel(self._whole, lists, before, self._arithmetic, undecided)

    # ------------------------------------------------------------ the loop
    def settle(self) -> Iterator[Step]:
        """Make the tables of a round, and let messages settle on them, or see that they do not."""
        self._found, self._has_settled = None, True
        self._is_last |= self._is_complete
        yield from super().settle()
        if self.outcome is Outcome.UNSETTLED:
            self.outcome, self._has_settled = None, False
            residual = self._model.arrays.edge_residual
            self._figures.max_residual = float(residual.max(initial=0.0))
            self._figures.mean_residual = float(residual.mean()) if len(residual) else 0.0
            self._end_round()
            self._figures.is_news = True

    def look(self) -> Iterator[Step]:
        """Look before anybody reads where variables have no domain to answer with, and at the end."""
        if self._figures.ending is None and not self._is_complete and (self._undecided.any() or self._is_last):
            yield from self._look_around()
        if self._is_last and self._figures.ending is None:
            self._figures.ending = self._ending()

    def _grow(self) -> Iterator[Step]:
        if self._grows_above < 0.0:
            yield from self._join_all()
            return
        if self._found is None:
            yield from self._look_around()
            yield Step.RECORD
        assert self._found is not None  # noqa: S101  (a look has been taken)
        self._let_join(self._found)

    def _ending(self) -> StopReason:
        if not self._is_complete and not self._is_exhausted:
            return StopReason.OUT_OF_MEMORY
        if not self._has_settled:
            return StopReason.NOT_CONVERGED
        return StopReason.CONVERGED if self._is_complete else StopReason.OUT_OF_CANDIDATES

    @property
    def _gives_up(self) -> bool:
        return not self._is_last

    @property
    def _tolerance(self) -> float:
        return self._task.options.tolerance if self._is_last else super()._tolerance

    @property
    def _is_complete(self) -> bool:
        """Whether all states are active that are possible."""
        return not self._undecided.any() and bool((self._model.size >= self._n_possible).all())

    def _end_round(self) -> None:
        """Take down what is known now, unless some variables have no domain to answer with."""
        figures = self._figures
        figures.rounds += 1
        figures.tolerance = self._tolerance
        if self._undecided.any():
            return
        left = self._shrinks * moved(self._model, self._known.model) if self._known is not None else 1.0
        if self._is_complete:
            self._reach, left = self._whole.nothing, 0.0
            self._outside = self._cut = np.zeros(len(self._undecided))
        self._count_settled()
        self._note(Known(self._model, figures.copy(), self._reach, self._outside, self._cut, left))

    def _count_settled(self) -> None:
        self._figures.consistent = self._has_settled
        self._figures.settled_rounds += self._has_settled

    def _note(self, known: Known, *, is_told: bool = True) -> None:
        super()._note(known, is_told=is_told)
        if self._has_settled:
            self._settled = known

    # ------------------------------------------------------------ looks
    def _look_around(self) -> Iterator[Step]:
        """Look at the states outside that may count, and answer with them, too."""
        model, whole, n = self._model, self._whole, len(self._undecided)
        slots, rough, rest, unseen = [], {}, np.zeros(n), np.zeros(n)
        threshold = max(LEAST_THRESHOLD, self._grows_above)
        for variable in range(n):
            chosen = yield from self._counted("scoring", self._rough.choose(model, variable, threshold))
            slots.append(chosen.slot)
            rest[variable], unseen[variable] = chosen.rest, chosen.unseen
            if self._undecided[variable] and chosen.log_belief is not None:
                rough[variable] = chosen.log_belief  # all there is to know is whether likely states have become few
        start = row_starts(np.array([len(own) for own in slots], dtype=np.int64))
        candidates = whole.candidates_of(start, np.concatenate([*slots, np.empty(0, dtype=np.int64)]), np.zeros(n))
        for variable, log_belief in rough.items():
            candidates.log_belief[start[variable] : start[variable + 1]] = log_belief
        self._skipped = np.zeros(n, dtype=np.bool_)
        self._skipped[[*rough]] = True
        yield from self._look(candidates)
        if (candidates.log_belief == -np.inf).any() and not len(self._ranges):
            self._ranges = yield from self._counted("priorities", whole.ranges())
        self._found = candidates
        self._answer_with(candidates, rest, unseen)

    def _ask(self, candidates: Candidates) -> Iterator[int]:
        return self._model.ask_outside(candidates, FINE * max(LEAST_THRESHOLD, self._grows_above), self._skipped)

    def _answer_with(self, candidates: Candidates, rest: FloatArray, unseen: FloatArray) -> None:
        """Answer with the candidates, too: they are worth what the look has found.

        Args:
            candidates: The candidates, with what a look has found.
            rest: (V,) belief of states outside that are no candidates.
            unseen: (V,) sum of the priors of states that are no candidates.
        """
        model, figures, odds = self._model, self._figures, np.empty(len(self._undecided))
        weigh_outside(model.layout, model.arrays, candidates, odds)
        for variable in np.flatnonzero(self._undecided).tolist():  # one state stands for all of them
            own = slice(candidates.start[variable], candidates.start[variable + 1])
            if candidates.log_belief[own].max() == -np.inf:  # the domains of others exclude them all
                candidates.log_belief[own] = self._whole.domains.log_prior[candidates.slot[own]]
            weight = np.exp(candidates.log_belief[own] - candidates.log_belief[own].max())
            candidates.belief[own] = weight / weight.sum()
            odds[variable] = 0.0
        rest = np.minimum(1.0, rest + self._unseen(candidates, odds, unseen))
        outside = np.minimum(1.0, odds / (1.0 + odds) + self._whole.excluded(candidates, self._ranges))
        outside[self._undecided] = 1.0
        self._outside, self._cut, self._reach = outside, rest, candidates
        if self._task.options.factor_marginals and not self._undecided.any():
            return  # those of the domains are the answer
        if self._undecided.any():
            self._count_settled()
        figures.rounds += 1
        tail = Tail(odds, 0.0, math.inf)  # nobody knows how states outside of drawn domains move each other
        self._note(Known(model, figures.copy(), candidates, outside, rest, 0.0, tail))

    def _unseen(self, candidates: Candidates, odds: FloatArray, unseen: FloatArray) -> FloatArray:
        """Return (V,) the belief of states that are no candidates: as if messages spoke of them as of the others.

        That is rather too much than too little, as candidates are the likelier ones.

        Args:
            candidates: The candidates, with beliefs.
            odds: (V,) their sums.
            unseen: (V,) sum of the priors of states that are no candidates.
        """
        found, active, log_prior = np.zeros(len(odds)), self._model.active, self._whole.domains.log_prior
        for v in np.flatnonzero(unseen).tolist():
            own, outside = (
                slice(active.start[v], active.start[v + 1]),
                slice(candidates.start[v], candidates.start[v + 1]),
            )
            belief = np.concatenate([self._model.domain_beliefs[0][own], candidates.belief[outside]])
            prior = np.exp(log_prior[np.concatenate([active.slot[own], candidates.slot[outside]])])
            counts = (belief > 0.0) & (prior > 0.0)
            gain = float(np.median(belief[counts] / prior[counts])) if counts.any() else 1.0
            found[v] = unseen[v] * gain / (1.0 + odds[v] + unseen[v] * gain)
        return found

    # ------------------------------------------------------------ growth
    def _let_join(self, candidates: Candidates) -> None:
        """Let states and undecided variables join; where there is no room for all, the next round is the last."""
        whole, active = self._whole, self._model.active
        is_active = np.zeros(len(whole.domains.log_prior), dtype=np.bool_)
        is_active[active.slot] = True
        n_before, limit = np.count_nonzero(self._undecided), self._grows_above
        has_room = has_joined = self._join_above(candidates, limit, is_active)
        while not has_joined and limit < 1.0:
            limit *= SMALL_STEP
            has_joined = self._join_above(candidates, limit, is_active)
        self._decide(is_active, candidates)
        if np.count_nonzero(self._undecided) == n_before:
            self._shrinks, self._grows_above = SHRINKS_BY, self._grows_above * SHRINKS_BY
            self._is_last = not has_room
        self._go_on(is_active, candidates)

    def _join_all(self) -> Iterator[Step]:
        """Let all states join that are left, or were proposed; if there is no room for them, none."""
        model, domains = self._model, self._whole.domains
        is_active = np.zeros(len(domains.log_prior), dtype=np.bool_)
        for variable in range(len(self._undecided)):
            slot = yield from self._counted("scoring", self._rough.candidates(model, variable))
            is_active[slot] = True
        is_active &= domains.log_prior > -np.inf
        is_active[model.active.slot] = True
        has_room = not self._undecided.any() and self._fits(self._whole.listed(is_active)[0])
        if not has_room:
            is_active[:] = False
            is_active[model.active.slot] = True
        self._is_exhausted = has_room and np.count_nonzero(is_active) == len(model.active.slot)
        self._is_last = not has_room or self._is_exhausted
        self._go_on(is_active, self._reach or self._whole.nothing)

    def _go_on(self, is_active: BoolArray, candidates: Candidates) -> None:
        """Stand before the next round.

        Args:
            is_active: By slot.
            candidates: What the last look has found.
        """
        if self._grows_above < LEAST_THRESHOLD:
            self._grows_above = -1.0  # all that are left
        self._loose = min(FIRST_TOLERANCE, SETTLED * max(0.0, self._grows_above))
        owner = np.repeat(np.arange(len(self._undecided)), np.diff(candidates.start))
        left = np.bincount(
            owner, np.where(is_active[candidates.slot], 0.0, candidates.belief), minlength=len(self._undecided)
        )
        self._outside = np.minimum(1.0, left + self._whole.excluded(candidates, self._ranges))
        self._begin_round(self._whole.listed(is_active), self._model)

    def _join_above(self, candidates: Candidates, threshold: float, is_active: BoolArray) -> bool:
        """Mark the states of beliefs above a threshold, if there is room for them; return whether there was."""
        owner = np.repeat(np.arange(len(self._undecided)), np.diff(candidates.start))
        joins = (candidates.belief > threshold) & ~self._undecided[owner]
        joins &= self._whole.domains.log_prior[candidates.slot] > -np.inf
        sizes = self._model.size + np.bincount(owner[joins], minlength=len(self._undecided))
        if not self._fits(sizes):
            return False
        is_active[candidates.slot[joins]] = True
        return True

    def _decide(self, is_active: BoolArray, candidates: Candidates | None) -> None:
        """Give domains to undecided variables, by their priors, or what a look has found.

        Args:
            is_active: By slot; overwritten.
            candidates: What a look has found; None before the first.
        """
        domains, undecided = self._whole.domains, np.flatnonzero(self._undecided).tolist()
        beliefs = {}
        for v in undecided:
            if candidates is None:
                own = slice(domains.slot_start[v], domains.slot_start[v + 1])
                beliefs[v] = np.arange(own.start, own.stop), domains.log_prior[own]
            else:
                own = slice(candidates.start[v], candidates.start[v + 1])
                beliefs[v] = candidates.slot[own], candidates.log_belief[own]
        sizes = np.add.reduceat(is_active, domains.slot_start[:-1], dtype=np.int64)
        chosen = first_domains_of(self._whole, beliefs, sizes, self._fits)
        if not chosen and candidates is None and undecided:
            chosen = smallest_domain(beliefs, sizes, self._fits)
            sizes[[*chosen]] = [len(slot) for slot in chosen.values()]
            check_first_domains(self._whole.compiled, sizes, self._needed(sizes), self._limit)
        for variable, slot in chosen.items():
            is_active[domains.slot_start[variable] : domains.slot_start[variable + 1]] = False
            is_active[slot] = True
            self._undecided[variable] = False

    def _widen(self, factors: list[int]) -> Iterator[Step]:
        """Let states join domains that admit no joint state."""
        whole, active = self._whole, self._model.active
        lists = yield from self._counted("growth", widened(whole, active, self._model.speaking(factors)))
        if lists is not None:
            is_active = np.zeros(len(whole.domains.log_prior), dtype=np.bool_)
            is_active[lists[2]] = True
            is_undecided = np.repeat(self._undecided, whole.domains.sizes)
            is_active[is_undecided] = False
            is_active[active.slot[is_undecided[active.slot]]] = True
            lists = whole.listed(is_active)
        if lists is None or len(lists[2]) == len(active.slot):
            given = " under this evidence" if self._task.options.observed else ""
            raise vanished(whole.compiled, FACTOR_VANISHED, factors[0], given)
        if self._fits(lists[0]):
            self._begin_round(lists)
        else:
            self._figures.ending = StopReason.OUT_OF_MEMORY
            self.outcome = Outcome.DEAR

    # ------------------------------------------------------------ memory
    def _needed(self, sizes: IndexArray) -> int:
        """Return the bytes that domains of these sizes take: tables, the largest of them twice, and all else."""
        compiled, sources = self._whole.compiled, self._whole.sources
        entries = factor_entries(compiled.arrays, sizes)
        for first, block in self._structures:  # of thousands of rules, each a block, this would take a deadline's time
            each = sizes[block.scopes].astype(np.float64)
            listed = np.flatnonzero(block.source.is_structured(each))
            entries[first + listed] = block.source.most_words(each[listed])
        read_in_place = entries[sources.kind == LOG_TABLE].max(initial=0.0)
        tables = 8.0 * float(entries.sum() + entries.max(initial=0.0)) + BYTES_PER_ENTRY * read_in_place
        messages = BYTES_PER_SLOT * float(sizes[compiled.arrays.edge_variable].sum())
        states = BYTES_PER_STATE * float(len(self._whole.domains.log_prior))
        states += BYTES_PER_LOOK * self._rough.n_states(sizes)
        return int(tables + messages + states + BYTES_PER_SCORE * self._whole.block)

    def _fits(self, sizes: IndexArray) -> bool:
        """Tell whether there is memory for domains of these sizes."""
        return not exceeds_memory(0, self._needed(sizes), self._limit)

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what was known at the end of the last round, or of the last one that had settled; None before."""
        last = self._told
        if settled:
            self._told = self._settled
        try:
            return super().read(settled=settled)
        finally:
            self._told = last
