"""Which dense tables a run needs, and how they are made; and those that evidence cuts, made."""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import LOG, MAX_LINEAR_RANGE
from anytimebp.kernels.jit import kernel, table_view
from anytimebp.model.factor import ARITY, ENTRIES, EXTENT, FACTORS, IS_LOG, MEMBERS, TABLES
from anytimebp.model.kinds.dense import PLAIN_RANGE

FACTOR, EDGE, N_EDGES, GIVEN, SIZE, HOW, IS_CUT, TARGET = range(8)  # rows of the list of tables
LISTED = 8
AS_THEY_ARE, EXPONENTIATED, CONVERTED, WIDE, WIDE_CONVERTED = range(5)
"""How numbers are used. AS_THEY_ARE: potentials, where they lie. EXPONENTIATED: log scores. CONVERTED: potentials of
extreme scale, divided by their maximum. WIDE: log scores, where they lie, since their range is beyond MAX_LINEAR_RANGE.
WIDE_CONVERTED: logs of such potentials."""
LOG_SCALE, LOG_MIN, HAS_ZERO, IN_LOGS = range(4)  # rows of what is found of cut tables
LOWEST, HIGHEST = PLAIN_RANGE
LOOK_BACK = 8  # tables among which the same numbers are looked for: of graphs that are joined, each has those of others


@kernel()
def _how(is_log, extent, members, in_log_arithmetic):
    """Return how the tables of a block are used, all in the same way; `extent` is (2 * members,) maxima and minima."""
    is_wide, is_plain = False, not is_log
    for k in range(members):
        highest, lowest = extent[k], extent[members + k]
        is_wide |= in_log_arithmetic and lowest - highest < -MAX_LINEAR_RANGE
        is_plain &= highest < HIGHEST and lowest > LOWEST
    if is_wide:
        return WIDE if is_log else WIDE_CONVERTED
    if is_plain:
        return AS_THEY_ARE
    return EXPONENTIATED if is_log else CONVERTED


@kernel()
def _listed_before(listed, n_tables, given, entries, how):
    """Return which of the last tables that were listed has the same numbers, as a whole and for the same use; or -1."""
    for table in range(n_tables - 1, max(-1, n_tables - 1 - LOOK_BACK), -1):
        is_same = listed[GIVEN, table] == given and listed[SIZE, table] == entries and listed[HOW, table] == how
        if is_same and not listed[IS_CUT, table]:
            return table
    return -1


@kernel()
def list_tables(rows, edge_variable, size, arithmetic, listed, table_of, state, limit):
    """Go on listing the tables that factors with dense sources need, each once: shared ones, unless evidence cuts them.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`.
        edge_variable: (E,).
        size: (V,) states in each domain.
        arithmetic: LINEAR or LOG.
        listed: (LISTED, F) overwritten, a column per table: a factor that has it, its first edge and how many there
            are; where the numbers lie; entries over the domains; how they are used; whether evidence cuts them; and
            where they go, in entries from the start of the room for them (nowhere, if they stay where they are).
        table_of: (F,) overwritten: which table a factor has, or -1.
        state: (9,) zeros at first, overwritten: how many tables are listed, the entries of the room that they need,
            and how many of them are no whole tables of log scores to exponentiate; then factors and edges so far, the
            block, how far it is, the table that its factors share, or -1, and how its tables are used.
        limit: Factors to look at before it stops.

    Returns:
        Whether it is through.
    """
    n_tables, room, n_others, factor, first = state[0], state[1], state[2], state[3], state[4]
    block, begin, shared, how = state[5], state[6], state[7], state[8]
    while block < rows.shape[0] and limit > 0:
        arity, members = rows[block, ARITY], rows[block, MEMBERS]
        is_dense = arity > 1 and rows[block, TABLES] != 0
        if begin == 0:
            shared = -1
        if is_dense and begin == 0:
            extent = table_view(rows[block, EXTENT], 2 * members)
            how = _how(rows[block, IS_LOG] != 0, extent, members, arithmetic == LOG)
            if members == 1:
                shared = _listed_before(listed, n_tables, rows[block, TABLES], rows[block, ENTRIES], how)
        end = min(rows[block, FACTORS] if arity > 1 else 0, begin + limit)
        for offset in range(begin, end):
            n = 1
            for edge in range(first, first + arity):
                n *= size[edge_variable[edge]]
            is_cut = n < rows[block, ENTRIES]
            table_of[factor] = -1
            if is_dense and not is_cut and shared >= 0:
                table_of[factor] = shared
            elif is_dense:
                table_of[factor] = n_tables
                listed[FACTOR, n_tables], listed[EDGE, n_tables], listed[N_EDGES, n_tables] = factor, first, arity
                member = offset if members > 1 else 0
                listed[GIVEN, n_tables] = rows[block, TABLES] + 8 * rows[block, ENTRIES] * member
                listed[SIZE, n_tables], listed[HOW, n_tables], listed[IS_CUT, n_tables] = n, how, is_cut
                listed[TARGET, n_tables] = room
                room += n if is_cut or how not in (AS_THEY_ARE, WIDE) else 0
                n_others += is_cut or how != EXPONENTIATED
                if not is_cut and members == 1:
                    shared = n_tables
                n_tables += 1
            first += arity
            factor += 1
        limit -= end - begin + 1
        is_over = arity <= 1 or end == rows[block, FACTORS]
        block, begin = block + is_over, 0 if is_over else end
    state[0], state[1], state[2], state[3] = n_tables, room, n_others, factor
    state[4], state[5], state[6], state[7], state[8] = first, block, begin, shared, how
    return block == rows.shape[0]


