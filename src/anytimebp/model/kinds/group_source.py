"""Factors whose variables' states add up to a constant in a group; `kernels/groups.py` sums them by transforms.

A state of variable i stands for an element of the group: its index, or a permutation of the indices. `xor.py`,
`modular_sum.py` and `field_check.py` say which. Over few states, the joint states that are possible are listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.kinds.group_looks import convolve_logs
from anytimebp.model.kinds.listed import list_words, pack_list
from anytimebp.model.source import (
    BoolArray,
    FactorSource,
    FloatArray,
    IndexArray,
    Packed,
    PackedRows,
    States,
    TableRange,
)

PAIR = 2
XOR, CYCLIC = 0, 1  # as in `kernels/pair_sums.py`
STEPS_PER_ENTRY = 8.0  # of a transform, in the time of an entry of a list
MOST_LINEAR = 600.0  # nats: range of joint scores up to which sums stay in linear arithmetic
LEAST_LENGTH = 8  # of Fourier transforms
TURN_WORDS = 2.75  # of `turns`, for each number that is transformed


class GroupSource(FactorSource):
    """Zero where the elements of all states add up to the neutral element, impossible elsewhere.

    Attributes:
        order: Of the group.
        is_xor: Whether the group is that of XOR; modulo the order if not.
    """

    __slots__ = ("_elements", "_whole", "is_xor", "order", "range", "shape")
    sums = "group"
    has_log_message = True
    lists_parts = True

    def __init__(self, shape: tuple[int, ...], elements: Sequence[IndexArray | None], *, is_xor: bool) -> None:
        """Hold the element that each state stands for; None for an axis of which the indices are the elements."""
        self.shape, self.order, self.is_xor = shape, shape[0], is_xor
        self._elements = list(elements)
        self._whole: dict[int, IndexArray] = {}
        self.range = TableRange(np.zeros(1), np.zeros(1), np.array([True]))

    def elements(self, axis: int, states: IndexArray) -> IndexArray:
        """Return the elements that some states of an axis stand for."""
        own = self._elements[axis]
        return states if own is None else own[states]

    def added(self, a: IndexArray, b: IndexArray) -> IndexArray:
        """Return sums of elements."""
        return np.bitwise_xor(a, b) if self.is_xor else (a + b) % self.order

    def negated(self, a: IndexArray) -> IndexArray:
        """Return inverse elements."""
        return a if self.is_xor else -a % self.order

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        mesh = np.ix_(*[self.elements(axis, own) for axis, own in enumerate(states)])
        total = mesh[0]
        for own in mesh[1:]:
            total = self.added(total, own)
        return np.where(total == 0, 0.0, -np.inf)

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return log o over some states, from the weights of the others' elements."""
        total: FloatArray | None = None
        for k, (own, weight) in enumerate(zip(others, weights, strict=True)):
            if k != axis:
                line = np.full(self.order, -np.inf)
                line[self.elements(k, own)] = weight
                total = line if total is None else convolve_logs(total, line, is_xor=self.is_xor)
        assert total is not None  # noqa: S101  (there are two variables or more)
        found: FloatArray = total[self.negated(self.elements(axis, states))]
        return found

    # ---------------------------------------------------------------- sums
    @property
    def length(self) -> int:
        """Of transforms: the order, or what all sums of elements need that are not taken modulo the order."""
        if self.is_xor:
            return self.order
        most = self.order if self.order & (self.order - 1) == 0 else (len(self.shape) - 1) * (self.order - 1) + 1
        return max(LEAST_LENGTH, 1 << (most - 1).bit_length())

    @property
    def room(self) -> int:
        """Numbers that one update needs room for, beside messages."""
        arity, n, length = len(self.shape), self.order, self.length  # as `kernels/groups.py` cuts it
        spectrum, transform = (n, 0) if self.is_xor else (length + 2, 2 * length)
        return arity * (5 + 2 * n + max(spectrum, 2 * n)) + transform + 2 * spectrum + length + 7 * n + 1024

    def packed(self, states: States) -> Packed:
        """Return what transforms need over these states, or a list of the joint states that are possible."""
        sizes = np.array([[len(own) for own in states]], dtype=np.float64)
        is_shift = bool(self._is_shift(sizes)[0])
        if not is_shift and self._listed_entries(sizes)[0] <= self._transform_entries(sizes)[0]:
            return self._listed(states)
        axes = [self._both_ways(k, given) for k, given in enumerate(states)]
        before = np.array([*self._head, *(0 if axis is None else axis.ctypes.data for axis in axes)])
        log_min = 0.0 if np.log(sizes).sum() < MOST_LINEAR else -2.0 * MOST_LINEAR
        extent = TableRange(np.zeros(1), np.array([log_min]), np.array([True]))
        work = int((self._listed_entries(sizes) if is_shift else self._transform_entries(sizes))[0])
        none, kept = np.empty(0, dtype=np.int64), tuple(axis for axis in axes if axis is not None)
        return Packed("group", extent, before, np.empty(0), none, twice=False, work=work, kept=kept)

    def packed_rows(self, sizes: IndexArray, first: IndexArray) -> PackedRows | None:
        """Return what shifts need, one for each of the factors of which all variables but two are observed."""
        rows = np.flatnonzero(self._is_shift(sizes))
        if not len(rows):
            return None
        arity, head = len(self.shape), self._head
        words, pairs = np.empty((len(rows), len(head) + arity), np.int64), np.empty((len(rows), arity, PAIR), np.int64)
        words[:, : len(head)] = head
        whole = []
        for axis, universe in enumerate(self.shape):
            whole.append(self._both_ways(axis, np.arange(universe)))
            own = self.elements(axis, first[rows, axis])
            pairs[:, axis, 0], pairs[:, axis, 1] = own, self.negated(own)
        position = pairs.ctypes.data + 8 * PAIR * np.arange(len(rows) * arity).reshape(len(rows), arity)
        address = np.array([0 if every is None else every.ctypes.data for every in whole])
        words[:, len(head) :] = np.where(sizes[rows] == 1, position, address)
        kept = (pairs, *(every for every in whole if every is not None))
        return PackedRows(rows, "group", words, sizes[rows].sum(axis=1) + self.order, kept)

    @property
    def _head(self) -> list[int]:
        """The words that all factors of the group begin with."""
        turn = 0 if self.is_xor else turns(self.length).ctypes.data
        return [XOR if self.is_xor else CYCLIC, self.order, self.length, turn]

    def _both_ways(self, axis: int, states: IndexArray) -> IndexArray | None:
        """Return the elements that states stand for, and their inverse ones; None if states are their own elements."""
        if not is_universe(states, self.order):
            own = self.elements(axis, states)
            return np.concatenate([own, self.negated(own)])
        given = self._elements[axis]
        if given is None:
            return None
        if axis not in self._whole:
            self._whole[axis] = np.concatenate([given, self.negated(given)])
        return self._whole[axis]

    def _is_shift(self, sizes: FloatArray | IndexArray) -> BoolArray:
        """Return (factors,) whether two variables have all their states, and all others one."""
        whole = sizes == self.order
        return np.asarray((whole | (sizes == 1)).all(axis=1) & (whole.sum(axis=1) == PAIR) & (self.order > 1))

    def _listed(self, states: States) -> Packed:
        """Return the possible joint states: one at most for each of all variables but that of most states."""
        sizes = [len(own) for own in states]
        solved = int(np.argmax(sizes))
        position = np.full(self.order, -1)
        position[self.elements(solved, states[solved])] = np.arange(sizes[solved])
        others = [k for k in range(len(sizes)) if k != solved]
        mesh = np.ix_(*[self.elements(k, states[k]) for k in others])
        total = mesh[0]
        for own in mesh[1:]:
            total = self.added(total, own)
        found = position[self.negated(total)]
        at = np.nonzero(found >= 0)
        positions = dict(zip(others, at, strict=True)) | {solved: found[at]}
        ordered = [positions[k].astype(np.int64) for k in range(len(sizes))]
        return pack_list(np.zeros(len(at[0])), ordered, -np.inf, sizes)

    def _listed_entries(self, sizes: FloatArray) -> FloatArray:
        entries: FloatArray = np.prod(sizes, axis=1) / sizes.max(axis=1, initial=1.0) + sizes.sum(axis=1)
        return entries

    def _transform_entries(self, sizes: FloatArray) -> FloatArray:
        steps = len(self.shape) * self.length * math.log2(2 * self.length)
        entries: FloatArray = steps / STEPS_PER_ENTRY + sizes.sum(axis=1)
        return entries

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the entries of a list, or what transforms cost, whichever is less."""
        entries: FloatArray = np.minimum(self._listed_entries(sizes), self._transform_entries(sizes))
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return the words of a list or of what transforms need, whichever is used."""
        listed, transform = self._listed_entries(sizes), self._transform_entries(sizes)
        words = 2.0 * sizes.sum(axis=1) + 4.0 + len(self.shape)
        is_listed = (listed <= transform) & ~self._is_shift(sizes)
        return np.asarray(np.where(is_listed, list_words(listed, len(self.shape)), words))


