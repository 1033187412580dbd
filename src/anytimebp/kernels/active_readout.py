"""Marginals out of a round on active states: beliefs of states outside that a look has found, and of leaves.

`active` is an Active, `candidates` Candidates, `sources` a Sources (`inference/adaptive/whole_model.py`). With the
weights n of messages to a factor, the belief of its leaf j is

    b_j(x_j)  ~  p_j(x_j) * sum over x of t(x, x_j) * product of n_k(x_k)

over the active states x, and over joint states of which one is outside, as far as a look has found it to count.
"""

import math

from anytimebp.kernels.active import LINES, MOST_ODDS, leaf_span, weigh_active
from anytimebp.kernels.active_rows import keep_heavy, locate_rows, weigh_rows
from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG_TABLE, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view

LOWEST = -1e300  # a log that stands for that of a hard zero, which may be subtracted


@kernel()
def place_beliefs(active, candidates, outside, is_leaf, domain_belief, belief):
    """Fill a row of all states with the beliefs of those that are active or candidates, and zeros; leaves stay.

    Args:
        active: An Active.
        candidates: Candidates with beliefs, in parts of what the domains hold.
        outside: (V,) their sums.
        is_leaf: (V,) variables that are summed out.
        domain_belief: Per active state.
        belief: Per state of every universe; overwritten but for leaves.
    """
    active, candidates = borrow(active), borrow(candidates)
    for variable in range(outside.size):
        if not is_leaf[variable]:
            first, share = active.universe_start[variable], 1.0 / (1.0 + outside[variable])
            belief[first : active.universe_start[variable + 1]] = 0.0
            for k in range(active.start[variable], active.start[variable + 1]):
                belief[first + active.state[k]] = domain_belief[k] * share
            for k in range(candidates.start[variable], candidates.start[variable + 1]):
                belief[first + candidates.state[k]] = candidates.belief[k] * share


@kernel()
def mean_move(active, belief, before, belief_before, is_leaf):
    """Return the mean L2 distance of beliefs over two lists of active states, over variables that are no leaves.

    Args:
        active: An Active, whose slots rise within a variable.
        belief: Per active state.
        before: Another one.
        belief_before: Per active state of that.
        is_leaf: (V,) variables that are summed out; not all are.
    """
    active, before = borrow(active), borrow(before)
    total, n = 0.0, 0
    for variable in range(is_leaf.size):
        if not is_leaf[variable]:
            square, k, last = 0.0, before.start[variable], before.start[variable + 1]
            for j in range(active.start[variable], active.start[variable + 1]):
                while k < last and before.slot[k] < active.slot[j]:
                    square += belief_before[k] ** 2
                    k += 1
                change = belief[j]
                if k < last and before.slot[k] == active.slot[j]:
                    change -= belief_before[k]
                    k += 1
                square += change**2
            while k < last:
                square += belief_before[k] ** 2
                k += 1
            total += math.sqrt(square)
            n += 1
    return total / n


@kernel(FAST)
def _add_lines(source, base, position, scale, weight, stride, kind, shift, sums):
    """Add lines of a table to `sums`, times weights: those along a leaf's axis that begin at `base` and a position."""
    n, k = sums.size, 0
    if kind == LOG_TABLE:
        for k in range(position.size):
            first, w = base + position[k], scale * weight[k]
            if stride == 1:  # vectorised
                row = source[first : first + n]
                for v in range(n):
                    sums[v] += w * exp(row[v] - shift)
            else:
                row = source[first:]
                for v in range(n):
                    sums[v] += w * exp(row[v * stride] - shift)
        return
    while stride == 1 and k + LINES <= position.size:  # vectorised
        a, b, c, d = base + position[k], base + position[k + 1], base + position[k + 2], base + position[k + 3]
        row_a, row_b, row_c, row_d = source[a : a + n], source[b : b + n], source[c : c + n], source[d : d + n]
        w, x, y, z = scale * weight[k], scale * weight[k + 1], scale * weight[k + 2], scale * weight[k + 3]
        for v in range(n):
            sums[v] += w * row_a[v] + x * row_b[v] + y * row_c[v] + z * row_d[v]
        k += LINES
    while k < position.size:
        first, w = base + position[k], scale * weight[k]
        if stride == 1:  # vectorised
            row = source[first : first + n]
            for v in range(n):
                sums[v] += w * row[v]
        else:
            row = source[first:]
            for v in range(n):
                sums[v] += w * row[v * stride]
        k += 1


@kernel()
def _choose_outside(candidates, told, divided, least, begin, last, stride, scratch):
    """Fill `scratch` with places and weights of the candidates that weigh over `least`; return how many.

    Which ones do is hard to foresee, so nothing branches on it.
    """
    n = 0
    for k in range(begin, last):
        log_weight = candidates.log_belief[k] - max(candidates.told[told + k], LOWEST) - divided
        scratch.position[n], scratch.told[n] = candidates.state[k] * stride, log_weight
        n += 1 if log_weight > least else 0  # no for a hard zero
    weight, log_weights = scratch.line[:n], scratch.told[:n]
    for k in range(n):  # vectorised
        weight[k] = exp(min(MOST_ODDS, log_weights[k]))
    return n


