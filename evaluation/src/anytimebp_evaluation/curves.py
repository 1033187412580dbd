"""From measured runs to what is shown: error as a function of time or work, means over runs, times to an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from anytimebp_evaluation.families import FloatArray
from anytimebp_evaluation.sampling import Curve, Point

SMALLEST = 1e-16  # errors below that are rounding
N_PLACES = 160  # of a mean curve
LEVELS = tuple(float(f"1e-{k}") for k in range(12))  # L2 errors, of which raw results tell when they were reached
SPACING = 1.3  # factor between the updates of points that are kept of a run to the end


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
    """Return a run without the points that `crossing` at an error does not need; the first and the last one stay."""
    return _kept(curve, _around_crossings(curve, (error,)))


def thinned(curve: Curve, error: float) -> Curve:
    """Return a run with as many points as figures need.

    For `error` and all of LEVELS, `crossing` gives the same before and after. So does the point at which every message
    has been sent.
    """
    kept = _around_crossings(curve, (error, *LEVELS))
    kept.update(next(([place] for place, point in enumerate(curve.points) if np.isfinite(point.mean_residual)), []))
    following = 0.0
    for place, point in enumerate(curve.points):
        if point.updates >= following:
            kept.add(place)
            following = SPACING * point.updates
    return _kept(curve, kept)


def _around_crossings(curve: Curve, levels: Iterable[float]) -> set[int]:
    """Return the places before and after which a run comes under errors for good, and those of its two ends."""
    worst_to_come = np.maximum.accumulate([point.l2 for point in reversed(curve.points)])[::-1]
    kept = {0, len(curve.points) - 1}
    for level in levels:
        under = np.flatnonzero(worst_to_come < level)[:1]
        kept.update(under.tolist(), (under[under > 0] - 1).tolist())
    return kept


def _kept(curve: Curve, places: set[int]) -> Curve:
    """Return a run with some of its points."""
    return curve._replace(points=[curve.points[place] for place in sorted(places)])


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
