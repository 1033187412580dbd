"""From measured runs to what is shown: error as a function of time or work, means over runs, times to an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from anytimebp_evaluation.families import FloatArray
from anytimebp_evaluation.sampling import Curve, Point

SMALLEST = 1e-16  # errors below that are rounding
N_PLACES = 160  # of a mean curve
LEVELS = tuple(10.0 ** (-half / 2) for half in range(17))  # L2 errors from 1 to 1e-8, two in a factor of ten


class Mean(NamedTuple):
    """A mean curve with its spread, on a common axis.

    Attributes:
        at: Seconds or work, rising.
        mean: Geometric mean over the runs.
        low: Lowest run at each place.
        high: Highest one.
    """

    at: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


class Crossing(NamedTuple):
    """When a run came under an error for good: what it had cost until then, and how many states were active."""

    seconds: float
    work: float
    message_work: float
    states: float


NEVER = Crossing(*[float("inf")] * 4)


def crossing(curve: Curve, error: float) -> Crossing:
    """Return when the L2 error of a run went under a bound to stay there, as far as the run was followed."""
    found: Point | None = None
    for point in reversed(curve.points):
        if not point.l2 < error:
            break
        found = point
    return Crossing(found.seconds, found.work, found.message_work, found.states) if found else NEVER


def milestones(curve: Curve, error: float) -> Curve:
    """Return a run without the points between those that say when it came under errors for good.

    For `error` and all of LEVELS, `crossing` gives the same before and after. The first point and the last one stay.
    """
    worst_to_come = np.maximum.accumulate([point.l2 for point in reversed(curve.points)])[::-1]
    kept = {0, len(curve.points) - 1}
    for level in (error, *LEVELS):
        under = np.flatnonzero(worst_to_come < level)[:1]
        kept.update(under.tolist(), (under[under > 0] - 1).tolist())
    return curve._replace(points=[curve.points[place] for place in sorted(kept)])


def mean_curve(curves: Sequence[Curve], axis: str, figure: str) -> Mean:
    """Return the mean over runs of a figure against time or work.

    A run keeps the value of its last point until the next one, and after its end. The mean begins where the last of
    the runs has its first finite value.

    Args:
        curves: Of one contender on models of one kind.
        axis: "seconds", "work" or another field of a point.
        figure: "l2", "tv" or "mean_residual".
    """
    runs = [_known(curve.points, axis, figure) for curve in curves]
    begin = max(places[0] for places, _ in runs)
    end = max(places[-1] for places, _ in runs)
    at = np.geomspace(begin, max(end, begin * (1 + 1e-9)), N_PLACES)
    at[0] = begin  # to the last bit, so that every run has begun there
    logs = np.array([np.log(values[np.searchsorted(places, at, side="right") - 1]) for places, values in runs])
    return Mean(at, np.exp(logs.mean(axis=0)), np.exp(logs.min(axis=0)), np.exp(logs.max(axis=0)))


def _known(points: Sequence[Point], axis: str, figure: str) -> tuple[FloatArray, FloatArray]:
    """Return the places and values of the points whose figure is finite; of no finite one, the first place.

    A residual of exactly zero is left out as well: then there was nothing to send, as between variables of one state.
    """
    pairs = [(getattr(point, axis), getattr(point, figure)) for point in points]
    least = 0.0 if figure == "mean_residual" else -1.0
    finite = [(at, max(value, SMALLEST)) for at, value in pairs if least < value < np.inf] or [(pairs[0][0], np.inf)]
    places, values = np.array(finite, dtype=np.float64).T
    return np.maximum(places, SMALLEST), values


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; infinite if a value is, NaN of none."""
    logs = [np.log(value) for value in values]
    return float(np.exp(np.mean(logs))) if logs else float("nan")
