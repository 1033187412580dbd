"""Which linear tables are made of log tables: whole ones, and those that evidence cuts."""

import numpy as np

from anytimebp.kernels.jit import kernel, table_view
from anytimebp.model.block_rows import ARITY, ENTRIES, FACTORS, MEMBERS, TABLES

GIVEN, TARGET, SIZE, PLACE = range(4)  # rows of the list of tables


@kernel()
def list_tables(rows, factor_max, place, listed, log_max):
    """List the linear tables to make of log tables over whole universes, shared ones once.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`; all message factors have log tables.
        factor_max: (F,) maximum of each factor's table.
        place: Address of the room for the tables.
        listed: (4, F) overwritten, for the tables that are listed: where the log table lies, where the linear one goes,
            and its entries; per factor, where its table goes.
        log_max: (F,) overwritten: per table that is listed, its maximum.

    Returns:
        How many tables are listed.
    """
    factor = n_tables = 0
    for block in range(rows.shape[0]):
        size, is_shared = rows[block, ENTRIES], rows[block, MEMBERS] == 1
        for k in range(rows[block, FACTORS] if rows[block, ARITY] > 1 else 0):
            if k == 0 or not is_shared:
                listed[GIVEN, n_tables], listed[TARGET, n_tables] = rows[block, TABLES] + 8 * size * k, place
                listed[SIZE, n_tables], log_max[n_tables] = size, factor_max[factor]
                n_tables += 1
                place += 8 * size
            listed[PLACE, factor] = listed[TARGET, n_tables - 1]
            factor += 1
    return n_tables


@kernel()
def cut_tables(rows, edge_variable, universe_size, size, slot_start, slot_state, made, base, listed, log_max, extent):
    """List the linear tables to make of log tables; copy what domains leave of those that evidence cuts.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`; all message factors have log tables.
        edge_variable: (E,).
        universe_size: (V,).
        size: (V,) states in each domain.
        slot_start: (V + 1,) where a variable's slots start.
        slot_state: The state in each slot.
        made: Room for the tables, overwritten where they are cut.
        base: Its address.
        listed: (4, F) overwritten, as by `list_tables`.
        log_max: (F,) overwritten: per table that is listed, its maximum.
        extent: A TableRange of the factors, overwritten where tables are cut: the largest log score of a table, how far
            the smallest finite one is below it, and whether there are zeros.

    Returns:
        How many tables are listed, and the first factor whose cut table admits no joint state, where it stops, or -1.
    """
    factor = first = n_tables = place = 0
    for block in range(rows.shape[0]):
        arity, shared = rows[block, ARITY], 0
        for k in range(rows[block, FACTORS] if arity > 1 else 0):
            n = 1
            for edge in range(first, first + arity):
                n *= size[edge_variable[edge]]
            member, is_cut = k if rows[block, MEMBERS] > 1 else 0, n < rows[block, ENTRIES]
            given = rows[block, TABLES] + 8 * rows[block, ENTRIES] * member
            listed[PLACE, factor] = shared
            if is_cut or shared == 0:
                target = base + 8 * place
                listed[PLACE, factor] = target
                if is_cut:
                    _cut(
                        given, first, arity, edge_variable, universe_size, size, slot_start, slot_state, made, place, n
                    )
                    largest, below, zeros = _extent(made, place, n)
                    extent.log_max[factor], extent.log_min[factor] = largest, below
                    extent.has_zero[factor], given = zeros > 0.0, target
                    if largest == -np.inf:
                        return n_tables, factor
                elif rows[block, MEMBERS] == 1:
                    shared = target
                listed[GIVEN, n_tables], listed[TARGET, n_tables], listed[SIZE, n_tables] = given, target, n
                log_max[n_tables] = extent.log_max[factor]
                place += n
                n_tables += 1
            first += arity
            factor += 1
    return n_tables, -1


@kernel()
def _cut(given, first, arity, edge_variable, universe_size, size, slot_start, slot_state, made, start, n):
    """Copy a table's entries on the domains: the place of each of them says its states."""
    entries = 1
    for edge in range(first, first + arity):
        entries *= universe_size[edge_variable[edge]]
    whole = table_view(given, entries)
    for place in range(n):
        left, stride, entry = place, 1, 0
        for edge in range(first + arity - 1, first - 1, -1):
            variable = edge_variable[edge]
            entry += stride * slot_state[slot_start[variable] + left % size[variable]]
            left //= size[variable]
            stride *= universe_size[variable]
        made[start + place] = whole[entry]


@kernel()
def _extent(values, start, n):
    """Return the largest value, how far the smallest finite one is below it, and 1 if there is a -inf, 0 if not."""
    largest, smallest, has_zero = -np.inf, np.inf, 0.0
    for k in range(start, start + n):
        largest = max(largest, values[k])
        if values[k] > -np.inf:
            smallest = min(smallest, values[k])
        else:
            has_zero = 1.0
    return largest, smallest - largest, has_zero
