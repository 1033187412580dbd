"""The figures of a run over time, collected while it goes on.

Decides what is kept of each snapshot (figures, never the snapshot) and when the unexplored mass and the estimated
error, which cost something to compute, are asked for: by counts, never by the clock, so that the same run is asked at
the same moments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, overload

from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.trace import Moment

NAN = float("nan")
GROWTH_BETWEEN_LOOKS = 4 / 3  # of all active states: looking costs about as much as scoring every candidate


class Point(NamedTuple):
    """The figures of one moment. NaN stands for what is not known.

    Attributes:
        seconds: Time of the run so far, without the caller's.
        updates: Factor updates so far.
        work: Table entries read or scored so far.
        states: Active states of all variables together.
        max_residual: Largest residual, in nats; infinite before every factor has been updated once.
        mean_residual: Mean residual over the factors, in nats.
        log_z: Bethe estimate of log Z.
        unexplored_mass: Largest, over variables, estimated belief outside the domain.
        estimated_error: Estimated mean L2 distance to BP's marginals; infinite where it was asked for and is not known.
    """

    seconds: float
    updates: int
    work: int
    states: int
    max_residual: float
    mean_residual: float
    log_z: float
    unexplored_mass: float
    estimated_error: float = NAN


class History(Sequence[Point]):
    """Points in order. `infer(graph, callback=history.observe)` adds one for each recorded moment.

    The unexplored mass and the estimated error are taken where they come for next to nothing, and else computed
    whenever domains have grown by a third.
    """

    __slots__ = ("_next_look", "_points")

    def __init__(self, points: Sequence[Point] = ()) -> None:
        """Start with these points."""
        self._points = list(points)
        self._next_look = 0.0

    @classmethod
    def of(cls, result: Result) -> History:
        """Return what the trace of a result tells; only the end knows the unexplored mass, which is the result's."""
        return cls(_with_the_end([_point(moment) for moment in result.trace], result))

    def observe(self, snapshot: Snapshot) -> None:
        """Take down the figures of a snapshot, and let it go."""
        states = int(snapshot.domain_sizes.sum())
        mass = error = NAN
        if states >= self._next_look or not callable(snapshot.outside):
            mass, error = snapshot.unexplored_mass, snapshot.estimated_error
            self._next_look = GROWTH_BETWEEN_LOOKS * states
        self._points.append(
            Point(
                seconds=snapshot.seconds,
                updates=snapshot.updates,
                work=snapshot.work,
                states=states,
                max_residual=snapshot.max_residual,
                mean_residual=snapshot.mean_residual,
                log_z=snapshot.log_z,
                unexplored_mass=mass,
                estimated_error=error,
            )
        )

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | Sequence[Point]:
        """Return one point, or several."""
        return self._points[index]

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self._points)

    def __repr__(self) -> str:
        """Return one line."""
        return f"<history of {len(self)} points>"


def whole_history(result: Result, history: Sequence[Point] | None) -> list[Point]:
    """Return the points to draw: those given, or else those of the trace, up to where the run stopped.

    A callback does not see a run that is stopped between two recorded moments; the trace does. The last point has the
    unexplored mass and the estimated error of the result, if its own are not known.
    """
    points = list(history or History.of(result))
    if result.trace and points and result.trace[-1].updates > points[-1].updates:
        points.append(_point(result.trace[-1]))
    return _with_the_end(points, result)


def _with_the_end(points: list[Point], result: Result) -> list[Point]:
    """Fill in what the last point does not know."""
    if points and math.isnan(points[-1].unexplored_mass):
        points[-1] = points[-1]._replace(unexplored_mass=result.unexplored_mass)
    if points and math.isnan(points[-1].estimated_error):
        points[-1] = points[-1]._replace(estimated_error=result.estimated_error)
    return points


def _point(moment: Moment) -> Point:
    return Point(
        seconds=moment.seconds,
        updates=moment.updates,
        work=moment.work,
        states=moment.states,
        max_residual=moment.max_residual,
        mean_residual=moment.mean_residual,
        log_z=moment.log_z,
        unexplored_mass=NAN,
        estimated_error=moment.estimated_error,
    )
