"""Dense tables, kept as given: one for all factors of a block (tied), or one each (stacked)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.model.scores import LOG_RULE, MAX_SCORE, NUMBERS, out_of_range
from anytimebp.model.source import BoolArray, FactorSource, Field, FloatArray, IndexArray, States, TableRange, read_only

PLAIN_RANGE = (-600.0, 10.0)
"""Potentials whose logs are in this range are summed unscaled. With a larger maximum, products could underflow."""


class DenseSource(FactorSource):
    """Tables in full, kept as given.

    Attributes:
        values: Shape (members, *shape), C-contiguous float64; shares memory with the user's array where that fits.
        is_log: Whether the values are log scores; potentials otherwise.
        extent: For kernels, flat: (3, members) numbers of `range`, `has_zero` as 0 and 1; then, of potentials,
            (members, arity) logs of what a member sums to over an axis, NaN until `kernels/relevance.py` needs to know.
    """

    __slots__ = ("extent", "is_log", "n_members", "range", "shape", "values")
    range: TableRange
    tags = ("table", "log_table")
    fields = (Field("values", "f"),)

    def __init__(self, values: FloatArray, *, is_log: bool, what: Callable[[int], str]) -> None:
        """Check the values and record their range; `what` names a member in errors."""
        self.values = values
        self.is_log = is_log
        self.shape = values.shape[1:]
        self.n_members = values.shape[0]
        found = _scan_log(values, what) if is_log else _scan_potentials(values, what)
        n_sums = 0 if is_log else len(self.shape)
        self.extent: FloatArray = np.full((3 + n_sums) * self.n_members, np.nan)
        self.extent[: 3 * self.n_members].reshape(3, -1)[:] = found
        self.range = found

    @property
    def tables(self) -> DenseSource:
        """Itself."""
        return self

    @property
    def is_plain(self) -> bool:
        """Whether these are potentials that can be summed as they are."""
        low, high = PLAIN_RANGE
        return not self.is_log and bool((self.range.log_max < high).all() and (self.range.log_min > low).all())

    @property
    def is_wide(self) -> bool:
        """Whether a table's range is too wide for linear numbers: it is kept as logs, and scaled per state."""
        return bool((self.range.log_max - self.range.log_min > -PLAIN_RANGE[0]).any())

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        return self.as_log(self.values[member][np.ix_(*states)])

    def all_log_values(self, member: int | slice | BoolArray) -> FloatArray:
        """Return all log scores of a member, or of several; the table itself if it holds such."""
        return self.as_log(self.values[member])

    def gather(self, members: IndexArray, states: States) -> FloatArray:
        """Return the log scores of several members, each on its own states, (n, *sizes); a new array.

        Args:
            members: (n,).
            states: Per axis, (n, states).
        """
        arity, n = len(states), len(members)
        position = [s.reshape(n, *(-1 if j == k else 1 for j in range(arity))) for k, s in enumerate(states)]
        return self.as_log(self.values[(members.reshape(n, *[1] * arity), *position)])

    def score_at(self, states: IndexArray) -> float:
        """Return the sum of the log scores of some factors, each at its own states, (factors, arity)."""
        if len(states) > 1:
            members = np.arange(len(states)) if self.n_members > 1 else 0
            return float(self.as_log(self.values[(members, *states.T)]).sum())
        value = float(self.values[(0, *states[0].tolist())])
        if self.is_log:
            return value
        return math.log(value) if value > 0.0 else -math.inf

    def as_log(self, values: FloatArray) -> FloatArray:
        """Return some of the source's numbers as log scores; the same array if they are such already."""
        if self.is_log:
            return values
        with np.errstate(divide="ignore"):  # log 0 is meant to be -inf
            return np.log(values)

    def member_addresses(self) -> Sequence[int]:
        """Return where the numbers of each member start in memory."""
        first: int = self.values.__array_interface__["data"][0]
        return range(first, first + self.values.nbytes, self.values.nbytes // self.n_members)

    @property
    def tag(self) -> str:
        """What the numbers are."""
        return "log_table" if self.is_log else "table"

    def stated(self, member: int) -> dict[str, Any]:
        """Return one of the tables."""
        return {self.tag: read_only(self.values[member])}

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the tables, tied or stacked."""
        return {tag: held["values"][0] if len(held["values"]) == 1 else held["values"]}


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
    if given.dtype == np.float64 and given.flags.carray and type(given) is np.ndarray:
        return given
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
    if len(values) == 1 and log_max[0] <= MAX_SCORE and log_min[0] >= -MAX_SCORE:  # quick, where many are added
        return TableRange(log_max, log_min, log_min > log_max)
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


def _bad_value(values: FloatArray, bad: BoolArray, rule: str, what: Callable[[int], str]) -> ModelError:
    member, *states = np.argwhere(bad)[0].tolist()
    return ModelError(f"the table of {what(member)} holds {values[(member, *states)]} at {tuple(states)}; {rule}")


def _refuse_all_zero(possible: BoolArray, what: Callable[[int], str]) -> None:
    if not possible.all():
        msg = f"{what(int(np.argmin(possible)))} is zero everywhere: no joint state is possible"
        raise InconsistentModelError(msg)
