"""Marginals out of the first round on relations that share one table, with the states outside that a look has found.

`model`, `active`, `candidates` and `rows` are those of `relations_look.py`. The joint states of a factor that count are
those of active states, and those of which one is a candidate v, which weighs

    exp(total_a(v) - told_a(v))

beside the active states, of which the best weighs 1. A leaf sums the lines of the table at these joint states.
"""

import math

from anytimebp.kernels.active_readout import normalise
from anytimebp.kernels.arithmetic import exp, smaller
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view
from anytimebp.kernels.relations import log_sum_of
from anytimebp.kernels.relations_look import MOST_ODDS
from anytimebp.kernels.relations_setup import EDGES

LINES = 4  # of a table that are read together


@kernel(FAST)
def _add_lines(source, position, weight, sums):
    """Add lines of a table to `sums`, times weights, by where they begin."""
    k, n = 0, sums.size
    while k + LINES <= position.size:
        a, b = source[position[k] : position[k] + n], source[position[k + 1] : position[k + 1] + n]
        c, d = source[position[k + 2] : position[k + 2] + n], source[position[k + 3] : position[k + 3] + n]
        w, x, y, z = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        for v in range(n):
            sums[v] += w * a[v] + x * b[v] + y * c[v] + z * d[v]
        k += LINES
    while k < position.size:
        line, w = source[position[k] : position[k] + n], weight[k]
        for v in range(n):
            sums[v] += w * line[v]
        k += 1


@kernel()
def _place_ends(model, active, candidates, odds, belief):
    """Fill the beliefs of the states of ends: active ones, candidates, and zeros."""
    for variable in range(active.size.size):
        if model.is_leaf[variable]:
            continue
        belief[model.slot_start[variable] : model.slot_start[variable + 1]] = 0.0
        share = 1.0 / (1.0 + odds[variable])
        first, last = active.start[variable], active.start[variable + 1]
        log_sum = log_sum_of(active.total[first:last])
        for k in range(first, last):
            belief[active.slot[k]] = share * math.exp(active.total[k] - log_sum)
        for k in range(candidates.start[variable], candidates.start[variable + 1]):
            belief[candidates.slot[k]] = share * candidates.belief[k]


@kernel()
def _list_lines(model, active, candidates, rows, factor, end, base, stride, scale, least, position, weight, log_weight):
    """List the lines of a matrix that count for a leaf, and their weights; return how many.

    Args:
        model: Relations.
        active: An ActiveRelations.
        candidates: Candidates.
        rows: A TiedRows.
        factor: The factor.
        end: The other end; its active states are listed with the first end as the one that is fixed, and candidates.
        base: Where the matrix begins.
        stride: From a state of that end to the next one.
        scale: What the fixed state weighs.
        least: Weight of a joint state with a candidate under which it does not count.
        position: Overwritten.
        weight: Overwritten.
        log_weight: Scratch, as long.
    """
    variable, kept = model.edge_variable[EDGES * factor + end], 0
    if end == 1:
        slot = active.message_start[factor] + active.size[model.edge_variable[EDGES * factor]]
        for k in range(active.size[variable]):
            state = active.slot[active.start[variable] + k] - model.slot_start[variable]
            position[kept], weight[kept] = base + state * stride, scale * rows.weight[slot + k]
            kept += 1 if rows.weight[slot + k] > 0.0 else 0
    divided, first = rows.highest[2 * factor + end], candidates.start[variable]
    n, edge = candidates.start[variable + 1] - first, candidates.edge_start[2 * factor + end]
    log_belief, state = candidates.log_belief[first : first + n], candidates.state[first : first + n]
    told, log_weight = candidates.told[edge : edge + n], log_weight[:n]
    for c in range(n):  # vectorised
        log_weight[c] = log_belief[c] - told[c] - divided
    log_least, n_active = math.log(least / scale), kept
    for c in range(n):  # nothing branches on what is hard to foresee
        position[kept], weight[kept] = base + state[c] * stride, log_weight[c]
        kept += 1 if log_weight[c] > log_least else 0
    own = weight[n_active:kept]
    for k in range(own.size):  # vectorised
        own[k] = scale * exp(smaller(MOST_ODDS, own[k]))
    return kept


@kernel()
def read_tied(model, active, candidates, odds, rows, least, position, weight, log_weight, belief):
    """Fill the beliefs of all states of all variables, in order, with candidates.

    Args:
        model: Relations of one table, which is exponentiated.
        active: An ActiveRelations that has settled.
        candidates: Candidates, with what a look has found.
        odds: (V,) the sums of their beliefs.
        rows: A TiedRows.
        least: Weight of a joint state with a candidate under which it does not count for leaves.
        position: Scratch, for a state of an end each.
        weight: Scratch, as long.
        log_weight: Scratch, as long.
        belief: Overwritten.
    """
    model, active, candidates, rows = borrow(model), borrow(active), borrow(candidates), borrow(rows)
    _place_ends(model, active, candidates, odds, belief)
    a, b, leaf = model.edge_variable[0], model.edge_variable[1], model.edge_variable[2]
    n_leaf, length = model.universe_sizes[leaf], rows.start.size // 2
    row = n_leaf * model.universe_sizes[b]
    source = table_view(model.made, row * model.universe_sizes[a])
    for factor in range(model.kind.size):
        own = model.edge_variable[EDGES * factor + 2]
        belief[model.slot_start[own] : model.slot_start[own + 1]] = 0.0
    for end in range(2):  # of which a state is fixed
        stride, own_stride = row if end else n_leaf, n_leaf if end else row
        for state in range(model.universe_sizes[b if end else a]):
            for k in range(rows.start[end * length + state], rows.start[end * length + state + 1]):
                factor, scale = rows.factor[k], rows.weight[rows.slot[k]]
                given = factor, 1 - end, state * own_stride, stride, scale, least, position, weight, log_weight
                kept = _list_lines(model, active, candidates, rows, *given)
                own = model.edge_variable[EDGES * factor + 2]
                sums = belief[model.slot_start[own] : model.slot_start[own + 1]]
                _add_lines(source, position[:kept], weight[:kept], sums)
    for factor in range(model.kind.size):
        own = model.edge_variable[EDGES * factor + 2]
        first, last = model.slot_start[own], model.slot_start[own + 1]
        normalise(belief[first:last], model.prior[first:last])
