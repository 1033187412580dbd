"""All log tables of a small model made at once, by two kernels: what a run on such a model mostly needs."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.domains import Domains, slot_states
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import LINEAR
from anytimebp.kernels.log_tables import fill_log_tables, place_log_tables
from anytimebp.layout.graph_layout import CompiledGraph, MessageBlock
from anytimebp.model.factor import describe_factor
from anytimebp.model.scopes import MAX_ARITY
from anytimebp.model.source import FloatArray
from anytimebp.tables.store import SLICE_ENTRIES, Tables


def make_log_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> list[MessageBlock]:
    """Make linear tables of all log tables, if that takes less than a slice; return the blocks that are left to do."""
    if tables.arithmetic != LINEAR:
        return compiled.message_blocks
    offset = np.empty(len(tables.address), dtype=np.int64)
    sizes = compiled.universe_sizes, domains.sizes
    entries, n_blocks = place_log_tables(compiled.rows, compiled.arrays, *sizes, offset)
    if not n_blocks or entries > SLICE_ENTRIES:
        return compiled.message_blocks
    made: FloatArray = np.empty(int(entries))
    impossible = fill_log_tables(
        compiled.rows,
        compiled.arrays,
        *sizes,
        domains.slot_start,
        slot_states(domains.states, domains.sizes, domains.slot_start),
        offset,
        made,
        (tables.log_scale, tables.log_min, tables.has_zero),
        np.empty(MAX_ARITY, dtype=np.int64),
    )
    if impossible >= 0:
        name = describe_factor(compiled.blocks, compiled.variables, compiled.graph_factor(impossible))
        msg = f"{name} is zero on all the states that are allowed"
        raise InconsistentModelError(msg)
    tables.keep(made)
    address = made.__array_interface__["data"][0]
    if n_blocks == len(compiled.message_blocks):
        np.multiply(offset, 8, out=tables.address)
        tables.address += address
        return []
    ours = offset >= 0
    tables.address[ours] = address + 8 * offset[ours]
    return [message_block for message_block in compiled.message_blocks if not _is_log_table(message_block)]


def _is_log_table(message_block: MessageBlock) -> bool:
    source = message_block.block.source.tables
    return source is not None and source.is_log
