"""A look at the states outside the first domains of a graph of relations, in a few kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anytimebp.inference.adaptive.known import NEGLIGIBLE
from anytimebp.inference.adaptive.relation_arrays import NO_ROWS, ActiveRelations, Relations, room_for_rows
from anytimebp.inference.adaptive.whole_model import Candidates
from anytimebp.inference.control.estimated_error import TINY
from anytimebp.kernels.relations_look import (
    VECTORS,
    count_outside,
    list_outside,
    look_tied,
    make_table,
    sort_rows,
    weigh_candidates,
)
from anytimebp.kernels.relations_readout import read_tied
from anytimebp.model.source import FloatArray
from anytimebp.tables.spare import SpareMemory

Shape = tuple[int, int, int]


class Outside(NamedTuple):
    """The states outside the domains.

    Attributes:
        n: How many they are.
        n_told: How many messages there are to them.
        entries: Of tables, that a look at them takes.
        spread: Standard deviation of what messages add to log priors of active states, in nats.
    """

    n: int
    n_told: int
    entries: int
    spread: float


class Looked(NamedTuple):
    """What a look has found.

    Attributes:
        candidates: The states outside, with their beliefs.
        odds: (V,) their sums, in parts of what the domains hold.
        least: Weight of a joint state with a candidate under which it does not count for leaves.
        spread: Standard deviation of what messages add to log priors of active states, in nats.
        outside: Mean over all variables of the belief outside.
        log_z: What all this adds to log Z.
        unsure: Mean over variables that are no leaves of the belief of all states but the best.
        mass: The largest belief outside of a variable.
    """

    candidates: Candidates
    odds: FloatArray
    least: float
    spread: float
    outside: float
    log_z: float
    unsure: float
    mass: float


class RelationsLook:
    """A look from the first domains of relations that share one table, and marginals with what it finds."""

    def __init__(
        self, model: Relations, active: ActiveRelations, log_prior: FloatArray, shape: Shape, memory: SpareMemory
    ) -> None:
        """Count the states outside.

        Args:
            model: The graph.
            active: Messages that have settled.
            log_prior: Of all states, those of leaves aside.
            shape: Of the table.
            memory: What all this is in.
        """
        self._given, self._log_prior, self._memory = (model, active), log_prior, memory
        *ends, self._n_leaf = shape
        self._n_end, self._rows = max(ends), NO_ROWS
        n, n_told, entries, square = count_outside(model, active, log_prior)
        self.outside = Outside(n, n_told, entries, math.sqrt(square))

    def look(self, left_out: float) -> Looked:
        """Return what a look finds.

        Args:
            left_out: Part of the weight of the active states of an end, and of the states of a leaf, that may be left
                out.
        """
        model, active = self._given
        candidates = self._listed()
        make_table(model)
        self._rows = rows = room_for_rows(model, active, self._n_end, self._memory)
        sort_rows(model, active, left_out, rows)
        width = self._n_end + VECTORS
        heavy, scratch = np.empty(self._n_leaf + 1, dtype=np.int64), np.empty((self._n_leaf + 1) * width)
        look_tied(model, active, candidates, rows, left_out, heavy, scratch[width:], scratch[:width])
        odds = self._memory.real(len(model.is_leaf))
        added, outside, log_z, unsure, mass = weigh_candidates(model, active, candidates, odds)
        n, n_ends = len(odds), max(1, len(odds) - int(np.count_nonzero(model.is_leaf)))
        least = max(NEGLIGIBLE * added / n_ends, TINY)
        return Looked(candidates, odds, least, self.outside.spread, outside / n, log_z, unsure / n_ends, mass)

    def _listed(self) -> Candidates:
        """Return the states outside, with their log priors for beliefs."""
        memory, (model, active), (n, n_told, _, _) = self._memory, self._given, self.outside
        n_variables, n_factors = len(model.is_leaf), len(model.kind)
        slot, state = memory.whole(2 * n).reshape(2, -1)
        log_belief, belief = memory.real(2 * n).reshape(2, -1)
        found = Candidates(
            start=memory.whole(n_variables + 1),
            slot=slot,
            state=state,
            log_belief=log_belief,
            belief=belief,
            cut=memory.real(n_variables),
            edge_start=memory.whole(2 * n_factors + 1),
            told=memory.real(n_told),
        )
        list_outside(model, active, self._log_prior, found)
        return found

    def beliefs(self, looked: Looked) -> FloatArray:
        """Return the beliefs of all states of all variables, in order; with scratch of its own, for any thread."""
        model, active = self._given
        found, length = np.empty(len(model.prior)), self._n_end + 1
        scratch = np.empty(length, dtype=np.int64), np.empty(length), np.empty(length)
        read_tied(model, active, looked.candidates, looked.odds, self._rows, looked.least, *scratch, found)
        return found
