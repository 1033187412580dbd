"""The score of a count: how many variables are in a given state; `kernels/cardinality.py` sums it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.model.kinds.at_most_one import read_states_of_each
from anytimebp.model.kinds.listed import listed_range
from anytimebp.model.scores import read_log_scores
from anytimebp.model.source import (
    FactorSource,
    Field,
    FloatArray,
    IndexArray,
    Packed,
    States,
    TableRange,
    in_logs_if_many,
)

PAIR = 2
BLOCK = 32  # variables whose counts are added one by one, as in `kernels/count_trees.py`
WIDTH = 10.0  # standard deviations from the mean count beyond which weights are left out


@dataclass(frozen=True, eq=False)
class Cardinality:
    """The score depends on how many variables of the scope are in a given state.

    Attributes:
        log_scores_by_count: Log scores of 0, 1, 2, ... variables in that state, up to all of them.
        state: Index of that state: one number for all variables, or one for each variable.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in "abc":
        ...     _ = graph.add_variable(name, ["off", "on"])
        >>> exactly_two = [-np.inf, -np.inf, 0.0, -np.inf]
        >>> _ = graph.add_factor(["a", "b", "c"], structure=abp.Cardinality(exactly_two))
        >>> round(abp.infer(graph).probability("a", "on"), 3)
        0.667
    """

    log_scores_by_count: npt.ArrayLike
    state: int | Sequence[int] = 1

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the scores and states, checked."""
        scores = read_log_scores(self.log_scores_by_count, f"{what}: the scores of Cardinality")
        if len(shape) < PAIR or scores.shape != (len(shape) + 1,):
            msg = (
                f"{what}: Cardinality takes two variables or more, and a log score for each count from 0 to their "
                f"number; got {len(shape)} variables and scores of shape {scores.shape}, not ({len(shape) + 1},)"
            )
            raise ModelError(msg)
        states = read_states_of_each(self.state, shape, "Cardinality", what)
        least = int((np.array(shape) == 1).sum())
        if scores[least:].max() == -np.inf:
            msg = f"{what} is zero everywhere: all counts that can occur score -inf"
            raise InconsistentModelError(msg)
        return CardinalitySource(shape, scores, states)

    @property
    def is_symmetric(self) -> bool:
        """Whether the order of two variables does not matter."""
        return np.ndim(self.state) == 0


class CardinalitySource(FactorSource):
    """Scores of counts.

    Attributes:
        log_scores: (arity + 1,) of each count.
        states: (arity,) the state of each variable that is counted.
    """

    __slots__ = ("log_scores", "range", "shape", "states")
    tags = ("cardinality",)
    fields = (Field("log_scores", "f"), Field("states", "i"))
    sums = "cardinality"
    has_log_message = True
    any_arity = True

    def __init__(self, shape: tuple[int, ...], log_scores: FloatArray, states: IndexArray) -> None:
        """Hold scores and states."""
        self.shape, self.log_scores, self.states = shape, log_scores.copy(), states
        self.range = self._range([n == 1 for n in shape], [n > 1 for n in shape])

    def _range(self, always: Sequence[bool], maybe: Sequence[bool]) -> TableRange:
        """Return the range of the scores of all counts that can occur."""
        least = sum(always)
        return listed_range(self.log_scores[least : least + sum(maybe) + 1], 0.0, is_complete=True)

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        count = np.zeros([len(axis) for axis in states], dtype=np.int64)
        for mesh, state in zip(np.ix_(*states), self.states.tolist(), strict=True):
            count += mesh == state
        return self.log_scores[count]

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return log o over some states, from the distribution of the count of the others."""
        counts = np.zeros(1)
        for k, (own, weight) in enumerate(zip(others, weights, strict=True)):
            if k != axis:
                is_on = own == self.states[k]
                on, off = (np.logaddexp.reduce(weight[part], initial=-np.inf) for part in (is_on, ~is_on))
                counts = np.logaddexp(np.append(counts + off, -np.inf), np.append(-np.inf, counts + on))
        off, on = (np.logaddexp.reduce(counts + self.log_scores[k : k + len(counts)]) for k in (0, 1))
        return np.asarray(np.where(states == self.states[axis], on, off))

    @property
    def room(self) -> int:
        """Numbers that one update needs room for, beside messages."""
        arity, deepest = len(self.shape), _depth(len(self.shape))  # as `kernels/cardinality.py` cuts it
        blocks = 1 << deepest
        return 8 * arity + 1 + 2 * (deepest + 1) * (arity + blocks) + 4 * blocks + BLOCK * (BLOCK + 3)

    def packed(self, states: States) -> Packed:
        """Return the place of the counted state among each variable's, or -1, and the scores."""
        found = [np.flatnonzero(given == state) for given, state in zip(states, self.states, strict=True)]
        slots = np.array([position[0] if len(position) else -1 for position in found], dtype=np.int64)
        always = [len(given) == 1 and slot == 0 for given, slot in zip(states, slots, strict=True)]
        maybe = [len(given) > 1 and slot >= 0 for given, slot in zip(states, slots, strict=True)]
        extent = in_logs_if_many(self._range(always, maybe), states)
        scores, least = np.full(len(self.log_scores), extent.log_max[0]), sum(always)
        counts = slice(least, least + sum(maybe) + 1)
        scores[counts] = self.log_scores[counts]  # other counts do not occur
        work = sum(len(given) for given in states) + int(_count_entries(len(states)))
        return Packed("cardinality", extent, slots, scores, slots[:0], twice=False, work=work)

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the states, and what their counts cost."""
        entries: FloatArray = sizes.sum(axis=1) + _count_entries(len(self.shape))
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return the slots and the scores."""
        return np.full(len(sizes), 2.0 * len(self.shape) + 1.0)

    def gain(self, sizes: FloatArray) -> float:
        """Return 4: counts are read several times."""
        del sizes
        return 4.0

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del tag  # there is but one
        return {"structure": Cardinality(held["log_scores"], held["states"].tolist())}


def _depth(arity: int) -> int:
    """Return how often the variables are halved, until blocks are small enough."""
    return max(0, ((arity + BLOCK - 1) // BLOCK - 1).bit_length())


def _count_entries(arity: int) -> float:
    """Return what the counts of so many variables cost: each variable and count of a block, and pairs of counts."""
    entries = float(arity) * arity / (1 << _depth(arity))
    for depth in range(_depth(arity)):
        half = arity / (2 << depth)
        counts = 1.0 + min(half, WIDTH * math.sqrt(half))
        entries += 1.5 * (1 << depth) * counts**2  # one product and two sums, two steps in the time of an entry
    return entries
