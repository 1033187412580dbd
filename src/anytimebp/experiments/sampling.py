"""One run, measured: how its error falls with time and with work.

Errors are never measured on the run's time. `sweeps` and `rounds` are run twice or more: undisturbed for the times,
then once again, through the very same steps, for the errors. Methods that grow take so long that stopping them now and
then costs nothing; their clock stands still meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anytimebp.api import infer
from anytimebp.engine.inference import Inference
from anytimebp.errors import NotConvergedWarning
from anytimebp.experiments.contenders import Contender
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment

REFERENCE_TOLERANCE = 1e-12
STOPS_PER_SWEEP = 5
GROWTH_BETWEEN_STOPS = 1.05  # of the updates so far
LONG_ENOUGH = 0.5  # seconds of timed runs, after which none is repeated
MOST_REPEATS = 9
MARGIN = 10.0  # a run that is to come under an error is followed until it is under a tenth of that


class Point(NamedTuple):
    """A moment of a run.

    Attributes:
        seconds: Of the run, from a graph without a layout.
        work: Table entries read or scored.
        message_work: Those of messages alone.
        updates: Factor updates.
        states: Active states of all variables.
        mean_residual: Mean residual over factors of the state as it is, not of the answer; infinite where a message is
            still to be sent for the first time.
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
    """

    graph: FactorGraph
    reference: Snapshot
    seed: int
    tolerance: float
    error: float | None = None
    max_work: int | None = None

    def start(self, contender: Contender, record: str) -> Inference:
        """Return a run that is about to start, on a graph whose layout is still to be made."""
        self.graph.compiled = None
        return Inference(
            self.graph,
            contender.method,
            tolerance=self.tolerance,
            rng=self.seed,
            record=record,
            **contender.options,
        )

    def is_close(self, l2: float) -> bool:
        """Tell whether a run has been followed far enough."""
        return self.error is not None and l2 <= self.error / MARGIN


def converged_bp(graph: FactorGraph) -> Result:
    """Return the marginals that all errors are measured against; its stop reason tells whether BP has settled."""
    with _quietly():
        return _whole(infer(graph, "bp", tolerance=REFERENCE_TOLERANCE, record="end"))


def unsettled_point(result: Result) -> Point:
    """Return what there is to say of a model on which BP does not settle: errors need a reference."""
    return _point(result, result, result.seconds, result)._replace(l2=float("nan"), tv=float("nan"))


def measure(contender: Contender, setting: Setting) -> Curve:
    """Run a contender, and return how its error fell."""
    how: dict[str, Callable[[Contender, Setting], Curve]] = {
        "sweeps": _sample_sweeps,
        "rounds": _sample_rounds,
        "stops": _sample_stops,
    }
    with _quietly():
        curve = how[contender.sampled](contender, setting)
    setting.graph.compiled = None
    return curve


def _sample_sweeps(contender: Contender, setting: Setting) -> Curve:
    """Sample within sweeps, too; all updates of a sweep cost the same, so times in between are interpolated."""
    moments, seconds = _timed(contender, setting)
    inference = setting.start(contender, "end")
    step = max(1, moments[0].updates // STOPS_PER_SWEEP)
    points: list[Point] = []
    while True:
        result = _whole(inference.run(max_updates=step))
        when = float(np.interp(result.updates, [0, *(moment.updates for moment in moments)], [0.0, *seconds]))
        points.append(_point(result, result, when, setting.reference))
        if inference.stop_reason or setting.is_close(points[-1].l2):
            return Curve(points, _ending(inference))
        step = max(step, _stop_after(result.updates))


def _sample_rounds(contender: Contender, setting: Setting) -> Curve:
    """Sample the answer at the end of every round."""
    moments, seconds = _timed(contender, setting)
    points: list[Point] = []

    def look(snapshot: Snapshot) -> bool:
        points.append(_point(snapshot, snapshot, float(seconds[len(points)]), setting.reference))
        return setting.is_close(points[-1].l2)

    inference = setting.start(contender, "round")
    _whole(inference.run(callback=look))
    if [point.work for point in points] != [moment.work for moment in moments[: len(points)]]:
        msg = f"{contender.label}: the run that was timed and the one that was measured took different steps"
        raise AssertionError(msg)
    return Curve(points, _ending(inference))


def _sample_stops(contender: Contender, setting: Setting) -> Curve:
    """Stop at moments that have nothing to do with rounds: what the run answers then, and the state it is in."""
    inference = setting.start(contender, "end")
    step = max(1, setting.graph.n_factors // 4)
    points: list[Point] = []
    while True:
        result = _whole(inference.run(max_updates=step))
        now = result.current
        points.append(_point(result, now, now.seconds, setting.reference))
        over = setting.max_work is not None and now.work >= setting.max_work
        if inference.stop_reason or over or setting.is_close(points[-1].l2):
            return Curve(points, "GIVEN_UP" if over else _ending(inference))
        step = max(step, _stop_after(now.updates))


def _stop_after(updates: int) -> int:
    """Return after how many more updates a run is looked at again."""
    return int((GROWTH_BETWEEN_STOPS - 1.0) * updates)


def _timed(contender: Contender, setting: Setting) -> tuple[list[Moment], FloatArray]:
    """Run undisturbed, several times if that is quick; return the moments and the median of their times."""
    all_seconds: list[FloatArray] = []
    while True:
        moments = list(_whole(setting.start(contender, "round").run()).trace)
        all_seconds.append(np.array([moment.seconds for moment in moments]))
        if len(all_seconds) == MOST_REPEATS or sum(seconds[-1] for seconds in all_seconds) > LONG_ENOUGH:
            return moments, np.median(all_seconds, axis=0)


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


def _whole(result: Result) -> Result:
    """Return a result unless Ctrl-C has cut it short."""
    if result.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _quietly() -> warnings.catch_warnings:
    """Keep warnings of stopped runs back: how a run ended is recorded."""
    return warnings.catch_warnings(action="ignore", category=NotConvergedWarning)
