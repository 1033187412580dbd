"""Where the scores of factors come from: dense tables here, lists, rules and structures next door.

Every kind answers one question, "the log scores of these slices", so that whoever fills compact tables need not know
the kind. Scores are checked here, when a factor is added. A source has one member, shared by all factors of its block
(tied), or one member a factor (stacked).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError, ModelError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IndexArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
States: TypeAlias = Sequence[IndexArray]


NUMBERS = "fiub"  # kinds of dtype that are real numbers
MAX_SCORE = 1e12  # nats; beyond, sums of scores no longer resolve the digits that marginals need
LOG_RULE = f"log scores are between -{MAX_SCORE:g} and {MAX_SCORE:g}, or -inf for what is impossible"
PLAIN_RANGE = (-600.0, 10.0)
"""Logs of potentials that are summed as they are. Of a larger maximum, products that are just safe would underflow."""


Box: TypeAlias = tuple[slice, ...]
"""A product of ranges, one per axis."""

ASKED_AT_ONCE = 2**17  # scores asked for at a time: some MB with the copies that rules make, some milliseconds


def cut(box: Box, most: int = ASKED_AT_ONCE) -> Iterator[Box]:
    """Cut a box into boxes of at most about `most` entries, along its first axes."""
    lengths = [place.stop - place.start for place in box]
    size = int(np.prod(lengths, dtype=np.float64))
    axis = next((k for k, n in enumerate(lengths) if n > 1), 0)
    if size <= most or lengths[axis] == 1:
        yield box
        return
    step = max(1, lengths[axis] * most // size)
    for start in range(box[axis].start, box[axis].stop, step):
        part = slice(start, min(start + step, box[axis].stop))
        yield from cut((*box[:axis], part, *box[axis + 1 :]), most)


class TableSource(Protocol):
    """Scores of one or more factors of the same shape."""

    shape: tuple[int, ...]
    n_members: int

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states, one index array per axis."""
        ...


class TableRange:
    """The extent of each member's finite log scores, found by the scan that checks them.

    Attributes:
        log_max: Largest log score, shape (members,).
        log_min: Smallest finite log score, shape (members,).
        has_zero: Whether a hard zero occurs, shape (members,).
    """

    __slots__ = ("has_zero", "log_max", "log_min")

    def __init__(self, log_max: FloatArray, log_min: FloatArray, has_zero: npt.NDArray[np.bool_]) -> None:
        """Hold the three arrays."""
        self.log_max = log_max
        self.log_min = log_min
        self.has_zero = has_zero


def known_range(source: TableSource) -> TableRange | None:
    """Return the range of a source's scores, if it is known without asking for them."""
    found = getattr(source, "range", None)
    return found if isinstance(found, TableRange) else None