@kernel()
def _add_outside(layout, bp, sources, active, candidates, scratch, edge, left_out, least, source, sums):
    """Add the joint states to `sums` whose state of one edge is outside, but for those that weigh under `least`."""
    factor, variable = layout.edge_factor[edge], layout.edge_variable[edge]
    kind, shift, leaf_stride = sources.kind[factor], active.shift[factor], sources.leaf_stride[factor]
    axis = edge - layout.factor_edge_start[factor]
    divided = math.log(scratch.peak[axis]) + scratch.log_peak[axis]
    rows = locate_rows(layout, sources, active, factor, edge, scratch.row_base)
    weigh_rows(layout, bp, factor, edge, False, scratch.offsets, scratch.row_weight)
    rows = keep_heavy(left_out, scratch.row_base[:rows], scratch.row_weight[:rows])
    begin, end, stride = candidates.start[variable], candidates.start[variable + 1], sources.edge_stride[edge]
    told = candidates.edge_start[edge] - begin
    while begin < end:
        last = min(end, begin + scratch.told.size)
        n = _choose_outside(candidates, told, divided, least, begin, last, stride, scratch)
        position, weight = scratch.position[:n], scratch.line[:n]
        for r in range(rows):
            base, scale = scratch.row_base[r], scratch.row_weight[r]
            _add_lines(source, base, position, scale, weight, leaf_stride, kind, shift, sums)
        begin = last


@kernel(FAST)
def normalise(sums, prior):
    """Multiply sums by priors and divide by their total, which is returned; they are left alone unless it counts."""
    total = 0.0
    for v in range(sums.size):
        sums[v] *= prior[v]
        total += sums[v]
    if total > 0.0:
        scale = 1.0 / total
        for v in range(sums.size):
            sums[v] *= scale
    return total


@kernel(FAST)
def _read_line(line, prior, sums):
    """Fill `sums` with a line times priors, divided by their total, which is returned."""
    total = 0.0
    for v in range(sums.size):
        sums[v] = line[v] * prior[v]
        total += sums[v]
    scale = 1.0 / total if total > 0.0 else 0.0
    for v in range(sums.size):
        sums[v] *= scale
    return total


@kernel()
def _has_candidates(layout, candidates, factor):
    """Tell whether a variable of a factor has states outside that a look has found."""
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        variable = layout.edge_variable[edge]
        if candidates.start[variable] < candidates.start[variable + 1]:
            return True
    return False


@kernel()
def read_leaves(layout, bp, sources, active, candidates, scratch, left_out, least, belief):
    """Fill the beliefs of the leaves that are summed out, over their universes; all other variables have beliefs.

    Args:
        layout: Topology.
        bp: Messages over the domains.
        sources: A Sources.
        active: An Active.
        candidates: Candidates with what a look has found; with no states where nobody has looked.
        scratch: A Scratch.
        left_out: Part of the weight of a factor's joint active states that may be left out.
        least: Log weight under which a state outside does not count.
        belief: Of all states of all variables; overwritten where the variable is a leaf.

    Returns:
        Status, and the leaf whose belief vanished or -1.
    """
    layout, bp, sources, active = borrow(layout), borrow(bp), borrow(sources), borrow(active)
    candidates, scratch = borrow(candidates), borrow(scratch)
    for factor in range(sources.leaf.size):
        leaf = sources.leaf[factor]
        if leaf < 0:
            continue
        start, end = leaf_span(sources, active, factor)
        prior, sums = active.leaf_weight[start:end], belief[start:end]
        rows = locate_rows(layout, sources, active, factor, -1, scratch.row_base)
        kind, shift, stride = sources.kind[factor], active.shift[factor], sources.leaf_stride[factor]
        source = table_view(sources.address[factor], sources.size[factor])
        if rows == 1 and stride == 1 and kind != LOG_TABLE and not _has_candidates(layout, candidates, factor):
            first = scratch.row_base[0]  # whatever it weighs
            if not _read_line(source[first : first + sums.size], prior, sums) > 0.0:
                return VARIABLE_VANISHED, leaf
            continue
        if not weigh_active(layout, bp, factor, False, scratch):
            return VARIABLE_VANISHED, leaf
        weigh_rows(layout, bp, factor, -1, False, scratch.offsets, scratch.row_weight)
        rows = keep_heavy(left_out, scratch.row_base[:rows], scratch.row_weight[:rows])
        sums[:] = 0.0
        _add_lines(source, 0, scratch.row_base[:rows], 1.0, scratch.row_weight[:rows], stride, kind, shift, sums)
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            variable = layout.edge_variable[edge]
            if candidates.start[variable] < candidates.start[variable + 1]:
                _add_outside(layout, bp, sources, active, candidates, scratch, edge, left_out, least, source, sums)
        if not normalise(sums, prior) > 0.0:
            return VARIABLE_VANISHED, leaf
    return OK, -1
