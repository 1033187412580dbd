"""Messages of factors that are no tables: lists of entries, differences, at most one.

Each fills `space.outgoing` from `space.incoming` as `contract` does with a table, in linear arithmetic or in logs, at a
cost of its entries or of its variables' states. With t the listed scores, d the default, n_j the incoming messages and
T_i the product of their sums over j other than i:

    list          o_i(x)  =  d T_i + sum over entries e with e_i = x of (t_e - d) * product of n_j(e_j), j not i
    difference    o_0(x)  =  sum over y of k(x - y) n_1(y), and o_1 likewise; outside the kernel, d
    at most one   o_i(on) =  product of q_j;  o_i(off) = that + sum over k of p_k * product of q_j, j not k
                  p_j the weight of the state "on", q_j that of all others; products and sums over j, k other than i

Where entries are under the default, or in logs, d T_i less what is listed can cancel. Where it would, the states of the
others are walked one by one instead, so that no digit is lost.

What a factor is made of lies at `space.table_address` in words of 8 bytes; `workspace/structures.py` writes them.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import AT_MOST_ONE, DIFFERENCE, LOG
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, kernel, table_view
from anytimebp.kernels.to_factor import largest

CANCELS = 0.01  # part of a sum that must be left after a subtraction, or the terms are added up one by one
HEAD = 3  # words before the numbers
PAIR = 2


@kernel(FAST_WITHOUT_NAN)
def _sum(arithmetic, weight):
    """Return the sum of weights, or its log."""
    if arithmetic == LOG:
        peak = largest(weight)
        if peak == -np.inf:
            return -np.inf
        total = 0.0
        for v in range(weight.size):
            total += exp(weight[v] - peak)
        return peak + math.log(total)
    total = 0.0
    for v in range(weight.size):
        total += weight[v]
    return total


@kernel(inline=True)
def _log_add(a, b):
    high, low = max(a, b), min(a, b)
    return high + math.log1p(exp(low - high)) if low > -np.inf else high


@kernel(inline=True)
def _add(arithmetic, a, b):
    return _log_add(a, b) if arithmetic == LOG else a + b


@kernel(inline=True)
def _times(arithmetic, a, b):
    return a + b if arithmetic == LOG else a * b


# -------------------------------------------------------------------- lists
@kernel(inline=True)
def _others(edge_variable, domain_size, incoming, arithmetic, slots, n, entry, first, last, skipped):
    """Return the product of an entry's weights, but for one edge."""
    weight, offset = (0.0 if arithmetic == LOG else 1.0), 0
    for edge in range(first, last):
        if edge != skipped:
            weight = _times(arithmetic, weight, incoming[offset + slots[(edge - first) * n + entry]])
        offset += domain_size[edge_variable[edge]]
    return weight


@kernel()
def _joint_weight(layout, space, arithmetic, joint, first, last, skipped):
    """Return the product of the weights of a joint state of all edges but one, given by its number in order."""
    end = 0
    for edge in range(first, last):
        end += space.domain_size[layout.edge_variable[edge]]
    weight = 0.0 if arithmetic == LOG else 1.0
    for edge in range(last - 1, first - 1, -1):
        n = space.domain_size[layout.edge_variable[edge]]
        end -= n
        if edge != skipped:
            weight = _times(arithmetic, weight, space.incoming[end + joint % n])
            joint //= n
    return weight


@kernel()
def _joint_number(layout, space, slots, n, entry, first, last, skipped):
    """Return the number of an entry's joint state of all edges but one."""
    joint = 0
    for edge in range(first, last):
        if edge != skipped:
            joint = joint * space.domain_size[layout.edge_variable[edge]] + slots[(edge - first) * n + entry]
    return joint


@kernel()
def _first_entry(own, order, state):
    """Return the place of the first entry of a state, or of one beyond it, in the order by states."""
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        if own[order[middle]] < state:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _walk(layout, space, arithmetic, values, slots, order, default, state, first, last, target):
    """Return o_i of one state, by walking all joint states of the others; `order` is by the state of the target."""
    n, own = values.size, slots[(target - first) * values.size :]
    low = _first_entry(own, order, state)
    joints = 1
    for edge in range(first, last):
        if edge != target:
            joints *= space.domain_size[layout.edge_variable[edge]]
    total = -np.inf if arithmetic == LOG else 0.0
    for joint in range(joints):
        weight, score = _joint_weight(layout, space, arithmetic, joint, first, last, target), default
        listed = low < n and own[order[low]] == state
        if listed and _joint_number(layout, space, slots, n, order[low], first, last, target) == joint:
            score = values[order[low]]
            low += 1
        total = _add(arithmetic, total, _times(arithmetic, weight, score))
    return total


