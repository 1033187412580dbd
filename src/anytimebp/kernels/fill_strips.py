"""Filling strips, and tables over the domains, from the numbers of dense factors.

A strip's row is picked up along the source or across it, and exponentiated where the source holds log scores. Where a
factor has a leaf j, with prior p_j, every entry is a sum over its states instead:

    t'(x)  =  sum over x_j of t(x, x_j) * p_j(x_j)

`bp` is a WorkspaceArrays over the states within reach, `nested` a NestedArrays.
"""

import math

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG_TABLE, POTENTIALS
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view
from anytimebp.kernels.messages import EDGE_COST

EXP_COST = 12  # entries that could be read in the time of picking one up and exponentiating it


@kernel()
def _locate_rows(layout, bp, nested, edge):
    """Fill `row_base`, where each row starts in the source, and `row_old`, its place in the strip before, or -1.

    Returns:
        How many rows there are.
    """
    factor = layout.edge_factor[edge]
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    nested.row_base[0], nested.row_old[0] = 0, 0
    rows, old_rows = 1, 1
    for other in range(last - 1, first - 1, -1):
        if other != edge:
            variable, stride = layout.edge_variable[other], nested.edge_stride[other]
            start, n, old = bp.variable_slot_start[variable], nested.size[variable], nested.old_size[variable]
            for d in range(n - 1, -1, -1):
                state = nested.slot_state[start + nested.member[start + d]]
                for r in range(rows):
                    before = nested.row_old[r]
                    nested.row_base[d * rows + r] = nested.row_base[r] + state * stride
                    nested.row_old[d * rows + r] = before + d * old_rows if d < old and before >= 0 else -1
            rows *= n
            old_rows *= old
    return rows


@kernel()
def _pick_along(source, base, states, plain, rows, n, made):
    """Copy the rows at `base` whose place in `rows` is -1, where they lie along the source."""
    for r in range(base.size):
        if rows[r] < 0:
            row, line = source[base[r] :], made[r * n : r * n + n]
            if plain:
                for u in range(n):
                    line[u] = row[u]
            else:
                for u in range(n):
                    line[u] = row[states[u]]


@kernel()
def _pick_across(source, base, own_stride, states, rows, n, made, target):
    """Do as `_pick_along` where the rows lie across the source: state by state, so that pages are read once."""
    k = 0
    for r in range(base.size):
        if rows[r] < 0:
            base[k], target[k] = base[r], r * n
            k += 1
    for u in range(n):
        across, column = source[states[u] * own_stride :], made[u:]
        for r in range(k):
            column[target[r]] = across[base[r]]


@kernel()
def _convert_line(line, kind, shift):
    if kind == LOG_TABLE:
        for u in range(line.size):
            line[u] = exp(line[u] - shift)
    elif kind == POTENTIALS and shift != 0.0:
        scale = math.exp(-shift)
        for u in range(line.size):
            line[u] *= scale


@kernel(FAST)
def _sum_leaf(entries, first, stride, weight, kind, shift):
    """Return the sum over a leaf's states of an entry times its weight; `first` is where the first state's entry is."""
    total, n = 0.0, weight.size
    if kind == LOG_TABLE:
        for v in range(n):
            total += exp(entries[first + v * stride] - shift) * weight[v]
    elif stride == 1:  # vectorised
        row = entries[first : first + n]
        for v in range(n):
            total += row[v] * weight[v]
    else:
        row = entries[first:]
        for v in range(n):
            total += row[v * stride] * weight[v]
    return total


@kernel(FAST)
def _sum_rows(entries, first, stride, states, weight, line):
    """Fill `line` with the sums of rows along a leaf that is the last axis, for some states of another axis."""
    n = weight.size
    for u in range(states.size):
        start = first + states[u] * stride
        row, total = entries[start : start + n], 0.0
        for v in range(n):
            total += row[v] * weight[v]
        line[u] = total


@kernel()
def _pick_without_leaf(nested, factor, source, base, own_stride, states, rows, n, made):
    """Fill the rows at `base` whose place in `rows` is -1 with sums over the states of the factor's leaf."""
    kind, shift, stride = nested.source_kind[factor], nested.shift[factor], nested.leaf_stride[factor]
    start = nested.leaf_start[factor]
    weight = nested.leaf_weight[start : start + nested.leaf_size[factor]]
    for r in range(base.size):
        if rows[r] < 0:
            line = made[r * n : r * n + n]
            if kind != LOG_TABLE and stride == 1:
                _sum_rows(source, base[r], own_stride, states, weight, line)
            else:
                for u in range(n):
                    line[u] = _sum_leaf(source, base[r] + states[u] * own_stride, stride, weight, kind, shift)
            if kind == POTENTIALS:
                scale = math.exp(-shift)
                for u in range(n):
                    line[u] *= scale


