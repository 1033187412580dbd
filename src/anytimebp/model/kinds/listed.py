"""Lists of entries, everything else at a default; `kernels/lists.py` sums them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.scores import LOG_RULE, NUMBERS, out_of_range, read_numbers
from anytimebp.model.source import LOG_SCORE, FactorSource, Field, FloatArray, IndexArray, Packed, States, TableRange

MATRIX_AXES = 2
ORDERED, ONCE = 1, 2  # flags, as in `kernels/lists.py`
SHORT = 2**16  # states that fit into 16 bits: NumPy sorts such numbers several times as fast as longer ones
LARGEST_NUMBER = 2**62  # of joint states that can be numbered


class ListedSource(FactorSource):
    """Entries listed by index, everything else at a default log score.

    Attributes:
        indices: Shape (entries, arity), without repetition.
        log_scores: Shape (entries,).
        default: Log score of all joint states that are not listed.
    """

    __slots__ = ("_by_axis", "default", "indices", "log_scores", "range", "shape")
    tags = ("entries",)
    fields = (Field("indices", "i"), Field("log_scores", "f"), Field("default", LOG_SCORE))
    sums = "list"
    has_log_message = True

    def __init__(self, shape: tuple[int, ...], indices: IndexArray, log_scores: FloatArray, default: float) -> None:
        """Hold entries that `read_entries` has checked."""
        self.shape = shape
        self.indices = indices
        self.log_scores = log_scores
        self.default = default
        self.range = listed_range(log_scores, default, is_complete=len(log_scores) >= np.prod(shape, dtype=float))
        self._by_axis: dict[int, tuple[IndexArray, IndexArray]] = {}

    def by_axis(self, axis: int) -> tuple[IndexArray, IndexArray]:
        """Return the entries in the order of their states on one axis, and where each state's entries start."""
        found = self._by_axis.get(axis)
        if found is None:
            column = self.indices[:, axis]
            start = row_starts(np.bincount(column, minlength=self.shape[axis]))
            short = column.astype(np.uint16) if self.shape[axis] <= SHORT else column
            found = self._by_axis[axis] = np.argsort(short, kind="stable"), start
        return found

    def inside(self, states: States) -> tuple[IndexArray, list[IndexArray]]:
        """Return the entries on the product of the given states, and per axis the place of each among the states.

        Only the entries of one axis' given states are read: of the axis where these are fewest.
        """
        share = [len(given) / n for given, n in zip(states, self.shape, strict=True)]
        if min(share) == 1.0 and all(_is_whole(given, n) for given, n in zip(states, self.shape, strict=True)):
            return np.arange(len(self.log_scores)), list(self.indices.T)
        axis = int(np.argmin(share))
        order, start = self.by_axis(axis)
        first, count = start[states[axis]], start[states[axis] + 1] - start[states[axis]]
        entries = order[row_items(first, count)]
        positions = {axis: np.repeat(np.arange(len(states[axis])), count)}
        for other, given in enumerate(states):
            if other != axis:
                position, found = _positions(given, self.indices[entries, other])
                entries = entries[found]
                positions = {k: p[found] for k, p in positions.items()}
                positions[other] = position[found]
        return entries, [positions[k] for k in range(len(states))]

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        block = np.full([len(axis) for axis in states], self.default)
        entries, positions = self.inside(states)
        block[tuple(positions)] = self.log_scores[entries]
        return block

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return log o over some states, from the listed entries on the others' states and the default's share."""
        entries, positions = self.inside([states if k == axis else own for k, own in enumerate(others)])
        weight, total = np.zeros(len(entries)), 0.0
        for k, own in enumerate(weights):
            if k != axis:
                weight += own[positions[k]]
                total += math.log(np.exp(own).sum())
        scores = self.log_scores[entries]
        peak = max(float((scores + weight).max(initial=-np.inf)), self.default + total)
        if peak == -np.inf:
            return np.full(len(states), -np.inf)
        n = len(states)
        listed = np.bincount(positions[axis], weights=np.exp(scores + weight - peak), minlength=n)
        share = np.bincount(positions[axis], weights=np.exp(weight - total), minlength=n)
        rest = np.exp(self.default + total - peak) * np.maximum(0.0, 1.0 - share)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(listed + rest) + peak)

    def packed(self, states: States) -> Packed:
        """Return the entries on the product of given states."""
        entries, positions = self.inside(states)
        return pack_list(self.log_scores[entries], positions, self.default, [len(own) for own in states])

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the states and the entries, all of them."""
        entries: FloatArray = sizes.sum(axis=1) + len(self.log_scores)
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return the numbers of all entries."""
        return np.full(len(sizes), list_words(len(self.log_scores), len(self.shape)))

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the entries and their default."""
        del tag  # there is but one
        return {"entries": (held["indices"], held["log_scores"]), "default": held["default"]}


