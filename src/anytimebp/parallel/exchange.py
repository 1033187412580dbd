"""Runs on the parts of a graph: who is asked next, when the whole has settled, and what is known of it.

Each part settles on its own, to a tolerance that tightens, and answers after a few sweeps with what it sends to the
variables that it shares. A part is asked again if it has not settled, or if what others say about one of its variables
has moved. Nobody waits for the slowest part. In the end, no message anywhere would move by more than the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, nan
from typing import NamedTuple

from anytimebp.inference.budget import InterruptFlag, Stopwatch
from anytimebp.inference.part_run import Reading, Report
from anytimebp.model.source import FloatArray
from anytimebp.parallel.boundary import Border, Boundary
from anytimebp.parallel.part_workers import Lost, LostError, Settle, Workers
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment

FIRST_TOLERANCE = 0.1  # nats; smaller, and parts settle what their neighbours are about to change
TIGHTENS = 0.1  # what the tolerance is multiplied by once all parts have settled to it
SWEEPS = 2  # that a part makes before it answers: there and back; with more, its neighbours wait for old news


class Limits(NamedTuple):
    """What a run may use up; `infer` documents each."""

    seconds: float = inf
    max_updates: float = inf
    max_work: float = inf


class PartFigures(NamedTuple):
    """How a part stands.

    Attributes:
        used: What others said when it was last asked; None where it has not answered yet.
        is_settled: Whether it has, to the present tolerance.
        residual: Largest of its last sweep, in nats.
        updates: Factor updates so far, those of a worker that was lost included.
        work: Table entries read so far, likewise.
    """

    used: FloatArray | None = None
    is_settled: bool = False
    residual: float = inf
    updates: int = 0
    work: int = 0


class Known(NamedTuple):
    """What is known of the whole graph.

    Attributes:
        readings: Of the parts; None for one that has not been asked.
        log_z: Bethe estimate; NaN before every part has been swept over.
        error: Estimated error.
        max_residual: Largest residual, in nats.
        mean_residual: Mean over the parts' factors, weighted by their variables.
    """

    readings: list[Reading | None]
    log_z: float
    error: float
    max_residual: float
    mean_residual: float


class Exchange:
    """A run on parts, which can be continued.

    Attributes:
        trace: A moment for every time that each part has answered once, on average.
        ending: Why the run is finished, or None.
    """

    def __init__(self, workers: Workers, tolerance: float, borders: list[Border] | None = None) -> None:
        """Make the parts, unless their `borders` are known; nothing is sent yet."""
        self._workers, self._clock, self._interrupt = workers, Stopwatch(), InterruptFlag()
        self._borders = workers.borders() if borders is None else borders
        self._boundary = Boundary(self._borders)
        self._parts = [PartFigures() for _ in self._borders]
        self._moved = [nan] * len(self._parts)  # what others say has, since a part was asked; NaN where not known
        self._lost_updates = self._lost_work = 0
        self._last = tolerance / 2  # what parts miss of the news of others may move as much again
        self._tolerance = max(self._last, FIRST_TOLERANCE)
        self._arity = max((border.arity for border in self._borders), default=1)
        self._busy: dict[int, tuple[int, FloatArray]] = {}  # by worker: the part it is at, and what that was told
        self._answers = 0
        self.trace: list[Moment] = []
        self.ending: StopReason | None = None

    @property
    def seconds(self) -> float:
        """Time of the run so far."""
        return self._clock.seconds

    @property
    def updates(self) -> int:
        """Factor updates of all parts so far."""
        return self._lost_updates + sum(part.updates for part in self._parts)

    @property
    def work(self) -> int:
        """Table entries read so far."""
        return self._lost_work + sum(part.work for part in self._parts)

    @property
    def n_variables(self) -> list[int]:
        """Variables of each part, shared ones included."""
        return [border.n_variables for border in self._borders]

    @property
    def tolerance(self) -> float:
        """To which messages have settled in the end."""
        return 2 * self._last

    # ------------------------------------------------------------ the loop
    def run(self, limits: Limits, tell: Callable[[], object] | None = None) -> StopReason:
        """Go on until all parts have settled, or the limits are reached; `tell` may stop the run by a true answer."""
        stop_at, told = self.seconds + limits.seconds, self._answers
        with self._interrupt:
            self._clock.start()
            try:
                while self.ending is None:
                    reason = self._limit(limits, stop_at)
                    if reason is None and tell is not None and self._answers - told >= len(self._parts):
                        told = self._answers
                        with self._clock.paused():
                            reason = StopReason.CALLBACK if tell() else None
                    if reason is not None:
                        self._wait_for_all()
                        return reason
                    self._step(stop_at)
            finally:
                self._clock.stop()
        return self.ending

    def _limit(self, limits: Limits, stop_at: float) -> StopReason | None:
        """Return which limit is reached, if one is."""
        if self._interrupt.is_set:
            return StopReason.INTERRUPTED
        if self.seconds >= stop_at:
            return StopReason.OUT_OF_TIME
        if self.updates >= limits.max_updates:
            return StopReason.OUT_OF_UPDATES
        if self.work >= limits.max_work:
            return StopReason.OUT_OF_WORK
        return None

    def _step(self, stop_at: float) -> None:
        """Ask parts whose workers have nothing to do, and take in an answer; or find that all have settled."""
        self._ask(stop_at)
        if self._busy:
            self._take_in()
        elif self._tolerance <= self._last:
            self.ending = StopReason.CONVERGED
        else:
            self._tolerance = max(self._last, TIGHTENS * self._tolerance)
            self._parts = [part._replace(is_settled=False) for part in self._parts]

    def _ask(self, stop_at: float) -> None:
        """Give every idle worker the part of its own that has most to take in."""
        best: dict[int, tuple[float, int]] = {}
        for number in range(len(self._parts)):
            worker = self._workers.worker_of(number)
            if worker not in self._busy and (wanted := self._need(number)) > 0.0:
                best[worker] = max(best.get(worker, (0.0, -1)), (wanted, -number))
        for worker, (_, number) in sorted(best.items()):
            outside = self._boundary.outside(-number)
            self._busy[worker] = -number, outside
            self._workers.submit(-number, Settle(outside, self._tolerance, SWEEPS, stop_at - self.seconds))

    def _need(self, number: int) -> float:
        """Return how much there is to do for a part, in nats; 0 if nothing."""
        part = self._parts[number]
        if part.used is None:
            return inf
        moved = self._moved[number]
        if isnan(moved):
            moved = self._moved[number] = self._boundary.moved(number, part.used)
        if not part.is_settled:
            return max(moved, part.residual, self._tolerance)
        return moved if moved > self._tolerance / self._arity else 0.0

    def _take_in(self) -> None:
        found = self._workers.next()
        if found is None:
            return
        if isinstance(found, Lost):
            self._forget(found.parts)
            return
        number, report = found
        _, outside = self._busy.pop(self._workers.worker_of(number))
        self._note(number, report, outside)

    def _note(self, number: int, report: Report, outside: FloatArray) -> None:
        self._boundary.take(number, report.messages)
        for other in self._boundary.beside[number].tolist():
            self._moved[other] = nan
        self._parts[number] = PartFigures(outside, report.is_settled, report.residual, report.updates, report.work)
        if report.is_hopeless:
            self.ending = StopReason.NOT_CONVERGED
        self._answers += 1
        if self._answers % len(self._parts) == 0:
            self._record()

    def _forget(self, lost: list[int]) -> None:
        """Ask parts again whose worker was lost; others go on from what those have said before."""
        for number in lost:
            self._lost_updates += self._parts[number].updates
            self._lost_work += self._parts[number].work
            self._parts[number] = PartFigures()
        self._busy.pop(self._workers.worker_of(lost[0]), None)

    def _wait_for_all(self) -> None:
        """Take in the answers that are under way: a part cannot be read while it is at work."""
        while self._busy:
            self._take_in()

    def _record(self) -> None:
        """Note the figures of a moment in which nobody has read the parts."""
        largest = max((part.residual for part in self._parts), default=0.0)
        self.trace.append(Moment(self.seconds, self.updates, self.work, largest, nan, nan, 0, nan))

    def moment(self, known: Known) -> Moment:
        """Return the figures of a moment in which the parts were read."""
        read = [found for found in known.readings if found is not None]
        damping, states = max((found.damping for found in read), default=0.0), sum(found.states for found in read)
        done = self.seconds, self.updates, self.work
        return Moment(*done, known.max_residual, known.mean_residual, damping, states, known.log_z, known.error)

    # ------------------------------------------------------------ reading
    def read(self, read: Callable[[int], Reading]) -> Known:
        """Return what is known now. Parts that are lost meanwhile are settled again, if all had settled.

        Args:
            read: Returns what is known of a part that has been asked.
        """
        self._wait_for_all()
        try:
            readings = [None if part.used is None else read(number) for number, part in enumerate(self._parts)]
        except LostError as lost:
            self._forget(lost.lost.parts)
            if self.ending is StopReason.CONVERGED:  # what is lost is settled again before anything is said of it
                self.ending = None
                self.run(Limits())
            return self.read(read)
        error = mean = log_z = 0.0
        for found, n in zip(readings, self.n_variables, strict=True):
            share = n / max(1, sum(self.n_variables))
            error += share * (inf if found is None else found.error)
            mean += share * (inf if found is None else found.mean_residual)
            log_z += nan if found is None else found.log_z
        largest = max((part.residual for part in self._parts), default=0.0)
        return Known(readings, self._boundary.log_z(log_z), error, largest, mean)
