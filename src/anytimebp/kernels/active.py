"""Rounds on active states: the tables over them, and a look at the states outside.

`sources` (Sources) says where the numbers of dense factors lie, `active` (Active) which states take part. A factor may
have one leaf: a variable without any other factor. All states of a leaf take part, in that every entry of the factor's
table is a sum over them, weighted by their priors; in messages, a leaf is a variable of one state.

    t'(x)  =  sum over x_j of t(x, x_j) * p_j(x_j),   j the leaf

A look sends one round of messages out of the domains S to the candidates v of a variable i, states outside:

    o_i(v)  =  sum over x_k in S_k, k not i, of t'(v, x) * product of n_k(x_k)
"""

import math

import numpy as np

from anytimebp.kernels.active_rows import (
    PIECE,
    convert,
    fetch_line,
    is_pair,
    keep_heavy,
    locate_rows,
    pick_pair,
    weigh_rows,
)
from anytimebp.kernels.arithmetic import exp, log, normal_log, smaller
from anytimebp.kernels.codes import (
    GATHER,
    LOG,
    LOG_TABLE,
    OK,
    VARIABLE_VANISHED,
    WIDE_TABLE,
)
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, borrow, fetch, kernel, table_view
from anytimebp.kernels.log_sums import log_sum
from anytimebp.kernels.messages import EDGE_COST
from anytimebp.kernels.to_factor import SMALLEST_NORMAL, gather_at, is_lone_hub

LINES = 4  # of a table that are read at a time: alone, half of the time goes into adding up the parts of a vector
LINES_AHEAD = 8  # lines that are fetched while others are added up; single entries are fetched as soon without
MOST_ODDS = 600.0  # nats by which a state outside may seem likelier than its domain, so that sums stay finite
PICK_COST = 8  # entries that could be read in order in the time of picking one up and exponentiating it


# ---------------------------------------------------------------- tables
@kernel(FAST)
def _sum_line(source, first, stride, weight):
    """Return the sum of entries along an axis, times weights."""
    total, n = 0.0, weight.size
    if stride == 1:  # vectorised
        row = source[first : first + n]
        for v in range(n):
            total += row[v] * weight[v]
    else:
        row = source[first:]
        for v in range(n):
            total += row[v * stride] * weight[v]
    return total


@kernel(FAST)
def _sum_lines(source, position, stride, weight, line):
    """Fill `line` with the sums of entries along an axis, times weights, for every position where the axis begins."""
    n, k = weight.size, 0
    while stride == 1 and k + LINES <= line.size:
        for later in range(k + LINES_AHEAD, min(k + LINES_AHEAD + LINES, line.size)):
            fetch_line(source, position[later], n)
        a, b = source[position[k] : position[k] + n], source[position[k + 1] : position[k + 1] + n]
        c, d = source[position[k + 2] : position[k + 2] + n], source[position[k + 3] : position[k + 3] + n]
        sum_a, sum_b, sum_c, sum_d = 0.0, 0.0, 0.0, 0.0
        for v in range(n):
            sum_a += a[v] * weight[v]
            sum_b += b[v] * weight[v]
            sum_c += c[v] * weight[v]
            sum_d += d[v] * weight[v]
        line[k], line[k + 1], line[k + 2], line[k + 3] = sum_a, sum_b, sum_c, sum_d
        k += LINES
    while k < line.size:
        line[k] = _sum_line(source, position[k], stride, weight)
        k += 1


@kernel(FAST)
def _sum_log_line(source, first, stride, weight, shift):
    """Do as `_sum_line` with log scores, less a shift."""
    total, n = 0.0, weight.size
    if stride == 1:  # vectorised
        row = source[first : first + n]
        for v in range(n):
            total += exp(row[v] - shift) * weight[v]
    else:
        row = source[first:]
        for v in range(n):
            total += exp(row[v * stride] - shift) * weight[v]
    return total


@kernel()
def leaf_span(sources, active, factor):
    """Return where the states of a factor's leaf start and end in the row of all states; 0 and 0 for none."""
    leaf = sources.leaf[factor]
    if leaf < 0:
        return 0, 0
    return active.universe_start[leaf], active.universe_start[leaf + 1]


