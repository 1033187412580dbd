"""Messages of lists of entries with a default; `inputs` is a StructureInputs of `structures.py`.

With t the listed scores, d the default, n_j the incoming messages and T_i the product of the sums of all n_j but n_i:

    o_i(x)  =  d T_i + sum over entries e with e_i = x of (t_e - d) * product of n_j(e_j), j not i

Where entries are under the default, or in logs, d T_i less what is listed can cancel. Where it would, the states of the
others are walked one by one instead, so that no digit is lost.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, log_add, sum_of, times
from anytimebp.kernels.jit import FAST, index_view, kernel, table_view
from anytimebp.kernels.structures import ALL, read_inputs, wanted_axis

CANCELS = 0.01  # part of a sum that must be left after a subtraction, or the terms are added up one by one
HEAD = 3  # words before the numbers
ORDERED, ONCE = 1, 2
"""Flags: there is an order; of a pair, no state of the first variable is listed twice, and ONCE << 1 of the second."""
PAIR = 2


@kernel(inline=True)
def _others(edge_variable, domain_size, incoming, arithmetic, slots, n, entry, first, last, skipped):
    """Return the product of an entry's weights, but for one edge."""
    weight, offset = (0.0 if arithmetic == LOG else 1.0), 0
    for edge in range(first, last):
        if edge != skipped:
            weight = times(arithmetic, weight, incoming[offset + slots[(edge - first) * n + entry]])
        offset += domain_size[edge_variable[edge]]
    return weight


@kernel()
def _joint_weight(inputs, arithmetic, joint, first, last, skipped):
    """Return the product of the weights of a joint state of all edges but one, given by its number in order."""
    end = 0
    for edge in range(first, last):
        end += inputs.domain_size[inputs.edge_variable[edge]]
    weight = 0.0 if arithmetic == LOG else 1.0
    for edge in range(last - 1, first - 1, -1):
        n = inputs.domain_size[inputs.edge_variable[edge]]
        end -= n
        if edge != skipped:
            weight = times(arithmetic, weight, inputs.incoming[end + joint % n])
            joint //= n
    return weight


@kernel()
def _joint_number(inputs, slots, n, entry, first, last, skipped):
    """Return the number of an entry's joint state of all edges but one."""
    joint = 0
    for edge in range(first, last):
        if edge != skipped:
            joint = joint * inputs.domain_size[inputs.edge_variable[edge]] + slots[(edge - first) * n + entry]
    return joint


@kernel()
def _first_entry(own, order, state):
    """Return the position of the first entry of a state, or of one beyond it, in the order by states."""
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        if own[order[middle]] < state:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _walk(inputs, arithmetic, values, slots, order, default, state, first, last, target):
    """Return o_i of one state, by walking all joint states of the others; `order` is by the state of the target."""
    n, own = values.size, slots[(target - first) * values.size :]
    low = _first_entry(own, order, state)
    joints = 1
    for edge in range(first, last):
        if edge != target:
            joints *= inputs.domain_size[inputs.edge_variable[edge]]
    total = -np.inf if arithmetic == LOG else 0.0
    for joint in range(joints):
        weight, score = _joint_weight(inputs, arithmetic, joint, first, last, target), default
        listed = low < n and own[order[low]] == state
        if listed and _joint_number(inputs, slots, n, order[low], first, last, target) == joint:
            score = values[order[low]]
            low += 1
        total = add(arithmetic, total, times(arithmetic, weight, score))
    return total


@kernel()
def _walk_pair(arithmetic, values, own, other, order, default, weight, state):
    """Return o_i of one state of a pair, by walking the states of the other, from one listed state to the next."""
    total, begin, position = (-np.inf if arithmetic == LOG else 0.0), 0, _first_entry(own, order, state)
    while position < order.size and own[order[position]] == state:
        entry = order[position]
        gap = times(arithmetic, default, sum_of(arithmetic, weight[begin : other[entry]]))
        listed = times(arithmetic, values[entry], weight[other[entry]])
        total = add(arithmetic, total, add(arithmetic, gap, listed))
        begin = other[entry] + 1
        position += 1
    return add(arithmetic, total, times(arithmetic, default, sum_of(arithmetic, weight[begin:])))


@kernel(FAST)
def _pair_linear(values, own, other, order, default, total, weight, sums):
    """Do what `_list_linear` does for two variables, where nothing but the other's weight need be looked up."""
    base = default * total
    for v in range(sums.size):
        sums[v] = base
    for e in range(values.size):
        sums[own[e]] += (values[e] - default) * weight[other[e]]
    if order.size and base > 0.0:
        for v in range(sums.size):
            if sums[v] < CANCELS * base:
                sums[v] = _walk_pair(0, values, own, other, order, default, weight, v)


@kernel()
def _pair_log(values, own, other, order, default, total, weight, peak, share, sums):
    """Do what `_list_log` does for two variables."""
    for v in range(sums.size):
        peak[v], share[v], sums[v] = -np.inf, 0.0, 0.0
    for e in range(values.size):
        peak[own[e]] = max(peak[own[e]], values[e] + weight[other[e]])
    for e in range(values.size):
        score = values[e] + weight[other[e]]
        if score > -np.inf:
            sums[own[e]] += 1.0 if score == peak[own[e]] else exp(score - peak[own[e]])
    for v in range(sums.size):  # a sum of one term is its peak
        sums[v] = peak[v] if sums[v] <= 1.0 else peak[v] + math.log(sums[v])
    if default > -np.inf:
        for e in range(values.size):
            share[own[e]] += exp(weight[other[e]] - total)
        for v in range(sums.size):
            if 1.0 - share[v] > CANCELS:
                sums[v] = log_add(sums[v], default + total + math.log(1.0 - share[v]))
            else:
                sums[v] = _walk_pair(LOG, values, own, other, order, default, weight, v)


