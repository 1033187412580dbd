"""The tables of a run: where each factor's numbers lie, as potentials or as logs, over its domains.

`making.py` decides which tables are made, and of what; tables over domains that grow are filled state by state.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.codes import ASKED, LINEAR, LOG, LOG_TABLE, MAX_LINEAR_RANGE, POTENTIALS
from anytimebp.kernels.structures import SUMS, load
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import FactorBlock
from anytimebp.model.source import BoolArray, Box, FloatArray, IndexArray, Packed, PackedRows, TableRange
from anytimebp.slices import AT_ONCE, at_one_go, parts


class Sources(NamedTuple):
    """Where dense factors' numbers lie, and what they are.

    Attributes:
        address: (F,) where a dense factor's numbers start, 0 for those that are asked from Python.
        kind: (F,) LOG_TABLE, POTENTIALS or ASKED.
        shift: (F,) largest log score, 0 where it is not known.
        stride: (E,) of the edge's axis in a dense factor's numbers.
    """

    address: IndexArray
    kind: IndexArray
    shift: FloatArray
    stride: IndexArray


def find_sources(compiled: CompiledGraph) -> Sources:
    """Return where the scores of a graph's message factors come from."""
    edge_start, n_factors = compiled.arrays.factor_edge_start, len(compiled.extent.log_max)
    address, kind = np.zeros(n_factors, dtype=np.int64), np.full(n_factors, ASKED)
    stride = np.zeros(len(compiled.arrays.edge_variable), dtype=np.int64)
    for first, block in compiled.message_blocks:
        tables, n = block.source.tables, len(block.scopes)
        if tables is not None:
            address[first : first + n] = tables.member_addresses()
            kind[first : first + n] = LOG_TABLE if tables.is_log else POTENTIALS
            steps = np.cumprod([1, *tables.shape[:0:-1]])[::-1]
            stride[edge_start[first] : edge_start[first + n]] = np.tile(steps, n)
    log_max = compiled.extent.log_max
    return Sources(address, kind, np.where(np.isnan(log_max), 0.0, log_max), stride)


SLICE_ENTRIES = 2**18  # made between two looks at the clock: half a millisecond, ten where memory is touched first
SHARED_BYTES = 2**28  # tables made for whole universes stay with the graph up to this size


