"""What is known at the end of a round of `adaptive`, or after the look that follows: records, estimates, answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.adaptive.whole_model import Candidates
from anytimebp.inference.control.estimated_error import domains_error, tails_error
from anytimebp.inference.figures import Figures
from anytimebp.inference.look.pair_readout import pairs_of_rounds
from anytimebp.inference.readout import bethe_terms
from anytimebp.kernels.active_readout import mean_move
from anytimebp.kernels.codes import LINEAR
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.factor_marginals import NOT_ASKED_FOR, NoFactorMarginals
from anytimebp.results.marginals import Marginals

STILL_UNDECIDED = NoFactorMarginals(
    "there are no factor marginals yet: some variables have no active states so far; run on, or take a later snapshot"
)
FAR = 2.0
"""Standard deviations by which messages may raise a state, for a look to take it in.

The deviation is what messages have been seen to add to active states, or more if the ranges of tables allow for it."""
MOST = 700.0  # nats that messages are expected to add, so that numbers stay finite
UNCERTAIN = 3.0  # times what beliefs leave to all but the best state, on average: part of the moves that reach them
LEFT_UNREAD = 0.1
"""Times the threshold for active states: part of the weight of a factor's joint active states that leaves do not count.
"""
NO_STATES: IndexArray = np.empty(0, dtype=np.int64)  # beliefs are over the universes in order
SMALL_SPREAD = 1.5  # nats that messages spread by, under which one look is enough
LEFT_OUT = 0.01
"""Part of the weight of a factor's joint active states that a look may leave out: most of them weigh next to nothing.

