"""The last variable is the AND, or the OR, of all others, bit by bit; `kernels/bitwise.py` sums that by transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anytimebp.model.kinds.group_source import STEPS_PER_ENTRY, check_power_of_two, check_universes, is_universe
from anytimebp.model.kinds.listed import list_words, pack_list
from anytimebp.model.source import WHOLE, FactorSource, Field, FloatArray, IndexArray, Packed, States, TableRange

PAIR = 2
MOST_LINEAR = 600.0  # nats: range of joint scores up to which sums stay in linear arithmetic
LOOKED_AT = 2**20  # pairs of states whose weights are added up at a time


@dataclass(frozen=True, eq=False)
class And:
    """The state index of the last variable is the bitwise AND of all others.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in "abc":
        ...     _ = graph.add_variable(name, 8)
        >>> _ = graph.add_factor(["a", "b", "c"], structure=abp.And())
        >>> abp.infer(graph, evidence={"a": 6, "b": 3}).top("c")
        [(2, 1.0)]
    """

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the structure for these universes, checked."""
        check_power_of_two(check_universes(shape, "And", what), "And", what)
        return BitwiseSource(shape, is_or=False)


@dataclass(frozen=True, eq=False)
class Or:
    """The state index of the last variable is the bitwise OR of all others.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in "abc":
        ...     _ = graph.add_variable(name, 8)
        >>> _ = graph.add_factor(["a", "b", "c"], structure=abp.Or())
        >>> abp.infer(graph, evidence={"a": 4, "b": 1}).top("c")
        [(5, 1.0)]
    """

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the structure for these universes, checked."""
        check_power_of_two(check_universes(shape, "Or", what), "Or", what)
        return BitwiseSource(shape, is_or=True)


class BitwiseSource(FactorSource):
    """Zero where the last state is the AND or OR of the others, impossible elsewhere.

    Attributes:
        order: Number of states of each variable.
        is_or: Which of the two.
    """

    __slots__ = ("is_or", "order", "range", "shape")
    tags = ("and", "or")
    fields = (Field("order", WHOLE, "number of states"),)
    sums = "bitwise"
    has_log_message = True
    lists_parts = True

    def __init__(self, shape: tuple[int, ...], *, is_or: bool) -> None:
        """Hold which of the two it is."""
        self.shape, self.order, self.is_or = shape, shape[0], is_or
        self.range = TableRange(np.zeros(1), np.zeros(1), np.array([True]))

    @property
    def tag(self) -> str:
        """What files call it."""
        return "or" if self.is_or else "and"

    def joined(self, states: Sequence[IndexArray]) -> IndexArray:
        """Return the AND or OR of arrays of states."""
        join = np.bitwise_or if self.is_or else np.bitwise_and
        found = states[0]
        for own in states[1:]:
            found = join(found, own)
        return found

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        mesh = np.ix_(*states)
        return np.where(self.joined(mesh[:-1]) == mesh[-1], 0.0, -np.inf)

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return the log messages to some states, from pairs of states."""
        last, is_last = len(self.shape) - 1, axis == len(self.shape) - 1
        inputs = [k for k in range(last) if k != axis]
        if not inputs:  # two variables, which are equal
            other = last if axis == 0 else 0
            line = np.full(self.order, -np.inf)
            line[others[other]] = weights[other]
            return line[states]
        own, weight = others[inputs[0]], weights[inputs[0]]
        for k in inputs[1:]:
            line = np.full(self.order, -np.inf)
            for begin, pairs in _parts(own, others[k]):
                position = self.joined([pairs[:, np.newaxis], others[k][np.newaxis]])
                terms = np.add.outer(weight[begin : begin + len(pairs)], weights[k])
                _add_logs(line, position.reshape(-1), terms.reshape(-1))
            own = np.flatnonzero(line > -np.inf)
            weight = line[own]
        if is_last:
            line = np.full(self.order, -np.inf)
            _add_logs(line, own, weight)
            return line[states]
        value = np.full(self.order, -np.inf)
        value[others[last]] = weights[last]
        found = np.empty(len(states))
        for begin, part in _parts(states, own):
            terms = value[self.joined([part[:, np.newaxis], own[np.newaxis]])] + weight
            found[begin : begin + len(part)] = np.logaddexp.reduce(terms, axis=1)
        return found

    # ---------------------------------------------------------------- sums
    @property
    def room(self) -> int:
        """Numbers that one update needs room for, beside messages."""
        return 3 * len(self.shape) * self.order + 9 * self.order + 64  # as `kernels/bitwise.py` cuts it

    def packed(self, states: States) -> Packed:
        """Return what transforms need over these states, or a list of the joint states that are possible."""
        sizes = np.array([[len(own) for own in states]], dtype=np.float64)
        if self._listed_entries(sizes)[0] <= self._transform_entries(sizes)[0]:
            return self._listed(states)
        axes = [None if not self.is_or and is_universe(own, self.order) else self._elements(own) for own in states]
        head = np.array([self.order, *(int(axis is not None) for axis in axes)])
        log_min = 0.0 if np.log(sizes).sum() < MOST_LINEAR else -2.0 * MOST_LINEAR
        extent = TableRange(np.zeros(1), np.array([log_min]), np.array([True]))
        before = np.concatenate([head, *(axis for axis in axes if axis is not None)])
        work = int(self._transform_entries(sizes)[0])
        return Packed("bitwise", extent, before, np.empty(0), np.empty(0, dtype=np.int64), twice=False, work=work)

    def _elements(self, states: IndexArray) -> IndexArray:
        return self.order - 1 - states if self.is_or else states

    def _listed(self, states: States) -> Packed:
        """Return the possible joint states, one at most for each of the inputs."""
        sizes = [len(own) for own in states]
        position = np.full(self.order, -1)
        position[states[-1]] = np.arange(sizes[-1])
        found = position[self.joined(np.ix_(*states[:-1]))]
        at = np.nonzero(found >= 0)
        positions = [own.astype(np.int64) for own in (*at, found[at])]
        return pack_list(np.zeros(len(at[0])), positions, -np.inf, sizes)

    def _listed_entries(self, sizes: FloatArray) -> FloatArray:
        entries: FloatArray = np.prod(sizes[:, :-1], axis=1) + sizes.sum(axis=1)
        return entries

    def _transform_entries(self, sizes: FloatArray) -> FloatArray:
        steps = 2.0 * len(self.shape) * self.order * math.log2(2 * self.order)
        entries: FloatArray = steps / STEPS_PER_ENTRY + sizes.sum(axis=1)
        return entries

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the entries of a list, or what transforms cost, whichever is less."""
        entries: FloatArray = np.minimum(self._listed_entries(sizes), self._transform_entries(sizes))
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return the words of a list or of what transforms need, whichever is used."""
        listed, transform = self._listed_entries(sizes), self._transform_entries(sizes)
        return np.asarray(np.where(listed <= transform, list_words(listed, len(self.shape)), sizes.sum(axis=1) + 10.0))

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del held
        return {"structure": Or() if tag == "or" else And()}


def _parts(own: IndexArray, other: IndexArray) -> list[tuple[int, IndexArray]]:
    """Cut states into parts whose pairs with the others are not too many; with where each part begins."""
    step = max(1, LOOKED_AT // max(1, len(other)))
    return [(begin, own[begin : begin + step]) for begin in range(0, len(own), step)]


def _add_logs(line: FloatArray, position: IndexArray, terms: FloatArray) -> None:
    """Add terms to the numbers of a line at their positions, all of them logs."""
    order = np.argsort(position, kind="stable")
    position, terms = position[order], terms[order]
    first = np.flatnonzero(np.diff(position, prepend=-1))
    if len(first):
        line[position[first]] = np.logaddexp(line[position[first]], np.logaddexp.reduceat(terms, first))