@kernel()
def _sum_leaf(source, position, stride, weight, kind, shift, line):
    """Fill `line` with sums over a leaf's states, one for every position where these begin."""
    if kind == LOG_TABLE:
        for k in range(line.size):
            if stride == 1 and k + LINES_AHEAD < line.size:
                fetch_line(source, position[k + LINES_AHEAD], weight.size)
            line[k] = _sum_log_line(source, position[k], stride, weight, shift)
    else:
        _sum_lines(source, position, stride, weight, line)
        convert(line, kind, shift)


@kernel()
def _pick(sources, active, factor, position, shift, line):
    """Fill `line` with a factor's entries at some places, with the leaf summed out."""
    kind = sources.kind[factor]
    source = table_view(sources.address[factor], sources.size[factor])
    start, end = leaf_span(sources, active, factor)
    if start < end:
        _sum_leaf(source, position, sources.leaf_stride[factor], active.leaf_weight[start:end], kind, shift, line)
        return
    for k in range(line.size):
        line[k] = source[position[k]]
    convert(line, kind, shift)


@kernel(FAST_WITHOUT_NAN)
def _least_positive(table):
    """Return the smallest positive entry, at most 1e300, and how many are zeros."""
    low, n_zeros = 1e300, 0
    for r in range(table.size):  # vectorised
        low = smaller(low, table[r] if table[r] > 0.0 else 1e300)
        n_zeros += 0 if table[r] > 0.0 else 1
    return low, n_zeros


@kernel()
def fill_active(layout, sources, active, table_start, pool, table_min, has_zero, row_base, position, cost_limit):
    """Fill the tables of dense factors over the domains, from factor `position` on, until `cost_limit`.

    Args:
        layout: Topology.
        sources: A Sources.
        active: An Active.
        table_start: (F + 1,) where tables start in `pool`.
        pool: Overwritten.
        table_min: (F,) overwritten: the smallest positive entry.
        has_zero: (F,) overwritten: whether there are others.
        row_base: Scratch.
        position: Factor to begin with.
        cost_limit: About how many entries to read.

    Returns:
        The factor to go on with, the entries read, and a factor without any positive entry, or -1.
    """
    layout, sources, active = borrow(layout), borrow(sources), borrow(active)
    cost, read = 0, 0
    while position < table_min.size and cost < cost_limit:
        table = pool[table_start[position] : table_start[position + 1]]
        entries = 0
        if sources.address[position] and sources.kind[position] != WIDE_TABLE:
            if is_pair(layout, sources, position):
                pick_pair(layout, sources, active, position, table)
            else:
                locate_rows(layout, sources, active, position, -1, row_base)
                _pick(sources, active, position, row_base, sources.shift[position], table)
            start, end = leaf_span(sources, active, position)
            entries = table.size * max(1, end - start)
            table_min[position], n_zeros = _least_positive(table)
            if n_zeros == table.size:
                return position, read, position
            has_zero[position] = n_zeros > 0
        read += entries
        cost += entries * (PICK_COST if sources.kind[position] == LOG_TABLE else 1) + EDGE_COST
        position += 1
    return position, read, -1


# ---------------------------------------------------------------- looking outside
@kernel()
def weigh_active(layout, bp, factor, in_logs, scratch):
    """Fill `bp.incoming` with the messages to a factor; False where one vanishes.

    Linear numbers of logs are for looks, which may lose what is 700 nats below the best. `scratch` gets, by edge, where
    they start, and the factor (peak * exp(log_peak)) that was divided out of them.
    """
    offset, first = 0, layout.factor_edge_start[factor]
    for edge in range(first, layout.factor_edge_start[factor + 1]):
        variable, axis = layout.edge_variable[edge], edge - first
        weight = bp.incoming[offset : offset + bp.domain_size[variable]]
        if weight.size == 1 and is_lone_hub(bp, variable, edge):
            start = bp.hub_start[bp.variable_hub[variable]]
            weight[0] = 0.0 if in_logs else 1.0
            scratch.peak[axis], scratch.log_peak[axis] = 1.0, bp.hub_high[start] + bp.hub_low[start]
        else:
            floor, scratch.peak[axis], scratch.log_peak[axis] = gather_at(
                bp.calls[GATHER], (layout, bp, variable, edge, weight)
            )
            if floor < 0.0:
                return False
            if in_logs != (bp.arithmetic == LOG):
                for d in range(weight.size):
                    weight[d] = log(weight[d]) if in_logs else exp(weight[d])
        scratch.offsets[axis] = offset
        offset += weight.size
    return True


