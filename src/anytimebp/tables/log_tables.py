"""All log tables of a small model made at once: what a run on such a model mostly needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import LINEAR
from anytimebp.kernels.cutting import GIVEN, PLACE, SIZE, TARGET, cut_tables
from anytimebp.kernels.exponentiate import exponentiate_slice
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.block_rows import ARITY, ENTRIES, FACTORS, MEMBERS, TABLES
from anytimebp.model.factor import describe_factor
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.sizes import table_entries
from anytimebp.tables.store import SLICE_ENTRIES, Tables


class Plan(NamedTuple):
    """What is made of what, T tables in all.

    Attributes:
        given: (T,) where the log tables lie.
        target: (T,) where the linear ones go.
        size: (T,) their entries.
        log_max: (T,) their maxima.
        address: (F,) where each factor's table goes.
    """

    given: IndexArray
    target: IndexArray
    size: IndexArray
    log_max: FloatArray
    address: IndexArray


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
    made = np.empty(entries)
    plan = _whole_tables(compiled, made.__array_interface__["data"][0])
    if not domains.is_whole:
        plan = _cut_by_evidence(compiled, domains, tables, plan, made)
    exponentiate_slice(plan.given, plan.target, plan.size, plan.log_max, 0, 0, SLICE_ENTRIES)
    tables.address[:] = plan.address
    tables.keep(made)
    return True


def _whole_tables(compiled: CompiledGraph, base: int) -> Plan:
    """Plan tables over whole universes, shared ones once, from an address on."""
    rows, log_max = compiled.rows[compiled.rows[:, ARITY] > 1], compiled.extent.log_max
    given, size, n_factors, members = rows[:, TABLES], rows[:, ENTRIES], rows[:, FACTORS], rows[:, MEMBERS]
    if len(rows) == len(log_max):  # one factor a block
        target = base + 8 * (size.cumsum() - size)
        return Plan(given.copy(), target, size.copy(), log_max, target)
    first_table, first_factor = members.cumsum() - members, n_factors.cumsum() - n_factors
    size = size.repeat(members)
    member = np.arange(len(size)) - first_table.repeat(members)
    offset = np.arange(len(log_max)) - first_factor.repeat(n_factors)
    table = first_table.repeat(n_factors) + np.minimum(offset, members.repeat(n_factors) - 1)
    target = base + 8 * (size.cumsum() - size)
    given = given.repeat(members) + 8 * size * member
    return Plan(given, target, size, log_max[first_factor.repeat(members) + member], target[table])


def _cut_by_evidence(compiled: CompiledGraph, domains: Domains, tables: Tables, whole: Plan, made: FloatArray) -> Plan:
    """Plan tables over the states that evidence leaves, and copy the log scores of those that are cut."""
    n_factors, base = len(whole.address), made.__array_interface__["data"][0]
    listed, numbers = np.empty((4, n_factors), dtype=np.int64), np.empty((4, n_factors))
    table = np.searchsorted(whole.target, whole.address)
    listed[GIVEN] = whole.given[table]
    n_tables, impossible = cut_tables(
        compiled.rows,
        compiled.arrays.edge_variable,
        compiled.universe_sizes,
        domains.sizes,
        domains.slot_start,
        domains.slot_state,
        whole.log_max[table],
        made,
        base,
        listed,
        numbers,
    )
    if impossible >= 0:
        name = describe_factor(compiled.blocks, compiled.variables, compiled.graph_factor(impossible))
        msg = f"{name} is zero on all the states that are allowed"
        raise InconsistentModelError(msg)
    is_cut = np.isfinite(numbers[1])
    tables.log_scale[is_cut], tables.log_min[is_cut] = numbers[1, is_cut], numbers[2, is_cut]
    tables.has_zero[is_cut] = numbers[3, is_cut] > 0.0
    return Plan(
        listed[GIVEN, :n_tables], listed[TARGET, :n_tables], listed[SIZE, :n_tables], numbers[0], listed[PLACE].copy()
    )
