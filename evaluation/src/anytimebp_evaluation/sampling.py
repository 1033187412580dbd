"""One run, measured: how its error falls with time and with work.

Errors are never measured on the run's time. Runs are made several times: undisturbed for the times, whose median
counts, and once again, through the very same steps, for the errors. Only what takes longer than LONG and is stopped now
and then, with its clock standing still, has its time taken there and then: stopping costs next to nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from anytimebp import (
    Every,
    FactorGraph,
    Inference,
    NotConvergedWarning,
    Result,
    Snapshot,
    StopReason,
    UncertainResultWarning,
    infer,
)
from anytimebp_evaluation.contenders import Contender
from anytimebp_evaluation.families import FloatArray
from anytimebp_evaluation.look_ahead import LookAhead
from anytimebp_evaluation.pairs import PairModel, printed_residual

REFERENCE_TOLERANCE = 1e-12
STOPS_PER_SWEEP = 5
GROWTH_BETWEEN_STOPS = 1.05  # of the updates so far
GROWTH_WITH_RESIDUALS = 1.15  # where each stop reads all tables
LONG = 0.5  # seconds of a run that is timed as it is sampled
LONG_ENOUGH = 0.5  # seconds of timed runs, after which none is repeated, once there are a few
FEWEST_REPEATS = 3  # the first may be ten times as slow, where memory is new to the machine
MOST_REPEATS = 9
MOST_UPDATES = 500  # per factor, of residual BP with look-ahead
MARGIN = 10.0  # a run that is to come under an error is followed until it is under a tenth of that


class Point(NamedTuple):
    """A moment of a run.

    Attributes:
        seconds: Of the run, from a graph without a layout.
        work: Table entries read or scored.
        message_work: Those of messages alone.
        updates: Factor updates.
        states: Active states of all variables.
        mean_residual: Mean residual over factors of the state as it is, not of the answer. What the library keeps is
            infinite where a message is still to be sent for the first time; by the paper's formula all are finite.
        l2: Error of the answer that the run would give now.
        tv: The same as total variation.
    """

    seconds: float
    work: int
    message_work: int
    updates: int
    states: int
    mean_residual: float
    l2: float
    tv: float


class Curve(NamedTuple):
    """A measured run: its points in order, and how it ended."""

    points: list[Point]
    ended: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all contenders on a model have in common.

    Attributes:
        graph: The model.
        reference: Converged BP on it.
        seed: Of random schedules and growth.
        tolerance: To which rounds settle, and runs converge.
        error: The L2 error in question; None to run to the end.
        max_work: Table entries after which a method that grows is given up.
        max_seconds: Seconds of its own after which it is.
        timed: Whether runs are repeated for their times.
        pairs: The model as arrays, where residuals are to be computed by the paper's formula.
    """

    graph: FactorGraph
    reference: Snapshot
    seed: int
    tolerance: float
    error: float | None = None
    max_work: float = float("inf")
    max_seconds: float = float("inf")
    timed: bool = True
    pairs: PairModel | None = None

    def start(self, contender: Contender, record: str | Every) -> Inference:
        """Return a run that is about to start, on a graph whose layout is still to be made."""
        self.graph.compiled = None
        options = {"tolerance": self.tolerance, **contender.options}
        return Inference(self.graph, contender.method, rng=self.seed, record=record, **options)

    @property
    def growth(self) -> float:
        """By which part the updates grow between two stops."""
        return GROWTH_BETWEEN_STOPS if self.pairs is None else GROWTH_WITH_RESIDUALS

    def residual(self, inference: Inference, now: Snapshot) -> float:
        """Return the mean residual of a run that has stopped."""
        return now.mean_residual if self.pairs is None else printed_residual(self.pairs, inference)

    def is_close(self, l2: float) -> bool:
        """Tell whether a run has been followed far enough."""
        return self.error is not None and l2 <= self.error / MARGIN


def converged_bp(graph: FactorGraph) -> Result:
    """Return the marginals that all errors are measured against; its stop reason tells whether BP has settled."""
    with _quietly():
        return whole(infer(graph, "bp", tolerance=REFERENCE_TOLERANCE, record="end"))


def unsettled_point(result: Result) -> Point:
    """Return what there is to say of a model on which BP does not settle: errors need a reference."""
    return _point(result, result, result.seconds, result)._replace(l2=float("nan"), tv=float("nan"))


def measure(contender: Contender, setting: Setting) -> Curve:
    """Run a contender, and return how its error fell."""
    how: dict[str, Callable[[Contender, Setting], Curve]] = {
        "sweeps": _sample_sweeps,
        "rounds": _sample_rounds,
        "stops": _sample_stops,
        "look-ahead": _sample_look_ahead,
    }
    with _quietly():
        curve = how[contender.sampled](contender, setting)
    setting.graph.compiled = None
    return curve


