"""Log scores of all message factors over given domains, as kernels that take maxima read them."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.layout.graph_layout import CompiledGraph, MessageBlock
from anytimebp.model.source import FloatArray, IndexArray, TableRange, joint_states


class LogTables(NamedTuple):
    """Where log scores lie.

    Attributes:
        address: (F,) where those of a factor start in memory.
        span: Sum over factors of the range of their finite log scores.
        owners: What keeps the numbers alive.
    """

    address: IndexArray
    span: float
    owners: tuple[object, ...]


def make_log_tables(compiled: CompiledGraph, domains: Domains) -> Generator[None, None, LogTables]:
    """Return the log scores over the domains, pausing now and then.

    The user's own numbers are read where they lie, if they are log scores and no state is left out.
    """
    address = np.zeros(len(compiled.extent.log_max), dtype=np.int64)
    owners: list[object] = [compiled.blocks]
    span, is_cut = 0.0, domains.sizes < compiled.universe_sizes
    for message_block in compiled.message_blocks:
        first, block = message_block
        own_cut = is_cut[block.scopes].any(axis=1)
        if not own_cut.all():
            values = yield from _whole(message_block, compiled)
            owners.append(values)
            step = values.nbytes // len(values) if len(values) > 1 else 0
            positions = values.ctypes.data + step * np.arange(len(block.scopes))
            address[first : first + len(positions)][~own_cut] = positions[~own_cut]
            tables = block.source.tables
            own_span = _span(values) if tables is None else _span_of_range(tables.range)
            span += own_span * (1 if len(values) > 1 else int((~own_cut).sum()))
        for offset in np.flatnonzero(own_cut).tolist():
            states = [domains.states_of(index) for index in block.scopes[offset].tolist()]
            values = np.ascontiguousarray(block.log_values(offset, states, compiled.variables))
            owners.append(values)
            address[first + offset] = values.ctypes.data
            span += _span(values[np.newaxis])
            yield
    return LogTables(address, span, tuple(owners))


def _whole(message_block: MessageBlock, compiled: CompiledGraph) -> Generator[None, None, FloatArray]:
    """Return (members, ...) the log scores of a block over whole universes."""
    block = message_block.block
    tables = block.source.tables
    if tables is not None:
        yield
        return np.ascontiguousarray(tables.all_log_values(slice(None)))
    values = np.empty((1, *block.source.shape))
    for box, scores in block.log_parts(0, [np.arange(n) for n in block.source.shape], compiled.variables):
        values[0][box] = scores
        yield
    return values


def _span(values: FloatArray) -> float:
    """Return the sum over tables of the range of their finite numbers."""
    flat = values.reshape(len(values), -1)
    low = np.min(flat, axis=1, where=flat > -np.inf, initial=np.inf)
    return float(np.maximum(flat.max(axis=1) - low, 0.0).sum())


def _span_of_range(known: TableRange) -> float:
    """Return the same of tables whose range is known."""
    return float(np.add.reduce(np.maximum(known.log_max - known.log_min, 0.0)))


def log_table_bytes(compiled: CompiledGraph, sizes: IndexArray) -> float:
    """Return about the bytes of log tables and messages over domains of these sizes, at the most."""
    total = 24.0 * float(sizes[compiled.arrays.edge_variable].sum(dtype=np.float64))
    for _, block in compiled.message_blocks:
        each = sizes[block.scopes].astype(np.float64)
        entries, is_whole = joint_states(each), block.source.is_whole(each)
        shared = float(entries[is_whole].max(initial=0.0)) if block.source.n_members == 1 else 0.0
        own = entries if block.source.n_members > 1 else entries[~is_whole]
        total += 8.0 * (shared + float(own.sum()))
    return total
