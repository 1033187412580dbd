"""How far the marginals are from those of BP, estimated: the mean over variables of the L2 distance.

Estimates, not bounds; the factors were chosen so that few come out too small (docs/adaptive.md has the calibration).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import BoolArray, FloatArray, IndexArray

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
    n, rng = len(slot_start) - 1, np.random.default_rng(0)  # by index, kinds that take turns would be missed
    drawn = rng.integers(n, size=MANY) if n > MANY else rng.choice(n, n, replace=False)
    n_followed = int(np.searchsorted(np.cumsum(slot_start[drawn + 1] - slot_start[drawn]), MANY, side="right"))
    chosen = np.unique(drawn[: max(1, n_followed)])
    sizes = slot_start[chosen + 1] - slot_start[chosen]
    return chosen, row_items(slot_start[chosen], sizes), row_starts(sizes)


OUTSIDE = 2.0  # of the belief outside the domains: states that joined late can change more than their own share
TAILS, MOST_TAILS = 0.4, 3.0
"""Of the same, where it counts in the answer, times the mean square of what messages say, in nats; and at the most.

What is left is how states outside move each other through their messages."""
LOOSE = 0.03  # of what messages on the domains may still have to move on average, in nats
CUT = 2.0  # of the belief of states that are no candidates
UNSEEN = 4.0  # of what one round of messages out of the domains adds, for methods that grow one by one
EARLY = 0.3  # of what another sweep like the first could move, before a second one shows the rate
UNKNOWN = 4.0  # of what another sweep like the last could move, where nothing shows the rate
LEAST = 3e-4  # of the same: an estimate is never smaller, so that only a settled run can say 0
SETTLED = (
    200.0  # of the same, at the most, once no message moves by more than the tolerance: sweeps leave 99.5 % at most
)
CERTAIN = 8.0  # nats between a belief and 1, from which on beliefs hide what messages do
MOST = 1e3  # nats that count as infinitely many
TINY = 1e-300  # what has underflowed may be this likely; the exponential of its negative logarithm is still finite
LEAF = 0.5  # error of a leaf, in that of the core's variables: what a factor passes on is less than what it is told
PENDING = 2.0  # times what is pending on a message that it is expected to move by: what it moves comes back to it
LARGEST = 2.0**0.5  # two marginals are never farther apart


def domains_error(outside: float, pending: float, cut: float, left: float) -> float:
    """Return the estimate at the end of a round on sparse domains.

    Args:
        outside: Mean over variables of the belief outside the domains.
        pending: What a factor's messages may still have to move, in nats, on average.
        cut: Mean over variables of the estimated belief of states that are no candidates.
        left: What the round has moved the marginals by, times the part that the next one is expected to.
    """
    return min(LARGEST, float(max(OUTSIDE * outside, left) + LOOSE * pending + CUT * cut))


def tails_error(outside: float, spread: float, pending: float, cut: float) -> float:
    """Return the estimate where states outside the domains count with what a look has found.

    Args:
        outside: Mean over variables of the belief outside the domains.
        spread: Standard deviation of what messages add to the log priors of active states, in nats.
        pending: What a factor's messages may still have to move, in nats, on average.
        cut: Mean over variables of the estimated belief of states that are no candidates.
    """
    pulled = min(MOST_TAILS, TAILS * spread**2) * outside
    return min(LARGEST, float(pulled + LOOSE * pending + CUT * cut))


class SweepError:
    """The estimate after a sweep over all states, or within one; made when asked for.

    What the run is expected to move on by, as the change of its beliefs shows (`BeliefHistory`). Where a
    variable is all but certain, its belief stands still while messages move by hundreds of nats, until they turn it
    round at once; there the messages decide.
    """

    def __init__(
        self,
        edge_variable: IndexArray,
        residual: FloatArray,
        belief: FloatArray,
        slot_start: IndexArray,
        trend: Callable[[], Trend],
        tolerance: float,
        *,
        has_settled: bool = False,
        share: float = 1.0,
        at_most: float = float("inf"),
    ) -> None:
        """Hold what the estimate needs.

        Args:
            edge_variable: (E,) the variable of an edge, among those that are followed.
            residual: (E,) by how much each message moved when it was last sent; owned.
            belief: Per variable slot; owned.
            slot_start: (V + 1,) where each variable's slots start.
            trend: Makes the trend of the beliefs.
            tolerance: Of the run, in nats.
            has_settled: Whether no message would move by more than that, so that even the slowest run is close.
            at_most: What the estimate is expected to be at the most, from where the run has started.
            share: Of the error, if these are not all variables: the mean over all is that part of the mean over these.
        """
        self._edge_variable, self._residual, self._belief, self._slot_start = (
            edge_variable,
            residual,
            belief,
            slot_start,
        )
        self._trend, self._tolerance, self._has_settled, self._share = trend, tolerance, has_settled, share
        self._at_most = at_most

    def __call__(self) -> float:
        """Return the estimate."""
        return min(self._at_most, self._share * self._mean_error()) if len(self._belief) else 0.0

    def _mean_error(self) -> float:
        """Return the mean over the variables that there are."""
        start, trend = self._slot_start, self._trend()
        residual = np.minimum(self._residual, self._tolerance if self._has_settled else MOST)
        moved: FloatArray = np.bincount(self._edge_variable, residual, len(start) - 1)  # type: ignore[assignment]
        turned, is_certain = moved_by(self._belief, start, moved)
        if trend.has_rate:
            estimate = max(trend.left, float(np.where(is_certain, turned, LEAST * turned).mean()))
        elif trend.moved < np.inf:
            estimate = max(trend.moved, EARLY * float(turned.mean()))
        else:
            estimate = UNKNOWN * float(turned.mean())
        if self._has_settled:
            return min(LARGEST, estimate, SETTLED * float(turned.mean()))
        return min(LARGEST, max(estimate, LEAST * self._tolerance))


def expected_moves(moved: FloatArray, pending: FloatArray | None) -> FloatArray:
    """Return (E,) by how much messages may still move: as when they were last sent, or less if little is pending; new.

    Args:
        moved: (E,) by how much each message moved when it was last sent.
        pending: (E,) a bound on how far it is from what its factor would send now, where a schedule knows one.
    """
    return moved.copy() if pending is None else np.minimum(moved, PENDING * pending)


def share_of_core(n_core: int, sizes: IndexArray) -> float:
    """Return the part of the core's error that is the mean over all variables: leaves move less than the core.

    Args:
        n_core: Variables of the core.
        sizes: (V,) states of all variables.
    """
    n_leaves = int((sizes > 1).sum()) - n_core
    return (n_core + LEAF * n_leaves) / len(sizes)


def moved_by(belief: FloatArray, slot_start: IndexArray, nats: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return by how much messages could move beliefs, and which beliefs are all but certain.

    Args:
        belief: Per variable slot.
        slot_start: (V + 1,) where each variable's slots start.
        nats: (V,) by which the messages to a variable move in all.

    Returns:
        (V,) the L2 distance to what the belief becomes if all of it goes for or against the likeliest state, and (V,)
        whether that state is more likely than all others together by CERTAIN nats.
    """
    start = slot_start[:-1]
    sizes = slot_start[1:] - start
    top = np.maximum.reduceat(belief, start)
    is_top = belief == np.repeat(top, sizes)
    rest = np.add.reduceat(np.where(is_top, 0.0, belief), start)
    rest += (np.add.reduceat(is_top, start, dtype=np.int64) - 1) * top
    log_odds = np.log(np.maximum(rest, TINY)) - np.log(top)
    small = -np.abs(log_odds)  # towards even odds is where a push moves most
    turned = LARGEST * (1.0 / (1.0 + np.exp(-(small + nats))) - 1.0 / (1.0 + np.exp(-small)))
    return np.where(sizes > 1, turned, 0.0), log_odds < -CERTAIN
