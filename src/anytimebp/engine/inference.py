"""Inference: a run that the caller pulls, with budgets, a clock of its own and Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Self

import numpy as np

from anytimebp.engine.budget import Budget, Target
from anytimebp.engine.caveats import warn_of_cache, warn_of_divergence, warn_of_end, warn_of_unconnected
from anytimebp.engine.interrupt import InterruptFlag
from anytimebp.engine.methods import DEFAULT_METHOD
from anytimebp.engine.options import RandomLike, RunOptions, check_budget
from anytimebp.engine.recording import UNLIMITED, Every, Recorder, read_record
from anytimebp.engine.run import Limits, Run, Step
from anytimebp.engine.stopwatch import Stopwatch
from anytimebp.engine.warm_up import compile_rules, load_kernels, load_meanwhile, load_structures, make_run
from anytimebp.errors import AnytimeBPError, FailedRunError, OptionError
from anytimebp.growth.policy import GrowthPolicy
from anytimebp.model.evidence import EvidenceLike, read_evidence_mapping
from anytimebp.model.graph import FactorGraph
from anytimebp.model.rule import RuleSource
from anytimebp.model.structures import has_structure
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace

WATCH_INTERVAL = 0.1  # seconds between two calls of `watch`


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
        threads: A positive integer, without effect: every run uses one thread.
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
        threads: int = 1,
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
        )
        self._recorder = Recorder(read_record(record))
        self._run: Run | None = None
        self._steps: Iterator[Step] = iter(())
        self._failure: Exception | None = None
        self._busy = threading.Lock()
        self._moments: list[Moment] = []
        self._watch = Stopwatch()
        self._interrupt = InterruptFlag()
        self._settled_seconds = 0.0

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run is finished, or None while it can go on."""
        return self._run.ending if self._run else None

    def __iter__(self) -> Self:
        """Go on with the run."""
        return self

    def __next__(self) -> Snapshot:
        """Run until the next moment that is to be recorded, and return what is known then."""
        self._load()
        with self._exclusively() as interrupt:
            while True:
                run, step = self._step(Budget())
                if interrupt.is_set:
                    raise KeyboardInterrupt
                if step is None:
                    raise StopIteration
                if step is Step.RECORD and self._is_due(run):
                    break
        snapshot = run.snapshot(self._watch.seconds)
        self._record(run, snapshot.log_z)
        if run.ending is StopReason.NOT_CONVERGED:
            warn_of_divergence(run.ending)
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
            watch: Called with the figures as they stand, some ten times a second and at the end.
        """
        check_budget(seconds, max_updates, max_work, target_error, callback, watch)
        self._load()
        done = self._run.updates if self._run else 0
        work = sum(self._run.work_parts.values()) if self._run else 0
        budget = Budget(
            stop_at=self._watch.seconds + seconds if seconds is not None else float("inf"),
            updates=_total(done, max_updates),
            work=_total(work, max_work),
            target_error=target_error,
            is_watched=any(
                given is not None for given in (seconds, max_updates, max_work, target_error, callback, watch)
            ),
        )
        run, reason = self._run_until(budget, callback, watch)
        current = run.snapshot(self._watch.seconds)
        if not self._moments or self._moments[-1].updates != run.updates or self._moments[-1].log_z != current.log_z:
            self._record(run, current.log_z, replace=True)
        if watch:
            watch(self._moments[-1])
        settled = None if reason is StopReason.TARGET_REACHED else run.answer(self._settled_seconds)
        result = Result.of(settled or current, current, reason, Trace(self._moments))
        warn_of_end(self._graph, result)
        return result

    def _run_until(
        self,
        budget: Budget,
        callback: Callable[[Snapshot], object] | None,
        watch: Callable[[Moment], object] | None,
    ) -> tuple[Run, StopReason]:
        """Run within the budget; return the run and why it stopped."""
        with self._exclusively() as interrupt:
            run, reason = self._steps_until(budget, callback, watch)
        warn_of_cache()
        return run, StopReason.INTERRUPTED if interrupt.is_set else reason

    def _steps_until(
        self,
        budget: Budget,
        callback: Callable[[Snapshot], object] | None,
        watch: Callable[[Moment], object] | None,
    ) -> tuple[Run, StopReason]:
        target = Target(budget.target_error)
        next_look = 0.0
        while True:
            run, step = self._step(budget)
            if step is Step.RECORD and self._tell(run, callback) and not run.ending:
                return run, StopReason.CALLBACK
            if watch and self._watch.seconds >= next_look:
                next_look = self._watch.seconds + WATCH_INTERVAL
                with self._watch.paused():
                    watch(self._moment(run))
            if self._interrupt.is_set:
                return run, StopReason.INTERRUPTED
            if run.ending:
                return run, run.ending
            if target.is_worth_a_look(run) and self._is_close_enough(run, target):
                return run, StopReason.TARGET_REACHED
            if run.updates >= budget.updates:
                return run, StopReason.OUT_OF_UPDATES
            if sum(run.work_parts.values()) >= budget.work:
                return run, StopReason.OUT_OF_WORK
            if self._watch.seconds >= budget.stop_at:
                return run, StopReason.OUT_OF_TIME

    def _is_close_enough(self, run: Run, target: Target) -> bool:
        """Look at the estimated error, on the run's own time."""
        return target.is_reached(run, run.snapshot(self._watch.seconds))

    @contextmanager
    def _exclusively(self) -> Iterator[InterruptFlag]:
        """Keep other threads out, take over Ctrl-C, and let underflow be, which is meant to happen."""
        if not self._busy.acquire(blocking=False):
            msg = "this Inference is running already, in another thread or around this call; make one for each"
            raise OptionError(msg)
        try:
            with self._interrupt as interrupt, np.errstate(under="ignore"), self._watch.running():
                yield interrupt
        finally:
            self._busy.release()

    def _load(self) -> None:
        """Load the kernels of the run and the loops of compiled rules, or compile them.

        Ctrl-C raises KeyboardInterrupt between two kernels, as there is nothing to answer with yet.
        """
        if self._run is None:
            sources = [block.source for block in self._graph.blocks]
            if any(has_structure(source) for source in sources):
                load_structures()
            compile_rules([source for source in sources if isinstance(source, RuleSource)])
        load_kernels(self._options)
        warn_of_cache()

    def _step(self, budget: Budget) -> tuple[Run, Step | None]:
        """Run one slice; the step is None if the run was finished before."""
        if self._run is None:
            self._graph.take_changes()
            run = make_run(
                self._graph, self._options, partial(load_meanwhile, self._watch, self._interrupt, self._options)
            )
            warn_of_unconnected(self._graph, self._options.observed)
            self._run, self._steps = run, run.steps()
            return self._run, Step.WORKING
        if self._failure:
            raise self._failure
        run, settled = self._run, self._run.settled_rounds
        rounds, states = self._recorder.limits(self._watch.seconds)
        if budget.target_error is not None:
            rounds = min(rounds, run.rounds + 1)
        has_deadline = budget.stop_at < float("inf")
        run.limits = Limits(budget.updates, budget.work, rounds, states, budget.is_watched, has_deadline)
        try:
            step = next(self._steps, None)
        except Exception as failure:
            self._failure = failure  # a generator that has raised cannot go on
            if isinstance(failure, FailedRunError):
                failure.snapshot = self._last_consistent(run)
            raise
        except BaseException as abort:  # a second Ctrl-C, or whatever a rule or policy has raised
            self._failure = AnytimeBPError(f"the run was aborted by {type(abort).__name__}; start a new one")
            raise
        if run.settled_rounds != settled:
            self._settled_seconds = self._watch.seconds
        return run, step

    def _last_consistent(self, run: Run) -> Snapshot | None:
        """Return the last consistent state of a run that has failed, if there is one and it can still be read."""
        with suppress(Exception):  # whatever goes wrong here must not hide the failure itself
            return run.snapshot(self._watch.seconds) if run.consistent else run.answer(self._settled_seconds)
        return None

    def _is_due(self, run: Run) -> bool:
        return self._recorder.is_due(run.rounds, run.states, self._watch.seconds) or run.ending is not None

    def _tell(self, run: Run, callback: Callable[[Snapshot], object] | None) -> bool:
        """Record a sweep or round if it is due, and tell the caller; return whether the caller wants to stop."""
        if not self._is_due(run):
            return False
        snapshot = run.snapshot(self._watch.seconds) if callback else None
        self._record(run, snapshot.log_z if snapshot else float("nan"))
        if callback is None or snapshot is None:
            return False
        with self._watch.paused():
            return bool(callback(snapshot))

    def _record(self, run: Run, log_z: float, *, replace: bool = False) -> None:
        if replace and self._moments and self._moments[-1].updates == run.updates:
            self._moments.pop()
        moment = self._moment(run, log_z)
        if self._moments and self._moments[-1][1:7] == moment[1:7]:
            self._moments.pop()  # the end of the last round is the end of the run
        self._moments.append(moment)

    def _moment(self, run: Run, log_z: float = float("nan")) -> Moment:
        return Moment(
            self._watch.seconds,
            run.updates,
            sum(run.work_parts.values()),
            run.max_residual,
            run.mean_residual,
            run.damping,
            run.states,
            log_z,
            run.estimated_error,
            run.choice,
        )


def _total(done: int, more: float | None) -> int:
    """Return where a budget ends that starts after what is done."""
    return UNLIMITED if more is None or more >= UNLIMITED else min(UNLIMITED, done + int(more))
