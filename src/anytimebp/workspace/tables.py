"""The tables of a run: where each factor's numbers lie, in the arithmetic of the run, over its domains.

A potential table in a linear run and a log table in a log run are used where the user's array lies. Everything else is
made here, once per distinct table: exponentiated or logged in blocks that fit the cache, filled from entries or rules, or
cut down to the domains that evidence leaves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.messages import LINEAR, LOG, MAX_LINEAR_RANGE
from anytimebp.layout.graph_layout import CompiledGraph, MessageBlock
from anytimebp.model.factor import describe_factor
from anytimebp.model.source import DenseSource, FloatArray, IndexArray
from anytimebp.workspace.domains import Domains

BLOCK_ENTRIES = 2**15  # 256 KB: half of a small L2 cache
SLICE_ENTRIES = 2**20  # made between two looks at the clock; about 2 ms
SHARED_BYTES = 2**28  # tables made for whole universes stay with the graph up to this size
PLAIN_MAX, PLAIN_MIN = 200.0, -600.0  # log range in which potentials are used as they are, without a scale


class Tables:
    """Addresses and scales of the tables, one number per message factor.

    Attributes:
        address: (F,) where the float64 numbers of a factor start.
        log_scale: (F,) what to add to the log of the stored numbers.
        log_min: (F,) log of the smallest positive stored number.
        has_zero: (F,) whether zeros occur.
        scored: Entries asked from rules and lists.
    """

    def __init__(self, n_factors: int, arithmetic: int) -> None:
        """Allocate for F factors."""
        self.arithmetic = arithmetic
        self.address = np.zeros(n_factors, dtype=np.int64)
        self.log_scale = np.zeros(n_factors)
        self.log_min = np.zeros(n_factors)
        self.has_zero = np.zeros(n_factors, dtype=np.bool_)
        self.scored = 0
        self._owners: list[FloatArray] = []

    def place(self, factors: slice | int, values: FloatArray, members: int) -> None:
        """Let factors use the members of a table array, and keep the array alive.

        Args:
            factors: One factor, or a slice of them.
            values: C-contiguous, shape (members, ...).
            members: How many members; one is shared by all the factors.
        """
        stride = values.nbytes // members
        base = values.ctypes.data
        self.address[factors] = base if members == 1 else base + stride * np.arange(members)
        self._owners.append(values)

    def record(self, factors: slice | int, log_max: npt.ArrayLike, log_min: npt.ArrayLike, has_zero: npt.ArrayLike) -> None:
        """Record the scale and range of factors whose numbers are divided by their maximum."""
        self.log_scale[factors] = log_max
        self.log_min[factors] = np.subtract(log_min, log_max)
        self.has_zero[factors] = has_zero

    def keep(self, other: Tables) -> None:
        """Keep alive what another run's tables point to."""
        self._owners.extend(other._owners)  # noqa: SLF001  (same class)

    @property
    def nbytes(self) -> int:
        """Bytes held, the user's own tables included."""
        return sum(owner.nbytes for owner in self._owners)


def make_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Fill `tables` for all message factors; pauses now and then so that the caller can look at the clock."""
    restricted = np.zeros(len(domains.sizes), dtype=np.bool_)
    restricted[list(domains.states)] = True
    for message_block in compiled.message_blocks:
        block = message_block.block
        cut = restricted[block.scopes].any(axis=1) if domains.states else None
        if cut is None or not cut.all():
            yield from _whole_block(message_block, tables, compiled)
        if cut is not None and cut.any():
            yield from _cut_factors(message_block, np.flatnonzero(cut), domains, tables, compiled)


def needs_log(tables: Tables) -> bool:
    """Tell whether a factor's range of positive numbers is too wide for linear arithmetic."""
    return bool((tables.log_min < -MAX_LINEAR_RANGE).any())