def pack_list(log_scores: FloatArray, positions: list[IndexArray], default: float, sizes: Sequence[int]) -> Packed:
    """Return entries in the order of their positions, with an order by each axis where sums may cancel.

    Args:
        log_scores: Of the entries.
        positions: Per axis, where the entries are.
        default: Log score of everything else.
        sizes: Of the axes.
    """
    total = math.prod(sizes)
    if len(log_scores) >= total:
        default = -np.inf  # no joint state has it, and it may be far larger than the listed scores
    if default == -np.inf:  # what is impossible anyway need not be listed
        possible = np.flatnonzero(log_scores > -np.inf)
        log_scores, positions = log_scores[possible], [position[possible] for position in positions]
    order = joint_order(positions, tuple(sizes))
    log_scores, positions = log_scores[order], [position[order] for position in positions]
    by_axis = [np.argsort(position, kind="stable") for position in positions[1:]] if default > -np.inf else []
    if default > -np.inf:
        by_axis.insert(0, np.arange(len(log_scores)))  # they are in the order of their first axis
    return Packed(
        "list",
        listed_range(log_scores, default, is_complete=len(log_scores) >= total),
        np.array([len(log_scores), ORDERED if default > -np.inf else _listed_once(positions)]),
        np.concatenate([[default], log_scores]),
        np.concatenate([*positions, *by_axis]),
        twice=False,
        work=len(log_scores) + sum(sizes),
    )


def _listed_once(positions: list[IndexArray]) -> int:
    """Return the flags of the axes of a pair on which no state is listed twice."""
    if len(positions) != MATRIX_AXES:
        return 0
    once = [np.bincount(position, minlength=1).max() <= 1 for position in positions]
    return int(ONCE * once[0] + (ONCE << 1) * once[1])


def flat_list(sizes: IndexArray) -> Packed:
    """Return a list without entries, which gives all joint states the same score."""
    return pack_list(np.empty(0), [np.empty(0, dtype=np.int64)] * len(sizes), 0.0, sizes.tolist())


def list_words(n_entries: Any, arity: int) -> Any:
    """Return the words of a packed list, at the most."""
    return 3.0 + (1 + 2 * arity) * n_entries


def listed_range(log_scores: FloatArray, default: float, *, is_complete: bool) -> TableRange:
    """Return the range of listed scores, and of the default unless every joint state is listed."""
    every = log_scores if is_complete else np.append(log_scores, default)
    finite = every[every > -np.inf]
    low, high = (finite.min(), finite.max()) if len(finite) else (-np.inf, -np.inf)
    return TableRange(np.array([high]), np.array([low]), np.array([len(finite) < len(every)]))


def _is_whole(given: IndexArray, n: int) -> bool:
    """Tell whether the given states are a universe, in order."""
    return len(given) == n and bool((given == np.arange(n)).all())


def _positions(given: IndexArray, wanted: IndexArray) -> tuple[IndexArray, npt.NDArray[np.bool_]]:
    """Return where each wanted state is among the given ones, and whether it is."""
    order = np.argsort(given)
    position = np.minimum(np.searchsorted(given, wanted, sorter=order), len(given) - 1)
    position = order[position]
    return position, given[position] == wanted


