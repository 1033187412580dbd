"""Factors whose structure closes sums: equality, functions, differences, at most one.

A user states one with `add_factor(scope, structure=...)`. Each turns into a source that answers for slices like any
other; equality and functions are short lists of entries. What makes their messages cheap is `kernels/structures.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.model.listed import ListedSource, listed_range, read_entries, read_numbers
from anytimebp.model.source import LOG_RULE, FloatArray, IndexArray, States, TableRange, TableSource, out_of_range

MOST_ENTRIES = 100_000_000  # joint states of a function's arguments, each an entry of some dozens of bytes
PAIR = 2

LIST_GAIN = 8.0
"""Entries of a table that are read in the time of one listed entry."""


class Structure(Protocol):
    """What `add_factor` takes as a structure."""

    def source(self, shape: tuple[int, ...], what: str) -> TableSource:
        """Return where the scores come from, for universes of these sizes; `what` names the factor in errors."""
        ...


@dataclass(frozen=True, eq=False)
class Equality:
    """All variables of the scope are in the same state, or score less: equality, or the model of Potts.

    Attributes:
        same: Log score of being in the same state, one number or one per state.
        default: Log score of everything else.
    """

    same: float | npt.ArrayLike = 0.0
    default: float = -np.inf

    def source(self, shape: tuple[int, ...], what: str) -> TableSource:
        """Return the entries on the diagonal."""
        if len(set(shape)) != 1 or len(shape) < PAIR:
            msg = f"{what}: Equality needs two variables or more, with universes of one size; got {shape}"
            raise ModelError(msg)
        same = _numbers(self.same, f"{what}: the `same` of Equality")
        if same.shape not in {(), (shape[0],)}:
            msg = f"{what}: the `same` of Equality must be one log score or {shape[0]}, one per state; got {same.shape}"
            raise ModelError(msg)
        indices = np.repeat(np.arange(shape[0])[:, np.newaxis], len(shape), axis=1)
        scores = np.broadcast_to(same, shape[:1])
        return ListedSource(shape, *read_entries((indices, scores), self.default, shape, what))


@dataclass(frozen=True, eq=False)
class Deterministic:
    """The last variable of the scope is a function of the others.

    Attributes:
        function: Arrays of state indices of the other variables in, broadcast together; state indices of the last out.
        score: Log score where it is so.
        default: Log score where it is not.
    """

    function: Callable[..., Any]
    score: float = 0.0
    default: float = -np.inf

    def source(self, shape: tuple[int, ...], what: str) -> TableSource:
        """Return an entry per joint state of the arguments."""
        if len(shape) < PAIR:
            msg = f"{what}: Deterministic needs two variables or more: the arguments, and the value as the last one"
            raise ModelError(msg)
        total = np.prod(shape[:-1], dtype=float)
        if total > MOST_ENTRIES:
            msg = f"{what}: the arguments of Deterministic have {total:,.0f} joint states, more than {MOST_ENTRIES:,}"
            raise ModelError(msg)
        mesh = np.ix_(*[np.arange(n) for n in shape[:-1]])
        try:
            given = np.broadcast_to(np.asarray(self.function(*mesh)), shape[:-1])
        except Exception as error:
            msg = (
                f"{what}: the function of Deterministic raised {type(error).__name__}: {error} "
                "(it gets whole arrays of state indices, so use np.where rather than if)"
            )
            raise ModelError(msg) from error
        if given.dtype.kind not in "iub":
            msg = f"{what}: the function of Deterministic must return state indices, it returned {given.dtype}"
            raise ModelError(msg)
        outside = (given < 0) | (given >= shape[-1])
        if outside.any():
            where = tuple(np.argwhere(outside)[0].tolist())
            msg = f"{what}: the function of Deterministic returned {given[where]} at {where}, not 0 to {shape[-1] - 1}"
            raise ModelError(msg)
        arguments = [axis.reshape(-1) for axis in np.broadcast_arrays(*mesh)]
        indices = np.column_stack([*arguments, given.reshape(-1)]).astype(np.int64)
        scores = np.full(len(indices), _one_number(self.score, f"{what}: the `score` of Deterministic"))
        return ListedSource(shape, *read_entries((indices, scores), self.default, shape, what))


@dataclass(frozen=True, eq=False)
class Difference:
    """The score of two variables depends on the difference of their state indices, first less second.

    Attributes:
        log_kernel: Log scores of the differences `first`, `first` + 1, ...
        first: The first difference; that which centres the kernel, if None.
        default: Log score of all other differences.
    """

    log_kernel: npt.ArrayLike
    first: int | None = None
    default: float = -np.inf

    def source(self, shape: tuple[int, ...], what: str) -> TableSource:
        """Return the kernel, checked."""
        kernel = _numbers(self.log_kernel, f"{what}: the kernel of Difference")
        if len(shape) != PAIR or kernel.ndim != 1 or not kernel.size:
            msg = f"{what}: Difference takes two variables and a row of log scores; got {len(shape)} and {kernel.shape}"
            raise ModelError(msg)
        first = self.first
        if first is None:
            if kernel.size % 2 == 0:
                msg = f"{what}: a kernel of {kernel.size} differences has no centre; say which is the `first`"
                raise ModelError(msg)
            first = -(kernel.size // 2)
        if isinstance(first, bool) or not isinstance(first, int | np.integer):
            msg = f"{what}: the `first` of Difference must be a whole number, got {first!r}"
            raise ModelError(msg)
        default = _one_number(self.default, f"{what}: the `default` of Difference")
        return DifferenceSource(shape, kernel, int(first), default, what)


@dataclass(frozen=True, eq=False)
class AtMostOne:
    """At most one variable of the scope is in a given state.

    Attributes:
        state: Index of that state, for all variables or one for each.
    """

    state: int | Sequence[int] = 1

    def source(self, shape: tuple[int, ...], what: str) -> TableSource:
        """Return the states, checked."""
        try:
            states = np.asarray(self.state)
        except ValueError:  # rows of different lengths
            states = np.empty(0)
        if len(shape) < PAIR or states.dtype.kind not in "iu" or states.shape not in {(), (len(shape),)}:
            msg = f"{what}: AtMostOne takes two variables or more and a state index, or one for each variable"
            raise ModelError(msg)
        each = np.array(np.broadcast_to(states, (len(shape),)), dtype=np.int64)
        if ((each < 0) | (each >= shape)).any():
            msg = f"{what}: the states {each.tolist()} of AtMostOne are outside the universes {shape}"
            raise ModelError(msg)
        if (np.array(shape) == 1).sum() > 1:
            msg = f"{what}: more than one variable has no state but that of AtMostOne; no joint state is possible"
            raise InconsistentModelError(msg)
        return AtMostOneSource(shape, each)


class DifferenceSource:
    """Scores of the difference of two state indices.

    Attributes:
        log_kernel: Log scores of the differences that can occur, starting at `first`.
        first: The first of them.
        default: Log score of all others.
    """

    __slots__ = ("default", "first", "log_kernel", "n_members", "range", "shape")

    def __init__(self, shape: tuple[int, ...], log_kernel: FloatArray, first: int, default: float, what: str) -> None:
        """Keep the part of a kernel that universes of these sizes need."""
        low, high = max(first, 1 - shape[1]), min(first + len(log_kernel), shape[0])
        self.shape, self.n_members, self.default = shape, 1, default
        self.first = low if low < high else 0
        self.log_kernel = log_kernel[low - first : high - first].copy() if low < high else np.array([default])
        is_complete = len(self.log_kernel) == shape[0] + shape[1] - 1
        self.range = listed_range(self.log_kernel, default, is_complete=is_complete)
        if self.range.log_max[0] == -np.inf:
            msg = f"{what} is zero everywhere: the kernel and the default of Difference are -inf"
            raise InconsistentModelError(msg)

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        place = np.subtract.outer(states[0], states[1]) - self.first
        inside = (place >= 0) & (place < len(self.log_kernel))
        return np.where(inside, self.log_kernel[np.where(inside, place, 0)], self.default)


class AtMostOneSource:
    """Zero where at most one variable is in its state, impossible where more are.

    Attributes:
        states: (arity,) the state of each variable.
    """

    __slots__ = ("n_members", "range", "shape", "states")

    def __init__(self, shape: tuple[int, ...], states: IndexArray) -> None:
        """Hold the states."""
        self.shape, self.n_members, self.states = shape, 1, states
        self.range = TableRange(np.zeros(1), np.zeros(1), np.array([True]))

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        count = np.zeros([len(axis) for axis in states], dtype=np.int64)
        for mesh, state in zip(np.ix_(*states), self.states.tolist(), strict=True):
            count += mesh == state
        return np.where(count > 1, -np.inf, 0.0)


def structure_of(source: TableSource) -> Difference | AtMostOne | None:
    """Return the structure that gives a source again; None for lists, tables and rules, which are stated otherwise."""
    if isinstance(source, DifferenceSource):
        return Difference(source.log_kernel, source.first, source.default)
    if isinstance(source, AtMostOneSource):
        return AtMostOne(tuple(source.states.tolist()))
    return None


def has_structure(source: TableSource) -> bool:
    """Tell whether a source can be summed without a table."""
    return isinstance(source, ListedSource | DifferenceSource | AtMostOneSource)


def structure_entries(source: TableSource, sizes: FloatArray) -> FloatArray:
    """Return (factors,) how many entries an update reads if a factor's structure is used; infinite if it has none.

    Args:
        source: Of a block of factors.
        sizes: (factors, arity) states that take part.
    """
    entries: FloatArray = sizes.sum(axis=1)
    if isinstance(source, ListedSource):
        return entries + len(source.log_scores)
    if isinstance(source, DifferenceSource):
        entries += np.minimum(sizes[:, 0], sizes[:, 1]) * len(source.log_kernel)
        return entries
    if isinstance(source, AtMostOneSource):
        return entries
    return np.full(len(sizes), np.inf)


def stored_entries(source: TableSource) -> int:
    """Return how many scores or states a source with a structure holds."""
    if isinstance(source, ListedSource):
        return len(source.log_scores)
    if isinstance(source, DifferenceSource):
        return len(source.log_kernel)
    return len(source.shape)


def structure_words(source: TableSource, sizes: FloatArray) -> FloatArray:
    """Return (factors,) the numbers of 8 bytes, at the most, as which kernels read a factor's structure.

    Args:
        source: Of a block of factors.
        sizes: (factors, arity) states that take part.
    """
    arity = len(source.shape)
    if isinstance(source, ListedSource):
        return np.full(len(sizes), 3.0 + (1 + 2 * arity) * len(source.log_scores))
    if isinstance(source, DifferenceSource):  # over some of the states it may be a list
        whole = (sizes == np.array(source.shape)).all(axis=1)
        pairs = np.minimum(sizes.min(axis=1, initial=np.inf) * len(source.log_kernel), sizes.prod(axis=1))
        return 3.0 + np.where(whole, 2.0 * len(source.log_kernel), (1 + 2 * arity) * pairs)
    return np.full(len(sizes), float(arity))


def is_structured(source: TableSource, sizes: FloatArray) -> npt.NDArray[np.bool_]:
    """Return (factors,) whether an update goes by the structure: where a table is small or hardly sparse, it is better.

    Args:
        source: Of a block of factors.
        sizes: (factors, arity) states that take part.
    """
    if not has_structure(source) or isinstance(source, AtMostOneSource):
        return np.full(len(sizes), has_structure(source))
    whole = (sizes == np.array(source.shape)).all(axis=1)
    gain = np.where(isinstance(source, DifferenceSource) & whole, 0.0, LIST_GAIN)
    structured: npt.NDArray[np.bool_] = gain * structure_entries(source, sizes) < np.prod(sizes, axis=1)
    return structured


def _one_number(given: object, what: str) -> float:
    """Return one log score; raise what names the culprit."""
    values = _numbers(given, what)
    if values.shape != ():
        msg = f"{what} must be one log score, got {given!r:.80}"
        raise ModelError(msg)
    return float(values)


def _numbers(given: object, what: str) -> FloatArray:
    """Return log scores as an array; raise what names the culprit."""
    try:
        values = read_numbers(given)
    except (TypeError, ValueError):
        msg = f"{what} must be log scores, got {given!r:.80}"
        raise ModelError(msg) from None
    bad = out_of_range(values)
    if bad.any():
        msg = f"{what} holds {values[bad].reshape(-1)[0]}; {LOG_RULE}"
        raise ModelError(msg)
    return values