def _whole_block(message_block: MessageBlock, tables: Tables, compiled: CompiledGraph) -> Iterator[None]:
    """Make the tables of a block over whole universes; factors that evidence cuts are replaced afterwards."""
    first, block = message_block
    factors = slice(first, first + len(block.scopes))
    source = block.source
    if isinstance(source, DenseSource):
        extent = source.range
        tables.record(factors, extent.log_max, extent.log_min, extent.has_zero)
        if source.is_log and tables.arithmetic == LOG:
            tables.log_scale[factors] = 0.0
            tables.place(factors, source.values, source.n_members)
        elif not source.is_log and tables.arithmetic == LINEAR and _is_plain(extent.log_max, extent.log_min):
            tables.log_scale[factors] = 0.0
            tables.log_min[factors] = extent.log_min
            tables.place(factors, source.values, source.n_members)
        else:
            made = np.empty_like(source.values)
            yield from _convert(source, made, tables.arithmetic)
            tables.place(factors, made, source.n_members)
        return
    states = [np.arange(n) for n in source.shape]
    for offset in range(source.n_members):
        target = factors if source.n_members == 1 else first + offset
        _fill(message_block, offset, states, target, tables, compiled)
        yield


def _is_plain(log_max: FloatArray, log_min: FloatArray) -> bool:
    return bool((log_max < PLAIN_MAX).all() and (log_min > PLAIN_MIN).all())


def _convert(source: DenseSource, made: FloatArray, arithmetic: int) -> Iterator[None]:
    """Fill `made` with tables divided by their maximum, or with their logs, a block of entries at a time."""
    entries = source.values[0].size
    members = max(1, BLOCK_ENTRIES // entries)
    given = source.values.reshape(source.n_members, entries)
    result = made.reshape(source.n_members, entries)
    scale = source.range.log_max[:, np.newaxis]
    pending = 0
    for start in range(0, source.n_members, members):
        rows = slice(start, start + members)
        for column in range(0, entries, BLOCK_ENTRIES):
            part = (rows, slice(column, column + BLOCK_ENTRIES))
            _convert_part(given[part], result[part], scale[rows], is_log=source.is_log, arithmetic=arithmetic)
        pending += members * entries
        if pending >= SLICE_ENTRIES:
            pending = 0
            yield


def _convert_part(given: FloatArray, result: FloatArray, scale: FloatArray, *, is_log: bool, arithmetic: int) -> None:
    if is_log:
        np.subtract(given, scale, out=result)
        if arithmetic == LINEAR:
            np.exp(result, out=result)
        return
    with np.errstate(divide="ignore"):  # log 0 is meant to be -inf
        np.log(given, out=result)
    np.subtract(result, scale, out=result)
    if arithmetic == LINEAR:
        np.exp(result, out=result)


def _cut_factors(
    message_block: MessageBlock, offsets: IndexArray, domains: Domains, tables: Tables, compiled: CompiledGraph
) -> Iterator[None]:
    """Make the tables of single factors over the states that evidence leaves."""
    first, block = message_block
    pending = 0
    for offset in offsets.tolist():
        states = [
            domains.states.get(index, np.arange(n))
            for index, n in zip(block.scopes[offset].tolist(), block.source.shape, strict=True)
        ]
        pending += _fill(message_block, offset, states, first + offset, tables, compiled)
        if pending >= SLICE_ENTRIES // 4:
            pending = 0
            yield


def _fill(
    message_block: MessageBlock,
    offset: int,
    states: list[IndexArray],
    factors: slice | int,
    tables: Tables,
    compiled: CompiledGraph,
) -> int:
    """Ask a source for a slice of its scores and place them, scaled; return how many."""
    block = message_block.block
    values = np.ascontiguousarray(block.source.log_values(block.member(offset), states))
    log_max = float(values.max())
    if log_max == -np.inf:
        name = describe_factor(compiled.blocks, compiled.variables, block.first + offset)
        msg = f"{name} is zero on all the states that are allowed"
        raise InconsistentModelError(msg)
    finite = values > -np.inf
    log_min = float(values.min(where=finite, initial=np.inf))
    values = values - log_max
    if tables.arithmetic == LINEAR:
        np.exp(values, out=values)
    tables.record(factors, log_max, log_min, not finite.all())
    tables.place(factors, values[np.newaxis], 1)
    if not isinstance(block.source, DenseSource):
        tables.scored += values.size
    return values.size
