"""Messages of factors that are no tables: lists of entries, differences, at most one.

Each fills `outgoing` from `incoming` as `contract` does with a table, in linear arithmetic or in logs, at a
cost of its entries or of its variables' states. With t the listed scores, d the default, n_j the incoming messages and
T_i the product of their sums over j other than i:

    list          o_i(x)  =  d T_i + sum over entries e with e_i = x of (t_e - d) * product of n_j(e_j), j not i
    difference    o_0(x)  =  sum over y of k(x - y) n_1(y), and o_1 likewise; outside the kernel, d
    at most one   o_i(on) =  product of q_j;  o_i(off) = that + sum over k of p_k * product of q_j, j not k
                  p_j the weight of the state "on", q_j that of all others; products and sums over j, k other than i

Where entries are under the default, or in logs, d T_i less what is listed can cancel. Where it would, the states of the
others are walked one by one instead, so that no digit is lost.

What a factor is made of lies at `table_address` in words of 8 bytes; `workspace/structures.py` writes them.

Updates call all this by its address (`send`), so that runs without structures neither load nor compile any of it. What
it needs lies in a row of whole numbers, `space.post`: the function, the factor, the arithmetic, and where the arrays of
a `Post` are and how long.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import AT_MOST_ONE, DIFFERENCE, LOG
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, Callback, call, callback, kernel, table_view
from anytimebp.kernels.to_factor import largest

CANCELS = 0.01  # part of a sum that must be left after a subtraction, or the terms are added up one by one
HEAD = 3  # words before the numbers
PAIR = 2
FUNCTION, FACTOR, ARITHMETIC, ARRAYS = 0, 1, 2, 3  # places in a post; then addresses and lengths of arrays


class Post(NamedTuple):
    """What structures need of a layout and a workspace, in the order in which a post lists them."""

    factor_edge_start: np.ndarray
    edge_variable: np.ndarray
    domain_size: np.ndarray
    factor_kind: np.ndarray
    table_address: np.ndarray
    incoming: np.ndarray
    outgoing: np.ndarray
    peak: np.ndarray


@kernel(inline=True)
def send(post, factor, arithmetic):
    """Have a factor that is no table fill `outgoing` from `incoming`."""
    post[FACTOR], post[ARITHMETIC] = factor, arithmetic
    call(post[FUNCTION], post.ctypes.data)


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


@kernel()
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
def _joint_weight(post, arithmetic, joint, first, last, skipped):
    """Return the product of the weights of a joint state of all edges but one, given by its number in order."""
    end = 0
    for edge in range(first, last):
        end += post.domain_size[post.edge_variable[edge]]
    weight = 0.0 if arithmetic == LOG else 1.0
    for edge in range(last - 1, first - 1, -1):
        n = post.domain_size[post.edge_variable[edge]]
        end -= n
        if edge != skipped:
            weight = _times(arithmetic, weight, post.incoming[end + joint % n])
            joint //= n
    return weight


@kernel()
def _joint_number(post, slots, n, entry, first, last, skipped):
    """Return the number of an entry's joint state of all edges but one."""
    joint = 0
    for edge in range(first, last):
        if edge != skipped:
            joint = joint * post.domain_size[post.edge_variable[edge]] + slots[(edge - first) * n + entry]
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
def _walk(post, arithmetic, values, slots, order, default, state, first, last, target):
    """Return o_i of one state, by walking all joint states of the others; `order` is by the state of the target."""
    n, own = values.size, slots[(target - first) * values.size :]
    low = _first_entry(own, order, state)
    joints = 1
    for edge in range(first, last):
        if edge != target:
            joints *= post.domain_size[post.edge_variable[edge]]
    total = -np.inf if arithmetic == LOG else 0.0
    for joint in range(joints):
        weight, score = _joint_weight(post, arithmetic, joint, first, last, target), default
        listed = low < n and own[order[low]] == state
        if listed and _joint_number(post, slots, n, order[low], first, last, target) == joint:
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
def _through_pair(post, arithmetic, values, slots, order, default, n, m):
    """Fill the messages of a list of two variables, of n and of m states."""
    entries = values.size
    rows, columns = slots[:entries], slots[entries:]
    by_row, by_column = order[: order.size // 2], order[order.size // 2 :]
    left, right = post.incoming[:n], post.incoming[n : n + m]
    to_left, to_right = post.outgoing[:n], post.outgoing[n : n + m]
    sum_left, sum_right = _sum(arithmetic, left), _sum(arithmetic, right)
    if arithmetic == LOG:
        peak, share = post.peak[: max(n, m)], post.peak[max(n, m) :]
        _pair_log(values, rows, columns, by_row, default, sum_right, right, peak, share, to_left)
        _pair_log(values, columns, rows, by_column, default, sum_left, left, peak, share, to_right)
    else:
        _pair_linear(values, rows, columns, by_row, default, sum_right, right, to_left)
        _pair_linear(values, columns, rows, by_column, default, sum_left, left, to_right)


@kernel(FAST)
def _list_linear(post, values, slots, order, default, total, first, last, target, sums):
    n, base = values.size, default * total
    own = slots[(target - first) * n : (target - first + 1) * n]
    for v in range(sums.size):
        sums[v] = base
    for e in range(n):
        sums[own[e]] += (values[e] - default) * _others(
            post.edge_variable, post.domain_size, post.incoming, 0, slots, n, e, first, last, target
        )
    if order.size and base > 0.0:
        by_state = order[(target - first) * n : (target - first + 1) * n]
        for v in range(sums.size):
            if sums[v] < CANCELS * base:
                sums[v] = _walk(post, 0, values, slots, by_state, default, v, first, last, target)


@kernel()
def _list_log(post, values, slots, order, default, total, first, last, target, sums):
    n = values.size
    own = slots[(target - first) * n : (target - first + 1) * n]
    peak, share = post.peak[: sums.size], post.peak[sums.size : 2 * sums.size]
    for v in range(sums.size):
        peak[v], share[v], sums[v] = -np.inf, 0.0, 0.0
    for e in range(n):
        weight = _others(post.edge_variable, post.domain_size, post.incoming, LOG, slots, n, e, first, last, target)
        peak[own[e]] = max(peak[own[e]], values[e] + weight)
    for e in range(n):
        weight = _others(post.edge_variable, post.domain_size, post.incoming, LOG, slots, n, e, first, last, target)
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
                sums[v] = _walk(post, LOG, values, slots, by_state, default, v, first, last, target)


@kernel()
def _through_list(post, factor, arithmetic):
    """Words: entries, whether there is an order, default; scores; slots, axis after axis; order, likewise."""
    first, last = post.factor_edge_start[factor], post.factor_edge_start[factor + 1]
    address = post.table_address[factor]
    head = table_view(address, HEAD)
    n, ordered, default = head.view(np.int64)[0], head.view(np.int64)[1], head[2]
    end = HEAD + n + (last - first) * n
    words = table_view(address, end + ordered * (last - first) * n)
    values, slots, order = words[HEAD : HEAD + n], words[HEAD + n : end].view(np.int64), words[end:].view(np.int64)
    if last - first == PAIR:
        sizes = post.domain_size[post.edge_variable[first]], post.domain_size[post.edge_variable[first + 1]]
        _through_pair(post, arithmetic, values, slots, order, default, sizes[0], sizes[1])
        return
    offset = 0
    for target in range(first, last):
        size, start = post.domain_size[post.edge_variable[target]], 0
        total = 0.0 if arithmetic == LOG else 1.0
        for edge in range(first, last):
            m = post.domain_size[post.edge_variable[edge]]
            if edge != target:
                total = _times(arithmetic, total, _sum(arithmetic, post.incoming[start : start + m]))
            start += m
        sums = post.outgoing[offset : offset + size]
        if arithmetic == LOG:
            _list_log(post, values, slots, order, default, total, first, last, target, sums)
        else:
            _list_linear(post, values, slots, order, default, total, first, last, target, sums)
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
def _through_difference(post, factor, arithmetic):
    """Words: first difference, how many, default; their scores; the scores backwards."""
    edge = post.factor_edge_start[factor]
    address = post.table_address[factor]
    head = table_view(address, HEAD)
    shift, length, default = head.view(np.int64)[0], head.view(np.int64)[1], head[2]
    words = table_view(address, HEAD + 2 * length)
    scores, backwards = words[HEAD : HEAD + length], words[HEAD + length :]
    n, m = post.domain_size[post.edge_variable[edge]], post.domain_size[post.edge_variable[edge + 1]]
    left, right = post.incoming[:n], post.incoming[n : n + m]
    below, above = post.peak[: max(n, m) + 1], post.peak[max(n, m) + 1 :]
    _slide(arithmetic, backwards, 1 - shift - length, default, right, below, above, post.outgoing[:n])
    _slide(arithmetic, scores, shift, default, left, below, above, post.outgoing[n : n + m])


# -------------------------------------------------------------------- at most one
@kernel()
def _through_at_most_one(post, factor, arithmetic):
    """Words: per axis the slot of the state "on", or -1.

    `none` and `one` hold, per edge, the weight of no "on", and of one, among the edges before it; the same from behind
    is kept in two numbers.
    """
    first, last = post.factor_edge_start[factor], post.factor_edge_start[factor + 1]
    arity, nothing = last - first, (-np.inf if arithmetic == LOG else 0.0)
    slot = table_view(post.table_address[factor], arity).view(np.int64)
    on, off = post.peak[:arity], post.peak[arity : 2 * arity]
    none, one = post.peak[2 * arity : 3 * arity], post.peak[3 * arity : 4 * arity]
    offset, so_far, once = 0, (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity):
        n = post.domain_size[post.edge_variable[first + k]]
        on[k] = post.incoming[offset + slot[k]] if slot[k] >= 0 else nothing
        cut = slot[k] if slot[k] >= 0 else n
        off[k] = _sum(arithmetic, post.incoming[offset : offset + cut])
        off[k] = _add(arithmetic, off[k], _sum(arithmetic, post.incoming[offset + min(n, cut + 1) : offset + n]))
        none[k], one[k] = so_far, once
        once = _add(arithmetic, _times(arithmetic, once, off[k]), _times(arithmetic, so_far, on[k]))
        so_far = _times(arithmetic, so_far, off[k])
        offset += n
    so_far, once = (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity - 1, -1, -1):
        n = post.domain_size[post.edge_variable[first + k]]
        offset -= n
        nobody = _times(arithmetic, none[k], so_far)
        somebody = _add(arithmetic, _times(arithmetic, one[k], so_far), _times(arithmetic, none[k], once))
        post.outgoing[offset : offset + n] = _add(arithmetic, nobody, somebody)
        if slot[k] >= 0:
            post.outgoing[offset + slot[k]] = nobody
        once = _add(arithmetic, _times(arithmetic, once, off[k]), _times(arithmetic, so_far, on[k]))
        so_far = _times(arithmetic, so_far, off[k])


@kernel(inline=True)
def _array(row, k):
    return table_view(row[ARRAYS + 2 * k], row[ARRAYS + 2 * k + 1])


def _through_structure(address):
    """Fill the unscaled messages of the factor that the post at an address speaks of."""
    row = table_view(address, ARRAYS + 16).view(np.int64)
    post = Post(
        _array(row, 0).view(np.int64),
        _array(row, 1).view(np.int64),
        _array(row, 2).view(np.int64),
        _array(row, 3).view(np.int64),
        _array(row, 4).view(np.int64),
        _array(row, 5),
        _array(row, 6),
        _array(row, 7),
    )
    factor, arithmetic = row[FACTOR], row[ARITHMETIC]
    kind = post.factor_kind[factor]
    if kind == DIFFERENCE:
        _through_difference(post, factor, arithmetic)
    elif kind == AT_MOST_ONE:
        _through_at_most_one(post, factor, arithmetic)
    else:
        _through_list(post, factor, arithmetic)


@cache
def structures() -> Callback:
    """Return what updates call for factors that are no tables; compiled or loaded when it is first asked for."""
    return callback(_through_structure)
