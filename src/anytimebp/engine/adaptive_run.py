"""One run of `adaptive`: rounds on sparse domains where they pay, then whole tables, as a generator of slices.

What it does next is decided by `engine/choice.py`. Rounds on domains are those of `engine/strip_stage.py`; whole tables
are swept by a run like that of `bp` (`engine/full_run.py`), which starts where the rounds have ended and makes inner
rounds of its own. Where neither fits into memory, or hard zeros rule rounds on strips out, tables are kept over the
domains alone (`engine/compact_run.py`); and where not even that is possible, domains grow one state at a time
(`engine/sparse_run.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import numpy as np

from anytimebp.engine.beginning import Beginning
from anytimebp.engine.choice import Choice, Counts, Way, first_choice
from anytimebp.engine.compact_run import CompactRun
from anytimebp.engine.full_run import FullRun
from anytimebp.engine.options import RunOptions
from anytimebp.engine.reach import MOST_NEW, first_strips
from anytimebp.engine.run import Limits, Run, Step
from anytimebp.engine.sparse_run import SparseRun
from anytimebp.engine.strip_readout import read_stage
from anytimebp.engine.strip_stage import Outcome, StripStage
from anytimebp.errors import MemoryLimitError
from anytimebp.kernels.codes import LINEAR
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.graph import FactorGraph
from anytimebp.model.rule import RuleSource
from anytimebp.model.source import FloatArray, TableSource
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.schedule.frozen_tails import QUICK
from anytimebp.workspace.domains import Domains, domain_sizes, full_domains
from anytimebp.workspace.memory import check_memory, check_universe, exceeds_memory
from anytimebp.workspace.nested import NestedWorkspace, find_sources
from anytimebp.workspace.space import first_arithmetic
from anytimebp.workspace.structures import has_structures
from anytimebp.workspace.table_sizes import message_spread, strip_entries, table_entries, update_entries
from anytimebp.workspace.universe import Universe

EXPECTED_DOMAIN = 7.0  # nats of prior under the best, within which states are expected in the domains
ROUNDS = "adaptive: rounds on likely states"  # the kernels that runs on small graphs do not need
SMALL = 20_000  # entries of all tables together, under which nothing is faster than full BP


class AdaptiveRun:
    """The state of one run of `adaptive`.

    Attributes:
        choice: What the run does at present, and why, in words.
    """

    def __init__(
        self,
        graph: FactorGraph,
        options: RunOptions,
        load: Callable[[str], bool] = lambda _: True,
        *,
        at_any_cost: bool = False,
    ) -> None:
        """Compile the graph, if need be, and put unary factors and evidence together.

        Args:
            graph: The model.
            options: Of the run.
            load: Loads kernels that only some runs need, by name: of ROUNDS or of a method that takes over; False if it
                was interrupted.
            at_any_cost: Whether to go through rounds on domains and inner rounds even where they do not pay.
        """
        self._load = load
        self._at_any_cost = at_any_cost
        self._graph, self._options = graph, options
        self._compiled = compiled_graph(graph)
        self._full_fits = self._check_memory()
        self._domains: Domains = full_domains(self._compiled, options.observed)
        self._ending: StopReason | None = None
        self._stage: StripStage | None = None
        self._run: Run | None = None
        self._earlier: CompactRun | None = None
        self._limits = Limits()
        self._settled_before = 0
        self._beginning = Beginning(int(self._domains.sizes.sum()), options.damping)
        self._beginning.work_parts["priorities"] = self._domains.scored
        self.choice = ""

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
            return Choice(Way.FULL, f"tables of {entries:,.0f} entries in all are too small to save anything")
        if first_arithmetic(compiled, domains.log_prior_min) != LINEAR:
            return self._instead("the range of the scores needs log arithmetic")
        if compiled.extent.has_zero.any():
            return self._instead("there are factors with hard zeros")
        if has_structures(compiled, domains.sizes):
            return self._instead("there are lists or structures, which need no tables")
        if self._options.damping > 0.0:
            return self._instead("damping was asked for")
        if not self._full_fits and any(_proposes(block.source) for _, block in compiled.message_blocks):
            return Choice(Way.COMPACT, "rules propose candidates, so that no universe has to be walked")
        likely = domains.log_prior > -EXPECTED_DOMAIN
        sizes = np.add.reduceat(likely, domains.slot_start[:-1], dtype=np.int64)
        strips = float(strip_entries(compiled.arrays, sizes, domains.sizes).sum())
        has_rules = any(isinstance(block.source, RuleSource) for _, block in compiled.message_blocks)
        n_edges = len(compiled.arrays.edge_variable)
        choice = first_choice(Counts(entries, strips, n_edges, float(likely.mean()), has_rules))
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

    def _begin(self) -> Iterator[Step]:
        """Decide how to begin, and prepare that; asks rules for a sample of their scores, one after the other."""
        choice = Choice(Way.DOMAINS, "at any cost") if self._at_any_cost else self._decide()
        while self._may_make_rounds(choice) and not self._load(ROUNDS):
            yield Step.WORKING
        if choice.way is Way.DOMAINS:
            spread = yield from self._message_spread()
            if self._full_fits or self._at_any_cost or self._strips_fit(spread):
                self._stage = self._make_stage(spread)
            else:
                reason = "whole tables do not fit into memory, and strips of tables would be too large"
                choice = Choice(Way.COMPACT, reason)
        self.choice = str(choice)
        if choice.way is Way.FULL:
            self._run = FullRun(self._graph, self._options, self._domains)
        elif choice.way is Way.COMPACT:
            self._run = self._compact()
        self.limits = self._limits
        yield Step.WORKING

    def _make_stage(self, spread: FloatArray) -> StripStage:
        stage = StripStage(
            self._compiled,
            self._domains,
            find_sources(self._compiled),
            spread,
            self._options.tolerance,
            self._options.max_memory,
            full_fits=self._full_fits,
            at_any_cost=self._at_any_cost,
        )
        stage.work_parts.update(self._beginning.work_parts)
        return stage

    def _message_spread(self) -> Generator[Step, None, FloatArray]:
        """Return how far messages can move beliefs."""
        sampling = message_spread(self._compiled)
        while True:
            try:
                self._beginning.work_parts["priorities"] += next(sampling)
            except StopIteration as end:
                spread: FloatArray = end.value
                return spread
            yield Step.WORKING

    def _compact(self) -> CompactRun:
        options = replace(self._options, method="adaptive")
        run = CompactRun(self._graph, options, Universe(self._compiled, options.observed, self._domains))
        run.work_parts.update(self._beginning.work_parts)
        return run

    def _growth(self, before: CompactRun) -> SparseRun:
        """Return a run that grows state by state, where no domains could be had in batches."""
        reason = before.outcome.value if before.outcome else ""
        self.choice = str(Choice(Way.GROWTH, reason))
        options = replace(self._options, method="dynamic")
        self._settled_before += before.settled_rounds
        self._earlier = before
        growth = SparseRun(self._graph, options, before.universe)
        growth.count_on(before.updates, before.work_parts)
        return growth

    def _after(self, stage: StripStage) -> Run | None:
        """Return what goes on after the rounds on domains; None, with an ending, if nothing does."""
        outcome = stage.outcome
        if outcome is None or outcome is Outcome.CONVERGED:
            self._ending = StopReason.CONVERGED
            return None
        stage.release()
        useful = outcome in {Outcome.DEAR, Outcome.WIDE, Outcome.CLOSE, Outcome.MEMORY}
        if self._full_fits:
            self.choice = str(Choice(Way.TAILS if useful else Way.FULL, outcome.value))
            before = stage.workspace if useful else None
            run = FullRun(self._graph, self._options, self._domains, before, at_any_cost=self._at_any_cost)
            run.updates, run.rounds, run.work_parts = stage.updates, stage.rounds, dict(stage.work_parts)
            return run
        self.choice = str(Choice(Way.COMPACT, outcome.value))
        compact = self._compact()
        compact.count_on(stage.updates, stage.rounds, stage.work_parts)
        if useful:
            compact.start_from(stage.domains(), stage.threshold, stage.estimated_error)
        return compact

    # ------------------------------------------------------------ the loop
    def steps(self) -> Iterator[Step]:
        """Work in slices of a few milliseconds until the run is finished."""
        yield from self._begin()
        if self._stage is not None:
            yield from self._stage.steps()
            self._run = self._after(self._stage)
        while self._run is not None:
            self._run.limits = self._limits
            for step in self._run.steps():
                self.choice = self._run.choice or self.choice
                if isinstance(self._run, CompactRun) and self._run.consistent:
                    self._forget_stage()
                yield step
            if not isinstance(self._run, CompactRun) or self._run.ending:
                return
            while not self._load("dynamic"):
                yield Step.WORKING
            try:
                self._run = self._growth(self._run)
            except MemoryLimitError:
                if not self.settled_rounds:
                    raise
                self._ending = StopReason.OUT_OF_MEMORY
                return

    def _forget_stage(self) -> None:
        """Let the rounds before go, once they are no longer what the run would answer with."""
        if self._stage is not None:
            self._settled_before += self._stage.settled_rounds
            self._stage = None

    @property
    def nested(self) -> NestedWorkspace | None:
        """Messages and domains of the rounds on sparse domains, if there were any."""
        return self._stage.workspace if self._stage else None

    @property
    def limits(self) -> Limits:
        """What the caller allows; set before each step."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        if self._stage is not None:
            self._stage.limits = limits
        if self._run is not None:
            self._run.limits = limits

    # ------------------------------------------------------------ figures
    @property
    def _now(self) -> Run | StripStage | Beginning:
        """What is running, or was last."""
        return self._run or self._stage or self._beginning

    @property
    def ending(self) -> StopReason | None:
        """Why the run is finished, or None."""
        return (self._run.ending if self._run else None) or self._ending

    @property
    def updates(self) -> int:
        """Factor updates so far."""
        return self._now.updates

    @property
    def rounds(self) -> int:
        """Rounds on domains and sweeps so far."""
        return self._now.rounds

    @property
    def settled_rounds(self) -> int:
        """How many of them ended in a consistent state."""
        before = self._stage.settled_rounds if self._stage else 0
        return self._settled_before + before + (self._run.settled_rounds if self._run else 0)

    @property
    def work_parts(self) -> dict[str, int]:
        """Entries read or scored so far, by purpose."""
        return self._now.work_parts

    @property
    def max_residual(self) -> float:
        """Largest residual."""
        return self._now.max_residual

    @property
    def mean_residual(self) -> float:
        """Mean residual over the factors."""
        return self._now.mean_residual

    @property
    def consistent(self) -> bool:
        """Whether the state as it is now is a fixed point on its domains."""
        return self._now.consistent

    @property
    def damping(self) -> float:
        """In force now."""
        return self._now.damping

    @property
    def can_be_judged(self) -> bool:
        """Whether the error of the state as it is now can be estimated."""
        return self._now.can_be_judged

    @property
    def estimated_error(self) -> float:
        """The estimated error, if it is known without further work."""
        return self._now.estimated_error

    @property
    def states(self) -> int:
        """Active states of all variables together."""
        return self._now.states

    # ------------------------------------------------------------ reading
    def snapshot(self, seconds: float) -> Snapshot:
        """Return what the run knows now."""
        if self._run is not None:
            return self._named(self._run.snapshot(seconds))
        if self._stage is None:
            return self._beginning.snapshot(self._compiled, self._domains, self._options, seconds)
        return read_stage(self._stage, self._options, seconds, settled=self._stage.consistent)

    def answer(self, seconds: float) -> Snapshot | None:
        """Return the last consistent state, if the current one is not and there was one."""
        if self.consistent:
            return None
        found = self._run.answer(seconds) if self._run else None
        if found is None and self._earlier is not None:
            found = self._earlier.answer(seconds)
        if found is not None:
            return self._named(found)
        if self._stage is None or self._stage.settled is None:
            return None
        if isinstance(self._run, FullRun) and self._run.rounds > self._stage.rounds:
            return None  # sweeps over all states have gone on from there
        return read_stage(self._stage, self._options, seconds, settled=True)

    def _named(self, snapshot: Snapshot) -> Snapshot:
        return snapshot if snapshot.method == self._options.method else replace(snapshot, method=self._options.method)


def _proposes(source: TableSource) -> bool:
    return isinstance(source, RuleSource) and source.propose is not None
