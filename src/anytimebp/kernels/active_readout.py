"""Marginals out of a round on active states: beliefs of states outside that a look has found, and of leaves.

`active` is an Active, `reach` a Reach, `sources` a Sources (`inference/adaptive/whole_model.py`). With the weights n of
messages to a factor, the belief of its leaf j is

    b_j(x_j)  ~  p_j(x_j) * sum over x of t(x, x_j) * product of n_k(x_k)

over the active states x, and over joint states of which one is outside, as far as a look has found it to count.
"""

import math

from anytimebp.kernels.active import MOST_ODDS, leaf_span, locate_rows, weigh_active, weigh_rows
from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG_TABLE, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view

LINES = 4  # that are added in one pass over the sums: a pass costs more than they do


@kernel()
def place_beliefs(active, reach, outside, is_leaf, domain_belief, belief):
    """Fill a row of all states with the beliefs of those that are active or within reach; leaves are left alone.

    Args:
        active: An Active.
        reach: A Reach with beliefs, in parts of what the domains hold.
        outside: (V,) their sums.
        is_leaf: (V,) variables that are summed out.
        domain_belief: Per active state.
        belief: Per state of every universe; overwritten where a state is active or within reach.
    """
    active, reach = borrow(active), borrow(reach)
    for variable in range(outside.size):
        if not is_leaf[variable]:
            first, share = active.universe_start[variable], 1.0 / (1.0 + outside[variable])
            for k in range(active.start[variable], active.start[variable + 1]):
                belief[first + active.state[k]] = domain_belief[k] * share
            for k in range(reach.start[variable], reach.start[variable + 1]):
                belief[first + reach.state[k]] = reach.belief[k] * share


@kernel(FAST)
def _add_lines(source, place, weight, stride, kind, shift, sums):
    """Add lines of a table to `sums`, times weights: those along a leaf's axis that begin at `place`."""
    n, k = sums.size, 0
    if kind == LOG_TABLE:
        for k in range(place.size):
            row = source[place[k] :]
            for v in range(n):
                sums[v] += weight[k] * exp(row[v * stride] - shift)
        return
    if stride == 1:  # vectorised
        while k + LINES <= place.size:
            a, b = source[place[k] : place[k] + n], source[place[k + 1] : place[k + 1] + n]
            c, d = source[place[k + 2] : place[k + 2] + n], source[place[k + 3] : place[k + 3] + n]
            for v in range(n):
                sums[v] += weight[k] * a[v] + weight[k + 1] * b[v] + weight[k + 2] * c[v] + weight[k + 3] * d[v]
            k += LINES
    while k < place.size:
        row = source[place[k] :]
        for v in range(n):
            sums[v] += weight[k] * row[v * stride]
        k += 1


@kernel()
def _add_outside_lines(scratch, source, n, stride, kind, shift, sums):
    """Add n lines to `sums`, by their places, log weights and weights in `scratch`."""
    weight, log_weight = scratch.line[:n], scratch.told[:n]
    for k in range(n):  # vectorised
        weight[k] *= exp(min(MOST_ODDS, log_weight[k]))
    _add_lines(source, scratch.place[:n], weight, stride, kind, shift, sums)


@kernel()
def _add_outside(layout, bp, sources, active, reach, scratch, edge, least, source, sums):
    """Add the joint states to `sums` whose state of one edge is outside, but for those that weigh under `least`."""
    factor, variable = layout.edge_factor[edge], layout.edge_variable[edge]
    kind, shift, leaf_stride = sources.kind[factor], active.shift[factor], sources.leaf_stride[factor]
    axis = edge - layout.factor_edge_start[factor]
    divided = math.log(scratch.peak[axis]) + scratch.log_peak[axis]
    rows = locate_rows(layout, sources, active, factor, edge, scratch.row_base)
    weigh_rows(layout, bp, factor, edge, False, scratch.offsets, scratch.row_weight)
    told, start, n = reach.edge_start[edge], reach.start[variable], 0
    for k in range(reach.start[variable + 1] - start):
        log_weight = reach.log_belief[start + k] - reach.told[told + k] - divided
        if log_weight > least:  # no for a hard zero, which is less or not a number
            for r in range(rows):
                if n == scratch.place.size:
                    _add_outside_lines(scratch, source, n, leaf_stride, kind, shift, sums)
                    n = 0
                scratch.place[n] = scratch.row_base[r] + reach.state[start + k] * sources.edge_stride[edge]
                scratch.told[n], scratch.line[n] = log_weight, scratch.row_weight[r]
                n += 1
    _add_outside_lines(scratch, source, n, leaf_stride, kind, shift, sums)


@kernel()
def read_leaves(layout, bp, sources, active, reach, scratch, least, belief):
    """Fill the beliefs of the leaves that are summed out, over their universes.

    Args:
        layout: Topology.
        bp: Messages over the domains.
        sources: A Sources.
        active: An Active.
        reach: A Reach with what a look has found; with no states where nobody has looked.
        scratch: A Scratch.
        least: Log weight under which a state outside does not count.
        belief: Of all states of all variables; overwritten where the variable is a leaf.

    Returns:
        Status, and the leaf whose belief vanished or -1.
    """
    layout, bp, sources, active = borrow(layout), borrow(bp), borrow(sources), borrow(active)
    reach, scratch = borrow(reach), borrow(scratch)
    for factor in range(sources.leaf.size):
        leaf = sources.leaf[factor]
        if leaf < 0:
            continue
        start, end = leaf_span(sources, active, factor)
        prior, sums = active.leaf_weight[start:end], belief[start:end]
        if not weigh_active(layout, bp, factor, False, reach.told.size > 0, scratch):
            return VARIABLE_VANISHED, leaf
        rows = locate_rows(layout, sources, active, factor, -1, scratch.row_base)
        weigh_rows(layout, bp, factor, -1, False, scratch.offsets, scratch.row_weight)
        kind, shift, stride = sources.kind[factor], active.shift[factor], sources.leaf_stride[factor]
        source = table_view(sources.address[factor], sources.size[factor])
        sums[:] = 0.0
        _add_lines(source, scratch.row_base[:rows], scratch.row_weight[:rows], stride, kind, shift, sums)
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            variable = layout.edge_variable[edge]
            if reach.start[variable] < reach.start[variable + 1]:
                _add_outside(layout, bp, sources, active, reach, scratch, edge, least, source, sums)
        total = 0.0
        for v in range(sums.size):
            sums[v] *= prior[v]
            total += sums[v]
        if not total > 0.0:
            return VARIABLE_VANISHED, leaf
        scale = 1.0 / total
        for v in range(sums.size):
            sums[v] *= scale
    return OK, -1
