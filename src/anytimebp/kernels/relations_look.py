"""A look from the first domains of relations that share one table at all states outside, row by row of the table.

`model` and `active` are those of `relations.py`, once messages have settled; `candidates` are Candidates
(`inference/adaptive/whole_model.py`), `rows` is a TiedRows (`inference/adaptive/relation_arrays.py`). With t(v, y) the
entries of a factor with the leaf summed out, a candidate v of the end a is told

    told_a(v)   =  log(sum over y of t(v, y) * w_b(y)) - log max o_a,   y active
    total_a(v)  =  log prior(v) + sum over factors of told_a(v)

which compares with the totals of active states. With one state y fixed, a table is a matrix of (states of the other
end) x (states of the leaf). It stays in the cache for all factors in which that state is active, and times the weights
of a leaf it is t(v, y) for all v at once. `relations_readout.py` reads marginals with the candidates.
"""

import math

import numpy as np

from anytimebp.kernels.active_states import sum_hub
from anytimebp.kernels.arithmetic import exp, normal_log
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view
from anytimebp.kernels.relations import line_of, log_sum_of, sum_table, weigh_ends
from anytimebp.kernels.relations_setup import EDGES
from anytimebp.kernels.to_factor import SMALLEST_NORMAL, largest

TOGETHER = 4  # states of the leaf that are added up together
VECTORS = 16  # numbers that sums over the states of an end are padded to a multiple of, so that vectors leave no rest
MOST_ODDS = 600.0  # nats by which a state outside may seem likelier than its domain, so that sums stay finite


# ---------------------------------------------------------------- candidates
@kernel()
def count_outside(model, active, log_prior):
    """Count the states outside the domains, and what messages say.

    Args:
        model: Relations.
        active: An ActiveRelations that has settled.
        log_prior: Of all states of ends.

    Returns:
        How many of these states are possible; how many messages to them there are; the entries of tables that a look
        at them takes; and the mean square of what messages add to the log priors of active states, about their mean (1
        where no variable has two of them).
    """
    model, active = borrow(model), borrow(active)
    square, counted, n, told, entries = 0.0, 0, 0, 0, 0
    for variable in range(active.size.size):
        own = -active.size[variable]
        if not model.is_leaf[variable]:
            square += _square(active, log_prior, variable)
            counted += active.size[variable] - 1
            for v in range(model.slot_start[variable], model.slot_start[variable + 1]):
                own += 1 if model.prior[v] > 0.0 else 0
            n += own
        active.moved[variable] = own  # of no use any more
    for factor in range(model.kind.size):
        a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
        states = model.universe_sizes[model.edge_variable[EDGES * factor + 2]]
        told += int(active.moved[a]) + int(active.moved[b])
        entries += states * (model.universe_sizes[a] * active.size[b] + model.universe_sizes[b] * active.size[a])
    return n, told, entries, square / counted if counted else 1.0


@kernel()
def _square(active, log_prior, variable):
    """Return the sum of squares of what messages add to log priors of a variable's active states, about the mean."""
    first, last, mean, square = active.start[variable], active.start[variable + 1], 0.0, 0.0
    for k in range(first, last):
        mean += (active.total[k] - log_prior[active.slot[k]]) / (last - first)
    for k in range(first, last):
        square += (active.total[k] - log_prior[active.slot[k]] - mean) ** 2
    return square