class DenseSource:
    """Tables in full, kept as given.

    Attributes:
        values: Shape (members, *shape), C-contiguous float64; shares memory with the user's array where that fits.
        is_log: Whether the values are log scores; potentials otherwise.
    """

    __slots__ = ("is_log", "n_members", "range", "shape", "values")

    def __init__(self, values: FloatArray, *, is_log: bool, what: Callable[[int], str]) -> None:
        """Check the values and record their range; `what` names a member in errors."""
        self.values = values
        self.is_log = is_log
        self.shape = values.shape[1:]
        self.n_members = values.shape[0]
        self.range = _scan_log(values, what) if is_log else _scan_potentials(values, what)

    @property
    def is_plain(self) -> bool:
        """Whether these are potentials that can be summed as they are."""
        low, high = PLAIN_RANGE
        return not self.is_log and bool((self.range.log_max < high).all() and (self.range.log_min > low).all())

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        return self.as_log(self.values[member][np.ix_(*states)])

    def all_log_values(self, member: int | slice | npt.NDArray[np.bool_]) -> FloatArray:
        """Return all log scores of a member, or of several; the table itself if it holds such."""
        return self.as_log(self.values[member])

    def as_log(self, values: FloatArray) -> FloatArray:
        """Return some of the source's numbers as log scores; the same array if they are such already."""
        if self.is_log:
            return values
        with np.errstate(divide="ignore"):  # log 0 is meant to be -inf
            return np.log(values)

    def member_addresses(self) -> range:
        """Return where the numbers of each member start in memory."""
        first: int = self.values.__array_interface__["data"][0]
        return range(first, first + self.values.nbytes, self.values.nbytes // self.n_members)


def read_table(table: object, what: str) -> FloatArray:
    """Return the user's table as an aligned, C-contiguous float64 array, the same memory where possible."""
    if isinstance(table, np.ma.MaskedArray):
        msg = f"the table of {what} is a masked array; fill it first, hard zeros as -inf (or 0 in potentials)"
        raise ModelError(msg)
    try:
        given = np.asarray(table)
    except ValueError as error:
        msg = f"the table of {what} is not an array of numbers: {error}"
        raise ModelError(msg) from None
    if given.dtype.kind not in NUMBERS:
        msg = f"the table of {what} must hold real numbers, got dtype {given.dtype}"
        raise ModelError(msg)
    return np.require(given, dtype=np.float64, requirements=["C", "A"])


def refuse_booleans(log_table: object, what: str) -> None:
    """Raise ModelError if log scores are True and False, which are meant as potentials 1 and 0."""
    if np.asarray(log_table).dtype.kind == "b":
        msg = (
            f"the log scores of {what} are True and False; give them as `table`, in which False is impossible, or as "
            "np.where(condition, 0.0, -np.inf)"
        )
        raise ModelError(msg)


def _scan_log(values: FloatArray, what: Callable[[int], str]) -> TableRange:
    axes = tuple(range(1, values.ndim))
    log_max = np.maximum.reduce(values, axis=axes)
    log_min = np.minimum.reduce(values, axis=axes)
    if not ((log_max <= MAX_SCORE) & ((log_min >= -MAX_SCORE) | (log_min == -np.inf))).all():
        raise _bad_value(values, out_of_range(values), LOG_RULE, what)
    has_zero = log_min == -np.inf
    if has_zero.any():
        _refuse_all_zero(log_max > -np.inf, what)
        log_min = np.min(values, axis=axes, where=values > -np.inf, initial=np.inf)
        if not (log_min >= -MAX_SCORE).all():
            raise _bad_value(values, out_of_range(values), LOG_RULE, what)
    return TableRange(log_max, log_min, has_zero)


def _scan_potentials(values: FloatArray, what: Callable[[int], str]) -> TableRange:
    axes = tuple(range(1, values.ndim))
    largest = np.maximum.reduce(values, axis=axes)
    smallest = np.minimum.reduce(values, axis=axes)
    if not ((largest < np.inf) & (smallest >= 0)).all():
        bad = ~((values >= 0) & (values < np.inf))
        raise _bad_value(values, bad, "potentials are finite and not negative; log scores go to `log_table`", what)
    has_zero = smallest == 0
    if has_zero.any():
        _refuse_all_zero(largest > 0, what)
        smallest = np.min(values, axis=axes, where=values > 0, initial=np.inf)
    return TableRange(np.log(largest), np.log(smallest), has_zero)


def _bad_value(values: FloatArray, bad: npt.NDArray[np.bool_], rule: str, what: Callable[[int], str]) -> ModelError:
    member, *states = np.argwhere(bad)[0].tolist()
    return ModelError(f"the table of {what(member)} holds {values[(member, *states)]} at {tuple(states)}; {rule}")


def _refuse_all_zero(possible: npt.NDArray[np.bool_], what: Callable[[int], str]) -> None:
    if not possible.all():
        msg = f"{what(int(np.argmin(possible)))} is zero everywhere: no joint state is possible"
        raise InconsistentModelError(msg)


def out_of_range(log_scores: FloatArray) -> npt.NDArray[np.bool_]:
    """Tell which numbers are no log scores: NaN, +inf, or too large either way."""
    fine: npt.NDArray[np.bool_] = (np.abs(log_scores) <= MAX_SCORE) | (log_scores == -np.inf)
    return ~fine
