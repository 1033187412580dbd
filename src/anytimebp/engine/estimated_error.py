"""How far the marginals are from those of BP, estimated: the mean over variables of the L2 distance.

Estimates, not bounds; the factors were chosen so that few come out too small (docs/adaptive.md has the calibration).
"""

from __future__ import annotations

import numpy as np

from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import FloatArray, IndexArray

OUTSIDE = 2.0  # of the belief outside the domains: states that joined late can change more than their own share
CHANGE = 0.03  # of what the last round has moved: the next one moves much less
CUT = 2.0  # of the belief of states out of reach
UNSEEN = 4.0  # of what one round of messages out of the domains adds, for methods that grow one by one
TYPICAL = 0.25  # of the largest possible: not all messages to a variable push the same way, nor the likely states most
UNEVEN = 2.0  # sweeps there and back do not shrink what is left alike
SLOWEST, FASTEST = 0.98, 0.1  # contraction per sweep that is believed
UNKNOWN = 0.8  # contraction before there is any
FAR = 50.0  # nats after which any state may be the likeliest
MOST = 1e3  # nats that count as infinitely many
LARGEST = 2.0**0.5  # two marginals are never farther apart


def domains_error(outside: float, change: float, cut: float) -> float:
    """Return the estimate at the end of a round on sparse domains.

    Args:
        outside: Mean over variables of the belief outside the domains.
        change: By how much the round has moved the marginals.
        cut: Mean over variables of the estimated belief of states out of reach.
    """
    return min(LARGEST, OUTSIDE * outside + CHANGE * change + CUT * cut)


def change_error(change: float, before: float) -> float:
    """Return the estimate after a sweep that has moved the marginals by `change`, the one before by `before`.

    What is left is a geometric series, if every sweep moves them by the same part of what the last one did.
    """
    contraction = min(SLOWEST, max(FASTEST, change / before)) if before > 0.0 else FASTEST
    return float(min(LARGEST, UNEVEN * change * contraction / (1.0 - contraction)))


class Contraction:
    """By how much sweeps shrink residuals: over the last two, as sweeps there and back differ."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._residuals: list[float] = []

    def note(self, residual: float) -> None:
        """Take note of a sweep's mean residual."""
        self._residuals = [*self._residuals[-2:], residual]

    @property
    def has_begun(self) -> bool:
        """Whether there was a sweep."""
        return bool(self._residuals)

    @property
    def per_sweep(self) -> float:
        """The part that a sweep leaves."""
        known = [value for value in self._residuals if 0.0 < value < np.inf]
        if len(known) < 2:  # noqa: PLR2004
            return UNKNOWN
        return float((known[-1] / known[0]) ** (1.0 / (len(known) - 1)))


class SweepError:
    """The estimate after a sweep over all states, from residuals; made when asked for.

    Messages that move by r nats in all move the belief b of a state by at most about (exp r - 1) b (1 - b), and all
    beliefs of the variable by no more than tanh(r / 4) in total variation.
    """

    def __init__(
        self,
        layout: GraphLayout,
        residual: FloatArray,
        belief: FloatArray,
        slot_start: IndexArray,
        contraction: float,
    ) -> None:
        """Hold what the estimate needs.

        Args:
            layout: Topology.
            residual: (E,) by how much each message moved when it was last sent; owned.
            belief: Per variable slot.
            slot_start: (V + 1,) where each variable's slots start.
            contraction: By how much sweeps shrink what is left.
        """
        self._layout, self._residual, self._belief, self._slot_start = layout, residual, belief, slot_start
        self._contraction = min(SLOWEST, max(FASTEST, contraction))

    def __call__(self) -> float:
        """Return the estimate."""
        if not len(self._belief):
            return 0.0
        residual = np.minimum(self._residual, MOST)
        moved = np.bincount(self._layout.edge_variable, weights=residual, minlength=len(self._slot_start) - 1)
        spread = np.sqrt(np.add.reduceat((self._belief * (1.0 - self._belief)) ** 2, self._slot_start[:-1]))
        each = np.minimum(LARGEST * np.tanh(moved / 4.0), np.expm1(np.minimum(moved, FAR)) * spread)
        return float(min(LARGEST, TYPICAL * each.mean() * self._contraction / (1.0 - self._contraction)))