@kernel()
def list_outside(model, active, log_prior, candidates):
    """Fill the lists of candidates, all possible states outside, with their log priors for beliefs.

    Args:
        model: Relations.
        active: An ActiveRelations.
        log_prior: Of all states of ends.
        candidates: Candidates; overwritten.
    """
    model, active, candidates = borrow(model), borrow(active), borrow(candidates)
    n, told = 0, 0
    for variable in range(active.size.size):
        candidates.start[variable], candidates.cut[variable] = n, 0.0
        if model.is_leaf[variable]:
            continue
        k, first = active.start[variable], model.slot_start[variable]
        for v in range(first, model.slot_start[variable + 1]):
            if k < active.start[variable + 1] and active.slot[k] == v:
                k += 1
            elif model.prior[v] > 0.0:
                candidates.slot[n], candidates.state[n], candidates.log_belief[n] = v, v - first, log_prior[v]
                n += 1
    candidates.start[active.size.size] = n
    for factor in range(model.kind.size):
        for end in range(2):
            variable = model.edge_variable[EDGES * factor + end]
            candidates.edge_start[2 * factor + end] = told
            told += candidates.start[variable + 1] - candidates.start[variable]
    candidates.edge_start[2 * model.kind.size] = told


@kernel()
def make_table(model):
    """Exponentiate what is left of the table that all factors share."""
    model = borrow(model)
    n = model.universe_sizes[model.edge_variable[EDGES - 1]]
    size = n * model.universe_sizes[model.edge_variable[0]] * model.universe_sizes[model.edge_variable[1]]
    for position in range(0, size, n):
        line_of(model, 0, position, n)


# ---------------------------------------------------------------- rows of the table
@kernel()
def highest_weight(active, factor, variable, offset):
    """Return the largest log weight of an end's active states towards a factor, before it is scaled to 0."""
    start, first, highest = active.start[variable], active.message_start[factor] + offset, -np.inf
    for k in range(active.size[variable]):
        highest = max(highest, active.total[start + k] - active.message[first + k])
    return highest


@kernel()
def _weigh_all(model, active, left_out, rows):
    """Fill what the ends of all factors say, zero where it counts for little, and what messages are divided by."""
    for factor in range(model.kind.size):
        n, m = weigh_ends(model, active, factor)
        table = active.table[active.table_start[factor] : active.table_start[factor + 1]]
        sum_table(table, n, m, active.weight, active.told)
        first = active.message_start[factor]
        for end in range(2):
            offset, length = n * end, m if end else n
            own, total = active.weight[offset : offset + length], 0.0
            rows.scale[2 * factor + end] = largest(active.told[offset : offset + length])
            variable = model.edge_variable[EDGES * factor + end]
            rows.highest[2 * factor + end] = highest_weight(active, factor, variable, offset)
            for k in range(length):
                total += own[k]
            for k in range(length):
                counts = own[k] >= left_out * total / length
                rows.weight[first + offset + k] = own[k] if counts else 0.0


@kernel()
def sort_rows(model, active, left_out, rows):
    """Sort the active states of all factors by state, for each end.

    Args:
        model: Relations of one table.
        active: An ActiveRelations that has settled.
        left_out: Part of the weight of an end's active states that may be left out.
        rows: A TiedRows; overwritten.
    """
    model, active, rows = borrow(model), borrow(active), borrow(rows)
    _weigh_all(model, active, left_out, rows)
    begin, length = 0, rows.start.size // 2
    for end in range(2):
        start = rows.start[end * length : (end + 1) * length]
        start[:] = 0
        for task in range(2):  # count, then place
            for factor in range(model.kind.size):
                variable = model.edge_variable[EDGES * factor + end]
                slot = active.message_start[factor]
                slot += active.size[model.edge_variable[EDGES * factor]] if end else 0
                first = active.start[variable]
                for k in range(active.size[variable]):
                    state = active.slot[first + k] - model.slot_start[variable]
                    if rows.weight[slot + k] > 0.0 and task == 0:
                        start[state + 1] += 1
                    elif rows.weight[slot + k] > 0.0:
                        rows.factor[start[state]], rows.slot[start[state]] = factor, slot + k
                        start[state] += 1
            if task == 0:
                start[0] = begin
                for state in range(1, length):
                    start[state] += start[state - 1]
        for state in range(length - 1, 0, -1):
            start[state] = start[state - 1]
        start[0], begin = begin, start[length - 1]


