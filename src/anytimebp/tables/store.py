"""The tables of a run: where each factor's numbers lie, as potentials or as logs, over its domains.

A table that the run needs as the user gave it is used where the user's array lies. Everything else is made here, once
per distinct table: exponentiated, logged, filled from entries or rules, or cut to the domains that evidence leaves.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import LINEAR, MAX_LINEAR_RANGE, TABLE
from anytimebp.kernels.exponentiate import exponentiate_slice
from anytimebp.kernels.structures import SUMS
from anytimebp.layout.graph_layout import CompiledGraph, MessageBlock
from anytimebp.model.factor import FactorBlock, describe_factor
from anytimebp.model.kinds.dense import DenseSource
from anytimebp.model.source import ASKED_AT_ONCE, FloatArray, IndexArray, Packed, TableRange, cut

BoolArray: TypeAlias = npt.NDArray[np.bool_]

SLICE_ENTRIES = 2**18  # made between two looks at the clock: half a millisecond, ten where memory is touched first
SHARED_BYTES = 2**28  # tables made for whole universes stay with the graph up to this size


class Tables:
    """Addresses and scales of the tables, one number per message factor.

    Attributes:
        address: (F,) where the float64 numbers of a factor start.
        log_scale: (F,) what to add to the log of the stored numbers.
        log_min: (F,) log of the smallest positive stored number.
        has_zero: (F,) whether zeros occur.
        in_logs: (F,) whether the stored numbers are logs: in log arithmetic, where linear sums could lose something.
        kind: (F,) TABLE, or which structure a factor is.
        structure_work: (F,) entries that an update of a structure reads.
        scored: Entries asked from rules and lists.
    """

    def __init__(self, extent: TableRange, arithmetic: int, kind: IndexArray) -> None:
        """Start from what is known of the factors' scores: most tables are stored divided by their maximum."""
        self.arithmetic = arithmetic
        self.kind = kind
        self.structure_work = np.zeros(len(kind), dtype=np.int64)
        self.address = np.zeros(len(extent.log_max), dtype=np.int64)
        self.log_scale = extent.log_max.copy()
        self.log_min = extent.log_min - extent.log_max
        self.has_zero = extent.has_zero.copy()
        self.in_logs = self._must_be_logs(self.has_zero, self.log_min)
        self.scored = 0
        self._owners: list[FloatArray] = []
        self._to_exponentiate: list[tuple[slice, DenseSource]] = []

    def _must_be_logs(self, has_zero: BoolArray, log_min: FloatArray) -> BoolArray:
        if self.arithmetic == LINEAR:
            return np.zeros(len(has_zero), dtype=np.bool_)
        return has_zero | (log_min < -MAX_LINEAR_RANGE)

    def place(self, factors: slice | int, source: DenseSource) -> None:
        """Let factors use a dense source's tables where they lie."""
        self.address[factors] = source.member_addresses()
        self._owners.append(source.values)

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
        in_logs = self._must_be_logs(has_zero, log_min).any()
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

    def place_structure(self, factors: slice | int, packed: Packed) -> None:
        """Write a structure down, and keep it; one is shared by all the factors."""
        found = packed.range
        log_max, has_zero = float(found.log_max[0]), bool(found.has_zero[0])
        log_min = float(found.log_min[0]) - log_max
        in_logs = bool(self._must_be_logs(np.array([has_zero]), np.array([log_min]))[0])
        words = packed.words(log_max, in_logs=in_logs)
        self.address[factors] = words.ctypes.data
        self.log_scale[factors], self.log_min[factors] = log_max, log_min
        self.has_zero[factors], self.in_logs[factors] = has_zero, in_logs
        self.kind[factors], self.structure_work[factors] = SUMS[packed.sums], packed.work
        self.scored += packed.work
        self._owners.append(words)

    def take_over(self, other: Tables) -> None:
        """Use the tables of another run in the same arithmetic, and keep alive what they point to."""
        for name in ("address", "log_scale", "log_min", "has_zero", "in_logs", "kind", "structure_work"):
            getattr(self, name)[:] = getattr(other, name)
        self._owners.extend(other._owners)

    def exponentiate_later(self, factors: slice, source: DenseSource) -> None:
        """Put a block of log tables on the list that `exponentiate` works off."""
        self._to_exponentiate.append((factors, source))

    def exponentiate(self) -> Iterator[None]:
        """Exponentiate all log tables on the list, each divided by its maximum, into one new buffer.

        One buffer, because fresh memory costs page faults, and large pieces cost fewer.
        """
        sources = [source for _, source in self._to_exponentiate]
        if not sources:
            return
        members = [source.n_members for source in sources]
        size = np.repeat([source.values[0].size for source in sources], members)
        start = np.cumsum(size) - size
        given = np.array([address for source in sources for address in source.member_addresses()])
        log_max = np.concatenate([source.range.log_max for source in sources])
        made = np.empty(int(size.sum()))
        target = made.ctypes.data + 8 * start
        first = 0
        for (factors, _), n in zip(self._to_exponentiate, members, strict=True):
            self.address[factors] = target[first] if n == 1 else target[first : first + n]
            first += n
        self._owners.append(made)
        position = entry = 0
        while position < len(size):
            position, entry = exponentiate_slice(given, target, size, log_max, position, entry, SLICE_ENTRIES)
            yield
        self._to_exponentiate.clear()

    @property
    def nbytes(self) -> int:
        """Bytes held, the user's own tables included."""
        return sum(owner.nbytes for owner in self._owners)