def read_entries(
    entries: object, default: float, shape: tuple[int, ...], what: str
) -> tuple[IndexArray, FloatArray, float]:
    """Check `entries=(indices, log_values)` against the universes; raise what names the culprit.

    Of two variables, a scipy.sparse matrix or array does as well: what it stores are log scores, zeros included.
    """
    if hasattr(entries, "tocoo"):
        entries = _from_matrix(entries, shape, what)
    try:
        given, scores = cast("tuple[Any, Any]", entries)
        indices = np.asarray(given)
        log_scores = read_numbers(scores).reshape(-1)
    except (TypeError, ValueError):
        msg = f"the entries of {what} must be a pair (indices, log_values), or a scipy.sparse matrix of two variables"
        raise ModelError(msg) from None
    if indices.size == 0:
        indices = np.empty((0, len(shape)), dtype=np.int64)
    if indices.ndim != 2 or indices.shape != (len(log_scores), len(shape)) or indices.dtype.kind not in "iu":  # noqa: PLR2004
        msg = (
            f"the indices of {what} must be whole numbers of shape ({len(log_scores)}, {len(shape)}), "
            f"a row per log value; got {indices.dtype} of shape {indices.shape}"
        )
        raise ModelError(msg)
    outside = (indices < 0) | (indices >= np.array(shape))
    if outside.any():
        row = int(np.argwhere(outside)[0, 0])
        msg = f"entry {row} of {what} is at states {tuple(indices[row].tolist())}, outside the universes {shape}"
        raise ModelError(msg)
    indices = np.array(indices, dtype=np.int64, order="C")  # a copy: what the user does to the array changes nothing
    order = joint_order(list(indices.T), shape)
    twice = np.flatnonzero((indices[order[1:]] == indices[order[:-1]]).all(axis=1))
    if twice.size:
        msg = f"{what} lists the states {tuple(indices[order[twice[0]]].tolist())} more than once"
        raise ModelError(msg)
    try:
        default = float(read_numbers(default))
    except (TypeError, ValueError):
        msg = f"the default of {what} must be a log score, got {default!r}"
        raise ModelError(msg) from None
    every = np.append(log_scores, default)
    bad = out_of_range(every)
    if bad.any():
        msg = f"the entries of {what} contain {every[bad][0]}; {LOG_RULE}"
        raise ModelError(msg)
    if not (log_scores > -np.inf).any() and (default == -np.inf or len(log_scores) >= np.prod(shape, dtype=float)):
        msg = f"{what} is zero everywhere: every entry and the default are -inf"
        raise InconsistentModelError(msg)
    return indices, log_scores, default


def joint_order(positions: list[IndexArray], shape: tuple[int, ...]) -> IndexArray:
    """Return the order of joint states by their first axis, then by the next, and so on; quick if they are in order."""
    if math.prod(shape) >= LARGEST_NUMBER:
        return np.lexsort(positions[::-1])
    number = np.zeros(len(positions[0]), dtype=np.int64)
    for position, n in zip(positions, shape, strict=True):
        number = number * n + position
    if (number[1:] >= number[:-1]).all():
        return np.arange(len(number))
    return np.argsort(number, kind="stable")


def _from_matrix(matrix: Any, shape: tuple[int, ...], what: str) -> tuple[IndexArray, FloatArray]:
    """Return what a scipy.sparse matrix stores as indices and log scores."""
    if len(shape) != MATRIX_AXES:
        msg = f"{what} has {len(shape)} variables; a scipy.sparse matrix gives the entries of two"
        raise ModelError(msg)
    if tuple(matrix.shape) != shape:
        msg = f"the sparse matrix of {what} must have shape {shape}, the universes of its variables; got {matrix.shape}"
        raise ModelError(msg)
    stored = matrix.tocoo(copy=True)
    stored.sum_duplicates()
    if stored.dtype.kind not in NUMBERS:
        msg = f"the sparse matrix of {what} must hold real numbers, got dtype {stored.dtype}"
        raise ModelError(msg)
    return np.column_stack([stored.row, stored.col]).astype(np.int64), stored.data.astype(np.float64)