# ---------------------------------------------------------------- looking
@kernel()
def padded(n):
    """Return room for sums over `n` states that vectors fill without a rest."""
    return (n + VECTORS - 1) // VECTORS * VECTORS


@kernel()
def _turn(source, base, stride, n, n_leaf, turned):
    """Fill `turned` with the matrix that begins at `base`, by states of the leaf first; padded with zeros."""
    width = padded(n)
    turned[: n_leaf * width] = 0.0
    for v in range(n):
        line = source[base + v * stride : base + v * stride + n_leaf]
        for r in range(n_leaf):
            turned[r * width + v] = line[r]


@kernel()
def _list_heavy(weight, left_out, heavy):
    """List the states of a leaf that have most of the weight, of which the largest is 1; return how many."""
    least, kept = left_out / weight.size, 0
    for r in range(weight.size):  # nothing branches on what is hard to foresee
        heavy[kept] = r
        kept += 1 if weight[r] >= least else 0
    return kept


@kernel(FAST)
def _sum_turned(turned, weight, heavy, sums):
    """Fill `sums` with the matrix times the weights of some states of the leaf."""
    width, k = sums.size, 0
    sums[:] = 0.0
    while k + TOGETHER <= heavy.size:
        q, r, s, t = heavy[k], heavy[k + 1], heavy[k + 2], heavy[k + 3]
        a, b = turned[q * width : (q + 1) * width], turned[r * width : (r + 1) * width]
        c, d = turned[s * width : (s + 1) * width], turned[t * width : (t + 1) * width]
        w, x, y, z = weight[q], weight[r], weight[s], weight[t]
        for v in range(width):  # vectorised
            sums[v] += w * a[v] + x * b[v] + y * c[v] + z * d[v]
        k += TOGETHER
    while k < heavy.size:
        a, w = turned[heavy[k] * width : (heavy[k] + 1) * width], weight[heavy[k]]
        for v in range(width):
            sums[v] += w * a[v]
        k += 1


@kernel()
def _finish(candidates, rows, variable, edge):
    """Turn what an edge tells candidates to logs, and add these to their log beliefs."""
    first, last = candidates.start[variable], candidates.start[variable + 1]
    start, scale = candidates.edge_start[edge], 1.0 / rows.scale[edge]
    told, log_belief = candidates.told[start : start + last - first], candidates.log_belief[first:last]
    for k in range(told.size):  # vectorised
        told[k] = normal_log(max(told[k] * scale, SMALLEST_NORMAL))
        log_belief[k] += told[k]


@kernel()
def look_tied(model, active, candidates, rows, left_out, heavy, turned, sums):
    """Add what all factors say of the candidates.

    Args:
        model: Relations of one table, which is exponentiated.
        active: An ActiveRelations that has settled.
        candidates: Candidates; what they are told is overwritten, their log beliefs are added to.
        rows: A TiedRows.
        left_out: Part of the weight of a leaf's states that may be left out.
        heavy: Scratch for a state of a leaf each, and one more.
        turned: Scratch for a matrix.
        sums: Scratch for a state of an end each, padded.
    """
    model, active, candidates, rows = borrow(model), borrow(active), borrow(candidates), borrow(rows)
    a, b, leaf = model.edge_variable[0], model.edge_variable[1], model.edge_variable[2]
    n_leaf, length = model.universe_sizes[leaf], rows.start.size // 2
    row = n_leaf * model.universe_sizes[b]
    source = table_view(model.made, row * model.universe_sizes[a])
    candidates.told[:] = 0.0
    for end in range(2):  # that speaks
        n = model.universe_sizes[a if end else b]
        stride, own_stride, out = row if end else n_leaf, n_leaf if end else row, sums[: padded(n)]
        for state in range(model.universe_sizes[b if end else a]):
            begin, last = rows.start[end * length + state], rows.start[end * length + state + 1]
            if begin < last:
                _turn(source, state * own_stride, stride, n, n_leaf, turned)
            for k in range(begin, last):
                factor, weight = rows.factor[k], rows.weight[rows.slot[k]]
                own, first = model.edge_variable[EDGES * factor + 2], candidates.edge_start[2 * factor + 1 - end]
                prior = model.prior[model.slot_start[own] : model.slot_start[own + 1]]
                _sum_turned(turned, prior, heavy[: _list_heavy(prior, left_out, heavy)], out)
                listener = model.edge_variable[EDGES * factor + 1 - end]
                start = candidates.start[listener]
                place = candidates.state[start : candidates.start[listener + 1]]
                told = candidates.told[first : first + place.size]
                for c in range(place.size):
                    told[c] += weight * out[place[c]]
    for factor in range(model.kind.size):
        for end in range(2):
            _finish(candidates, rows, model.edge_variable[EDGES * factor + end], 2 * factor + end)


