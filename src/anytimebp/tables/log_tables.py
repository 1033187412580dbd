"""All log tables of a small model made at once: what a run on such a model mostly needs."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import LINEAR
from anytimebp.kernels.cutting import GIVEN, PLACE, SIZE, TARGET, cut_tables, list_tables
from anytimebp.kernels.exponentiate import exponentiate_slice
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import describe_factor
from anytimebp.model.source import FloatArray, IndexArray, TableRange
from anytimebp.tables.sizes import table_entries
from anytimebp.tables.store import SLICE_ENTRIES, Tables


def make_log_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> bool:
    """Make linear tables of log tables, if all message factors have such and it takes less than a slice.

    Returns:
        Whether it has.
    """
    if tables.arithmetic != LINEAR or not compiled.has_log_tables_only or compiled.n_table_entries > SLICE_ENTRIES:
        return False
    entries = compiled.n_table_entries
    if not domains.is_whole:
        entries += int(min(table_entries(compiled.arrays, domains.sizes), 2.0 * SLICE_ENTRIES))
        if entries > SLICE_ENTRIES:
            return False
    made, n_factors = np.empty(entries), len(tables.kind)
    base, listed = made.__array_interface__["data"][0], np.empty((4, n_factors), dtype=np.int64)
    log_max = np.empty(n_factors)
    if domains.is_whole:
        n_tables = list_tables(compiled.rows, compiled.extent.log_max, base, listed, log_max)
    else:
        n_tables = _cut_by_evidence(compiled, domains, tables, made, base, listed, log_max)
    given, target, size = listed[GIVEN, :n_tables], listed[TARGET, :n_tables], listed[SIZE, :n_tables]
    exponentiate_slice(given, target, size, log_max, 0, 0, SLICE_ENTRIES)
    tables.address[:] = listed[PLACE]
    tables.keep(made)
    return True


def _cut_by_evidence(
    compiled: CompiledGraph,
    domains: Domains,
    tables: Tables,
    made: FloatArray,
    base: int,
    listed: IndexArray,
    log_max: FloatArray,
) -> int:
    """List tables over the states that evidence leaves, and copy the log scores of those that are cut.

    Args:
        compiled: The graph.
        domains: What evidence leaves.
        tables: Gets the range of tables that are cut.
        made: Room for the tables.
        base: Its address.
        listed: (4, F) overwritten: the list.
        log_max: (F,) overwritten: maxima of the tables that are listed.

    Returns:
        How many tables are listed.
    """
    n_tables, impossible = cut_tables(
        compiled.rows,
        compiled.arrays.edge_variable,
        compiled.universe_sizes,
        domains.sizes,
        domains.slot_start,
        domains.slot_state,
        made,
        base,
        listed,
        log_max,
        TableRange(tables.log_scale, tables.log_min, tables.has_zero),
    )
    if impossible >= 0:
        name = describe_factor(compiled.blocks, compiled.variables, compiled.graph_factor(impossible))
        msg = f"{name} is zero on all the states that are allowed"
        raise InconsistentModelError(msg)
    return int(n_tables)
