"""Log tables to linear ones, whole or cut to the domains that evidence leaves, for models small enough for one slice."""

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, borrow, kernel, table_view
from anytimebp.model.block_rows import ARITY, ENTRIES, EXTENT, FACTORS, IS_LOG, MEMBERS, TABLES


@kernel()
def place_log_tables(rows, layout, universe_size, size, offset):
    """Find out where the linear tables of all log tables go: whole ones that are shared once, cut ones one each.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`.
        layout: Topology.
        universe_size: (V,).
        size: (V,) states in each domain.
        offset: (F,) overwritten: where a factor's table starts among all of them; -1 for factors of other kinds.

    Returns:
        Entries of all these tables together, as a float: there may be very many; and the blocks they belong to.
    """
    layout = borrow(layout)
    total, factor, n_blocks = 0.0, 0, 0
    for block in range(rows.shape[0]):
        if rows[block, ARITY] == 1:
            continue
        is_log_table = rows[block, TABLES] != 0 and rows[block, IS_LOG] != 0
        n_blocks += is_log_table
        shared = -1
        for _ in range(rows[block, FACTORS]):
            entries, is_cut = 1.0, False
            for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
                variable = layout.edge_variable[edge]
                entries *= size[variable]
                is_cut |= size[variable] < universe_size[variable]
            offset[factor] = shared if is_log_table and not is_cut else -1
            if is_log_table and offset[factor] < 0:
                offset[factor] = np.int64(total)
                total += entries
                if not is_cut and rows[block, MEMBERS] == 1:
                    shared = offset[factor]
            factor += 1
    return total, n_blocks


@kernel()
def fill_log_tables(rows, layout, universe_size, size, slot_start, slot_state, offset, made, tables, counter):
    """Fill the tables that `place_log_tables` has found a place for, each divided by its maximum.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`.
        layout: Topology.
        universe_size: (V,).
        size: (V,) states in each domain.
        slot_start: (V + 1,) where a variable's slots start.
        slot_state: The state in each slot; empty where every domain is the universe in order.
        offset: (F,) where a factor's table starts in `made`, or -1.
        made: Overwritten.
        tables: Log of the scale, log of the smallest positive number, and whether there are zeros, (F,) each; written
            for the factors whose tables are cut.
        counter: Scratch: a number per axis.

    Returns:
        The first factor whose cut table admits no joint state, at which it stops, or -1.
    """
    layout, (log_scale, log_min, has_zero) = borrow(layout), tables
    factor, done = 0, -1
    for block in range(rows.shape[0]):
        if rows[block, ARITY] == 1:
            continue
        entries, members = rows[block, ENTRIES], rows[block, MEMBERS]
        for k in range(rows[block, FACTORS]):
            if offset[factor] > done:  # neither another kind nor shared with a factor before
                done = offset[factor]
                member = k if members > 1 else 0
                given = table_view(rows[block, TABLES] + 8 * entries * member, entries)
                n = _cut_table(layout, universe_size, size, slot_start, slot_state, factor, given, made[done:], counter)
                if n == entries:
                    largest = table_view(rows[block, EXTENT], members)[member]
                    _exponentiate(given, made[done : done + n], largest)
                else:
                    cut = made[done : done + n]
                    log_scale[factor], log_min[factor], has_zero[factor] = _extent(cut)
                    if log_scale[factor] == -np.inf:
                        return factor
                    _exponentiate(cut, cut, log_scale[factor])
            factor += 1
    return -1


@kernel(merge=True)
def _cut_table(layout, universe_size, size, slot_start, slot_state, factor, given, made, counter):
    """Copy a table's entries on the domains, unless these are all of them; return how many there are."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1] - 1
    n = 1
    for edge in range(first, last + 1):
        n *= size[layout.edge_variable[edge]]
        counter[edge - first] = 0
    if n == given.size:
        return n
    variable, place = layout.edge_variable[last], 0
    start, width = slot_start[variable], size[variable]
    while place < n:
        row = 0
        for edge in range(first, last):
            own = layout.edge_variable[edge]
            row = row * universe_size[own] + slot_state[slot_start[own] + counter[edge - first]]
        for v in range(width):
            made[place + v] = given[row * universe_size[variable] + slot_state[start + v]]
        place += width
        edge = last - 1
        while edge >= first:  # count on
            counter[edge - first] += 1
            if counter[edge - first] < size[layout.edge_variable[edge]]:
                break
            counter[edge - first] = 0
            edge -= 1
    return n


@kernel(FAST_WITHOUT_NAN)
def _extent(values):
    """Return the largest value, how far the smallest finite one is below it, and whether there is a -inf."""
    largest, smallest, n_zero = -np.inf, np.inf, 0
    for k in range(values.size):
        largest = max(largest, values[k])
        smallest = min(smallest, values[k] if values[k] > -np.inf else np.inf)
        n_zero += values[k] == -np.inf
    return largest, smallest - largest, n_zero > 0


@kernel()
def _exponentiate(given, made, shift):
    for k in range(given.size):
        made[k] = exp(given[k] - shift)
