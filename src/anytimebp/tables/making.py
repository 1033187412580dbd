"""How the tables of a run over fixed domains are made.

A table that the run needs as the user gave it is used where the user's array lies. Everything else is made here, once
per distinct table: exponentiated, logged, filled from entries or rules, or cut to the domains that evidence leaves.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import TABLE
from anytimebp.layout.graph_layout import CompiledGraph, MessageBlock
from anytimebp.model.factor import FactorBlock, describe_factor
from anytimebp.model.kinds.dense import DenseSource
from anytimebp.model.source import ASKED_AT_ONCE, BoolArray, FloatArray, IndexArray, cut
from anytimebp.tables.store import SLICE_ENTRIES, Tables


def make_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Fill `tables` for all message factors; pauses now and then so that the caller can look at the clock."""
    cut: list[tuple[MessageBlock, list[int]]] = []
    kind, is_cut = tables.kind.copy(), domains.sizes < compiled.universe_sizes
    for message_block in compiled.message_blocks:
        offsets = [] if domains.is_whole else _cut_by_evidence(message_block.block.scopes, is_cut)
        if len(offsets) < len(message_block.block.scopes):
            yield from _whole_block(message_block, tables, compiled)
        if offsets:
            cut.append((message_block, offsets))
    yield from tables.exponentiate()
    for message_block, offsets in cut:
        tables.kind[message_block.first + np.array(offsets)] = kind[message_block.first + np.array(offsets)]
        yield from _cut_factors(message_block, offsets, domains, tables, compiled)
    if tables.in_logs.any():
        yield from _scale_wide(compiled, domains, tables)


def _scale_wide(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Scale dense tables that hold logs; none of rules, whose range is not known when the memory is checked."""
    wide = tables.in_logs & (tables.kind == TABLE)
    for first, block in compiled.message_blocks:
        wide[first : first + len(block.scopes)] &= block.source.tables is not None
    if wide.any():
        edge_size = domains.sizes[compiled.arrays.edge_variable]
        yield from tables.scale_per_state(np.flatnonzero(wide), compiled.arrays, edge_size)


def _cut_by_evidence(scopes: IndexArray, is_cut: BoolArray) -> list[int]:
    """Return which factors of a block have a variable that evidence restricts, as `is_cut`, (V,), says."""
    if len(scopes) == 1:
        return [0] if any(is_cut[index] for index in scopes[0].tolist()) else []
    return np.flatnonzero(is_cut[scopes].any(axis=1)).tolist()


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
            states = [[domains.states_of(i) for i in axis] for axis in block.scopes[some].T.tolist()]
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
    for offset in offsets:
        packed = block.source.packed([domains.states_of(index) for index in block.scopes[offset].tolist()])
        _check_possible(message_block, [offset], packed.range.log_max, compiled)
        tables.place_structure(first + offset, packed)
        yield


def _by_shape(block: FactorBlock, offsets: list[int], domains: Domains) -> dict[tuple[int, ...], list[int]]:
    """Group factors of a block by the sizes of their domains."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for offset, shape in zip(offsets, domains.sizes[block.scopes[offsets]].tolist(), strict=True):
        groups.setdefault(tuple(shape), []).append(offset)
    return groups


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