@kernel()
def _pair_once(arithmetic, values, own, other, weight, sums):
    """Do the same where no state is listed twice, and the default is nothing: there is nothing to be added up."""
    if values.size < sums.size:
        sums[:] = -np.inf if arithmetic == LOG else 0.0
    for e in range(values.size):
        sums[own[e]] = times(arithmetic, values[e], weight[other[e]])


@kernel()
def _through_pair(inputs, arithmetic, values, slots, order, flags, default, n, m, wanted):
    """Fill the messages of a list of two variables, of n and of m states, or the one that is wanted."""
    entries = values.size
    rows, columns = slots[:entries], slots[entries:]
    by_row, by_column = order[: order.size // 2], order[order.size // 2 :]
    left, right = inputs.incoming[:n], inputs.incoming[n : n + m]
    to_left, to_right = inputs.outgoing[:n], inputs.outgoing[n : n + m]
    if wanted != 1:
        _send_pair(inputs.peak, arithmetic, values, rows, columns, by_row, flags & ONCE, default, right, to_left)
    if wanted != 0:
        once = flags & (ONCE << 1)
        _send_pair(inputs.peak, arithmetic, values, columns, rows, by_column, once, default, left, to_right)


@kernel()
def _send_pair(scratch, arithmetic, values, own, other, order, once, default, weight, sums):
    """Fill one message of a list of two variables."""
    if once:
        _pair_once(arithmetic, values, own, other, weight, sums)
        return
    total, n = sum_of(arithmetic, weight), max(weight.size, sums.size)
    if arithmetic == LOG:
        _pair_log(values, own, other, order, default, total, weight, scratch[:n], scratch[n:], sums)
    else:
        _pair_linear(values, own, other, order, default, total, weight, sums)


@kernel(FAST)
def _list_linear(inputs, values, slots, order, default, total, first, last, target, sums):
    n, base = values.size, default * total
    own = slots[(target - first) * n : (target - first + 1) * n]
    for v in range(sums.size):
        sums[v] = base
    for e in range(n):
        sums[own[e]] += (values[e] - default) * _others(
            inputs.edge_variable, inputs.domain_size, inputs.incoming, 0, slots, n, e, first, last, target
        )
    if order.size and base > 0.0:
        by_state = order[(target - first) * n : (target - first + 1) * n]
        for v in range(sums.size):
            if sums[v] < CANCELS * base:
                sums[v] = _walk(inputs, 0, values, slots, by_state, default, v, first, last, target)


@kernel()
def _list_log(inputs, values, slots, order, default, total, first, last, target, sums):
    n = values.size
    own = slots[(target - first) * n : (target - first + 1) * n]
    peak, share = inputs.peak[: sums.size], inputs.peak[sums.size : 2 * sums.size]
    for v in range(sums.size):
        peak[v], share[v], sums[v] = -np.inf, 0.0, 0.0
    for e in range(n):
        weight = _others(
            inputs.edge_variable, inputs.domain_size, inputs.incoming, LOG, slots, n, e, first, last, target
        )
        peak[own[e]] = max(peak[own[e]], values[e] + weight)
    for e in range(n):
        weight = _others(
            inputs.edge_variable, inputs.domain_size, inputs.incoming, LOG, slots, n, e, first, last, target
        )
        if values[e] + weight > -np.inf:
            sums[own[e]] += exp(values[e] + weight - peak[own[e]])
        if default > -np.inf:
            share[own[e]] += exp(weight - total)
    for v in range(sums.size):
        sums[v] = peak[v] + log(sums[v]) if peak[v] > -np.inf else -np.inf
    if default > -np.inf:
        by_state = order[(target - first) * n : (target - first + 1) * n]
        for v in range(sums.size):
            if 1.0 - share[v] > CANCELS:
                sums[v] = log_add(sums[v], default + total + math.log(1.0 - share[v]))
            else:
                sums[v] = _walk(inputs, LOG, values, slots, by_state, default, v, first, last, target)


@kernel()
def through_list(inputs, factor, arithmetic, wanted):
    """Words: entries, flags, default; scores; slots, axis after axis; order, likewise, if there is one."""
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    address = inputs.table_address[factor]
    head = table_view(address, HEAD)
    counts = index_view(address, HEAD)
    n, ordered, default = counts[0], counts[1] & ORDERED, head[2]
    end = HEAD + n + (last - first) * n
    values, words = table_view(address + 8 * HEAD, n), index_view(address, end + ordered * (last - first) * n)
    slots, order = words[HEAD + n : end], words[end:]
    if last - first == PAIR:
        sizes = inputs.domain_size[inputs.edge_variable[first]], inputs.domain_size[inputs.edge_variable[first + 1]]
        _through_pair(inputs, arithmetic, values, slots, order, counts[1], default, sizes[0], sizes[1], wanted)
        return
    offset = 0
    for target in range(first, last):
        size, start = inputs.domain_size[inputs.edge_variable[target]], 0
        total = 0.0 if arithmetic == LOG else 1.0
        if wanted not in (ALL, target - first):
            offset += size
            continue
        for edge in range(first, last):
            m = inputs.domain_size[inputs.edge_variable[edge]]
            if edge != target:
                total = times(arithmetic, total, sum_of(arithmetic, inputs.incoming[start : start + m]))
            start += m
        sums = inputs.outgoing[offset : offset + size]
        if arithmetic == LOG:
            _list_log(inputs, values, slots, order, default, total, first, last, target, sums)
        else:
            _list_linear(inputs, values, slots, order, default, total, first, last, target, sums)
        offset += size


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_list(inputs, factor, arithmetic, wanted_axis(address))
