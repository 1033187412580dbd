"""Sums over pairs of states of a group, term by term, with all their digits.

    c(x)  =  sum over y of a(y) * b(x - y)

in the group of XOR, or of the whole numbers modulo n. One x costs the states y that count: they come in the order of
a(y), and the sum ends where those that are left cannot change a digit. In logs, a linear sum that has lost nothing will
do (`log_sums.py` says why); others are summed by logs.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, normal_log
from anytimebp.kernels.codes import CERTAIN, LOG
from anytimebp.kernels.jit import FAST, kernel

XOR, CYCLIC = 0, 1
BUCKETS = 512  # of weights that count as equal when they are put in order
BLOCK = 32  # terms between two looks at what is left
NEGLIGIBLE = 1e-14  # part of a sum that may be left out
FAINT = 60.0  # nats under the largest term, below which even a billion others do not change a digit


@kernel(inline=True)
def difference(group, n, x, y):
    """Return x - y in the group."""
    if group == XOR:
        return x ^ y
    return x - y if x >= y else x - y + n


@kernel()
def count_positive(weight, nothing):
    """Return how many weights are more than nothing: 0, or -inf of logs."""
    count = 0
    for v in range(weight.size):
        count += weight[v] > nothing
    return count


@kernel()
def put_in_order(arithmetic, weight, log_weight, value, log_value, state, bucket):
    """List the positive weights, about from the largest to the smallest.

    Args:
        arithmetic: Whether logs count; if not, `log_weight` and `log_value` are not used.
        weight: (n,) read.
        log_weight: (n,) read.
        value: (n,) overwritten: the weights in order.
        log_value: (n,) overwritten: their logs.
        state: (n,) overwritten: of which state each is.
        bucket: (BUCKETS + 1,) overwritten.

    Returns:
        How many there are.
    """
    low, high = np.inf, -np.inf
    for v in range(weight.size):
        at = log_weight[v] if arithmetic == LOG else (normal_log(weight[v]) if weight[v] > 0.0 else -np.inf)
        if at > -np.inf:
            low, high = min(low, at), max(high, at)
    if high == -np.inf:
        return 0
    scale = (BUCKETS - 1) / (high - low) if high > low else 0.0
    bucket[:] = 0
    for fill in range(2):
        for v in range(weight.size):
            at = log_weight[v] if arithmetic == LOG else (normal_log(weight[v]) if weight[v] > 0.0 else -np.inf)
            if at > -np.inf:
                own = np.int64((high - at) * scale)
                if fill:
                    position = bucket[own]
                    value[position], state[position] = weight[v], v
                    if arithmetic == LOG:
                        log_value[position] = log_weight[v]
                bucket[own + (0 if fill else 1)] += 1
        if not fill:
            for k in range(BUCKETS):
                bucket[k + 1] += bucket[k]
    return bucket[BUCKETS - 1]


@kernel()
def fill_tails(arithmetic, value, log_value, count, tail, bound):
    """Fill, for every block of terms on, the sum of their values, and the largest of their logs."""
    rest, top = 0.0, -np.inf
    for block in range((count - 1) // BLOCK, -1, -1):
        for t in range(block * BLOCK, min(count, (block + 1) * BLOCK)):
            rest += value[t]
            if arithmetic == LOG:
                top = max(top, log_value[t])
        tail[block], bound[block] = rest, top


@kernel(FAST)
def _some_terms(group, n, x, value, state, b):
    total = 0.0
    if group == XOR:
        for t in range(value.size):
            total += value[t] * b[x ^ state[t]]
    else:
        for t in range(value.size):
            position = x - state[t]
            total += value[t] * b[position if position >= 0 else position + n]
    return total


@kernel(FAST)
def direct_sum(group, x, a, b):
    """Return c(x), of all pairs."""
    total, n = 0.0, a.size
    if group == XOR:
        for y in range(n):
            total += a[y] * b[x ^ y]
    else:
        for y in range(x + 1):
            total += a[y] * b[x - y]
        for y in range(x + 1, n):
            total += a[y] * b[x - y + n]
    return total


@kernel()
def sum_terms(group, x, value, state, tail, b, largest):
    """Return c(x); `value`, `state` and `tail` list a, and `largest` is that of b."""
    total, n = 0.0, b.size
    for begin in range(0, value.size, BLOCK):
        if tail[begin // BLOCK] * largest <= NEGLIGIBLE * total:
            break
        end = min(value.size, begin + BLOCK)
        total += _some_terms(group, n, x, value[begin:end], state[begin:end], b)
    return total


@kernel()
def log_sum_terms(group, x, log_value, state, bound, log_b, largest):
    """Return log c(x), from logs; `largest` is that of log_b."""
    total, peak, n = 0.0, -np.inf, log_b.size
    for begin in range(0, log_value.size, BLOCK):
        if bound[begin // BLOCK] + largest < peak - FAINT:
            break
        end = min(log_value.size, begin + BLOCK)
        top = -np.inf
        for t in range(begin, end):
            top = max(top, log_value[t] + log_b[difference(group, n, x, state[t])])
        if top > peak:
            total *= exp(peak - top)
            peak = top
        if peak > -np.inf:
            for t in range(begin, end):
                total += exp(log_value[t] + log_b[difference(group, n, x, state[t])] - peak)
    return peak + math.log(total) if peak > -np.inf else -np.inf


@kernel()
def spread_pairs(group, n, value, state, other_value, other_state, sums):
    """Fill all sums, by going through all pairs of listed states."""
    sums[:] = 0.0
    for t in range(value.size):
        for r in range(other_value.size):
            y = other_state[r]
            minus = y if group == XOR else (n - y if y else 0)
            sums[difference(group, n, state[t], minus)] += value[t] * other_value[r]


@kernel()
def spread_log_pairs(group, n, value, state, other_value, other_state, peak, sums):
    """Do as `spread_pairs`, with logs of everything; `peak` is overwritten."""
    peak[:] = -np.inf
    sums[:] = 0.0
    for fill in range(2):
        for t in range(value.size):
            for r in range(other_value.size):
                y = other_state[r]
                minus = y if group == XOR else (n - y if y else 0)
                x = difference(group, n, state[t], minus)
                term = value[t] + other_value[r]
                if fill:
                    sums[x] += exp(term - peak[x])
                else:
                    peak[x] = max(peak[x], term)
    for x in range(n):
        sums[x] = peak[x] + math.log(sums[x]) if peak[x] > -np.inf else -np.inf


@kernel()
def sum_again(group, arithmetic, x, value, log_value, state, tail, bound, b, log_b, largest, log_largest):
    """Return c(x), or its log, where a transform would have lost digits."""
    total = sum_terms(group, x, value, state, tail, b, largest)
    if arithmetic != LOG:
        return total
    if total >= CERTAIN:
        return math.log(total)
    return log_sum_terms(group, x, log_value, state, bound, log_b, log_largest)
