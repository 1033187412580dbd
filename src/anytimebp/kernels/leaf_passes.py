"""Passes from the leaves of a graph to its core and back, see `leaves.py`; tied tables go for many factors at once."""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import (
    CORE,
    FACTOR_VANISHED,
    GATHER,
    LINEAR,
    LOG,
    OK,
    OUT_OF_RANGE,
    SAFE,
    STORE,
    TABLE,
    UP,
    VANISHED,
    VARIABLE_VANISHED,
)
from anytimebp.kernels.jit import borrow, kernel, table_view
from anytimebp.kernels.leaf_tables import least_product, sum_leaves
from anytimebp.kernels.messages import cost_of, smallest_product, sum_out, through_structure
from anytimebp.kernels.structures import ALL
from anytimebp.kernels.through_table import edge_size
from anytimebp.kernels.tied_leaves import EDGES, cut_block, sum_tied_down, sum_tied_up, tied_run
from anytimebp.kernels.to_factor import gather_at
from anytimebp.kernels.to_variable import store_at


@kernel()
def _gather_axes(layout, bp, way, factor, to):
    """Fill `bp.incoming`: with the weights of all axes, or on the way UP with those of leaves, and ones.

    Returns:
        Status, what vanished, the entries to be read, and the log of what was divided out of the weights.
    """
    floor, lost, offset, entries, log_scale = bp.table_min[factor], False, 0, 1, 0.0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        variable = layout.edge_variable[edge]
        n = bp.domain_size[variable]
        weight = bp.incoming[offset : offset + n]
        if to == UP and (way[edge] == CORE or way[edge] == UP):
            for v in range(n):
                weight[v] = 0.0 if bp.arithmetic == LOG else 1.0
        else:
            bound, peak, log_peak = gather_at(bp.calls[GATHER], (layout, bp, variable, edge, weight))
            if bound < 0.0:
                return VARIABLE_VANISHED, variable, 0, 0.0
            lost |= bound == 0.0
            floor *= bound
            log_scale += math.log(peak) + log_peak
        offset += n
        entries *= n
    doubtful = floor < SAFE and bp.arithmetic == LINEAR and bp.table_has_zero[factor]
    if doubtful and (lost or smallest_product(layout, bp, factor) < SAFE):
        return OUT_OF_RANGE, factor, 0, 0.0
    return OK, -1, entries if bp.factor_kind[factor] == TABLE else bp.structure_work[factor], log_scale


@kernel()
def _only_axis(layout, way, factor):
    """Return the axis of the message that a factor sends UP, or ALL if it sends none."""
    first = layout.factor_edge_start[factor]
    for edge in range(first, layout.factor_edge_start[factor + 1]):
        if way[edge] == UP:
            return edge - first
    return ALL


@kernel()
def _send(layout, bp, way, factor, to):
    """Send the messages of a factor that go in one way, from the weights in `bp.incoming`.

    Returns:
        Status, and the log of what they were divided by; of Z_f if there are none.
    """
    only, total = (_only_axis(layout, way, factor) if to == UP else ALL), 0.0
    if only != ALL and bp.factor_kind[factor] != TABLE:
        through_structure(layout, bp, factor, only)  # nobody reads Z_f before the pass DOWN
    else:
        sum_out(layout, bp, factor)
        total = bp.factor_total[factor] if bp.arithmetic == LOG else log(bp.factor_total[factor])
    if total == -np.inf:
        return FACTOR_VANISHED, 0.0
    log_scale, offset, n_sent = 0.0, 0, 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        end = offset + edge_size(layout.edge_variable, bp.domain_size, edge)
        if way[edge] == to:
            weight, new = bp.incoming[offset:end], bp.outgoing[offset:end]
            moved = store_at(bp.calls[STORE], (layout, bp, edge, weight, new, 0.0))
            if moved < 0.0:
                return FACTOR_VANISHED if moved == VANISHED else OUT_OF_RANGE, 0.0
            log_scale += bp.edge_scale[edge] if bp.arithmetic == LOG else log(bp.edge_scale[edge])
            n_sent += 1
        offset = end
    return OK, log_scale if n_sent else total


@kernel()
def _pass_one(layout, bp, leaves, factor, to):
    """Pass a factor; return status, what vanished, entries read, and the constant that it adds to log Z."""
    status, culprit, entries, log_scale = _gather_axes(layout, bp, leaves.way, factor, to)
    if status != OK:
        return status, culprit, 0, 0.0
    if to == UP and leaves.table_address[factor]:
        sum_leaves(layout, bp, leaves, factor)
    else:
        status, log_sent = _send(layout, bp, leaves.way, factor, to)
        log_scale += log_sent
    return status, factor, entries, log_scale


