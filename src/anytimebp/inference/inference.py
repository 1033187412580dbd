"""Inference: a run that the caller pulls, with budgets, a clock of its own and Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from anytimebp.errors import OptionError
from anytimebp.inference.budget import Budget
from anytimebp.inference.caveats import warn_of_cache, warn_of_divergence, warn_of_end
from anytimebp.inference.figures import UNLIMITED
from anytimebp.inference.methods import DEFAULT_METHOD, FULL_METHODS
from anytimebp.inference.options import RandomLike, RunOptions, check_budget
from anytimebp.inference.recording import Every
from anytimebp.inference.run import Run, Stop
from anytimebp.inference.warm_up import compile_rules, load_kernels, load_structures
from anytimebp.model.evidence import EvidenceLike, Targets, read_evidence_mapping, read_targets
from anytimebp.model.graph import FactorGraph
from anytimebp.paper.policy import GrowthPolicy
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace

NOTHING = (None,) * 5  # no budget, and nobody who watches


class Exclusively:
    """Lets a run go on while it is entered, and keeps other threads out."""

    def __init__(self, run: Run) -> None:
        """Let nobody in yet."""
        self._run = run
        self._busy = threading.Lock()

    def __enter__(self) -> None:
        """Start, unless somebody else has."""
        if not self._busy.acquire(blocking=False):
            msg = "this Inference is running already, in another thread or around this call; make one for each"
            raise OptionError(msg)
        try:
            self._run.__enter__()
        except BaseException:  # Ctrl-C
            self._busy.release()
            raise

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Stop."""
        try:
            self._run.__exit__(error)
        finally:
            self._busy.release()