class Tables:
    """Addresses and scales of the tables, one number per message factor; and what was made for them.

    Attributes:
        address: (F,) where the float64 numbers of a factor start.
        log_scale: (F,) what to add to the log of the stored numbers.
        log_min: (F,) log of the smallest positive stored number.
        has_zero: (F,) whether zeros occur.
        in_logs: (F,) whether the stored numbers are logs: in log arithmetic, those of a range beyond MAX_LINEAR_RANGE,
            and structures and tables with room of which linear sums could lose something.
        scaled: (F,) where the linear numbers of a table in logs start, scaled per state (`kernels/log_sums.py`); 0
            where there are none.
        kind: (F,) TABLE, or which structure a factor is.
        structure_work: (F,) entries that an update of a structure reads.
        scored: Entries asked from rules and lists.
        unscaled: Factors with room for a table of which no positive number is known.
        are_borrowed: Whether some are read from arrays that may change: the user's own, or domains that grow.
    """

    def __init__(self, extent: TableRange, arithmetic: int, kind: IndexArray, *, in_slices: bool = False) -> None:
        """Start from what is known of the factors' scores, unless that is left to `fill`."""
        self.arithmetic = arithmetic
        self.kind = kind
        self.structure_work = np.zeros(len(kind), dtype=np.int64)
        self.address = np.zeros(len(extent.log_max), dtype=np.int64)
        self.log_scale, self.log_min = np.empty(len(kind)), np.empty(len(kind))
        self.has_zero, self.in_logs = np.empty((2, len(kind)), dtype=np.bool_)
        self.scaled = np.zeros(len(kind), dtype=np.int64)
        self.scored = 0
        self.are_borrowed = False
        self._owners: list[FloatArray] = []
        self._lender: tuple[FactorBlock, ...] = ()
        self._borrowed_bytes = 0
        self._enlarged: dict[int, FloatArray] = {}
        self.unscaled: set[int] = set()
        if not in_slices:
            at_one_go(self.fill(extent))

    def fill(self, extent: TableRange) -> Generator[None, None, None]:
        """Take over what is known of the scores: most tables are stored divided by their maximum. Pauses on the way."""
        for first, last in parts(len(self.kind), AT_ONCE):
            log_max, log_min = extent.log_max[first:last], self.log_min[first:last]
            self.log_scale[first:last] = log_max
            np.subtract(extent.log_min[first:last], log_max, out=log_min)
            self.has_zero[first:last] = extent.has_zero[first:last]
            self.in_logs[first:last] = self._is_wide(log_min)
            if last < len(self.kind):
                yield

    def _must_be_logs(self, has_zero: BoolArray, log_min: FloatArray) -> BoolArray:
        """Tell which structures and tables with room hold logs: those of which linear sums could lose something."""
        if self.arithmetic == LINEAR:
            return np.zeros(len(has_zero), dtype=np.bool_)
        return has_zero | self._is_wide(log_min)

    def _is_wide(self, log_min: FloatArray) -> BoolArray:
        """Tell which tables hold logs."""
        if self.arithmetic == LINEAR:
            return np.zeros(len(log_min), dtype=np.bool_)
        wide: BoolArray = log_min < -MAX_LINEAR_RANGE
        return wide

    def borrow(self, compiled: CompiledGraph) -> None:
        """Keep the graph's own tables alive: some are read where they lie."""
        self.are_borrowed = compiled.lends_tables
        self._lender, self._borrowed_bytes = compiled.blocks, 8 * compiled.n_table_entries

    def place_log_values(self, factors: slice | IndexArray, values: FloatArray) -> None:
        """Scale log tables that were made for some factors, exponentiate them unless they must be logs, and keep them.

        Args:
            factors: The factors; one table is shared by all of them.
            values: Shape (tables, ...), with a possible joint state in each; overwritten.
        """
        values = np.ascontiguousarray(values)  # what rules return and what indexing picks may be in any order
        axes = tuple(range(1, values.ndim))
        log_max = values.max(axis=axes)
        finite = values > -np.inf
        has_zero = np.logical_not(finite.all(axis=axes, keepdims=True).reshape(-1))
        log_min = values.min(axis=axes, where=finite, initial=np.inf) - log_max
        in_logs = self._is_wide(log_min).any()
        values -= log_max.reshape(-1, *[1] * len(axes))
        if not in_logs:
            np.exp(values, out=values)
        self.log_scale[factors] = log_max
        self.log_min[factors] = log_min
        self.has_zero[factors] = has_zero
        self.in_logs[factors] = in_logs
        first, stride = values.ctypes.data, values.nbytes // len(values)
        self.address[factors] = first if len(values) == 1 else first + stride * np.arange(len(values))
        self._owners.append(values)

    def keep(self, values: FloatArray) -> None:
        """Keep numbers alive that addresses point to."""
        self._owners.append(values)

    def release(self) -> None:
        """Let go of all numbers; addresses point to nothing any more."""
        self._owners.clear()

    def place_rows(self, factors: IndexArray, packed: PackedRows) -> None:
        """Write many structures down, and keep them; their factors' scores are 0 or -inf."""
        load(packed.sums)
        step = packed.words.strides[0]
        self.address[factors] = packed.words.ctypes.data + step * np.arange(len(factors))
        self.log_scale[factors] = self.log_min[factors] = 0.0
        self.has_zero[factors] = True
        self.in_logs[factors] = self.arithmetic == LOG
        self.kind[factors], self.structure_work[factors] = SUMS[packed.sums], packed.work
        self.scored += int(packed.work.sum())
        self._owners += [array.view(np.float64) for array in (packed.words, *packed.kept)]

    def place_structure(self, factors: slice | int | IndexArray, packed: Packed) -> None:
        """Write a structure down, and keep it; one is shared by all the factors."""
        found = packed.range
        log_max, has_zero = float(found.log_max[0]), bool(found.has_zero[0])
        log_min = float(found.log_min[0]) - log_max
        in_logs = bool(self._must_be_logs(np.array([has_zero]), np.array([log_min]))[0])
        words = packed.words(log_max, in_logs=in_logs)
        load(packed.sums)
        self.address[factors] = words.ctypes.data
        self.log_scale[factors], self.log_min[factors] = log_max, log_min
        self.has_zero[factors], self.in_logs[factors] = has_zero, in_logs
        self.kind[factors], self.structure_work[factors] = SUMS[packed.sums], packed.work
        self.scored += packed.work
        self._owners += [words, *(array.view(np.float64) for array in packed.kept)]

    def take_over(self, other: Tables) -> Generator[None, None, None]:
        """Use the tables of another run in the same arithmetic, and keep alive what they point to; pauses."""
        for first, last in parts(len(self.kind), AT_ONCE):
            for name in ("address", "log_scale", "log_min", "has_zero", "in_logs", "scaled", "kind", "structure_work"):
                getattr(self, name)[first:last] = getattr(other, name)[first:last]
            if last < len(self.kind):
                yield
        self.are_borrowed, self._lender, self._borrowed_bytes = other.are_borrowed, other._lender, other._borrowed_bytes
        self._owners.extend(other._owners)

    @property
    def nbytes(self) -> int:
        """Bytes held, the user's own tables included."""
        return self._borrowed_bytes + sum(owner.nbytes for owner in self._owners)

    # ------------------------------------------------------------ tables with room to grow
    def make_room(self, compiled: CompiledGraph, capacity: IndexArray) -> None:
        """Give every factor a table in one new buffer, which others fill.

        Args:
            compiled: The graph.
            capacity: (E,) lengths of the axes; `enlarge` changes them.
        """
        self._edge_start, self._capacity = compiled.arrays.factor_edge_start, capacity
        self.unscaled = set(np.flatnonzero(np.isnan(self.log_scale)).tolist())
        self.log_scale[[*self.unscaled]] = self.log_min[[*self.unscaled]] = 0.0
        for first, block in compiled.message_blocks:
            dense, factors = block.source.tables, slice(first, first + len(block.scopes))
            if dense is not None and dense.is_plain:
                self.log_scale[factors], self.log_min[factors] = 0.0, dense.range.log_min
        self.in_logs[:] = self._must_be_logs(self.has_zero, self.log_min)
        start = self._edge_start[:-1]
        size = np.multiply.reduceat(capacity, start) if len(start) else np.empty(0, dtype=np.int64)
        self._first_position = np.cumsum(size) - size
        self._owners.append(np.empty(int(size.sum())))
        self.address[:] = self._owners[0].ctypes.data + 8 * self._first_position

    def shape(self, factor: int) -> tuple[int, ...]:
        """Return the lengths of the axes of a factor's table with room."""
        return tuple(self._capacity[self._edge_start[factor] : self._edge_start[factor + 1]].tolist())

    def numbers(self, factor: int) -> FloatArray:
        """Return a factor's table, room included; the numbers themselves, not a copy."""
        found = self._enlarged.get(factor)
        if found is None:
            shape, start = self.shape(factor), int(self._first_position[factor])
            found = self._owners[0][start : start + math.prod(shape)].reshape(shape)
        return found

    def enlarge(self, factor: int, axis: int, length: int, sizes: list[int]) -> int:
        """Move a table to where one axis has more room; return the bytes that this has taken.

        Args:
            factor: The factor.
            axis: The axis.
            length: Its length afterwards.
            sizes: Of the domains, which are copied.
        """
        old = self.numbers(factor)
        self._capacity[self._edge_start[factor] + axis] = length
        new = np.empty(self.shape(factor))
        box = tuple(slice(0, n) for n in sizes)
        new[box] = old[box]
        self._enlarged[factor] = new
        self.address[factor] = new.ctypes.data
        return new.nbytes - old.nbytes

    def widen(self, factor: int, log_scores: FloatArray) -> float:
        """Take in the range of scores that a table is about to hold; return by how much its scale changes with them.

        What it holds already is left to `lower`. Numbers of an `unscaled` table are all zeros, which have no scale.
        """
        finite = log_scores[log_scores > -np.inf]
        if finite.size < log_scores.size:
            self.has_zero[factor] = True
        if not finite.size:
            return 0.0
        scale, log_min = self.log_scale, self.log_min
        shift = float(finite.max() - scale[factor])
        if factor in self.unscaled:
            self.unscaled.remove(factor)
        else:
            shift = max(0.0, shift)
            log_min[factor] -= shift
        scale[factor] += shift
        log_min[factor] = min(log_min[factor], float(finite.min()) - scale[factor])
        return shift

    def lower(self, factor: int, shift: float) -> None:
        """Divide what a table holds by exp(shift); turn it to logs first where that would lose something."""
        self._turn_to_logs(factor)
        if shift != 0.0:
            table = self.numbers(factor)
            with np.errstate(invalid="ignore", over="ignore"):  # what is in the room behind the domains may be anything
                if self.in_logs[factor]:
                    table -= shift
                else:
                    table *= np.exp(-shift)

    def fill_box(self, factor: int, box: Box, log_scores: FloatArray) -> None:
        """Write scores, whose range is known already, into a part of a table."""
        values = log_scores - self.log_scale[factor]
        self.numbers(factor)[box] = values if self.in_logs[factor] else np.exp(values, out=values)

    def to_logs(self) -> None:
        """Go on in log arithmetic: tables of which linear sums could lose something turn to logs."""
        self.arithmetic = LOG
        for factor in np.flatnonzero(self._must_be_logs(self.has_zero, self.log_min)).tolist():
            self._turn_to_logs(factor)

    def _turn_to_logs(self, factor: int) -> None:
        one = slice(factor, factor + 1)
        if not self.in_logs[factor] and self._must_be_logs(self.has_zero[one], self.log_min[one])[0]:
            table = self.numbers(factor)
            with np.errstate(divide="ignore", invalid="ignore"):
                np.log(table, out=table)
            self.in_logs[factor] = True