It is less where messages say much, as tables may favour what is left out; and nothing where there are hard zeros."""
NEGLIGIBLE = 0.003  # of the mean odds of states outside: a state's weight under which it does not count for leaves


class Outcome(Enum):
    """Why there are no more rounds; the texts are reasons for full BP."""

    DEAR = "another round on likely states would take too much of the time of full BP"
    CLOSE = "the states outside the domains hardly count any more"
    UNSETTLED = "messages on the likely states do not settle"
    IMPOSSIBLE = "hard zeros exclude every joint state of the likely states"


def moved(model: ActiveModel, before: ActiveModel) -> float:
    """Return the mean L2 distance by which a round has moved the marginals of variables that are not leaves."""
    beliefs = read_only(model.domain_beliefs[0]), read_only(before.domain_beliefs[0])  # always of one type
    distance: float = mean_move(model.active, beliefs[0], before.active, beliefs[1], before.whole.is_leaf)
    return distance


def moved_on(known: Known, before: Known) -> float:
    """Return the same of a round against the look before it, over its active states, what is outside left aside."""
    model, start, is_leaf = known.model, known.model.whole.domains.slot_start, known.model.whole.is_leaf
    slot, change = model.active.slot, np.zeros(int(start[-1]))
    change[slot] = known.shares()[slot] - before.shares()[slot]
    distance = np.sqrt(np.add.reduceat(change**2, start[:-1]))
    return float(distance[~is_leaf].mean())


def cut_off(candidates: Candidates, spread: FloatArray) -> FloatArray:
    """Return (V,) the belief of states that are no candidates, as far as messages may have raised it.

    Args:
        candidates: Candidates.
        spread: (V,) standard deviation of what messages add to log priors, in nats.
    """
    return np.minimum(1.0, candidates.cut * np.exp(np.minimum(MOST, np.minimum(0.5 * spread**2, FAR * spread))))


class Tail(NamedTuple):
    """What states outside the domains add to an answer.

    Attributes:
        odds: (V,) the sum over candidates of their beliefs, in parts of what the domain holds.
        least: Log weight under which such a state does not count for leaves.
        spread: Standard deviation of what messages add to the log priors of active states, in nats.
    """

    odds: FloatArray
    least: float
    spread: float


class Known(NamedTuple):
    """What is known at the end of a round; nothing of it changes.

    Attributes:
        model: States and messages.
        figures: Of the run, then.
        candidates: What the last look has found, None before the first.
        outside: (V,) belief outside the domains that it has found.
        cut: (V,) belief that it may have left out.
        left: What the round has moved the marginals by, times the part that the next one is expected to.
        tail: What candidates add to the answer; None where the look is older than the messages.
        left_out: Part of the weight of a factor's joint active states that leaves do not count.
    """

    model: ActiveModel
    figures: Figures
    candidates: Candidates | None
    outside: FloatArray
    cut: FloatArray
    left: float
    tail: Tail | None = None
    left_out: float = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether estimates can be made without asking for scores; pairs do not count beside undecided variables."""
        model = self.model
        return self.candidates is None or model.undecided is not None or not model.whole.is_constrained

    def mass(self) -> float:
        """Return the largest, over variables, belief outside the domain."""
        return min(1.0, float((self._with_pairs() + self.cut).max(initial=0.0)))

    def error(self) -> float:
        """Return the estimated error."""
        if self.candidates is None:
            return math.inf
        n_variables = max(1, len(self.outside))
        outside, cut = self._with_pairs().sum() / n_variables, self.cut.sum() / n_variables
        pending = self.figures.mean_residual * self._open()
        if self.tail is not None and self.model.undecided is None:
            return tails_error(outside, self.tail.spread, pending, cut)
        return domains_error(outside, pending, cut, self.left)

    def _open(self) -> float:
        """Return which part of what messages move may reach beliefs: little where variables are all but certain."""
        model = self.model
        best = np.maximum.reduceat(model.domain_beliefs[0], model.active.start[:-1])  # 1 of leaves that are summed out
        n_variables = max(1, len(best) - int(model.whole.is_leaf.sum()))
        return min(1.0, UNCERTAIN * float((1.0 - best).sum()) / n_variables)

    def _with_pairs(self) -> FloatArray:
        """Return the belief outside the domains, pairs of states included where there are hard zeros."""
        outside = self.outside.copy()
        if self.candidates is not None and not self.is_quick:
            pairs_of_rounds(self.model, self.candidates, outside)
        return outside

    def shares(self) -> FloatArray:
        """Return the beliefs of all states that evidence allows, without leaves that are summed out."""
        model, active = self.model, self.model.active
        found = np.zeros(int(model.whole.domains.slot_start[-1]))
        found[active.slot] = model.domain_beliefs[0] * np.repeat(self._share, model.size)
        if self.tail is not None and self.candidates is not None:
            own = np.repeat(self._share, np.diff(self.candidates.start))
            found[self.candidates.slot] = self.candidates.belief * own
        return found

    @property
    def _share(self) -> FloatArray:
        """(V,) the part of the belief that is within the domain."""
        share: FloatArray = 1.0 - self.outside if self.tail is None else 1.0 / (1.0 + self.tail.odds)
        return share

    # ------------------------------------------------------------ the answer
    def answer(self) -> dict[str, Any]:
        """Return the fields of a snapshot but for figures; what has to be asked for is when somebody reads it."""
        model = self.model
        marginals, log_z = self._marginals()
        return {
            "marginals": marginals,
            "log_z": log_z,
            "outside": self.mass() if self.is_quick else self.mass,
            "error": self.figures.estimated_error if self.is_quick else self.error,
            "domain_sizes": model.active_sizes,
            "arithmetic": "linear" if model.arrays.arithmetic == LINEAR else "log",
            "factor_marginals": NOT_ASKED_FOR if model.undecided is None else STILL_UNDECIDED,
        }

    def _marginals(self) -> tuple[Marginals, float]:
        """Return the marginals, and log Z; with the states outside that a look has found, where there are any."""
        model, whole = self.model, self.model.whole
        start, states = model.active.start, model.active.state
        belief: FloatArray | Callable[[], FloatArray]
        belief, log_normaliser = model.domain_beliefs
        log_z = bethe_terms(model.layout, model.arrays, log_normaliser)
        log_z += float(model.workspace.tables.log_scale.sum() + whole.domains.log_prior_scale.sum())
        if whole.has_leaves or self.tail is not None:
            start, states = whole.universe_start, NO_STATES
            belief = partial(model.beliefs, whole.nothing, np.zeros(len(model.size)), self.left_out, 0.0)
            if self.tail is not None and self.candidates is not None:
                log_z += float(np.log1p(self.tail.odds).sum())
                belief = partial(model.beliefs, self.candidates, self.tail.odds, self.left_out, self.tail.least)
            if not whole.can_wait:
                belief = belief()
        if model.undecided is not None:
            log_z += model.unheard()
        return Marginals(whole.compiled.variables, belief, start, states), log_z