class Inference:
    """A run on a graph: iterate for a snapshot per round, or call `run` for a result; both go on where it stands.

    Args:
        graph: The model; not changed.
        method: One of `anytimebp.METHODS`.
        evidence: By variable: a label, a set of allowed labels, or log scores over the states.
        tolerance: Residual in nats under which a message counts as settled.
        max_memory: Bytes that the run may allocate. Methods on all states are refused before they start if they need
            more; those that grow stop growing.
        rng: Seed or NumPy generator of random schedules and growth (SPEC 7 of Scientific Python).
        schedule: Of `bp`: "sequential" or "random".
        damping: Part of the old message kept in each update; raised by the run itself if it does not settle.
        record: When to make a snapshot and a moment of the trace: after each "round" (or "sweep", the same), at the
            "end" only, or an `Every`.
        factor_marginals: Whether snapshots can give the marginals of factors.
        grow: States that join the domains in a round.
        fraction: Of `truncated`: the part of each universe that takes part.
        policy: A GrowthPolicy of yours, instead of the method's.
        threads: Of a run in parts: how many threads sweep over them; all cores by default. Without parts, a run uses
            one thread.
        targets: The variables (names, handles or indices) whose marginals are wanted; None for all.
        parts: Cut the graph into so many parts, whose sweeps go on at the same time; of "bp", "adaptive" and "auto".
            Two to four a thread are best; how many there are decides the order of updates, how many threads does not.
        workers: What sweeps over parts: "threads". Runs on Ray are for `infer`.
    """

    def __init__(
        self,
        graph: FactorGraph,
        method: str = DEFAULT_METHOD,
        *,
        evidence: EvidenceLike | None = None,
        tolerance: float = 1e-8,
        max_memory: int | None = None,
        rng: RandomLike = None,
        schedule: str = "sequential",
        damping: float = 0.0,
        record: Every | str = "round",
        factor_marginals: bool = False,
        grow: int = 1,
        fraction: float = 0.25,
        policy: GrowthPolicy | None = None,
        threads: int | None = None,
        targets: Targets | None = None,
        parts: int | None = None,
        workers: str = "threads",
    ) -> None:
        """Check the options; the work starts with the first snapshot or `run`."""
        if not isinstance(graph, FactorGraph):
            msg = f"expected a FactorGraph, got {type(graph).__name__}"
            raise OptionError(msg)
        self._graph = graph
        self._options = RunOptions(
            method=method,
            observed=read_evidence_mapping(evidence, graph.variables),
            tolerance=tolerance,
            max_memory=max_memory,
            rng=rng,
            schedule=schedule,
            damping=damping,
            record=record,
            factor_marginals=factor_marginals,
            grow=grow,
            fraction=fraction,
            policy=policy,
            threads=threads,
            targets=read_targets(targets, graph.variables),
            parts=parts,
            workers=workers,
        )
        self._run = Run(graph, self._options)
        self._exclusively = Exclusively(self._run)

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run is finished, or None while it can go on."""
        return self._run.figures.ending

    @property
    def n_allowed(self) -> int:
        """States of all variables together that the evidence allows: as many can become active."""
        sizes = self._graph.variables.sizes()
        seen = {index: known.states for index, known in self._options.observed.items() if known.states is not None}
        return int(sizes.sum()) - sum(int(sizes[index]) - len(states) for index, states in seen.items())

    def __iter__(self) -> Self:
        """Go on with the run."""
        return self

    def __next__(self) -> Snapshot:
        """Run until the next moment that is to be recorded, and return what is known then."""
        self.load()
        with self._exclusively:
            if not self._run.next_record():
                raise StopIteration
        snapshot = self._run.snapshot()
        self._run.record(snapshot.log_z)
        self._run.look_at(snapshot)
        if self.stop_reason is StopReason.NOT_CONVERGED:
            warn_of_divergence(StopReason.NOT_CONVERGED)
        return snapshot

    def run(
        self,
        seconds: float | None = None,
        max_updates: int | None = None,
        *,
        max_work: int | None = None,
        target_error: float | None = None,
        callback: Callable[[Snapshot], object] | None = None,
        watch: Callable[[Moment], object] | None = None,
    ) -> Result:
        """Go on until the run is finished or the budget is used up, and return the answer.

        Ctrl-C ends the call and returns what there is (`stop_reason` is INTERRUPTED). Pressed again, within two seconds
        also in another call, it raises KeyboardInterrupt. So it does while kernels are loaded or compiled, when there
        is nothing to return yet.

        Args:
            seconds: Time for this call, the caller's own in callbacks not counted.
            max_updates: Factor updates for this call.
            max_work: Table entries to read or score in this call.
            target_error: Stop once the estimated error is under this; see `Snapshot.estimated_error`.
            callback: Called with a snapshot at each recorded moment; a true answer stops the run.
            watch: Called with the figures as they stand, some ten times a second and at the end; also with moments that
                are recorded with estimates (see `Every`).
        """
        check_budget(seconds, max_updates, max_work, target_error, callback, watch)
        self.load()
        run = self._run
        budget = budget_of(run, seconds, max_updates, max_work, target_error, callback or watch)
        with self._exclusively:
            reason = run.until(budget, callback, watch)
        may_estimate = self._options.max_memory is None
        return result_of(run, self._graph, reason, watch, may_estimate=may_estimate)

    def stop_by(self, stop: Stop) -> None:
        """Let another thread end the run, as Ctrl-C does: between two slices."""
        self._run.stop = stop

    @property
    def options(self) -> RunOptions:
        """The options, as they were checked."""
        return self._options

    def load(self) -> None:
        """Load the kernels of the run and the loops of compiled rules, or compile them.

        Ctrl-C raises KeyboardInterrupt between two kernels, as there is nothing to answer with yet.
        """
        if self._options.workers == "ray":
            msg = 'workers="ray" is for `infer`, whose run ends with the call; an Inference takes "threads"'
            raise OptionError(msg)
        if self._run.method is None and (sources := self._graph.asked_sources):
            is_cut = bool(self._options.observed) or self._options.method not in FULL_METHODS
            load_structures({name: None for source in sources for name in source.all_sums(cut=is_cut)})
            compile_rules(sources)
        load_kernels(self._options)
        warn_of_cache()


def budget_of(
    run: Run,
    seconds: float | None,
    max_updates: int | None,
    max_work: int | None,
    target_error: float | None,
    told: Callable[..., object] | None,
) -> Budget:
    """Return what a call may use up, that starts where a run stands; `told` is who is told of its moments."""
    figures, given = run.figures, (seconds, max_updates, max_work, target_error, told)
    return Budget(
        stop_at=run.seconds + seconds if seconds is not None else float("inf"),
        updates=_total(figures.updates, max_updates),
        work=_total(figures.work, max_work),
        target_error=target_error,
        is_watched=given != NOTHING,
    )


def result_of(
    run: Run,
    graph: FactorGraph,
    reason: StopReason,
    watch: Callable[[Moment], object] | None = None,
    *,
    may_estimate: bool = True,
) -> Result:
    """Return the answer of a call that has ended, and warn of what it may be wrongly taken for.

    Args:
        run: That has ended, for now.
        graph: The model.
        reason: Why it has ended.
        watch: Is given the last moment.
        may_estimate: Whether warnings may estimate the error, which takes memory of its own.
    """
    warn_of_cache()
    if run.is_interrupted:
        reason = StopReason.INTERRUPTED
    current, last = run.snapshot(), run.moments[-1] if run.moments else None
    if last is None or last.updates != run.figures.updates or last.log_z != current.log_z:
        run.record(current.log_z, again=True)
    if watch:
        watch(run.moments[-1])
    settled = None if reason is StopReason.TARGET_REACHED else run.last_settled()
    result = Result.of(settled or current, current, reason, Trace(run.moments))
    warn_of_end(graph, result, may_estimate=may_estimate)
    return result


def _total(done: int, more: float | None) -> int:
    """Return where a budget ends that starts after what is done."""
    return UNLIMITED if more is None or more >= UNLIMITED else min(UNLIMITED, done + int(more))
