"""Beliefs after some of the last sweeps, and what their changes say about the sweeps to come.

A run that settles moves its beliefs by a geometric series once its slowest mode is all that is left: each stretch of
sweeps moves them by the same part of what the stretch before it did, and in the same direction. So two successive
changes give the rate, and the rate gives what is left. One sweep's residual cannot tell a slow mode from a small rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from anytimebp.model.rows import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray

LONGEST = 4  # marks, with the present, that changes are compared between
KEPT = 5  # marks that are kept: one for each of them, and one that is too new to be compared with
SLOWEST = 0.9995  # rate per sweep that is believed, also where changes grow: what is left is then 1000 times what moved
FASTEST = 0.1  # rate per sweep that is believed; what one quick sweep suggests is not trusted further
SAFE = 2.0  # times what the series says is left; without it, 5 % of the estimates are under a third of the truth
SETTLING_IN = 5  # sweeps before which changes are compared sweep by sweep; then by two, as sweeps go there and back
STEEPEST = 4.0  # times the rate before, to which a rise counts
MANY = 2**16  # slots from which on a part of the variables stands for all, so that marks stay small beside messages


class Mark(NamedTuple):
    """Beliefs at some time.

    Attributes:
        time: In sweeps.
        belief: Per slot of the variables that are followed, never changed; or how to make them.
    """

    time: float
    belief: FloatArray | Callable[[], FloatArray]


class BeliefHistory:
    """Marks along a run: every sweep at first, then every second one, then every sixteenth to eighth part of the run.

    Attributes:
        marks: The last few, oldest first.
        followed: The variables that stand for all, rising; None where all are followed.
        start: (V + 1,) where each variable's beliefs start among those that are followed.
    """

    def __init__(self, slot_start: IndexArray) -> None:
        """Choose the variables to follow.

        Args:
            slot_start: (V + 1,) where each variable's slots start.
        """
        self.marks: tuple[Mark, ...] = ()
        self.followed, self._slots, self.start = _followed(slot_start)

    def is_due(self, sweeps: int) -> bool:
        """Tell whether there is to be a mark after so many sweeps."""
        return sweeps < SETTLING_IN or sweeps % (1 << max(1, sweeps.bit_length() - 4)) == 0

    def next_due(self, sweeps: int) -> int:
        """Return after how many sweeps, more than those given, there is to be a mark."""
        step = 1 << max(1, sweeps.bit_length() - 4)
        return sweeps + 1 if sweeps + 1 < SETTLING_IN else (sweeps // step + 1) * step

    def note(self, sweeps: int, belief: FloatArray) -> None:
        """Set a mark.

        Args:
            sweeps: So far.
            belief: Per slot of the variables that are followed; not changed afterwards.
        """
        self.marks = (*self.marks[1 - KEPT :], Mark(float(sweeps), belief))

    def note_priors(self, sweeps: int, prior: FloatArray, *, in_logs: bool) -> None:
        """Set a mark where no message has been sent yet; beliefs are made of the priors when somebody looks.

        Args:
            sweeps: So far.
            prior: Per slot of all variables; not changed afterwards.
            in_logs: Whether they are logarithms.
        """
        later = partial(_of_priors, self.part(prior), self.start[:-1], in_logs)
        self.marks = (*self.marks[1 - KEPT :], Mark(float(sweeps), later))

    def trend(self, marks: tuple[Mark, ...], time: float, belief: FloatArray) -> Trend:
        """Return how beliefs have come to what they are.

        Args:
            marks: Those that there were at the time.
            time: In sweeps, with the part of the present one that is through.
            belief: Per slot of the variables that are followed, at the time.
        """
        return Trend((*marks, Mark(time, belief)), self.start[:-1])

    def part(self, belief: FloatArray) -> FloatArray:
        """Return what is followed of numbers per slot of all variables."""
        return belief if self._slots is None else belief[self._slots]


class Trend:
    """Where beliefs come from, and how far they are expected to go on."""

    def __init__(self, marks: tuple[Mark, ...], start: IndexArray) -> None:
        """Pick the changes to compare.

        Args:
            marks: Oldest first; the last one is the present.
            start: (V,) where each variable's beliefs start.
        """
        self._start = start
        self._path = [marks[-1]]
        lag = 1.0 if marks[-1].time < SETTLING_IN else 2.0
        earlier = [mark for mark in marks[:-1] if mark.time <= marks[-1].time - lag]
        wanted = marks[-1].time - lag
        while earlier and len(self._path) < LONGEST:
            self._path.append(min(earlier, key=lambda mark: abs(mark.time - wanted)))
            wanted = 2.0 * self._path[-1].time - self._path[-2].time
            earlier = [mark for mark in earlier if mark.time < self._path[-1].time]

    @property
    def has_rate(self) -> bool:
        """Whether there are two changes to compare."""
        return len(self._path) > 2  # noqa: PLR2004

    @property
    def moved(self) -> float:
        """By how much the beliefs have moved since the last mark; infinite if there is none."""
        return self._moved(0) if len(self._path) > 1 else float("inf")

    @property
    def left(self) -> float:
        """By how much the beliefs are expected to move on, if there is a rate."""
        moved, before, lag = self.moved, self._moved(1), self._path[0].time - self._path[1].time
        part = self._rate() ** lag
        wandering = min(1.0, moved / before) if before > 0.0 else 1.0
        return float(SAFE * moved * max(FASTEST**lag, wandering, part / (1.0 - part)))

    def _rate(self) -> float:
        """Return the rate per sweep; one that rises, as a slower mode comes to show, is taken to rise further."""
        rate = self._rate_after(1)
        before = self._rate_after(2) if len(self._path) == LONGEST else 0.0
        rise = min(STEEPEST, max(1.0, rate / before)) if before > 0.0 else 1.0
        return float(min(SLOWEST, rate * rise**0.5))

    def _rate_after(self, k: int) -> float:
        """Return the rate that the change from mark k on has, beside the one that led there."""
        newer, older = self._change(k - 1), self._change(k)
        size = float(np.einsum("i,i", older, older))  # BLAS may wake threads, which takes milliseconds on busy machines
        ratio = float(np.einsum("i,i", newer, older)) / size if size > 0.0 else 0.0
        newest, middle, oldest = (mark.time for mark in self._path[k - 1 : k + 2])
        return rate_of(ratio, middle - oldest, newest - middle)

    def _change(self, k: int) -> FloatArray:
        """Return what led from mark k + 1 to mark k, counted from the present."""
        return self._belief(k) - self._belief(k + 1)

    def _belief(self, k: int) -> FloatArray:
        belief = self._path[k].belief
        return belief() if callable(belief) else belief

    def _moved(self, k: int) -> float:
        return float(np.sqrt(np.add.reduceat(self._change(k) ** 2, self._start)).mean())


def _of_priors(prior: FloatArray, start: IndexArray, in_logs: bool) -> FloatArray:  # noqa: FBT001
    """Return the beliefs before any message."""
    weight = np.exp(prior) if in_logs else prior
    belief: FloatArray = weight / np.repeat(np.add.reduceat(weight, start), np.diff(start, append=len(weight)))
    return belief


def rate_of(ratio: float, lag_before: float, lag: float) -> float:
    """Return the rate r per sweep of a geometric series.

    Changes by c r^t (1 - r^s) over s sweeps from time t on have the ratio r^s (1 - r^u) / (1 - r^s) if s sweeps are
    followed by u.

    Args:
        ratio: Of the newer change to the older one, along the older one.
        lag_before: Sweeps of the older change, s.
        lag: Sweeps of the newer change, u.
    """
    if ratio <= 0.0:
        return 0.0
    low, high = 0.0, SLOWEST
    for _ in range(40):
        middle = 0.5 * (low + high)
        part = middle**lag_before
        if part * (1.0 - middle**lag) < ratio * (1.0 - part):
            low = middle
        else:
            high = middle
    return high


def _followed(slot_start: IndexArray) -> tuple[IndexArray | None, IndexArray | None, IndexArray]:
    """Return the variables and the slots to follow, None for all, and where each variable starts among them."""
    if int(slot_start[-1]) <= MANY:
        return None, None, slot_start
    n = len(slot_start) - 1
    drawn = np.random.default_rng(0).choice(
        n, min(n, MANY), replace=False
    )  # by index, kinds that take turns are missed
    n_followed = int(np.searchsorted(np.cumsum(slot_start[drawn + 1] - slot_start[drawn]), MANY, side="right"))
    chosen = np.sort(drawn[: max(1, n_followed)])
    sizes = slot_start[chosen + 1] - slot_start[chosen]
    return chosen, row_items(slot_start[chosen], sizes), row_starts(sizes)