# ---------------------------------------------------------------- factors of a tied table
@kernel()
def _gather_tied(layout, bp, leaves, factors, to, gathered):
    """Fill the weights of the axes of some factors, a row each, up to one of which something has vanished.

    Returns:
        Status and what vanished if that is the first one, how many rows there are, the entries of each factor, and the
        log of what was divided out of the weights.
    """
    row, log_scale, entries = gathered.size // factors.size, 0.0, 0
    for k in range(factors.size):
        status, culprit, entries, divided = _gather_axes(layout, bp, leaves.way, factors[k], to)
        if status != OK:
            return (OK if k else status), culprit, k, entries, log_scale
        for v in range(row):
            gathered[k * row + v] = bp.incoming[v]
        log_scale += divided
        if to == UP:
            leaves.table_min[factors[k]] = exp(least_product(layout, bp, leaves, factors[k]))
            leaves.in_logs[factors[k]] = False
    return OK, -1, factors.size, entries, log_scale


@kernel()
def _send_tied(layout, bp, factors, gathered, told, n_leaf):
    """Send what factors say to their leaves; return status, what vanished, and the log of what it was divided by."""
    row, log_scale = gathered.size // factors.size, 0.0
    for k in range(factors.size):
        weight, new = gathered[k * row + row - n_leaf : k * row + row], told[k * n_leaf : k * n_leaf + n_leaf]
        total = 0.0
        for v in range(n_leaf):
            total += weight[v] * new[v]
        bp.factor_total[factors[k]] = total
        if total == 0.0:
            return FACTOR_VANISHED, factors[k], 0.0
        edge = layout.factor_edge_start[factors[k]] + EDGES - 1
        moved = store_at(bp.calls[STORE], (layout, bp, edge, weight, new, 0.0))
        if moved < 0.0:
            return (FACTOR_VANISHED if moved == VANISHED else OUT_OF_RANGE), factors[k], 0.0
        log_scale += log(bp.edge_scale[edge])
    return OK, -1, log_scale


@kernel()
def _pass_tied(layout, bp, leaves, factors, to):
    """Pass factors of one table together, or the first of them if something has vanished.

    Returns:
        Status, what vanished, how many are through, the entries of each, and the constant that they add to log Z.
    """
    first = layout.factor_edge_start[factors[0]]
    n = edge_size(layout.edge_variable, bp.domain_size, first)
    m = edge_size(layout.edge_variable, bp.domain_size, first + 1)
    n_leaf = edge_size(layout.edge_variable, bp.domain_size, first + 2)
    gathered, told, scratch = cut_block(leaves.block, factors.size, n + m + n_leaf, n_leaf)
    status, culprit, done, entries, log_scale = _gather_tied(layout, bp, leaves, factors, to, gathered)
    if done == 0:
        return status, culprit, 0, 0, 0.0
    gathered, told, factors = gathered[: done * (n + m + n_leaf)], told[: done * n_leaf], factors[:done]
    table = table_view(bp.table_address[factors[0]], entries)
    if to == UP:
        sum_tied_up(table, gathered, leaves.table_address, factors, n_leaf)
        return OK, -1, done, entries, log_scale
    sum_tied_down(table, gathered, factors.size, n, m, told, scratch)
    status, culprit, log_sent = _send_tied(layout, bp, factors, gathered, told, n_leaf)
    return status, culprit, done, entries, log_scale + log_sent


@kernel()
def pass_slice(layout, bp, leaves, order, to, position, stop, cost_limit):
    """Go on with a pass over the factors order[position:stop], at most until `cost_limit` entries are read.

    On the way UP, a factor of a tree sends towards the core, and one of the core has its leaves summed out. On the way
    DOWN, both send to their leaves and to nobody else, so that the core does not notice.

    Returns:
        Status, what vanished, the position reached, entries read, and the constant that the factors add to log Z.
    """
    layout, bp, leaves = borrow(layout), borrow(bp), borrow(leaves)
    work, cost, constant = 0, 0, 0.0
    while position < stop and cost < cost_limit:
        factor, done = order[position], 1
        n_tied = tied_run(layout, bp, leaves, order, position, stop)
        if n_tied:
            factors = order[position : position + n_tied]
            status, culprit, done, entries, log_scale = _pass_tied(layout, bp, leaves, factors, to)
        else:
            status, culprit, entries, log_scale = _pass_one(layout, bp, leaves, factor, to)
        if status != OK:
            return status, culprit, position, work, constant
        position += done
        work += done * entries
        constant += log_scale
        cost += done * cost_of(layout.factor_edge_start, bp.table_in_logs, factor, entries)
    return OK, -1, position, work, constant