@kernel()
def _walk_pair(arithmetic, values, own, other, order, default, weight, state):
    """Return o_i of one state of a pair, by walking the states of the other, from one listed state to the next."""
    total, begin, place = (-np.inf if arithmetic == LOG else 0.0), 0, _first_entry(own, order, state)
    while place < order.size and own[order[place]] == state:
        entry = order[place]
        gap = _times(arithmetic, default, _sum(arithmetic, weight[begin : other[entry]]))
        listed = _times(arithmetic, values[entry], weight[other[entry]])
        total = _add(arithmetic, total, _add(arithmetic, gap, listed))
        begin = other[entry] + 1
        place += 1
    return _add(arithmetic, total, _times(arithmetic, default, _sum(arithmetic, weight[begin:])))


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
                sums[v] = _log_add(sums[v], default + total + math.log(1.0 - share[v]))
            else:
                sums[v] = _walk_pair(LOG, values, own, other, order, default, weight, v)


@kernel()
def _through_pair(space, arithmetic, values, slots, order, default, n, m):
    """Fill the messages of a list of two variables, of n and of m states."""
    entries = values.size
    rows, columns = slots[:entries], slots[entries:]
    by_row, by_column = order[: order.size // 2], order[order.size // 2 :]
    left, right = space.incoming[:n], space.incoming[n : n + m]
    to_left, to_right = space.outgoing[:n], space.outgoing[n : n + m]
    sum_left, sum_right = _sum(arithmetic, left), _sum(arithmetic, right)
    if arithmetic == LOG:
        peak, share = space.peak[: max(n, m)], space.peak[max(n, m) :]
        _pair_log(values, rows, columns, by_row, default, sum_right, right, peak, share, to_left)
        _pair_log(values, columns, rows, by_column, default, sum_left, left, peak, share, to_right)
    else:
        _pair_linear(values, rows, columns, by_row, default, sum_right, right, to_left)
        _pair_linear(values, columns, rows, by_column, default, sum_left, left, to_right)


@kernel(FAST)
def _list_linear(layout, space, values, slots, order, default, total, first, last, target, sums):
    n, base = values.size, default * total
    own = slots[(target - first) * n : (target - first + 1) * n]
    for v in range(sums.size):
        sums[v] = base
    for e in range(n):
        sums[own[e]] += (values[e] - default) * _others(
            layout.edge_variable, space.domain_size, space.incoming, 0, slots, n, e, first, last, target
        )
    if order.size and base > 0.0:
        by_state = order[(target - first) * n : (target - first + 1) * n]
        for v in range(sums.size):
            if sums[v] < CANCELS * base:
                sums[v] = _walk(layout, space, 0, values, slots, by_state, default, v, first, last, target)


@kernel()
def _list_log(layout, space, values, slots, order, default, total, first, last, target, sums):
    n = values.size
    own = slots[(target - first) * n : (target - first + 1) * n]
    peak, share = space.peak[: sums.size], space.peak[sums.size : 2 * sums.size]
    for v in range(sums.size):
        peak[v], share[v], sums[v] = -np.inf, 0.0, 0.0
    for e in range(n):
        weight = _others(layout.edge_variable, space.domain_size, space.incoming, LOG, slots, n, e, first, last, target)
        peak[own[e]] = max(peak[own[e]], values[e] + weight)
    for e in range(n):
        weight = _others(layout.edge_variable, space.domain_size, space.incoming, LOG, slots, n, e, first, last, target)
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
                sums[v] = _log_add(sums[v], default + total + math.log(1.0 - share[v]))
            else:
                sums[v] = _walk(layout, space, LOG, values, slots, by_state, default, v, first, last, target)


@kernel()
def _through_list(layout, space, factor, arithmetic):
    """Words: entries, whether there is an order, default; scores; slots, axis after axis; order, likewise."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    address = space.table_address[factor]
    head = table_view(address, HEAD)
    n, ordered, default = head.view(np.int64)[0], head.view(np.int64)[1], head[2]
    end = HEAD + n + (last - first) * n
    words = table_view(address, end + ordered * (last - first) * n)
    values, slots, order = words[HEAD : HEAD + n], words[HEAD + n : end].view(np.int64), words[end:].view(np.int64)
    if last - first == PAIR:
        sizes = space.domain_size[layout.edge_variable[first]], space.domain_size[layout.edge_variable[first + 1]]
        _through_pair(space, arithmetic, values, slots, order, default, sizes[0], sizes[1])
        return
    offset = 0
    for target in range(first, last):
        size, start = space.domain_size[layout.edge_variable[target]], 0
        total = 0.0 if arithmetic == LOG else 1.0
        for edge in range(first, last):
            m = space.domain_size[layout.edge_variable[edge]]
            if edge != target:
                total = _times(arithmetic, total, _sum(arithmetic, space.incoming[start : start + m]))
            start += m
        sums = space.outgoing[offset : offset + size]
        if arithmetic == LOG:
            _list_log(layout, space, values, slots, order, default, total, first, last, target, sums)
        else:
            _list_linear(layout, space, values, slots, order, default, total, first, last, target, sums)
        offset += size


# -------------------------------------------------------------------- differences
@kernel(FAST_WITHOUT_NAN)
def _dot(arithmetic, scores, weight):
    """Return the sum of scores times weights, or its log."""
    if arithmetic == LOG:
        peak = -np.inf
        for v in range(weight.size):
            peak = max(peak, scores[v] + weight[v])
        if peak == -np.inf:
            return -np.inf
        total = 0.0
        for v in range(weight.size):
            total += exp(scores[v] + weight[v] - peak)
        return peak + math.log(total)
    total = 0.0
    for v in range(weight.size):
        total += scores[v] * weight[v]
    return total


@kernel()
def _add_up(arithmetic, weight, below, above):
    """Fill the sums of the weights before each place, and from each place on."""
    n, nothing = weight.size, (-np.inf if arithmetic == LOG else 0.0)
    below[0], above[n] = nothing, nothing
    for v in range(n):
        below[v + 1] = _add(arithmetic, below[v], weight[v])
    for v in range(n - 1, -1, -1):
        above[v] = _add(arithmetic, above[v + 1], weight[v])


@kernel()
def _slide(arithmetic, scores, shift, default, weight, below, above, sums):
    """Fill sums[v] with the sum over u of the score of u - v, which is scores[u - v - shift] or the default."""
    m, none = weight.size, default == (-np.inf if arithmetic == LOG else 0.0)
    if not none:
        _add_up(arithmetic, weight, below, above)
    for v in range(sums.size):
        begin = min(max(0, v + shift), m)
        end = max(begin, min(m, v + shift + scores.size))
        place = begin - v - shift
        total = _dot(arithmetic, scores[place : place + end - begin], weight[begin:end])
        if not none:
            rest = _add(arithmetic, below[begin], above[end])
            total = _add(arithmetic, total, _times(arithmetic, default, rest))
        sums[v] = total


@kernel()
def _through_difference(layout, space, factor, arithmetic):
    """Words: first difference, how many, default; their scores; the scores backwards."""
    edge = layout.factor_edge_start[factor]
    address = space.table_address[factor]
    head = table_view(address, HEAD)
    shift, length, default = head.view(np.int64)[0], head.view(np.int64)[1], head[2]
    words = table_view(address, HEAD + 2 * length)
    scores, backwards = words[HEAD : HEAD + length], words[HEAD + length :]
    n, m = space.domain_size[layout.edge_variable[edge]], space.domain_size[layout.edge_variable[edge + 1]]
    left, right = space.incoming[:n], space.incoming[n : n + m]
    below, above = space.peak[: max(n, m) + 1], space.peak[max(n, m) + 1 :]
    _slide(arithmetic, backwards, 1 - shift - length, default, right, below, above, space.outgoing[:n])
    _slide(arithmetic, scores, shift, default, left, below, above, space.outgoing[n : n + m])


# -------------------------------------------------------------------- at most one
@kernel()
def _through_at_most_one(layout, space, factor, arithmetic):
    """Words: per axis the slot of the state "on", or -1.

    `none` and `one` hold, per edge, the weight of no "on", and of one, among the edges before it; the same from behind
    is kept in two numbers.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    arity, nothing = last - first, (-np.inf if arithmetic == LOG else 0.0)
    slot = table_view(space.table_address[factor], arity).view(np.int64)
    on, off = space.peak[:arity], space.peak[arity : 2 * arity]
    none, one = space.peak[2 * arity : 3 * arity], space.peak[3 * arity : 4 * arity]
    offset, so_far, once = 0, (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity):
        n = space.domain_size[layout.edge_variable[first + k]]
        on[k] = space.incoming[offset + slot[k]] if slot[k] >= 0 else nothing
        cut = slot[k] if slot[k] >= 0 else n
        off[k] = _sum(arithmetic, space.incoming[offset : offset + cut])
        off[k] = _add(arithmetic, off[k], _sum(arithmetic, space.incoming[offset + min(n, cut + 1) : offset + n]))
        none[k], one[k] = so_far, once
        once = _add(arithmetic, _times(arithmetic, once, off[k]), _times(arithmetic, so_far, on[k]))
        so_far = _times(arithmetic, so_far, off[k])
        offset += n
    so_far, once = (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity - 1, -1, -1):
        n = space.domain_size[layout.edge_variable[first + k]]
        offset -= n
        nobody = _times(arithmetic, none[k], so_far)
        somebody = _add(arithmetic, _times(arithmetic, one[k], so_far), _times(arithmetic, none[k], once))
        space.outgoing[offset : offset + n] = _add(arithmetic, nobody, somebody)
        if slot[k] >= 0:
            space.outgoing[offset + slot[k]] = nobody
        once = _add(arithmetic, _times(arithmetic, once, off[k]), _times(arithmetic, so_far, on[k]))
        so_far = _times(arithmetic, so_far, off[k])


@kernel()
def through_structure(layout, space, factor, arithmetic):
    """Fill `space.outgoing` with the unscaled messages of a factor that is no table, from `space.incoming`."""
    kind = space.factor_kind[factor]
    if kind == DIFFERENCE:
        _through_difference(layout, space, factor, arithmetic)
    elif kind == AT_MOST_ONE:
        _through_at_most_one(layout, space, factor, arithmetic)
    else:
        _through_list(layout, space, factor, arithmetic)
