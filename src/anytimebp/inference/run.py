"""The driver of a run: its clock, budgets, Ctrl-C, and what is recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from anytimebp.domains.domains import domain_sizes
from anytimebp.errors import AnytimeBPError, FailedRunError
from anytimebp.exact.order import Shape
from anytimebp.exact.tree import predicted_entries
from anytimebp.inference.budget import Budget, InterruptFlag, Stopwatch, Target
from anytimebp.inference.caveats import warn_of_unconnected
from anytimebp.inference.figures import Figures
from anytimebp.inference.method import Method, Stages, Step, Task, new_task, steps
from anytimebp.inference.new_method import make_method
from anytimebp.inference.options import RunOptions
from anytimebp.inference.recording import Recorder, read_record
from anytimebp.inference.set_up import SetUp, goes_in_slices
from anytimebp.inference.warm_up import load_meanwhile
from anytimebp.layout.cut import cut_of
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment

WATCH_INTERVAL = 0.1  # seconds between two calls of `watch`


class Stop:
    """What another thread ends a run by, between two slices.

    Attributes:
        is_set: Whether it is to end.
    """

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        """Let it go on."""
        self.is_set = False


def _price(figures: Figures, options: RunOptions, compiled: CompiledGraph) -> None:
    """Let the figures know how to find out what exact inference would cost."""
    figures.cost = partial(predicted_entries, Shape.of(compiled), domain_sizes(compiled, options.observed))


class Run:
    """One run of a method on a graph.

    Attributes:
        figures: How it stands.
        moments: What was recorded.
        method: What it drives; made with the first step, on the run's own time.
        stop: What another thread may end it by.
    """

    def __init__(
        self, graph: FactorGraph, options: RunOptions, unary: Mapping[int, FloatArray] = MappingProxyType({})
    ) -> None:
        """Do nothing yet; `unary` are log scores in place of unary factors, by variable."""
        self._clock = Stopwatch()
        self._interrupt = InterruptFlag()
        # no way from the task back to the run: it would keep tables until the garbage collector comes
        load = partial(load_meanwhile, self._clock, self._interrupt, options)
        self._task = new_task(graph, options, load, unary)
        self.figures = self._task.figures
        self.moments: list[Moment] = []
        self.method: Method | None = None
        self._steps: Iterator[Step] = iter(())
        self._recorder = Recorder(read_record(options.record))
        self.stop = Stop()
        self._failure: Exception | None = None

    @property
    def task(self) -> Task:
        """What the method is given."""
        return self._task

    @property
    def seconds(self) -> float:
        """Time of the run so far, without the caller's."""
        return self._clock.seconds

    def __enter__(self) -> None:
        """Let the clock run, take over Ctrl-C, and let underflow be, which is meant to happen."""
        self._interrupt.__enter__()
        self._error_state = np.errstate(under="ignore")
        self._error_state.__enter__()
        self._clock.start()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Stop the clock, and give back what was taken over."""
        self._clock.stop()
        self._error_state.__exit__(None, None, None)
        self._interrupt.__exit__(error)

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed since the clock was last started, or somebody else has stopped the run."""
        return self._interrupt.is_set or self.stop.is_set

    # ------------------------------------------------------------ going on
    def drive(self, method: Method) -> None:
        """Take a method that compiles the graph in its own first step, and stand before that."""
        self.method = method
        self._steps = steps(self.method, self.figures)

    def start(self, make: Callable[[Task], Method]) -> None:
        """Make the method and stand before its first step; on a large graph, stand before it is set up."""
        price = partial(_price, self.figures, self._task.options)
        if goes_in_slices(self._task):
            self.drive(SetUp(self._task, make, price))
            return
        self.drive(make(self._task))
        price(compiled_graph(self._task.graph))
        warn_of_unconnected(self._task.graph, self._task.options.observed)

    def next_record(self) -> bool:
        """Go on until something is to be recorded; return False if the run was finished before."""
        budget = Budget()
        self._set_limits(budget)
        while True:
            step = self._step(budget)
            if self._interrupt.is_set:
                raise KeyboardInterrupt
            if step is None:
                return False
            if step is Step.RECORD and self._is_due():
                return True

    def until(
        self,
        budget: Budget,
        callback: Callable[[Snapshot], object] | None,
        watch: Callable[[Moment], object] | None,
    ) -> StopReason:
        """Go on within the budget; return why it stopped."""
        target, figures, next_look = Target(budget.target_error), self.figures, 0.0
        self._set_limits(budget)
        while True:
            step = self._step(budget)
            if step is Step.RECORD and self._tell(callback, watch) and not figures.ending:
                return StopReason.CALLBACK
            if watch and self._clock.seconds >= next_look:
                next_look = self._clock.seconds + WATCH_INTERVAL
                self._read_clock()
                with self._clock.paused():
                    watch(figures.moment(float("nan")))
            if self.is_interrupted:
                return StopReason.INTERRUPTED
            if figures.ending:
                return figures.ending
            if target.is_worth_a_look(figures) and target.is_reached(figures, self.snapshot()):
                return StopReason.TARGET_REACHED
            if figures.updates >= budget.updates:
                return StopReason.OUT_OF_UPDATES
            if figures.work >= budget.work:
                return StopReason.OUT_OF_WORK
            if self._clock.seconds + figures.reading >= budget.stop_at:
                return StopReason.OUT_OF_TIME

    def _step(self, budget: Budget) -> Step | None:
        """Run one slice; None if the run was finished before."""
        if self.method is None:
            self._task.graph.take_changes()
            self._cut()
            self.start(make_method)
            if not (isinstance(self.method, Stages) and self.method.begins_at_once and budget.stop_at > 0.0):
                return Step.WORKING
        if self._failure:
            raise self._failure
        self._set_next_report(budget)
        try:
            step = next(self._steps, None)
        except Exception as failure:
            self._failure = failure  # a generator that has raised cannot go on
            if isinstance(failure, FailedRunError):
                failure.snapshot = self._last_consistent()
            raise
        except BaseException as abort:  # a second Ctrl-C, or whatever a rule or policy has raised
            self._failure = AnytimeBPError(f"the run was aborted by {type(abort).__name__}; start a new one")
            raise
        if self.figures.passed:
            self._record_passed()
        return step

    def _cut(self) -> None:
        """Cut the graph into parts, if it is to be and was not before, while the clock stands still."""
        parts = self._task.options.parts
        if parts is not None and parts > 1:
            with self._clock.paused():
                cut_of(compiled_graph(self._task.graph), parts)

    def _set_limits(self, budget: Budget) -> None:
        """Tell the method what holds for the whole of a call."""
        limits = self._task.limits
        limits.updates, limits.work = budget.updates, budget.work
        limits.is_watched = budget.is_watched or self._recorder.keeps_estimates
        limits.has_deadline = budget.stop_at < float("inf")
        limits.has_target = budget.target_error is not None

    def _set_next_report(self, budget: Budget) -> None:
        """Tell the method after how many rounds and states to report."""
        limits = self._task.limits
        limits.rounds, limits.states = self._recorder.limits(self._clock)
        if budget.target_error is not None:
            limits.rounds = min(limits.rounds, self.figures.rounds + 1)

    # ------------------------------------------------------------ reading and recording
    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        assert self.method is not None  # noqa: S101  (the first step makes it)
        self._read_clock()
        snapshot = self._read(settled=False)
        assert snapshot is not None  # noqa: S101  (there are unary scores, at least)
        return snapshot

    def _read(self, *, settled: bool) -> Snapshot | None:
        """Read the marginals of the targets."""
        found = self.method.read(settled=settled) if self.method else None
        targets = self._task.options.targets
        if found is not None and targets is not None and not found.marginals.is_limited:
            found = replace(found, marginals=found.marginals.limited(targets))
        return found

    def last_settled(self) -> Snapshot | None:
        """Return the last consistent state, if the current one is not and there was one."""
        if self.method is None or self.figures.consistent:
            return None
        found = self._read(settled=True)
        return None if found is None else replace(found, seconds=self._clock.seconds)

    def _last_consistent(self) -> Snapshot | None:
        """Return the last consistent state of a run that has failed, if there is one and it can still be read."""
        with suppress(Exception):  # whatever goes wrong here must not hide the failure itself
            return self.snapshot() if self.figures.consistent else self.last_settled()
        return None

    def record(self, log_z: float, *, again: bool = False) -> None:
        """Add a moment to the trace.

        Args:
            log_z: Of the snapshot that was made, or NaN.
            again: Whether a moment after the same updates is to be replaced.
        """
        self._read_clock()
        moment, moments = self.figures.moment(log_z), self.moments
        last = moments[-1] if moments else None
        if last and last[1:7] == moment[1:7]:  # the end of the last round is the end of the run
            moments.pop()
            if not math.isnan(last.unexplored_mass):
                moment = moment._replace(unexplored_mass=last.unexplored_mass, estimated_error=last.estimated_error)
        elif last and again and last.updates == moment.updates:
            moments.pop()
        moments.append(moment)

    def _record_passed(self) -> None:
        """Record sweeps that were made in one slice, as far as they are due; all of them get the time at its end."""
        figures, clock, nan = self.figures, self._clock, float("nan")
        seconds, states, chosen = clock.seconds, figures.states, figures.chosen
        for rounds, updates, work, largest, mean, damping in figures.passed:
            if self._recorder.is_due(rounds, states, clock):
                self.moments.append(Moment(seconds, updates, work, largest, mean, damping, states, nan, nan, chosen))
        figures.passed.clear()

    def look_at(self, snapshot: Snapshot) -> None:
        """Add to the moment just recorded what its snapshot has to compute, if that was asked for and is due."""
        if self._recorder.is_worth_a_look(snapshot):
            mass, error = snapshot.unexplored_mass, snapshot.estimated_error
            self.moments[-1] = self.moments[-1]._replace(unexplored_mass=mass, estimated_error=error)

    def _read_clock(self) -> None:
        self.figures.seconds = self._clock.seconds

    def _is_due(self) -> bool:
        figures = self.figures
        return self._recorder.is_due(figures.rounds, figures.states, self._clock) or figures.ending is not None

    def _tell(self, callback: Callable[[Snapshot], object] | None, watch: Callable[[Moment], object] | None) -> bool:
        """Record a sweep or round if it is due, and tell the caller; return whether the caller wants to stop."""
        if not self._is_due():
            return False
        keeps_estimates = self._recorder.keeps_estimates
        if not callback and not keeps_estimates:
            if self.figures.ending is None:  # the end itself is recorded with the result
                self.record(float("nan"))
            return False
        snapshot = self.snapshot()
        self.record(snapshot.log_z)
        with self._clock.paused():
            self.look_at(snapshot)
            if watch and keeps_estimates:
                watch(self.moments[-1])
            return bool(callback and callback(snapshot))