def _sample_sweeps(contender: Contender, setting: Setting) -> Curve:
    """Sample within sweeps, too; all updates of a sweep cost the same, so times in between are interpolated."""
    clock = _timed(contender, setting, "round") if setting.timed else None
    inference = setting.start(contender, "end")
    step = max(1, setting.graph.n_factors // STOPS_PER_SWEEP)
    points: list[Point] = []
    while True:
        result = whole(inference.run(max_updates=step))
        seconds = clock.at(result.updates) if clock else result.seconds
        point = _point(result, result, seconds, setting.reference)
        points.append(point._replace(mean_residual=setting.residual(inference, result)))
        if inference.stop_reason or setting.is_close(points[-1].l2):
            return Curve(points, _ending(inference))
        step = max(step, _stop_after(result.updates, setting.growth))


def _sample_rounds(contender: Contender, setting: Setting) -> Curve:
    """Sample the answer at the end of every round."""
    clock = _timed(contender, setting, "round", first_stop=None)
    points: list[Point] = []

    def look(snapshot: Snapshot) -> bool:
        points.append(_point(snapshot, snapshot, float(clock.seconds[len(points)]), setting.reference))
        return setting.is_close(points[-1].l2)

    inference = setting.start(contender, "round")
    whole(inference.run(callback=look))
    if [point.work for point in points] != clock.work[: len(points)]:
        msg = f"{contender.label}: the run that was timed and the one that was measured took different steps"
        raise AssertionError(msg)
    return Curve(points, _ending(inference))


def _sample_stops(contender: Contender, setting: Setting) -> Curve:
    """Stop at moments that have nothing to do with rounds: what the run answers then, and the state it is in."""
    inference = setting.start(contender, "end")
    step = max(1, setting.graph.n_factors // 4)
    points: list[Point] = []
    ended = ""
    while not ended:
        result = whole(inference.run(max_updates=step))
        now = result.current
        point = _point(result, now, now.seconds, setting.reference)
        points.append(point._replace(mean_residual=setting.residual(inference, now)))
        if now.work >= setting.max_work or now.seconds >= setting.max_seconds:
            ended = "GIVEN_UP"
        elif inference.stop_reason or setting.is_close(points[-1].l2):
            ended = _ending(inference)
        step = max(step, _stop_after(now.updates, setting.growth))
    if setting.timed and points[-1].seconds < LONG:
        clock = _timed(contender, setting, Every(growth=GROWTH_BETWEEN_STOPS), points[-1].updates)
        points = [point._replace(seconds=clock.at(point.updates)) for point in points]
    return Curve(points, ended)


def _sample_look_ahead(_contender: Contender, setting: Setting) -> Curve:
    """Sample residual BP as the paper prints it, which is not a method of the library."""
    start = perf_counter()
    run = LookAhead(PairModel.of(setting.graph))
    step = max(1, len(run.residual) // STOPS_PER_SWEEP)
    points: list[Point] = []
    while True:
        while run.updates < step and run.residual.max() > setting.tolerance:
            run.update()
        states = int(setting.graph.variables.sizes().sum())
        seconds, residual = perf_counter() - start, float(run.residual.mean())
        distances = run.distances(setting.reference)
        points.append(Point(seconds, run.work, run.work, run.updates, states, residual, *distances))
        if run.residual.max() <= setting.tolerance or run.updates > MOST_UPDATES * len(run.residual):
            return Curve(points, "CONVERGED" if run.residual.max() <= setting.tolerance else "NOT_CONVERGED")
        step = run.updates + max(1, len(run.residual) // STOPS_PER_SWEEP)


def _stop_after(updates: int, growth: float) -> int:
    """Return after how many more updates a run is looked at again."""
    return int((growth - 1.0) * updates)


class _Clock(NamedTuple):
    """What undisturbed runs took: moments in order, with the median of their times."""

    updates: list[int]
    work: list[int]
    seconds: FloatArray

    def at(self, updates: int) -> float:
        """Return when so many updates were done."""
        return float(np.interp(updates, self.updates, self.seconds))


def _timed(
    contender: Contender,
    setting: Setting,
    record: str | Every,
    max_updates: int | None = None,
    *,
    first_stop: int | None = 1,
) -> _Clock:
    """Run undisturbed, a few times, or several if that is quick.

    Args:
        contender: What to run.
        setting: On what.
        record: Which moments to take the time of.
        max_updates: After which to stop; None to run to the end.
        first_stop: Updates after which to stop for a moment: what comes before, layouts and tables, is not part of a
            sweep. None for no such stop.
    """
    all_seconds: list[FloatArray] = []
    while True:
        inference = setting.start(contender, record)
        if first_stop is not None:
            whole(inference.run(max_updates=first_stop))
        further = None if max_updates is None else max(0, max_updates - (first_stop or 0))
        moments = list(whole(inference.run(max_updates=further)).trace)
        all_seconds.append(np.array([moment.seconds for moment in moments]))
        enough = max_updates is not None or sum(seconds[-1] for seconds in all_seconds) > LONG_ENOUGH
        if len(all_seconds) >= (FEWEST_REPEATS if enough else MOST_REPEATS):
            updates, work = [moment.updates for moment in moments], [moment.work for moment in moments]
            return _Clock(updates, work, np.median(all_seconds, axis=0))


def _point(answer: Snapshot, now: Snapshot, seconds: float, reference: Snapshot) -> Point:
    return Point(
        seconds,
        now.work,
        now.work_parts["messages"],
        now.updates,
        int(now.domain_sizes.sum()),
        now.mean_residual,
        answer.distance(reference),
        answer.distance(reference, "tv"),
    )


def _ending(inference: Inference) -> str:
    return inference.stop_reason.name if inference.stop_reason else "CLOSE_ENOUGH"


def whole(result: Result) -> Result:
    """Return a result unless Ctrl-C has cut it short."""
    if result.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return result


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep warnings of stopped runs back: how a run ended, and how far off it was, is recorded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        warnings.simplefilter("ignore", UncertainResultWarning)
        yield
