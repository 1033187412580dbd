"""The unexplored mass of a snapshot and the error that goes with it, computed when somebody asks."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.inference.control.estimated_error import LARGEST, LEAST, MOST, UNKNOWN, UNSEEN, moved_by
from anytimebp.inference.look.outside_pairs import LARGEST_LOG, Sight, add_pairs
from anytimebp.kernels.codes import OK
from anytimebp.kernels.readout import read_weights
from anytimebp.model.scores import log_sum_exp_rows
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.estimates import all_log_ratios
from anytimebp.tables.readable import Readable


class UnexploredMass:
    """Scores all states outside the domains of one snapshot, once."""

    def __init__(
        self,
        universe: Universe,
        source: Readable,
        pending: FloatArray,
        belief: FloatArray,
        log_normaliser: FloatArray,
    ) -> None:
        """Hold what a snapshot was read from.

        Args:
            universe: Topology, sources and priors, which do not change.
            source: Domains and messages, which do not change either.
            pending: (F,) by how much the messages of each factor may still move, in nats.
            belief: Of all domains, variable after variable.
            log_normaliser: (V,) log sum of each belief.
        """
        self._universe, self._source = universe, source
        self._pending, self._belief, self._log_normaliser = pending, belief, log_normaliser

    def __call__(self) -> float:
        """Return the largest, over variables, estimated belief outside the domain; NaN where nothing can be said."""
        shares = self.shares
        return float("nan") if shares is None else float(shares.max(initial=0.0))

    def error(self) -> float:
        """Return the estimated error: of what is outside the domains, and of messages that have not settled on them.

        Infinite where nothing can be said of what is outside.
        """
        shares = self.shares
        if shares is None:
            return float("inf")
        if not len(shares):
            return 0.0
        layout = self._universe.compiled.arrays
        per_edge = np.repeat(np.minimum(self._pending, MOST), np.diff(layout.factor_edge_start))
        nats: FloatArray = np.bincount(layout.edge_variable, per_edge, len(shares))  # type: ignore[assignment]
        unsettled, _ = moved_by(self._belief, self._source.belief_start, nats)
        least = LEAST * float(self._pending.max(initial=0.0))  # only what has settled can be without error
        return min(LARGEST, max(least, float(UNSEEN * shares.mean() + UNKNOWN * unsettled.mean())))

    @cached_property
    def shares(self) -> FloatArray | None:
        """(V,) the estimated belief outside each domain; None where nothing can be said.

        That is where messages that have not settled exclude a whole domain, and where hard zeros shut states out that
        others, not active yet, may let in: one round of messages sees only what the domains admit.
        """
        universe, source, arrays = self._universe, self._source, self._source.arrays
        weight = np.empty(len(arrays.message))
        status, _ = read_weights(universe.compiled.arrays, arrays, weight)
        if status != OK:
            return None
        unexplored = arrays.domain_size < universe.n_allowed
        if not unexplored.any():
            return np.zeros(len(arrays.domain_size))
        ratio = all_log_ratios(universe, source, weight, unexplored)
        sizes = np.diff(universe.start)
        ratio -= np.repeat(self._log_normaliser, sizes)
        is_outside = np.repeat(unexplored, sizes)
        is_outside[np.repeat(universe.start[:-1], arrays.domain_size) + source.states] = False
        if (is_outside & (universe.log_prior > -np.inf) & (ratio == -np.inf)).any():
            return None
        outside = np.where(is_outside, ratio, -np.inf)
        return self._with_pairs(outside, weight)

    def _with_pairs(self, log_ratio: FloatArray, weight: FloatArray) -> FloatArray:
        """Return (V,) the shares of single states, and of joint states outside the domains of two variables at once.

        Args:
            log_ratio: Per (variable, state) pair, its belief relative to that of the domain; -inf inside.
            weight: Log messages from variables to factors, per edge slot.
        """
        universe, source, arrays = self._universe, self._source, self._source.arrays
        edge_variable = universe.compiled.arrays.edge_variable

        def domain(variable: int) -> IndexArray:
            return source.states[source.belief_start[variable] : source.belief_start[variable + 1]]

        def log_weight(edge: int) -> FloatArray:
            start = arrays.edge_slot_start[edge]
            return weight[start : start + arrays.domain_size[edge_variable[edge]]]

        def outside(variable: int) -> tuple[IndexArray, FloatArray]:
            own = log_ratio[universe.start[variable] : universe.start[variable + 1]]
            states = np.flatnonzero(own > -np.inf)
            return states, own[states]

        log_total = source.log_factor_total + source.log_scale
        log_outside = np.minimum(
            LARGEST_LOG, log_sum_exp_rows(log_ratio, universe.start)
        )  # pairs of tiny ones may count
        mass = np.exp(log_outside)
        sight = Sight(universe.compiled, domain, log_weight, log_total, outside, log_outside)
        add_pairs(sight, mass)
        return mass / (1.0 + mass)


def log_odds(shares: FloatArray) -> FloatArray:
    """Return the logs of beliefs outside the domains, relative to those inside; at most LARGEST_LOG."""
    with np.errstate(divide="ignore"):
        odds: FloatArray = np.minimum(LARGEST_LOG, np.log(shares) - np.log1p(-shares))
    return odds
