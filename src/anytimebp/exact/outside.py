r"""The weight of states outside the domains of an exact answer, by exact sums; BP is not used.

For each variable in turn, its states outside take the place of those inside, while all others stay as they are. Log Z
of that model says what they weigh beside the whole answer:

    w_i = Z(S_1, ..., D_i \ S_i, ..., S_n) / Z(S_1, ..., S_n).

Sum_i w_i is the mass that is missing but for joint states with two or more variables outside. Where it is small, so are
these; where it is not, nothing is known of them, and the estimated error says so.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError, MemoryLimitError
from anytimebp.exact.cost import plan_by_order, plan_within
from anytimebp.exact.passes import Passes
from anytimebp.exact.possible import restricted
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.relevance import Part
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.slices import at_one_go

UNLIMITED = 2**62


class MassOutside(NamedTuple):
    """What is outside some domains.

    Attributes:
        weights: (V,) of the states of each variable outside, beside a weight of 1 of all that is inside.
    """

    weights: FloatArray

    @property
    def mass(self) -> float:
        """The largest belief of a variable outside its domain."""
        return float(self.weights.max(initial=0.0)) / (1.0 + float(self.weights.sum()))

    @property
    def error(self) -> float:
        """An estimate of the mean L2 distance to the exact marginals.

        Twice the mean belief outside, for what is missing there and what the states inside have too much; and the
        square of the whole mass that is missing, for pairs of states outside, of which nothing is known.
        """
        total = float(self.weights.sum())
        missing = total / (1.0 + total)
        return 2.0 * float(self.weights.mean()) / (1.0 + total) + missing**2


class Outside:
    """Sums over the states outside, made when they are first asked for."""

    def __init__(
        self,
        compiled: CompiledGraph,
        whole: Domains,
        keep: BoolArray,
        order: IndexArray,
        log_z: float,
        max_memory: int | None,
    ) -> None:
        """Hold what it takes.

        Args:
            compiled: The graph.
            whole: All states that the evidence allows.
            keep: Which of their slots are inside.
            order: In which the variables of more than one state inside were eliminated.
            log_z: Of the model on those.
            max_memory: Bytes that sums may allocate.
        """
        self._compiled, self._whole, self._keep, self._order = compiled, whole, keep, order
        self._log_z, self._max_memory = log_z, max_memory
        self._known: MassOutside | None = None

    def __call__(self) -> MassOutside:
        """Return what is outside."""
        if self._known is None:
            self._known = MassOutside(self._weights())
        return self._known

    def mass(self) -> float:
        """Return the largest belief of a variable outside its domain."""
        return self().mass

    def error(self) -> float:
        """Return an estimate of the mean L2 distance to the exact marginals."""
        return self().error

    def _weights(self) -> FloatArray:
        start, weights = self._whole.slot_start, np.zeros(len(self._whole.sizes))
        for variable in range(len(weights)):
            slots = np.arange(start[variable], start[variable + 1])
            outside = slots[~self._keep[slots] & (self._whole.log_prior[slots] > -np.inf)]
            if len(outside):
                weights[variable] = math.exp(min(600.0, self._log_sum(slots, outside) - self._log_z))
        return weights

    def _log_sum(self, slots: IndexArray, outside: IndexArray) -> float:
        """Return log Z with some states of a variable in place of those inside; in two halves if they are too many."""
        keep = self._keep.copy()
        keep[slots] = False
        keep[outside] = True
        has_position = len(outside) == 1 or np.count_nonzero(self._keep[slots]) > 1  # in the order
        order = self._order if has_position else None
        try:
            return log_sum(self._compiled, restricted(self._whole, keep), order, self._max_memory)
        except InconsistentModelError:
            return -math.inf
        except MemoryLimitError:
            if len(outside) == 1:  # cannot be: they are no more than those inside
                raise
            half = len(outside) // 2
            return float(np.logaddexp(self._log_sum(slots, outside[:half]), self._log_sum(slots, outside[half:])))


def log_sum(compiled: CompiledGraph, domains: Domains, order: IndexArray | None, max_memory: int | None) -> float:
    """Return log Z of a model on given domains, by the way up alone; -inf if no joint state is possible.

    Args:
        compiled: The graph.
        domains: The active states.
        order: In which variables are eliminated; None if one is to be found.
        max_memory: Bytes that it may allocate.
    """
    part = Part(compiled.arrays, domains.sizes)
    if order is None:
        tree = plan_within(compiled, domains.sizes, max_memory, part)
    else:
        tree = plan_by_order(compiled, domains.sizes, order, max_memory)
    tables = at_one_go(make_potentials(compiled, domains))
    passes = Passes(compiled, domains, part, tree, tables, with_joints=False)
    while not passes.is_up and passes.is_possible:
        passes.advance(UNLIMITED, UNLIMITED)
    if not passes.is_possible:
        return -math.inf
    return float(passes.log_total + tables.log_scale.sum() + domains.log_prior_scale.sum())
