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
            msg = (
                "this Inference is already running, in another thread or in an outer call; make one Inference for each"
            )
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
    """A run that you drive yourself, can stop at any moment, and can resume.

    Iterating yields a snapshot per round or sweep. `run` returns a result. Both continue where the run stands.

    Args:
        graph: The model. It is not changed.
        method: One of `anytimebp.METHODS`.
        evidence: As for `infer`.
        tolerance: The run has converged when no message would move by more than this, in nats.
        max_memory: Number of bytes that the run may allocate. If they need more, methods on all states raise an error
            before they start, and methods that grow stop growing.
        rng: Seed or NumPy generator for random schedules and growth (SPEC 7 of Scientific Python).
        schedule: Order of updates for "bp": "sequential" or "random".
        damping: Share of the old message to keep in each update. A run that does not settle raises it by itself.
        record: When to make a snapshot and record a moment of the trace: after each "round" (or "sweep", which is the
            same), only at the "end", or an `Every`.
        factor_marginals: Whether to make the joint marginals of factors available in snapshots.
        grow: Number of states that join in each round of "dynamic", "fixed" or "random".
        fraction: Share of each variable's states that "truncated" uses.
        policy: Your own GrowthPolicy.
        threads: Number of threads for a run in parts; all cores by default. Without parts, a run uses one thread.
        targets: Variables (names, handles or indices) whose marginals you want; None for all.
        parts: Number of parts to cut the graph into, as for `infer`.
        workers: What sweeps the parts: "threads". Only `infer` runs on Ray.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> inference = abp.Inference(graph, "bp")
        >>> for snapshot in inference:
        ...     if snapshot.estimated_error < 0.01:
        ...         break
        >>> inference.run().stop_reason.name  # goes on from there
        'CONVERGED'
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
        """Why the run is finished, or None while it can continue."""
        return self._run.figures.ending

    @property
    def n_allowed(self) -> int:
        """Number of states, summed over variables, that the evidence allows."""
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
        """Continue until the run is finished or the budget is used up, and return the answer.

        Ctrl-C ends the call and returns the answer so far, as for `infer`.

        Args:
            seconds: Time budget of this call, without the time spent in callbacks.
            max_updates: Largest number of factor updates in this call.
            max_work: Largest number of table entries to read or score in this call.
            target_error: Stop once `Snapshot.estimated_error` is at most this.
            callback: Called with a snapshot at each recorded moment. The run stops if it returns a true value.
            watch: Called with the current figures about ten times a second and at the end, and with moments that are
                recorded with estimates (see `Every`).
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