@kernel()
def _add_told(told, log_scale, log_belief):
    """Turn sums into log messages, and add them to log beliefs."""
    for k in range(told.size):  # vectorised
        told[k] = normal_log(max(told[k], SMALLEST_NORMAL)) - log_scale if told[k] > 0.0 else -np.inf
        log_belief[k] += told[k]


@kernel(FAST)
def _sum_rows(line, weight, told):
    """Fill `told` with the sums of rows after rows of entries, times weights."""
    if weight.size == 1:
        for k in range(told.size):
            told[k] = line[k] * weight[0]
        return
    for k in range(told.size):
        row, total = line[k * weight.size : (k + 1) * weight.size], 0.0
        for r in range(weight.size):
            total += row[r] * weight[r]
        told[k] = total


@kernel()
def _look_along(layout, sources, active, candidates, scratch, edge, rows, log_scale):
    """Add what an edge's factor says of the candidates of its variable; `scratch` has rows and weights."""
    factor, variable = layout.edge_factor[edge], layout.edge_variable[edge]
    stride, base, weight = sources.edge_stride[edge], scratch.row_base[:rows], scratch.row_weight[:rows]
    begin, last = candidates.start[variable], candidates.start[variable + 1]
    source, is_apart = table_view(sources.address[factor], sources.size[factor]), sources.leaf[factor] < 0
    while begin < last:
        n = min(last - begin, max(1, (PIECE if is_apart else scratch.line.size) // rows))
        position, line, told = scratch.position[: n * rows], scratch.line[: n * rows], scratch.told[:n]
        for k in range(n):
            moved, own = candidates.state[begin + k] * stride, position[k * rows : k * rows + rows]
            for r in range(rows):
                own[r] = base[r] + moved
        for k in range(begin + n, min(last, begin + 2 * n) if is_apart else begin):
            moved = candidates.state[k] * stride
            for r in range(rows):
                fetch(source, base[r] + moved)
        _pick(sources, active, factor, position, active.shift[factor], line)
        _sum_rows(line, weight, told)
        _add_told(told, log_scale, candidates.log_belief[begin : begin + n])
        if candidates.told.size:
            kept = candidates.edge_start[edge] + begin - candidates.start[variable]
            for k in range(n):
                candidates.told[kept + k] = told[k]
        begin += n


@kernel()
def _look_along_wide(layout, sources, active, candidates, scratch, edge, rows, log_scale):
    """Do as `_look_along` with a WIDE_TABLE; the weights are logs."""
    factor, variable = layout.edge_factor[edge], layout.edge_variable[edge]
    source = table_view(sources.address[factor], sources.size[factor])
    line, scale = scratch.line[:rows], active.shift[factor] + log_scale
    for position in range(candidates.start[variable], candidates.start[variable + 1]):
        moved = candidates.state[position] * sources.edge_stride[edge]
        for r in range(rows):
            line[r] = source[scratch.row_base[r] + moved]
        candidates.log_belief[position] += log_sum(line, scratch.row_weight[:rows]) - scale


@kernel()
def look_outside(layout, bp, sources, active, candidates, scratch, left_out, position, cost_limit):
    """Add what the factors from `position` on say of the candidates, until `cost_limit`.

    Args:
        layout: Topology.
        bp: Messages over the domains.
        sources: A Sources.
        active: An Active.
        candidates: Candidates; its log beliefs are added to.
        scratch: A Scratch.
        left_out: Part of the weight of a factor's joint active states that may be left out; those with most of it are
            few, once messages have settled.
        position: Factor to begin with.
        cost_limit: About how many entries to read.

    Returns:
        Status, the factor to go on with, and the entries read.
    """
    layout, bp, sources = borrow(layout), borrow(bp), borrow(sources)
    active, candidates, scratch = borrow(active), borrow(candidates), borrow(scratch)
    cost, read = 0, 0
    while position < sources.leaf.size and cost < cost_limit:
        if sources.address[position]:
            is_wide = sources.kind[position] == WIDE_TABLE
            if not weigh_active(layout, bp, position, is_wide, scratch):
                return VARIABLE_VANISHED, position, read
            start, end = leaf_span(sources, active, position)
            for edge in range(layout.factor_edge_start[position], layout.factor_edge_start[position + 1]):
                n = candidates.start[layout.edge_variable[edge] + 1] - candidates.start[layout.edge_variable[edge]]
                if n > 0:
                    rows = locate_rows(layout, sources, active, position, edge, scratch.row_base)
                    weigh_rows(layout, bp, position, edge, is_wide, scratch.offsets, scratch.row_weight)
                    if left_out > 0.0 and not is_wide:
                        rows = keep_heavy(left_out, scratch.row_base[:rows], scratch.row_weight[:rows])
                    scale = bp.edge_scale[edge]
                    log_scale = scale if bp.arithmetic == LOG else math.log(scale)
                    if is_wide:
                        _look_along_wide(layout, sources, active, candidates, scratch, edge, rows, log_scale)
                    else:
                        _look_along(layout, sources, active, candidates, scratch, edge, rows, log_scale)
                    entries = rows * n * max(1, end - start)
                    read += entries
                    cost += entries * (PICK_COST if is_wide or sources.kind[position] == LOG_TABLE else 1)
        cost += EDGE_COST
        position += 1
    return OK, position, read


@kernel()
def message_spread(layout, bp):
    """Return the mean square of what messages add to the log priors of active states, about their mean, in nats.

    Nothing is known, and 1 returned, where no variable has two active states.
    """
    layout, bp = borrow(layout), borrow(bp)
    square, counted = 0.0, 0
    for variable in range(bp.domain_size.size):
        n, start = bp.domain_size[variable], bp.variable_slot_start[variable]
        if n > 1:
            weight = bp.peak[:n]  # scratch, long enough for variables without factors, too
            gather_at(bp.calls[GATHER], (layout, bp, variable, -1, weight))
            mean, m = 0.0, 0
            for d in range(n):
                if bp.arithmetic == LOG and weight[d] > -np.inf:
                    weight[d] -= bp.prior[start + d]
                    mean += weight[d]
                    m += 1
                elif bp.arithmetic != LOG and weight[d] > 0.0:
                    weight[d] = math.log(weight[d] / bp.prior[start + d])
                    mean += weight[d]
                    m += 1
                else:
                    weight[d] = -np.inf
            for d in range(n):
                if weight[d] > -np.inf:
                    square += (weight[d] - mean / m) ** 2
            counted += max(0, m - 1)
    return square / counted if counted else 1.0


@kernel()
def weigh_outside(layout, bp, candidates, outside):
    """Turn what a look has found to beliefs, in parts of what the domains hold.

    Args:
        layout: Topology.
        bp: Messages over the domains.
        candidates: Candidates; its beliefs are overwritten.
        outside: (V,) overwritten: their sums.
    """
    layout, bp, candidates = borrow(layout), borrow(bp), borrow(candidates)
    for variable in range(outside.size):
        outside[variable] = 0.0
        if candidates.start[variable] == candidates.start[variable + 1]:
            continue
        weight = bp.peak[: bp.domain_size[variable]]  # scratch, long enough for variables without factors, too
        _, peak, log_peak = gather_at(bp.calls[GATHER], (layout, bp, variable, -1, weight))
        total = 0.0
        for d in range(weight.size):
            total += exp(weight[d]) if bp.arithmetic == LOG else weight[d]
        log_total = math.log(total) + math.log(peak) + log_peak
        highest = -np.inf
        for position in range(candidates.start[variable], candidates.start[variable + 1]):
            highest = max(highest, candidates.log_belief[position])
        log_total += max(0.0, highest - log_total - MOST_ODDS)  # the domain is worth nothing beside those
        for position in range(candidates.start[variable], candidates.start[variable + 1]):
            candidates.belief[position] = exp(candidates.log_belief[position] - log_total)
            outside[variable] += candidates.belief[position]
