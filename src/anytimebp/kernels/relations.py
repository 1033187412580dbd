"""The first round of `adaptive` on relations: factors over two variables and a leaf, which comes last.

`model` is a Relations (`inference/adaptive/relations.py`). With the leaf summed out, a factor is a table t over the
active states of its two ends, mostly of one entry: nothing is to be settled there. Where one end alone has several
states, what it is told never changes. Only the others are *busy*, and are updated until they have settled. The log
belief of every active state is kept as a sum, from which a factor takes its own message out:

    w_a(x)  =  exp(total_a(x) - m_a(x)), scaled to a maximum of 1
    o_a(x)  =  sum over y of t(x, y) * w_b(y)
    m_a(x)  =  log o_a(x) - log max o_a

Tables that many factors share are exponentiated line by line, when a line is first asked for.
"""

import math

import numpy as np

from anytimebp.kernels.active_states import sum_hub
from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG_TABLE, POTENTIALS
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view
from anytimebp.kernels.relations_setup import EDGES, exponentiate
from anytimebp.kernels.to_factor import largest


# ---------------------------------------------------------------- active states
@kernel()
def _choose_active(model, active, least):
    """Choose the active states, and plan where messages and tables lie."""
    n, entries, slots = 0, 0, 0
    for variable in range(active.size.size):
        active.start[variable] = n
        if model.is_leaf[variable]:
            active.slot[n], active.total[n] = model.slot_start[variable], 0.0
            n += 1
        else:
            for v in range(model.slot_start[variable], model.slot_start[variable + 1]):
                if model.prior[v] >= least:
                    active.slot[n], active.total[n] = v, math.log(model.prior[v])
                    n += 1
        active.size[variable] = n - active.start[variable]
    active.start[active.size.size] = n
    for factor in range(model.kind.size):
        active.table_start[factor], active.message_start[factor] = entries, slots
        a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
        entries += active.size[a] * active.size[b]
        slots += active.size[a] + active.size[b]
    active.table_start[model.kind.size], active.message_start[model.kind.size] = entries, slots


# ---------------------------------------------------------------- tables
@kernel()
def line_of(model, factor, position, n):
    """Return the address of `n` entries of a factor's table from an entry on; potentials are as they are given."""
    given = model.address[factor] + 8 * position
    if model.kind[factor] == POTENTIALS:
        return given
    if model.kind[factor] == LOG_TABLE:
        exponentiate(table_view(given, n), model.shift[factor], table_view(model.line, n))
        return model.line
    first = model.made_start[factor] + position
    made = model.made + 8 * first
    if not model.is_made[first]:
        exponentiate(table_view(given, n), model.shift[factor], table_view(made, n))
        model.is_made[first] = True
    return made


@kernel(FAST)
def _sum_line(line, weight):
    total = 0.0
    for v in range(weight.size):
        total += line[v] * weight[v]
    return total


@kernel()
def _fill_table(model, active, factor):
    """Fill a factor's table over the active states of its ends, with the leaf summed out."""
    a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
    leaf = model.edge_variable[EDGES * factor + 2]
    weight = model.prior[model.slot_start[leaf] : model.slot_start[leaf + 1]]
    scale = math.exp(-model.shift[factor]) if model.kind[factor] == POTENTIALS else 1.0
    entry = active.table_start[factor]
    for i in range(active.start[a], active.start[a + 1]):
        first = (active.slot[i] - model.slot_start[a]) * model.universe_sizes[b]
        for j in range(active.start[b], active.start[b + 1]):
            position = (first + active.slot[j] - model.slot_start[b]) * weight.size
            line = table_view(line_of(model, factor, position, weight.size), weight.size)
            active.table[entry] = scale * _sum_line(line, weight)
            entry += 1


@kernel()
def _tell_once(model, active, factor):
    """Add what a factor says that never changes, where one end or none has several states; return its part of log Z."""
    a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
    table = active.table[active.table_start[factor] : active.table_start[factor + 1]]
    message = active.message[active.message_start[factor] : active.message_start[factor + 1]]
    message[:] = 0.0
    if table.size == 1:
        return math.log(table[0])
    end, first = (a, 0) if active.size[a] > 1 else (b, 1)
    highest = math.log(largest(table))
    for i in range(table.size):
        message[first + i] = math.log(table[i]) - highest
        active.total[active.start[end] + i] += message[first + i]
    return highest


