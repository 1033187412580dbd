"""Inference: a run that the caller pulls, with budgets, a clock of its own and Ctrl-C."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from types import FrameType
from typing import Self

import numpy as np

from anytimebp.engine.full_run import FullRun, Step
from anytimebp.engine.interrupt import InterruptFlag
from anytimebp.engine.options import RandomLike, RunOptions, check_budget
from anytimebp.engine.warm_up import warm_up
from anytimebp.errors import AnytimeBPError, NotConvergedWarning, OptionError
from anytimebp.model.evidence import EvidenceLike, read_evidence_mapping
from anytimebp.model.graph import FactorGraph
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace

UNLIMITED = 2**62
ASKED_FOR = (StopReason.CALLBACK, StopReason.INTERRUPTED)
"""Stops that somebody just asked for need no warning."""


class Inference:
    """A run on a graph: iterate for a snapshot per sweep, or call `run` for a result; both go on where it stands.

    Args:
        graph: The model; not changed.
        method: One of `anytimebp.METHODS`.
        evidence: By variable: a label, a set of allowed labels, or log scores over the states.
        tolerance: Residual in nats under which a message counts as settled.
        max_memory: Bytes that the run may allocate; refused before it starts if it needs more.
        rng: Seed or NumPy generator of random schedules (SPEC 7 of Scientific Python).
        schedule: Of `bp`: "sequential" or "random".
        damping: Part of the old message kept in each update; raised by the run itself if it does not settle.
        record: What to record: a moment per "sweep", or the "end" only.
        factor_marginals: Whether snapshots can give the marginals of factors.
    """

    def __init__(
        self,
        graph: FactorGraph,
        method: str = "bp",
        *,
        evidence: EvidenceLike | None = None,
        tolerance: float = 1e-8,
        max_memory: int | None = None,
        rng: RandomLike = None,
        schedule: str = "sequential",
        damping: float = 0.0,
        record: str = "sweep",
        factor_marginals: bool = False,
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
        )
        self._run: FullRun | None = None
        self._steps: Iterator[Step] = iter(())
        self._failure: Exception | None = None
        self._busy = threading.Lock()
        self._moments: list[Moment] = []
        self._seconds = 0.0

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run is finished, or None while it can go on."""
        return self._run.ending if self._run else None

    def __iter__(self) -> Self:
        """Go on with the run."""
        return self

    def __next__(self) -> Snapshot:
        """Run until the next sweep is through and return what is known then."""
        warm_up(self._options, self._run_small_model)
        with self._exclusively() as interrupt:
            started = perf_counter()
            try:
                while True:
                    run, step = self._step(UNLIMITED)
                    if interrupt.is_set:
                        raise KeyboardInterrupt
                    if step is None:
                        raise StopIteration
                    if step is Step.RECORD:
                        break
            finally:
                self._seconds += perf_counter() - started
        snapshot = run.snapshot(self._seconds)
        self._record(run, snapshot.log_z)
        if run.ending is StopReason.NOT_CONVERGED:
            _warn(run.ending)
        return snapshot

    def run(
        self,
        seconds: float | None = None,
        max_updates: int | None = None,
        *,
        callback: Callable[[Snapshot], object] | None = None,
        watch: Callable[[Moment], object] | None = None,
    ) -> Result:
        """Go on until the run is finished or the budget is used up, and return the answer.

        Ctrl-C ends the call and returns what there is (`stop_reason` is INTERRUPTED); pressed again, it raises.

        Args:
            seconds: Time for this call, the caller's own in callbacks not counted.
            max_updates: Factor updates for this call.
            callback: Called with a snapshot after each sweep; a true answer stops the run.
            watch: Called with the figures after each sweep.
        """
        check_budget(seconds, max_updates, callback)
        warm_up(self._options, self._run_small_model)
        run, reason = self._run_until(seconds, max_updates, callback, watch)
        current = run.snapshot(self._seconds)
        if not self._moments or self._moments[-1].updates != run.updates or self._moments[-1].log_z != current.log_z:
            self._record(run, current.log_z, replace=True)
        result = Result.of(current, current, reason, Trace(self._moments))
        if not result.consistent and reason not in ASKED_FOR:
            _warn(reason)
        return result

    def _run_until(
        self,
        seconds: float | None,
        max_updates: int | None,
        callback: Callable[[Snapshot], object] | None,
        watch: Callable[[Moment], object] | None,
    ) -> tuple[FullRun, StopReason]:
        """Run within the budget; return the run and why it stopped."""
        stop_at = self._seconds + seconds if seconds is not None else float("inf")
        done = self._run.updates if self._run else 0
        updates_at = UNLIMITED if max_updates is None else done + int(max_updates)
        with self._exclusively() as interrupt:
            while True:
                started = perf_counter()
                try:
                    run, step = self._step(updates_at)
                finally:
                    self._seconds += perf_counter() - started
                if step is Step.RECORD and self._tell(run, callback, watch) and not run.ending:
                    return run, StopReason.CALLBACK
                if interrupt.is_set:
                    return run, StopReason.INTERRUPTED
                if run.ending:
                    return run, run.ending
                if run.updates >= updates_at:
                    return run, StopReason.OUT_OF_UPDATES
                if self._seconds >= stop_at:
                    return run, StopReason.OUT_OF_TIME

    @contextmanager
    def _exclusively(self) -> Iterator[InterruptFlag]:
        """Keep other threads out, take over Ctrl-C, and let underflow be, which is meant to happen."""
        if not self._busy.acquire(blocking=False):
            msg = "this Inference is running already, in another thread or around this call; make one for each"
            raise OptionError(msg)
        try:
            with InterruptFlag() as interrupt, np.errstate(under="ignore"):
                yield interrupt
        finally:
            self._busy.release()

    def _run_small_model(self) -> None:
        """Send every kernel of the method over a triangle."""
        graph = FactorGraph()
        graph.add_variables(3, 2)
        graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=[[0.1, 0.0], [0.0, 0.2]])
        options = replace(self._options, observed={}, max_memory=None, rng=0, tolerance=1e-3, damping=0.0)
        run = FullRun(graph, options)
        run.updates_left = UNLIMITED
        for _ in run.steps():
            pass
        run.snapshot(0.0)

    def _step(self, updates_at: int) -> tuple[FullRun, Step | None]:
        """Run one slice; the step is None if the run was finished before."""
        if self._run is None:
            self._run = FullRun(self._graph, self._options)
            self._steps = self._run.steps()
            return self._run, Step.WORKING
        if self._failure:
            raise self._failure
        self._run.updates_left = updates_at - self._run.updates
        try:
            return self._run, next(self._steps, None)
        except Exception as failure:
            self._failure = failure  # a generator that has raised cannot go on
            raise
        except KeyboardInterrupt:
            self._failure = AnytimeBPError("the run was aborted by a second Ctrl-C; start a new one")
            raise

    def _tell(
        self,
        run: FullRun,
        callback: Callable[[Snapshot], object] | None,
        watch: Callable[[Moment], object] | None,
    ) -> bool:
        """Record a sweep and tell the caller; return whether the caller wants to stop."""
        snapshot = run.snapshot(self._seconds) if callback else None
        if self._options.record == "sweep" or run.ending:
            self._record(run, snapshot.log_z if snapshot else float("nan"))
        if watch:
            watch(self._moment(run, float("nan")))
        return bool(callback and snapshot and callback(snapshot))

    def _moment(self, run: FullRun, log_z: float) -> Moment:
        return Moment(
            self._seconds,
            run.updates,
            sum(run.work_parts.values()),
            run.max_residual,
            run.mean_residual,
            run.damper.damping,
            log_z,
        )

    def _record(self, run: FullRun, log_z: float, *, replace: bool = False) -> None:
        if replace and self._moments and self._moments[-1].updates == run.updates:
            self._moments.pop()
        self._moments.append(self._moment(run, log_z))


def _warn(reason: StopReason) -> None:
    """Warn at the first place outside the library that the marginals are not at a fixed point."""
    level = 1
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  (how the warnings module itself does it)
    while frame and frame.f_globals.get("__name__", "").split(".")[0] == "anytimebp":
        frame = frame.f_back
        level += 1
    warnings.warn(f"the marginals are not at a fixed point: {reason}", NotConvergedWarning, level)
