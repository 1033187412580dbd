"""One run of `adaptive`: rounds on sparse domains where they pay, then whole tables, as a generator of slices.

What it does next is decided by `choice.py`. Rounds on domains are those of `strip_stage.py`; whole tables
are swept as by `bp` (`inference/all_states.py`), from where the rounds have ended, with inner
rounds of its own. Where neither fits into memory, or hard zeros rule rounds on strips out, tables are kept over the
domains alone (`compact_run.py`); and where not even that is possible, domains grow one state at a time
(`inference/one_by_one.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import cached_property, partial

from anytimebp.domains.domains import Domains, domain_sizes, full_domains
from anytimebp.domains.universe import Universe
from anytimebp.errors import MemoryLimitError
from anytimebp.inference.adaptive.choice import EDGE_COST, Choice, Way, first_choice
from anytimebp.inference.adaptive.compact_run import CompactRun
from anytimebp.inference.adaptive.frozen_tails import QUICK
from anytimebp.inference.adaptive.leaf_axes import LeafAxes, domains_left, find_leaf_axes
from anytimebp.inference.adaptive.nested import NestedWorkspace, put_messages
from anytimebp.inference.adaptive.reach import FIRST_DOMAIN, MOST_NEW, first_strips
from anytimebp.inference.adaptive.round_end import Outcome
from anytimebp.inference.adaptive.strip_sources import find_strip_sources, source_kinds
from anytimebp.inference.adaptive.strip_stage import StripStage
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import Method, Step, Task
from anytimebp.inference.one_by_one import OneByOne
from anytimebp.inference.readout import unary_snapshot
from anytimebp.kernels.codes import LINEAR, TABLE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.source import FloatArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.memory import check_memory, check_universe, exceeds_memory
from anytimebp.tables.sizes import factor_kinds, message_spread, table_entries, update_entries
from anytimebp.tables.workspace import first_arithmetic

ROUNDS = "adaptive: rounds on likely states"  # the kernels that runs on small graphs do not need
TINY = 2**16  # entries that could be read in the time of a sweep, under which sweeps that leave factors out cost more
SMALL = 20_000  # entries of all tables together, under which nothing is faster than full BP


class AdaptiveRun:
    """Runs of `adaptive`.

    Attributes:
        now: What is at work, or was last; None before the run has decided how to begin.
    """

    def __init__(self, task: Task, *, at_any_cost: bool = False) -> None:
        """Compile the graph, if need be, and put unary factors and evidence together.

        Args:
            task: What is to be done.
            at_any_cost: Whether to go through rounds on domains and inner rounds even where they do not pay.
        """
        self._task, self._options, self._figures = task, task.options, task.figures
        self._at_any_cost = at_any_cost
        self._compiled = compiled_graph(task.graph)
        self._full_fits = self._check_memory()
        self._domains: Domains = full_domains(self._compiled, self._options.observed)
        self._is_tiny = False
        self._nats = FIRST_DOMAIN
        self.now: Method | None = None
        self._stage: StripStage | None = None
        self._stage_rounds = 0
        self._earlier: CompactRun | None = None
        self._figures.states = int(self._domains.sizes.sum())
        self._figures.work_parts["priorities"] += self._domains.scored

    @cached_property
    def _leaf_axes(self) -> LeafAxes:
        return find_leaf_axes(self._compiled, sum_out=self._full_fits and not self._options.factor_marginals)

    # ------------------------------------------------------------ decisions
    def _check_memory(self) -> bool:
        """Tell whether whole tables fit into memory; raise MemoryLimitError if not even a few numbers per state do."""
        compiled, limit = self._compiled, self._options.max_memory
        try:
            check_memory(compiled, domain_sizes(compiled, self._options.observed), limit)
        except MemoryLimitError:
            check_universe(compiled, limit)
            return False
        return True

    def _decide(self) -> Choice:
        """Return how to begin."""
        domains, compiled = self._domains, self._compiled
        entries = update_entries(compiled, domains.sizes)
        if entries == 0.0 or (self._full_fits and entries < SMALL):
            self._is_tiny = self._full_fits and entries + EDGE_COST * len(compiled.arrays.edge_variable) < TINY
            return Choice(Way.FULL, f"tables of {entries:,.0f} entries in all are too small to save anything")
        if first_arithmetic(compiled, domains.log_prior_min) != LINEAR:
            return self._instead("the range of the scores needs log arithmetic")
        if compiled.extent.has_zero.any():
            return self._instead("there are factors with hard zeros")
        if (factor_kinds(compiled, domains.sizes) != TABLE).any():
            return self._instead("there are lists or structures, which need no tables")
        if self._options.damping > 0.0:
            return self._instead("damping was asked for")
        if not self._full_fits and any(block.source.proposes for _, block in compiled.message_blocks):
            return Choice(Way.COMPACT, "rules propose candidates, so that no universe has to be walked")
        has_rules = any(block.source.is_rule for _, block in compiled.message_blocks)
        left = domains_left(self._leaf_axes, domains)
        choice, self._nats = first_choice(self._leaf_axes, source_kinds(compiled), left, has_rules=has_rules)
        return choice if self._full_fits else Choice(Way.DOMAINS, "whole tables do not fit into memory")

    def _may_make_rounds(self, choice: Choice) -> bool:
        """Tell whether rounds on domains may come: at once, or between sweeps over large tables."""
        return choice.way is not Way.FULL or table_entries(self._compiled.arrays, self._domains.sizes) >= QUICK

    def _strips_fit(self, spread: FloatArray) -> bool:
        """Tell whether the first strips are small enough where whole tables do not fit."""
        entries, needed = first_strips(self._compiled, self._domains, spread)
        return entries <= MOST_NEW and not exceeds_memory(0, int(needed), self._options.max_memory)

    def _instead(self, reason: str) -> Choice:
        return Choice(Way.FULL if self._full_fits else Way.COMPACT, reason)

    # ------------------------------------------------------------ stages
    def begin(self) -> Iterator[Step]:
        """Decide how to begin, and prepare that; asks rules for a sample of their scores, one after the other."""
        choice = Choice(Way.DOMAINS, "at any cost") if self._at_any_cost else self._decide()
        while not self._is_tiny and self._may_make_rounds(choice) and not self._task.load(ROUNDS):
            yield Step.WORKING
        if choice.way is Way.DOMAINS:
            spread = yield from self._message_spread()
            if self._full_fits or self._at_any_cost or self._strips_fit(spread):
                self.now = self._stage = self._make_stage(spread)
            else:
                reason = "whole tables do not fit into memory, and strips of tables would be too large"
                choice = Choice(Way.COMPACT, reason)
        self._figures.choice = str(choice)
        if choice.way is Way.FULL:
            self.now = AllStates(self._task, self._domains, is_small=self._is_tiny)
        elif choice.way is Way.COMPACT:
            self.now = self._compact()
        if not self._is_tiny:
            yield Step.WORKING
        yield from self._begin_stage()

    def _begin_stage(self) -> Iterator[Step]:
        """Let what is at work begin; where it finds that it cannot, another one."""
        yield from self._current.begin()
        if isinstance(self.now, CompactRun) and self.now.outcome and not self._figures.ending:
            yield from self._grow_one_by_one(self.now)

    @property
    def _current(self) -> Method:
        assert self.now is not None  # noqa: S101  (`begin` has chosen one)
        return self.now

    def settle(self) -> Iterator[Step]:
        """Settle as the stage does."""
        return self._current.settle()

    def look(self) -> Iterator[Step]:
        """Look as the stage does."""
        yield from self._current.look()
        if isinstance(self.now, CompactRun) and self._figures.consistent:
            self._stage = None  # its rounds are no longer what the run would answer with

    def grow(self) -> Iterator[Step]:
        """Grow as the stage does; where it has come to its end, the next one begins."""
        stage = self._current
        yield from stage.grow()
        if isinstance(stage, StripStage) and stage.outcome:
            yield from self._after(stage)
        elif isinstance(stage, CompactRun) and stage.outcome:
            yield from self._grow_one_by_one(stage)

    def _make_stage(self, spread: FloatArray) -> StripStage:
        return StripStage(
            self._task,
            self._domains,
            find_strip_sources(self._compiled, self._leaf_axes, self._domains),
            spread,
            nats=self._nats,
            full_fits=self._full_fits,
            at_any_cost=self._at_any_cost,
        )

    def _message_spread(self) -> Generator[Step, None, FloatArray]:
        """Return how far messages can move beliefs."""
        sampling = message_spread(self._compiled)
        while True:
            try:
                self._figures.work_parts["priorities"] += next(sampling)
            except StopIteration as end:
                spread: FloatArray = end.value
                return spread
            yield Step.WORKING

    def _compact(self) -> CompactRun:
        return CompactRun(self._task, Universe(self._compiled, self._options.observed, self._domains))

    def _grow_one_by_one(self, before: CompactRun) -> Iterator[Step]:
        """Grow state by state, where no domains could be had in batches."""
        options = replace(self._options, method="dynamic")
        while not self._task.load(options.method):
            yield Step.WORKING
        self._figures.choice = str(Choice(Way.GROWTH, before.outcome.value if before.outcome else ""))
        self._earlier = before
        try:
            self.now = OneByOne(self._task._replace(options=options), before.universe)
        except MemoryLimitError:
            if not self._figures.settled_rounds:
                raise
            self._figures.ending = StopReason.OUT_OF_MEMORY
            return
        yield from self.now.begin()

    def _after(self, stage: StripStage) -> Iterator[Step]:
        """Go on after the rounds on domains, if there is anything left to do."""
        outcome, figures = stage.outcome, self._figures
        if outcome is None or outcome is Outcome.CONVERGED:
            figures.ending = StopReason.CONVERGED
            return
        stage.release()
        self._stage_rounds = figures.rounds
        useful = outcome in {Outcome.DEAR, Outcome.WIDE, Outcome.CLOSE, Outcome.MEMORY}
        if self._full_fits:
            has_tails = useful and not len(self._leaf_axes.leaves)
            figures.choice = str(Choice(Way.TAILS if has_tails else Way.FULL, outcome.value))
            self.now = self._on_all_states(stage.workspace if useful else None)
        else:
            figures.choice = str(Choice(Way.COMPACT, outcome.value))
            error = figures.estimated_error
            self.now = compact = self._compact()
            if useful:
                compact.start_from(stage.domains(), stage.threshold, error)
        yield from self._begin_stage()

    def _on_all_states(self, before: NestedWorkspace | None) -> AllStates:
        """Return sweeps over whole tables, from the messages of an earlier stage if there is one."""
        if before is None or not len(self._leaf_axes.leaves):
            return AllStates(self._task, self._domains, before, at_any_cost=self._at_any_cost)
        put = partial(put_messages, before, self._leaf_axes)
        return AllStates(self._task, self._domains, at_any_cost=self._at_any_cost, put=put)

    @property
    def nested(self) -> NestedWorkspace | None:
        """Messages and domains of the rounds on sparse domains, if there were any."""
        return self._stage.workspace if self._stage else None

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what the run knows now, or at the last consistent state."""
        found = self.now.read(settled=settled) if self.now is not None else None
        if found is None and not settled:
            universe = Universe(self._compiled, self._options.observed, self._domains)
            return unary_snapshot(universe, self._figures, factor_marginals=self._options.factor_marginals)
        if found is not None:
            return found
        if self._earlier is not None:
            found = self._earlier.read(settled=True)
        if found is not None or self._stage is None:
            return found
        if isinstance(self.now, AllStates) and self._figures.rounds > self._stage_rounds:
            return None  # sweeps over all states have gone on from there
        return self._stage.read(settled=True)