@kernel()
def begin_relations(model, active, least):
    """Choose active states, fill their tables, and add what never changes to the totals.

    Args:
        model: Relations.
        active: An ActiveRelations; overwritten.
        least: The smallest prior of an active state.

    Returns:
        The number of busy factors, the active states, the entries read, and the part of log Z of the other factors.
    """
    model, active = borrow(model), borrow(active)
    _choose_active(model, active, least)
    n_busy, states, read, log_z = 0, 0, 0, 0.0
    for variable in range(model.is_leaf.size):
        states += model.universe_sizes[variable] if model.is_leaf[variable] else active.size[variable]
    for factor in range(model.kind.size):
        _fill_table(model, active, factor)
        a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
        entries = active.size[a] * active.size[b]
        read += entries * model.universe_sizes[model.edge_variable[EDGES * factor + 2]]
        if active.size[a] > 1 and active.size[b] > 1:
            active.busy[n_busy] = factor
            active.message[active.message_start[factor] : active.message_start[factor + 1]] = 0.0
            n_busy += 1
        else:
            log_z += _tell_once(model, active, factor)
    return n_busy, states, read, log_z


# ---------------------------------------------------------------- messages
@kernel()
def _weigh(total, message, weight):
    """Fill `weight` with what a variable says to a factor, largest 1."""
    highest = -np.inf
    for v in range(total.size):
        weight[v] = total[v] - message[v]
        highest = max(highest, weight[v])
    for v in range(total.size):
        weight[v] = exp(weight[v] - highest)


@kernel()
def weigh_ends(model, active, factor):
    """Fill `active.weight` with what the ends of a factor say to it; return their active states."""
    a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
    n, m = active.size[a], active.size[b]
    if n == 1 and m == 1:
        active.weight[0] = active.weight[1] = 1.0
        return n, m
    message = active.message[active.message_start[factor] : active.message_start[factor + 1]]
    _weigh(active.total[active.start[a] : active.start[a] + n], message[:n], active.weight[:n])
    _weigh(active.total[active.start[b] : active.start[b] + m], message[n:], active.weight[n : n + m])
    return n, m


@kernel()
def sum_table(table, n, m, weight, told):
    """Fill `told` with what a factor says to both ends, from their weights."""
    told[: n + m] = 0.0
    for i in range(n):
        for j in range(m):
            told[i] += table[i * m + j] * weight[n + j]
            told[n + j] += table[i * m + j] * weight[i]


@kernel()
def _store(told, message, total):
    """Put the logs of what was told, largest 0, in place of a message; return the largest log and the residual."""
    highest, rise, fall = math.log(largest(told)), 0.0, 0.0
    for v in range(told.size):
        now = math.log(told[v]) - highest
        moved = now - message[v]
        total[v] += moved
        message[v] = now
        rise, fall = (moved, moved) if v == 0 else (max(rise, moved), min(fall, moved))
    return highest, rise - fall


@kernel()
def _update(model, active, factor):
    """Update both messages of a factor, and its part of log Z; note what it has moved."""
    n, m = weigh_ends(model, active, factor)
    table = active.table[active.table_start[factor] : active.table_start[factor + 1]]
    sum_table(table, n, m, active.weight, active.told)
    log_z = 0.0
    for i in range(n):
        log_z += active.weight[i] * active.told[i]
    log_z, first = -math.log(log_z), active.message_start[factor]
    for end in range(2):
        variable, offset, length = model.edge_variable[EDGES * factor + end], n * end, m if end else n
        start = active.start[variable]
        highest, residual = _store(
            active.told[offset : offset + length],
            active.message[first + offset : first + offset + length],
            active.total[start : start + length],
        )
        log_z += highest
        active.moved[variable] += residual
        active.seen[2 * factor + end] = active.moved[variable]
    active.log_part[factor] = log_z


@kernel(inline=True)
def _pending(model, active, factor):
    """Return a bound on what a factor's messages would move."""
    a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
    return active.moved[a] - active.seen[2 * factor] + active.moved[b] - active.seen[2 * factor + 1]


@kernel()
def settle_relations(model, active, n_busy, tolerance, max_sweeps):
    """Update busy factors, there and back, until none has more than `tolerance` to catch up with.

    Args:
        model: Relations.
        active: An ActiveRelations; overwritten.
        n_busy: How many there are.
        tolerance: In nats.
        max_sweeps: After which to give up.

    Returns:
        Whether messages have settled, updates, entries read, the most that a factor has to catch up with, the sum of
        that, and the part of log Z of busy factors and of beliefs.
    """
    model, active = borrow(model), borrow(active)
    updates, work, made, sweeps = 0, 0, 1, 0
    active.moved[:] = 0.0
    for k in range(n_busy):
        active.seen[2 * active.busy[k]] = active.seen[2 * active.busy[k] + 1] = -np.inf
    while made > 0 and sweeps < max_sweeps:
        made = 0
        for k in range(n_busy):
            factor = active.busy[k if sweeps % 2 == 0 else n_busy - 1 - k]
            if _pending(model, active, factor) > tolerance:
                _update(model, active, factor)
                work += active.table_start[factor + 1] - active.table_start[factor]
                made += 1
        updates += made
        sweeps += 1
    most, left, log_z = 0.0, 0.0, 0.0
    for k in range(n_busy):
        waiting = _pending(model, active, active.busy[k])
        most, left = max(most, waiting), left + waiting
        log_z += active.log_part[active.busy[k]]
    for variable in range(active.size.size):
        log_z += log_sum_of(active.total[active.start[variable] : active.start[variable + 1]])
    return made == 0, updates, work, most, left, log_z