@kernel()
def _fill_strip(layout, bp, nested, edge):
    """Fill one strip of a dense factor; return how many entries were picked up."""
    factor, variable = layout.edge_factor[edge], layout.edge_variable[edge]
    n, start = bp.domain_size[variable], bp.variable_slot_start[variable]
    rows, own_stride, summed = (
        _locate_rows(layout, bp, nested, edge),
        nested.edge_stride[edge],
        nested.leaf_size[factor],
    )
    made = nested.pool[nested.strip_start[edge] : nested.strip_start[edge] + rows * n]
    old = nested.old_pool[nested.old_start[edge] :]
    base, row_old = nested.row_base[:rows], nested.row_old[:rows]
    states, plain = nested.slot_state[start : start + n], n == nested.universe_size[variable]
    source = table_view(nested.source_address[factor], nested.table_size[factor])
    if nested.leaf_start[factor] >= 0:
        _pick_without_leaf(nested, factor, source, base, own_stride, states, row_old, n, made)
    elif own_stride == 1:
        _pick_along(source, base, states, plain, row_old, n, made)
    else:
        _pick_across(source, base, own_stride, states, row_old, n, made, nested.row_target)
    entries = 0
    for r in range(rows):
        line = made[r * n : r * n + n]
        if row_old[r] >= 0:
            before = old[row_old[r] * n : row_old[r] * n + n]
            for u in range(n):
                line[u] = before[u]
        else:
            if nested.leaf_start[factor] < 0:
                _convert_line(line, nested.source_kind[factor], nested.shift[factor])
            entries += n * summed
    return entries


@kernel()
def fill_strips(layout, bp, nested, position, cost_limit):
    """Fill the strips of dense factors from edge `position` on, until `cost_limit`; copy what was there before.

    Returns:
        The edge to go on with, the entries picked up, and the cost.
    """
    cost, entries = 0, 0
    while position < layout.edge_variable.size and cost < cost_limit:
        if nested.source_address[layout.edge_factor[position]]:
            picked = _fill_strip(layout, bp, nested, position)
            entries += picked
            cost += EXP_COST * picked if nested.leaf_start[layout.edge_factor[position]] < 0 else picked
        cost += EDGE_COST
        position += 1
    return position, entries, cost


@kernel()
def plan_strips(layout, bp, nested, strip_start, table_start):
    """Fill where strips (E + 1,) and tables over the domains (F + 1,) start; return the most rows that a strip has."""
    layout, bp, nested = borrow(layout), borrow(bp), borrow(nested)
    strips, tables, most = 0, 0, 1
    for factor in range(table_start.size - 1):
        table_start[factor] = tables
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        entries = 1
        for edge in range(first, last):
            entries *= nested.size[layout.edge_variable[edge]]
        for edge in range(first, last):
            strip_start[edge] = strips
            rows = entries // nested.size[layout.edge_variable[edge]]
            strips += rows * bp.domain_size[layout.edge_variable[edge]]
            most = max(most, rows)
        tables += entries
    strip_start[strip_start.size - 1] = strips
    table_start[table_start.size - 1] = tables
    return most


@kernel()
def locate_entries(layout, bp, nested, factor):
    """Fill `row_base` with where the entries of a factor lie whose variables are in their domains; return how many."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    nested.row_base[0], rows = 0, 1
    for edge in range(last - 1, first - 1, -1):
        variable = layout.edge_variable[edge]
        start, n = bp.variable_slot_start[variable], nested.size[variable]
        for d in range(n - 1, -1, -1):
            base = nested.slot_state[start + nested.member[start + d]] * nested.edge_stride[edge]
            for r in range(rows):
                nested.row_base[d * rows + r] = nested.row_base[r] + base
        rows *= n
    return rows


@kernel()
def _fill_table(layout, bp, inner, nested, factor):
    """Fill a dense factor's table over the domains from its source; return how many entries were read."""
    rows = locate_entries(layout, bp, nested, factor)
    kind, shift = nested.source_kind[factor], nested.shift[factor]
    source = table_view(nested.source_address[factor], nested.table_size[factor])
    table, start = table_view(inner.table_address[factor], rows), nested.leaf_start[factor]
    if start >= 0:
        weight = nested.leaf_weight[start : start + nested.leaf_size[factor]]
        for r in range(rows):
            table[r] = _sum_leaf(source, nested.row_base[r], nested.leaf_stride[factor], weight, kind, shift)
        if kind == POTENTIALS:
            _convert_line(table, kind, shift)
    else:
        for r in range(rows):
            table[r] = source[nested.row_base[r]]
        _convert_line(table, kind, shift)
    return rows * nested.leaf_size[factor]


@kernel()
def fill_tables(layout, bp, inner, nested, position, cost_limit):
    """Fill the tables over the domains from factor `position` on, until `cost_limit`.

    Returns:
        The factor to go on with, the entries read, and the cost.
    """
    cost, entries = 0, 0
    while position < nested.table_size.size and cost < cost_limit:
        picked = _fill_table(layout, bp, inner, nested, position)
        entries += picked
        cost += EXP_COST * picked + EDGE_COST
        position += 1
    return position, entries, cost
