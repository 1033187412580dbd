"""Scores of the difference of two states; `kernels/differences.py` slides the kernel along, or transforms it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.model.factor import row_items
from anytimebp.model.kinds.group_source import LEAST_LENGTH, TURN_WORDS, turns
from anytimebp.model.kinds.listed import list_words, listed_range, pack_list
from anytimebp.model.scores import read_log_score, read_log_scores
from anytimebp.model.source import LOG_SCORE, WHOLE, FactorSource, Field, FloatArray, IndexArray, Packed, States

PAIR = 2


@dataclass(frozen=True, eq=False)
class Difference:
    """The score of two variables depends on the first state index minus the second.

    Attributes:
        log_kernel: Log scores of the differences `first`, `first` + 1, ...
        first: The first difference. If None, the kernel is centred on a difference of 0.
        default: Log score of all other differences.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("before", 100)
        >>> _ = graph.add_variable("now", 100)
        >>> _ = graph.add_factor(["before", "now"], structure=abp.Difference([-1.0, 0.0, -1.0]))
        >>> abp.infer(graph, evidence={"before": 50}).marginals["now"][48:53].round(2)
        array([0.  , 0.21, 0.58, 0.21, 0.  ])
    """

    log_kernel: npt.ArrayLike
    first: int | None = None
    default: float = -np.inf

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the kernel, checked."""
        kernel = read_log_scores(self.log_kernel, f"{what}: the kernel of Difference")
        if len(shape) != PAIR or kernel.ndim != 1 or not kernel.size:
            msg = f"{what}: Difference takes two variables and a row of log scores; got {len(shape)} and {kernel.shape}"
            raise ModelError(msg)
        first = self.first
        if first is None:
            if kernel.size % 2 == 0:
                msg = f"{what}: a kernel of {kernel.size} differences has no centre; set `first`"
                raise ModelError(msg)
            first = -(kernel.size // 2)
        if isinstance(first, bool) or not isinstance(first, int | np.integer):
            msg = f"{what}: the `first` of Difference must be a whole number, got {first!r}"
            raise ModelError(msg)
        default = read_log_score(self.default, f"{what}: the `default` of Difference")
        return DifferenceSource(shape, kernel, int(first), default, what)

    @property
    def is_symmetric(self) -> bool:
        """Whether the order of the two variables does not matter."""
        try:
            kernel = np.array(self.log_kernel, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            return True  # refused for it when it is added
        centred = self.first is None or 2 * self.first == 1 - kernel.size
        return bool(centred) and np.array_equal(kernel, kernel[::-1])


class DifferenceSource(FactorSource):
    """Scores of the difference of two state indices.

    Attributes:
        log_kernel: Log scores of the differences that can occur, starting at `first`.
        first: The first of them.
        default: Log score of all others.
    """

    __slots__ = ("default", "first", "log_kernel", "range", "shape")
    tags = ("difference",)
    fields = (Field("log_kernel", "f"), Field("first", WHOLE, "first difference"), Field("default", LOG_SCORE))
    sums = "difference"
    lists_parts = True

    def __init__(self, shape: tuple[int, ...], log_kernel: FloatArray, first: int, default: float, what: str) -> None:
        """Keep the part of a kernel that universes of these sizes need."""
        self.shape, self.default = shape, default
        self.first, kernel = _reached(log_kernel, first, default, *shape)
        self.log_kernel = kernel.copy()
        is_complete = len(kernel) == shape[0] + shape[1] - 1
        self.range = listed_range(self.log_kernel, default, is_complete=is_complete)
        if self.range.log_max[0] == -np.inf:
            msg = f"{what} is zero everywhere: the kernel and the default of Difference are -inf"
            raise InconsistentModelError(msg)

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        position = np.subtract.outer(states[0], states[1]) - self.first
        inside = (position >= 0) & (position < len(self.log_kernel))
        return np.where(inside, self.log_kernel[np.where(inside, position, 0)], self.default)

    def packed(self, states: States) -> Packed:
        """Return the part of the kernel that two ranges of states need; of other states, the pairs in its reach."""
        first, second = states
        if not (_is_range(first) and _is_range(second)):
            return pack_list(*self._pairs(first, second), self.default, [len(first), len(second)])
        n, m = len(first), len(second)
        low, kernel = _reached(self.log_kernel, self.first - int(first[0]) + int(second[0]), self.default, n, m)
        is_complete = len(kernel) >= n + m - 1
        default = -np.inf if is_complete else self.default  # nothing has it then: see `pack_list`
        offsets = np.arange(low, low + len(kernel))
        pairs = int((np.minimum(n, m + offsets) - np.maximum(0, offsets)).sum())
        length, steps = _transform_length(n, m), _transform_steps(n, m)
        pays = self._may_transform and steps < pairs
        return Packed(
            "difference",
            listed_range(kernel, default, is_complete=is_complete),
            np.array([low, len(kernel), length if pays else 0]),
            np.concatenate([[default], kernel]),
            turns(length) if pays else np.empty(0, dtype=np.int64),
            twice=True,
            work=min(pairs, steps) + n + m,
        )

    def _pairs(self, first: IndexArray, second: IndexArray) -> tuple[FloatArray, list[IndexArray]]:
        """Return the entries within the kernel's reach on the product of states that are no ranges."""
        order = np.argsort(second)
        low = np.searchsorted(second, first - self.first - len(self.log_kernel) + 1, side="left", sorter=order)
        high = np.searchsorted(second, first - self.first, side="right", sorter=order)
        count = high - low
        left = np.repeat(np.arange(len(first)), count)
        right = order[row_items(low, count)]
        return self.log_kernel[first[left] - second[right] - self.first], [left, right]

    @property
    def room(self) -> int:
        """Numbers that one update needs room for, beside messages: spectra, lines and linear numbers."""
        n, m = self.shape
        return 6 * _transform_length(n, m) + 4 + max(n, m) if self._may_transform else 0

    @property
    def _may_transform(self) -> bool:
        """Whether there are so many differences that transforms may pay over all states."""
        return len(self.log_kernel) * min(self.shape) > _transform_steps(*self.shape)

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the states, and a kernel for each state of the smaller variable, or the steps of transforms."""
        pairs = np.minimum(sizes[:, 0], sizes[:, 1]) * len(self.log_kernel)
        steps = np.where(self.is_whole(sizes), _transform_steps(*self.shape), np.inf)
        entries: FloatArray = sizes.sum(axis=1) + np.minimum(pairs, steps)
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return the kernel twice over whole universes; over some of the states it may be a list."""
        pairs = np.minimum(sizes.min(axis=1, initial=np.inf) * len(self.log_kernel), sizes.prod(axis=1))
        transform = TURN_WORDS * _transform_length(*self.shape) if self._may_transform else 0.0
        whole = 4.0 + 2.0 * len(self.log_kernel) + transform
        return np.where(self.is_whole(sizes), whole, list_words(pairs, PAIR))

    def gain(self, sizes: FloatArray) -> FloatArray:
        """Return 0 where the kernel slides over whole universes."""
        return np.where(self.is_whole(sizes), 0.0, super().gain(sizes))

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del tag  # there is but one
        return {"structure": Difference(**held)}


def _reached(log_kernel: FloatArray, first: int, default: float, n: int, m: int) -> tuple[int, FloatArray]:
    """Return the part of a kernel that n states less m states reach, and its first difference; one default if none."""
    low, high = max(first, 1 - m), min(first + len(log_kernel), n)
    return (low, log_kernel[low - first : high - first]) if low < high else (0, np.array([default]))


def _transform_length(n: int, m: int) -> int:
    """Return the length of Fourier transforms for n and m states."""
    return max(LEAST_LENGTH, 1 << (n + m - 2).bit_length())


def _transform_steps(n: int, m: int) -> int:
    """Return the steps of the six transforms of an update, each of which takes as long as a pair of states."""
    length = _transform_length(n, m)
    return 6 * length * length.bit_length()


def _is_range(states: IndexArray) -> bool:
    """Tell whether states are consecutive."""
    return bool((np.diff(states) == 1).all())