@cache
def turns(length: int) -> IndexArray:
    """Return cosines and sines for Fourier transforms of a length, a power of two and at least 8, as words.

    `kernels/fourier.py` says in which order. Only angles up to an eighth of a turn are computed: near a whole turn,
    rounding the angle alone would cost six times the rounding of the result.
    """
    angle = 2.0 * np.pi * np.arange(length // 8 + 1) / length
    eighth = np.exp(1j * angle)
    quarter = np.concatenate([eighth, (eighth.imag + 1j * eighth.real)[-2:0:-1]])
    turn = np.concatenate([quarter, 1j * quarter, -quarter, -1j * quarter])
    first = [turn[: 2 * times * (length // 8) : 2 * times] for times in (1, 2, 3)]
    cosines, sines = [own.real for own in first], [-own.imag for own in first]
    return np.concatenate([turn.real, -turn.imag, *cosines, *sines]).view(np.int64)


def is_universe(states: IndexArray, n: int) -> bool:
    """Tell whether states are the whole universe in order."""
    return len(states) == n and bool((states == np.arange(n)).all())


def check_universes(shape: tuple[int, ...], name: str, what: str) -> int:
    """Return the number of states of all variables; raise ModelError if it differs between them."""
    if len(shape) < PAIR or len(set(shape)) != 1:
        msg = f"{what}: {name} needs two variables or more, with universes of one size; got {shape}"
        raise ModelError(msg)
    return shape[0]


def check_power_of_two(n: int, name: str, what: str) -> None:
    """Raise ModelError unless the number of states is a power of two."""
    if n & (n - 1):
        msg = f"{what}: {name} works on the bits of states, so universes must be powers of two; got {n} states"
        raise ModelError(msg)


def whole_numbers(given: Any, count: int, of: str, what: str) -> IndexArray:
    """Return a whole number for each variable, or raise ModelError."""
    try:
        numbers = np.asarray(given)
    except ValueError:  # rows of different lengths
        numbers = np.empty(0)
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        msg = f"{what}: the {of} must be {count} whole numbers, one for each variable; got {given!r:.80}"
        raise ModelError(msg)
    return numbers.astype(np.int64)