def make_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Fill `tables` for all message factors; pauses now and then so that the caller can look at the clock."""
    cut: list[tuple[MessageBlock, list[int]]] = []
    kind = tables.kind.copy()
    for message_block in compiled.message_blocks:
        offsets = _cut_by_evidence(message_block, domains) if domains.states else []
        if len(offsets) < len(message_block.block.scopes):
            yield from _whole_block(message_block, tables, compiled)
        if offsets:
            cut.append((message_block, offsets))
    yield from tables.exponentiate()
    for message_block, offsets in cut:
        tables.kind[message_block.first + np.array(offsets)] = kind[message_block.first + np.array(offsets)]
        yield from _cut_factors(message_block, offsets, domains, tables, compiled)


def reuse_tables(compiled: CompiledGraph, tables: Tables, made: Tables) -> Iterator[None]:
    """Fill `tables` with what another run has made over all states.

    Counts what that cost, and pauses wherever it did, so that work does not depend on which run came first.
    """
    done = 0
    for first, block in compiled.message_blocks:
        if block.source.tables is not None:
            continue
        if made.kind[first] == TABLE:
            for box in cut(tuple(slice(0, n) for n in block.source.shape), ASKED_AT_ONCE):
                tables.scored += math.prod(side.stop - side.start for side in box)
                yield
        else:
            tables.scored += int(made.structure_work[first])
        last = first + len(block.scopes)
        tables.log_scale[done:last] = made.log_scale[done:last]  # log Z is known once all are there
        done = last
        yield
    tables.take_over(made)


def _cut_by_evidence(message_block: MessageBlock, domains: Domains) -> list[int]:
    """Return which factors of a block have a variable that evidence restricts."""
    scopes = message_block.block.scopes
    if len(scopes) == 1:
        return [0] if any(index in domains.states for index in scopes[0].tolist()) else []
    return np.flatnonzero(np.isin(scopes, list(domains.states)).any(axis=1)).tolist()


def needs_log(tables: Tables) -> bool:
    """Tell whether a factor's range of positive numbers is too wide for linear arithmetic."""
    return bool((tables.log_min < -MAX_LINEAR_RANGE).any())


def _whole_block(message_block: MessageBlock, tables: Tables, compiled: CompiledGraph) -> Iterator[None]:
    """Make the tables of a block over whole universes; those of factors that evidence cuts are made anew afterwards."""
    first, block = message_block
    factors = slice(first, first + len(block.scopes))
    source, dense = block.source, block.source.tables
    if dense is not None:
        in_logs = bool(tables.in_logs[factors].any())
        tables.in_logs[factors] = in_logs
        if dense.is_log and not in_logs:
            tables.exponentiate_later(factors, dense)
        elif dense.is_log:
            tables.log_scale[factors] = 0.0
            tables.place(factors, dense)
        elif not in_logs and dense.is_plain:
            tables.log_scale[factors] = 0.0
            tables.log_min[factors] = dense.range.log_min
            tables.place(factors, dense)
        else:
            tables.place(factors, _convert_potentials(dense, in_logs=in_logs))
            yield
        return
    every = [np.arange(n) for n in source.shape]
    if source.is_structured(np.array([source.shape], dtype=np.float64))[0]:
        tables.place_structure(factors, source.packed(every))
        yield
        return
    tables.kind[factors] = TABLE
    values = yield from _ask(message_block, 0, every, tables, compiled)
    _check_possible(message_block, [0], values, compiled)
    tables.place_log_values(factors, values)
    yield