@kernel()
def where_tables_lie(rows, address, is_log):
    """List where the tables of message factors over all states lie.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`.
        address: (F,) overwritten; 0 for factors without tables.
        is_log: (F,) overwritten: whether they hold log scores.
    """
    factor = 0
    for block in range(rows.shape[0]):
        given, step = rows[block, TABLES], 8 * rows[block, ENTRIES] if rows[block, MEMBERS] > 1 else 0
        for offset in range(rows[block, FACTORS] if rows[block, ARITY] > 1 else 0):
            address[factor] = given + step * offset if given != 0 else 0
            is_log[factor] = rows[block, IS_LOG] != 0
            factor += 1


@kernel()
def cut_tables_slice(edge_variable, universe_size, size, slot_start, slot_state, listed, made, found, position, limit):
    """Make tables over the domains that evidence leaves, each divided by its maximum; none where a domain is empty.

    Args:
        edge_variable: (E,).
        universe_size: (V,).
        size: (V,) states in each domain.
        slot_start: (V + 1,) where a variable's slots start.
        slot_state: The state in each slot.
        listed: (LISTED, tables) see `list_tables`.
        made: Room for the tables, overwritten where they are cut.
        found: (4, tables) overwritten, for those that are cut: the log of the maximum, how far the log of the smallest
            positive number is below it, whether there are zeros, and whether the numbers are left as logs.
        position: The table to go on with.
        limit: About how many entries to make.

    Returns:
        The table to go on with, and a factor whose cut table admits no joint state, where it stops, or -1.
    """
    while position < listed.shape[1] and limit > 0:
        if listed[SIZE, position] == 0:  # nobody needs it
            for k in range(4):
                found[k, position] = 0.0
        elif listed[IS_CUT, position]:
            n, how = listed[SIZE, position], listed[HOW, position]
            table = made[listed[TARGET, position] : listed[TARGET, position] + n]
            first, last = listed[EDGE, position], listed[EDGE, position] + listed[N_EDGES, position]
            given = listed[GIVEN, position]
            _cut(given, first, last, edge_variable, universe_size, size, slot_start, slot_state, table)
            if how in (CONVERTED, WIDE_CONVERTED):
                for k in range(n):
                    table[k] = log(table[k])
            if how == AS_THEY_ARE:
                log_max, below, has_zero = _divide(table)
            else:
                log_max, below, has_zero = _lower(table)
            if log_max == -np.inf:
                return position, listed[FACTOR, position]
            in_logs = below < -MAX_LINEAR_RANGE and how in (WIDE, WIDE_CONVERTED)
            if how != AS_THEY_ARE and not in_logs:
                for k in range(n):
                    table[k] = exp(table[k])
            found[LOG_SCALE, position], found[LOG_MIN, position] = log_max, below
            found[HAS_ZERO, position], found[IN_LOGS, position] = has_zero, in_logs
            limit -= n
        position += 1
    return position, -1


@kernel()
def _cut(given, first, last, edge_variable, universe_size, size, slot_start, slot_state, table):
    """Copy a table's entries on the domains, row by row: where a row goes says the states of all axes but the last."""
    entries = 1
    for edge in range(first, last):
        entries *= universe_size[edge_variable[edge]]
    whole, columns = table_view(given, entries), edge_variable[last - 1]
    n, states = size[columns], slot_state[slot_start[columns] : slot_start[columns + 1]]
    for start in range(0, table.size, n):
        left, stride, entry = start // n, universe_size[columns], 0
        for edge in range(last - 2, first - 1, -1):
            variable = edge_variable[edge]
            entry += stride * slot_state[slot_start[variable] + left % size[variable]]
            left //= size[variable]
            stride *= universe_size[variable]
        for c in range(n):
            table[start + c] = whole[entry + states[c]]


@kernel()
def _divide(table):
    """Divide potentials by their maximum; return its log, that of the smallest part of it, and if there are zeros."""
    largest, smallest = 0.0, np.inf
    for k in range(table.size):
        largest = max(largest, table[k])
        smallest = min(smallest, table[k] if table[k] > 0.0 else np.inf)
    if largest == 0.0:
        return -np.inf, 0.0, 1.0
    has_zero = 0.0
    for k in range(table.size):
        has_zero = 1.0 if table[k] == 0.0 else has_zero
        table[k] /= largest
    return math.log(largest), math.log(smallest / largest), has_zero


@kernel()
def _lower(table):
    """Subtract from log scores the largest; return it, how far the smallest finite one is below, if there are zeros."""
    largest, smallest = -np.inf, np.inf
    for k in range(table.size):
        largest = max(largest, table[k])
        smallest = min(smallest, table[k] if table[k] > -np.inf else np.inf)
    if largest == -np.inf:
        return -np.inf, 0.0, 1.0
    has_zero = 0.0
    for k in range(table.size):
        has_zero = 1.0 if table[k] == -np.inf else has_zero
        table[k] -= largest
    return largest, smallest - largest, has_zero
