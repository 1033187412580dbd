"""One run of `adaptive`: rounds on sparse domains where they pay, then whole tables, as a generator of slices.

What it does next is decided by `choice.py`. Rounds are those of `rounds.py`; whole tables are swept as by `bp`
(`inference/all_states.py`), from where the rounds have ended. Where whole tables do not fit into memory, rounds go on
as far as it reaches (`large_rounds.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from time import perf_counter

import numpy as np

from anytimebp.domains.domains import Domains, domain_sizes
from anytimebp.errors import MemoryLimitError
from anytimebp.inference.adaptive.choice import Choice, Way, first_choice, may_pay, weigh_priors
from anytimebp.inference.adaptive.known import Outcome
from anytimebp.inference.adaptive.large_rounds import LargeRounds
from anytimebp.inference.adaptive.relations import FirstRound, first_round, may_have_relations
from anytimebp.inference.adaptive.rounds import Rounds
from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import LARGER, Method, Stages, Step, Task, in_steps
from anytimebp.inference.reading_time import LARGE, expect_another, first_domains
from anytimebp.inference.readout import prior_snapshot
from anytimebp.kernels.codes import SUM
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.source import FloatArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.arrays import may_have_hubs
from anytimebp.tables.memory import check_memory, check_universe, update_entries
from anytimebp.tables.workspace import Workspace

ROUNDS = "adaptive: rounds on likely states"  # the kernels that runs on small graphs do not need
RELATIONS, AFTER_RELATIONS = "adaptive: a first round on relations", "adaptive: rounds after one on relations"
BEYOND_MEMORY = "adaptive: models larger than memory"  # all kernels of runs whose tables do not fit into memory
FLAT = "unary scores say little: more than half of all states would be needed to hold most of the prior"
QUICK = 2**18  # slots of all edges together, up to which setting up takes no more than some milliseconds
SMALL = 20_000  # entries of all tables together, under which nothing is faster than full BP


def why_full(entries: float) -> str:
    """Return why tables of so many entries in all are not worth a thought about rounds; empty if they may be."""
    if entries == 0.0:
        return "no factor has two or more variables, so that there are no messages"
    return f"tables of {entries:,.0f} entries in all are too small to save anything" if entries < SMALL else ""


class AdaptiveRun(Stages):
    """Runs of `adaptive`."""

    def __init__(self, task: Task, *, at_any_cost: bool = False, is_large: bool = False) -> None:
        """Compile the graph, if need be, and put unary factors and evidence together.

        Args:
            task: What is to be done.
            at_any_cost: Whether to make rounds even where they do not pay.
            is_large: Whether to act as if whole tables did not fit into memory.
        """
        super().__init__()
        self._began = perf_counter()
        self._task, self._options, self._figures = task, task.options, task.figures
        self._at_any_cost = at_any_cost
        self._compiled = compiled_graph(task.graph)
        if may_have_hubs(self._compiled.arrays):
            task.load(LARGER)
        self._sizes = domain_sizes(self._compiled, self._options.observed)
        self._full_fits = not is_large and self._check_memory()
        self._rounds: Rounds | FirstRound | None = None
        self._n_rounds = 0
        self._entries = update_entries(self._compiled, self._sizes)
        self._may_have_relations = (
            self._full_fits and self._compiled.n_slots <= QUICK and may_have_relations(task, self._compiled)
        )
        if self._may_have_relations:
            self._figures.states = self._compiled.n_states
        else:
            self._figures.states = int(self._domains.slot_start[-1])

    @cached_property
    def _domains(self) -> Domains:
        """All states that the evidence allows; a first round on relations does without."""
        return first_domains(self._task, self._compiled)

    # ------------------------------------------------------------ decisions
    def _check_memory(self) -> bool:
        """Tell whether whole tables fit into memory; raise MemoryLimitError if not even a few numbers per state do."""
        compiled, limit = self._compiled, self._options.max_memory
        try:
            check_memory(compiled, self._sizes, limit)
        except MemoryLimitError:
            check_universe(compiled, limit)
            return False
        return True

    def _begin_with(self) -> tuple[Choice, Method]:
        """Return how to begin, and what with."""
        compiled, domains = self._compiled, self._domains
        if not self._full_fits and not self._at_any_cost:
            return self._large()
        if self._why_full:
            return Choice(Way.FULL, self._why_full), self._all_states()
        whole = WholeModel(compiled, domains, sum_out=not self._options.factor_marginals, prior=self._prior)
        begin = first_choice(whole)
        if begin.choice.way is Way.FULL and not self._at_any_cost:
            return begin.choice, self._all_states()
        self._rounds = Rounds(self._task, whole, begin, at_any_cost=self._at_any_cost)
        return Choice(Way.ROUNDS, begin.choice.reason), self._rounds

    @cached_property
    def _why_full(self) -> str:
        """Why full BP is the way, as far as a quick look tells; empty if rounds may be."""
        if not self._full_fits:
            return ""
        small = why_full(self._entries)
        if small and (self._entries == 0.0 or not self._at_any_cost):
            return small
        if self._task.semiring != SUM:
            return "rounds on likely states are made for sums, and this run takes maxima"
        if self._at_any_cost:
            return ""
        self._task.load(LARGER)
        return "" if self._pays else FLAT

    @cached_property
    def _pays(self) -> bool:
        """Whether rounds may pay, as far as priors tell."""
        return may_pay(self._compiled.arrays, self._domains, self._prior)

    @cached_property
    def _prior(self) -> FloatArray:
        """The exponentials of log priors, until it is decided how to begin."""
        return np.exp(self._domains.log_prior)

    def _all_states(self) -> AllStates:
        return AllStates(self._task, self._domains, is_checked=self._full_fits)

    # ------------------------------------------------------------ stages
    @property
    def first_kernels(self) -> str:
        """The kernels that a run begins with."""
        return "adaptive" if self._full_fits else BEYOND_MEMORY

    @property
    def begins_at_once(self) -> bool:
        """Whether a run whose budget ends while it is set up goes on to its first round, and answers with that."""
        compiled = self._compiled
        if self._may_have_relations:
            return not why_full(self._entries)
        return self._full_fits and compiled.has_tables_only and compiled.n_slots <= QUICK and not self._why_full

    def begin(self) -> Iterator[Step]:
        """Decide how to begin, and prepare that."""
        if self._may_have_relations and (self._at_any_cost or not why_full(self._entries)):
            while not self._task.load(RELATIONS):
                yield Step.WORKING
            first = first_round(self._task, self._compiled, at_any_cost=self._at_any_cost)
            if first is not None:
                self.now, self._figures.choice = first, str(first.choice)
                expect_another(self._task, perf_counter() - self._began)
                return
        if self._figures.states > LARGE and self._full_fits and self._task.load(LARGER):
            self._pays = yield from in_steps(weigh_priors(self._compiled.arrays, self._domains))
        reason = self._why_full
        while not reason and not self._task.load(ROUNDS if self._full_fits else BEYOND_MEMORY):
            yield Step.WORKING
        if self._figures.states > LARGE:
            yield Step.WORKING
        choice, self.now = self._begin_with()
        vars(self).pop("_prior", None)  # whoever needs it has it
        self._figures.choice = str(choice)
        if not reason and not (isinstance(self._rounds, Rounds) and self._rounds.is_quick):
            yield Step.WORKING
        yield from self.current.begin()

    def grow(self) -> Iterator[Step]:
        """Grow as the stage does; where it has come to its end, the next one begins."""
        if isinstance(self.now, FirstRound):
            while not self._task.load(AFTER_RELATIONS):
                yield Step.WORKING
            first = self.now
            yield from first.grow()
            if first.is_enough:
                self._rounds = first
                yield from self._go_on(Outcome.DEAR, first.put_all, first.error)
                return
            while not self._task.load(ROUNDS):
                yield Step.WORKING
            self._rounds = self.now = self._rounds_after(first)
        stage = self.current
        if stage is not self._rounds and self._figures.rounds > self._n_rounds:
            self._rounds = None  # sweeps over all states know more by now
        yield from stage.grow()
        if isinstance(stage, Rounds) and stage.outcome:
            yield from self._after(stage)

    def _rounds_after(self, first: FirstRound) -> Rounds:
        """Return rounds that go on from a first one."""
        all_domains = partial(first_domains, self._task, self._compiled)  # no way back to this run
        given = self._task, first.whole(), first.beginning
        return Rounds(*given, at_any_cost=self._at_any_cost, first=first, all_domains=all_domains)

    def _large(self) -> tuple[Choice, Method]:
        """Return rounds whose domains grow as far as there is memory."""
        compiled = self._compiled
        proposes = any(block.source.proposes for _, block in compiled.message_blocks)
        walked = ", and rules propose candidates, so that no universe has to be walked" if proposes else ""
        choice = Choice(Way.LARGE, f"whole tables do not fit into memory{walked}")
        return choice, LargeRounds(self._task, WholeModel(compiled, self._domains, sum_out=False), choice)

    def _after(self, rounds: Rounds) -> Iterator[Step]:
        """Go on over all states after the rounds, from their messages."""
        assert rounds.outcome is not None  # noqa: S101  (there are no more)
        rounds.release()
        yield from self._go_on(rounds.outcome, rounds.put_messages, rounds.error)

    def _go_on(self, why: Outcome, put: Callable[[Workspace], None], error: float) -> Iterator[Step]:
        """Go on over all states, from what somebody puts in place of messages."""
        self._figures.choice = str(Choice(Way.FULL, why.value))
        self._n_rounds = self._figures.rounds
        self.now = AllStates(self._task, self._domains, is_checked=self._full_fits, put=put, error=error)
        yield from self.current.begin()

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what the run knows now, or at the last consistent state."""
        found = None
        if self._rounds is not None and self._figures.rounds == self._n_rounds and self.now is not self._rounds:
            found = self._rounds.read(settled=settled)  # sweeps over all states have not come to an end
        if found is None and self.now is not None:
            found = self.now.read(settled=settled)
        return found or self._unary(settled=settled)

    def _unary(self, *, settled: bool) -> Snapshot | None:
        """Return what is known before any message; nothing of that has settled."""
        if settled:
            return None
        joint = self._options.factor_marginals
        given, room = (self._compiled, self._domains, self._figures), self._task.ahead.take_room(self._figures.states)
        return prior_snapshot(*given, outside=1.0, factor_marginals=joint, room=room)
