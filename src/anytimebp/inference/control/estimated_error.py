"""How far the marginals are from those of BP, estimated: the mean over variables of the L2 distance.

Estimates, not bounds; the factors were chosen so that few come out too small (docs/adaptive.md has the calibration).
"""

from __future__ import annotations

import numpy as np

from anytimebp.inference.control.belief_history import Trend
from anytimebp.model.source import BoolArray, FloatArray, IndexArray

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

    What the run is expected to move on by, as the change of its beliefs shows (`belief_history.py`). Where a
    variable is all but certain, its belief stands still while messages move by hundreds of nats, until they turn it
    round at once; there the messages decide.
    """

    def __init__(
        self,
        edge_variable: IndexArray,
        residual: FloatArray,
        belief: FloatArray,
        slot_start: IndexArray,
        trend: Trend,
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
            trend: Of the beliefs.
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
        start, trend = self._slot_start, self._trend
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