def _convert_potentials(source: DenseSource, *, in_logs: bool) -> DenseSource:
    """Return the logs of potentials, or potentials of extreme scale, divided by their maximum."""
    made = source.all_log_values(slice(None))
    made -= source.range.log_max.reshape(-1, *[1] * len(source.shape))
    if not in_logs:
        np.exp(made, out=made)
    return DenseSource(made, is_log=in_logs, what=str)


def _cut_factors(
    message_block: MessageBlock, offsets: list[int], domains: Domains, tables: Tables, compiled: CompiledGraph
) -> Iterator[None]:
    """Make the tables of single factors over the states that evidence leaves, many of the same shape at a time."""
    first, block = message_block
    for shape, group in _by_shape(block, offsets, domains).items():
        if tables.kind[first + group[0]] != TABLE:
            yield from _cut_structures(message_block, group, domains, tables, compiled)
            continue
        dense = block.source.tables is not None
        step = max(1, SLICE_ENTRIES // 4 // math.prod(shape)) if dense else 1
        for start in range(0, len(group), step):
            some = group[start : start + step]
            states = _states_left(block, some, domains)
            if dense:
                values = block.gather(np.array(some), [np.array(axis) for axis in states], compiled.variables)
            else:
                values = yield from _ask(message_block, some[0], [axis[0] for axis in states], tables, compiled)
            _check_possible(message_block, some, values, compiled)
            tables.place_log_values(first + np.array(some), values)
            yield


def _cut_structures(
    message_block: MessageBlock, offsets: list[int], domains: Domains, tables: Tables, compiled: CompiledGraph
) -> Iterator[None]:
    """Write down structures over the states that evidence leaves, one factor after the other."""
    first, block = message_block
    whole = [np.arange(n) for n in block.source.shape]
    for offset in offsets:
        scope = block.scopes[offset].tolist()
        states = [domains.states.get(index, every) for index, every in zip(scope, whole, strict=True)]
        packed = block.source.packed(states)
        _check_possible(message_block, [offset], packed.range.log_max, compiled)
        tables.place_structure(first + offset, packed)
        yield


def _by_shape(block: FactorBlock, offsets: list[int], domains: Domains) -> dict[tuple[int, ...], list[int]]:
    """Group factors of a block by the sizes of their domains."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for offset, shape in zip(offsets, domains.sizes[block.scopes[offsets]].tolist(), strict=True):
        groups.setdefault(tuple(shape), []).append(offset)
    return groups


def _states_left(block: FactorBlock, offsets: list[int], domains: Domains) -> list[list[IndexArray]]:
    """Return the states that evidence leaves, per axis and factor."""
    whole = [np.arange(n) for n in block.source.shape]
    scopes = block.scopes[offsets].T.tolist()
    return [[domains.states.get(i, every) for i in axis] for axis, every in zip(scopes, whole, strict=True)]


def _ask(
    message_block: MessageBlock, offset: int, states: list[IndexArray], tables: Tables, compiled: CompiledGraph
) -> Generator[None, None, FloatArray]:
    """Return the log scores of one factor that is no table, shape (1, ...); asks for them a part at a time."""
    values = np.empty([1, *(len(own) for own in states)])
    for box, scores in message_block.block.log_parts(offset, states, compiled.variables):
        values[0][box] = scores
        tables.scored += scores.size
        yield
    return values


def _check_possible(
    message_block: MessageBlock, offsets: list[int], values: FloatArray, compiled: CompiledGraph
) -> None:
    """Raise InconsistentModelError for a table without a possible joint state."""
    impossible = values.reshape(len(values), -1).max(axis=1) == -np.inf
    if impossible.any():
        factor = message_block.block.first + offsets[int(impossible.argmax())]
        name = describe_factor(compiled.blocks, compiled.variables, factor)
        msg = f"{name} is zero on all the states that are allowed"
        raise InconsistentModelError(msg)
