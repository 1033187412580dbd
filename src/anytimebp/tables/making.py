"""How the tables of a run over fixed domains are made: dense ones by kernels, others by asking factor by factor."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.kernels.codes import TABLE
from anytimebp.layout.graph_layout import CompiledGraph, MessageBlock
from anytimebp.model.source import ASKED_AT_ONCE, FloatArray, IndexArray, cut
from anytimebp.tables.dense_tables import impossible, make_dense_tables
from anytimebp.tables.store import Tables


def make_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Fill `tables` for all message factors; pauses now and then so that the caller can look at the clock."""
    if not compiled.has_tables_only:
        yield from _make_others(compiled, domains, tables)
    yield from make_dense_tables(compiled, domains, tables)


def _make_others(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Make what factors need that have no dense tables: rules, lists and structures."""
    kind, is_cut = tables.kind.copy(), domains.sizes < compiled.universe_sizes
    for message_block in compiled.message_blocks:
        first, block = message_block
        if block.source.tables is not None:
            continue
        offsets = np.flatnonzero(is_cut[block.scopes].any(axis=1)).tolist()
        if len(offsets) < len(block.scopes):
            own = np.delete(kind[first : first + len(block.scopes)], offsets)
            yield from _whole_block(message_block, tables, compiled, as_table=bool((own == TABLE).all()))
        if offsets:
            tables.kind[first + np.array(offsets)] = kind[first + np.array(offsets)]
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


def _whole_block(
    message_block: MessageBlock, tables: Tables, compiled: CompiledGraph, *, as_table: bool
) -> Iterator[None]:
    """Make the tables of a block over whole universes; those of factors that evidence cuts are made anew afterwards."""
    first, block = message_block
    factors = slice(first, first + len(block.scopes))
    source = block.source
    every = [np.arange(n) for n in source.shape]
    if not as_table:
        tables.place_structure(factors, source.packed(every))
        yield
        return
    tables.kind[factors] = TABLE
    values = yield from _ask(message_block, 0, every, tables, compiled)
    _check_possible(message_block, 0, values, compiled)
    tables.place_log_values(factors, values)
    yield


def _cut_factors(
    message_block: MessageBlock, offsets: list[int], domains: Domains, tables: Tables, compiled: CompiledGraph
) -> Iterator[None]:
    """Make what single factors sum over, on the states that evidence leaves."""
    first, block = message_block
    for offset in offsets:
        states = [domains.states_of(index) for index in block.scopes[offset].tolist()]
        if tables.kind[first + offset] != TABLE:
            packed = block.source.packed(states)
            _check_possible(message_block, offset, packed.range.log_max, compiled)
            tables.place_structure(first + offset, packed)
        else:
            values = yield from _ask(message_block, offset, states, tables, compiled)
            _check_possible(message_block, offset, values, compiled)
            tables.place_log_values(slice(first + offset, first + offset + 1), values)
        yield


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


def _check_possible(message_block: MessageBlock, offset: int, values: FloatArray, compiled: CompiledGraph) -> None:
    """Raise InconsistentModelError for a factor without a possible joint state."""
    if values.max() == -np.inf:
        raise impossible(compiled, message_block.first + offset)