@kernel()
def log_sum_of(total):
    """Return the log of a sum of exponentials."""
    if total.size == 1:
        return total[0]
    highest, added = largest(total), 0.0
    for v in range(total.size):
        added += math.exp(total[v] - highest)
    return highest + math.log(added)


# ---------------------------------------------------------------- reading
@kernel(FAST)
def _read_line(line, weight, prior, belief):
    for v in range(belief.size):
        belief[v] = line[v] * weight * prior[v]


@kernel(FAST)
def _add_line(line, weight, prior, belief):
    for v in range(belief.size):
        belief[v] += line[v] * weight * prior[v]


@kernel()
def _read_leaf(model, active, factor, left_out, belief):
    """Fill the belief of a factor's leaf. Sums over its states are those that are in the table, so all adds up to 1."""
    n, m = weigh_ends(model, active, factor)
    a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
    leaf, first = model.edge_variable[EDGES * factor + 2], active.table_start[factor]
    prior = model.prior[model.slot_start[leaf] : model.slot_start[leaf + 1]]
    own = belief[model.slot_start[leaf] : model.slot_start[leaf + 1]]
    weights, kept, is_first = 0.0, 0.0, True
    for i in range(n):
        for j in range(m):
            weights += active.weight[i] * active.weight[n + j]
    least = left_out * weights / (n * m)
    for i in range(n):
        for j in range(m):
            weight = active.weight[i] * active.weight[n + j]
            kept += active.table[first + i * m + j] * weight if weight >= least else 0.0
    scale = 1.0 / kept
    if model.kind[factor] == POTENTIALS:
        scale *= math.exp(-model.shift[factor])
    for i in range(n):
        row = (active.slot[active.start[a] + i] - model.slot_start[a]) * model.universe_sizes[b]
        for j in range(m):
            weight = active.weight[i] * active.weight[n + j]
            if weight >= least:
                position = (row + active.slot[active.start[b] + j] - model.slot_start[b]) * prior.size
                line = table_view(line_of(model, factor, position, prior.size), prior.size)
                if is_first:
                    _read_line(line, weight * scale, prior, own)
                else:
                    _add_line(line, weight * scale, prior, own)
                is_first = False


@kernel()
def read_relations(model, active, left_out, belief):
    """Fill the beliefs of all states of all variables, in order.

    Args:
        model: Relations.
        active: An ActiveRelations that has settled.
        left_out: Part of the weight of a factor's joint active states that leaves do not count.
        belief: Overwritten.
    """
    model, active = borrow(model), borrow(active)
    for variable in range(active.size.size):
        if not model.is_leaf[variable]:
            belief[model.slot_start[variable] : model.slot_start[variable + 1]] = 0.0
            total = active.total[active.start[variable] : active.start[variable + 1]]
            log_sum = log_sum_of(total)
            for k in range(total.size):
                belief[active.slot[active.start[variable] + k]] = math.exp(total[k] - log_sum)
    for factor in range(model.kind.size):
        _read_leaf(model, active, factor, left_out, belief)


@kernel()
def hand_over(model, active, layout, bp):
    """Fill the messages of a workspace over the same active states, and what goes with them.

    Args:
        model: Relations.
        active: An ActiveRelations that has settled.
        layout: Topology of the workspace, without leaves: two edges a factor.
        bp: Its messages; overwritten.
    """
    model, active, layout, bp = borrow(model), borrow(active), borrow(layout), borrow(bp)
    for factor in range(model.kind.size):
        n, m = weigh_ends(model, active, factor)
        table, first = active.table[active.table_start[factor] : active.table_start[factor + 1]], 0
        sum_table(table, n, m, active.weight, active.told)
        bp.factor_total[factor] = 0.0
        for i in range(n):
            bp.factor_total[factor] += active.weight[i] * active.told[i]
        for edge in range(2 * factor, 2 * factor + 2):
            length, least = n if edge == 2 * factor else m, 1.0
            bp.edge_scale[edge] = largest(active.told[first : first + length])
            for v in range(length):
                value = exp(active.message[active.message_start[factor] + first + v])
                bp.message[bp.edge_slot_start[edge] + v] = value
                least = min(least, value)
            bp.edge_min[edge] = least
            first += length
    for hub in range(bp.hub_variable.size):
        sum_hub(layout, bp, hub)