@kernel()
def weigh_candidates(model, active, candidates, odds):
    """Turn what a look has found to beliefs, in parts of what the domains hold.

    Args:
        model: Relations.
        active: An ActiveRelations that has settled.
        candidates: Candidates; beliefs are overwritten.
        odds: (V,) overwritten: their sums.

    Returns:
        The sums over variables of the odds; of the belief outside; of the logs of 1 and the odds; and of what is not
        the belief of the best state; and the largest belief outside.
    """
    model, active, candidates = borrow(model), borrow(active), borrow(candidates)
    added, outside, log_z, unsure, most = 0.0, 0.0, 0.0, 0.0, 0.0
    for variable in range(odds.size):
        odds[variable] = 0.0
        if model.is_leaf[variable]:
            continue
        total = active.total[active.start[variable] : active.start[variable + 1]]
        log_total = log_sum_of(total)
        unsure += 1.0 - math.exp(largest(total) - log_total)
        first, last = candidates.start[variable], candidates.start[variable + 1]
        if first < last:
            highest = largest(candidates.log_belief[first:last])
            log_total += max(0.0, highest - log_total - MOST_ODDS)  # the domain is worth nothing beside those
        for k in range(first, last):
            candidates.belief[k] = exp(candidates.log_belief[k] - log_total)
            odds[variable] += candidates.belief[k]
        part = odds[variable] / (1.0 + odds[variable])
        added, outside = added + odds[variable], outside + part
        log_z, most = log_z + math.log(1.0 + odds[variable]), max(most, part)
    return added, outside, log_z, unsure, most


@kernel()
def put_all(model, active, candidates, layout, bp):
    """Put messages to active states, and what candidates are told, in place of those of a workspace over all states.

    Args:
        model: Relations.
        active: An ActiveRelations that has settled.
        candidates: Candidates, with what a look has found.
        layout: Topology of the workspace, with leaves: three edges a factor.
        bp: Its messages; overwritten.
    """
    model, active, candidates, layout, bp = (
        borrow(model),
        borrow(active),
        borrow(candidates),
        borrow(layout),
        borrow(bp),
    )
    for factor in range(model.kind.size):
        given = active.message_start[factor]
        for end in range(2):
            edge, least = EDGES * factor + end, 1.0
            variable, start = layout.edge_variable[edge], bp.edge_slot_start[edge]
            first, n = candidates.start[variable], candidates.start[variable + 1] - candidates.start[variable]
            told = candidates.told[candidates.edge_start[2 * factor + end] :][:n]
            highest = max(0.0, largest(told)) if n else 0.0
            for k in range(active.size[variable]):
                value = exp(active.message[given + k] - highest)
                bp.message[start + active.slot[active.start[variable] + k] - model.slot_start[variable]] = value
                least = min(least, value)
            for c in range(n):
                value = max(exp(told[c] - highest), SMALLEST_NORMAL)
                bp.message[start + candidates.state[first + c]] = value
                least = min(least, value)
            bp.edge_min[edge] = least
            given += active.size[variable]
    for hub in range(bp.hub_variable.size):
        sum_hub(layout, bp, hub)
