"""Weights of how many variables are "on", along a binary tree of variables; `cardinality.py` has the messages.

A node N has some of the variables, its children a half each. P_N(c) is the weight that c of its variables are on, and
S_N(c) the score of that, summed over all other variables; s(c) is the score of a count, of 1 at most.

    P_N(c)     =  sum over d of P_left(d) P_right(c - d)
    S_root(c)  =  s(c),    S_left(c)  =  sum over d of P_right(d) S_N(c + d),    and S_right likewise

Nothing is subtracted. The weights of a node sum to 1, and most of them lie within some roots of the number of its
variables: counts at both ends are left out while they weigh at most `least`. A node then takes about as many steps as
it has variables, and all nodes n log n. S_N is known of the counts of P_N, and of one more at each end. Counts that
lead to none with a score are left out, too, which changes nothing.

Let E be the sum of all that is left out. Let P' be P_N without one variable, of which p or q = 1 - p is at least 1/2:
P'(c) is at most twice P_N(c) or P_N(c + 1). So no message lacks more than (4 depth + 1) E.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, dot
from anytimebp.kernels.jit import FAST, kernel

BLOCK = 32  # variables of a node that has no children


@kernel(inline=True)
def position_of(arity, depth, deepest, node):
    """Return where the numbers of a node begin, its first variable, and how many it has."""
    begin, end = (node * arity) >> depth, ((node + 1) * arity) >> depth
    return depth * (arity + (1 << deepest)) + begin + node, begin, end - begin


@kernel(FAST)
def add_variable(p, q, before, after):
    """Fill the weights of counts with one variable more."""
    n = before.size
    after[0] = q * before[0]
    for c in range(1, n):
        after[c] = q * before[c] + p * before[c - 1]
    after[n] = p * before[n - 1]


@kernel()
def log_add_variable(p, q, before, after):
    """Do so in logs."""
    n = before.size
    after[0] = q + before[0]
    for c in range(1, n):
        after[c] = add(LOG, q + before[c], p + before[c - 1])
    after[n] = p + before[n - 1]


@kernel(FAST)
def _multiply(left, right, product):
    product[:] = 0.0
    for d in range(left.size):
        weight, part = left[d], product[d : d + right.size]
        for e in range(right.size):
            part[e] += weight * right[e]


@kernel()
def _log_multiply(left, right, product):
    for c in range(product.size):
        first, last, peak, total = max(0, c + 1 - right.size), min(left.size, c + 1), -np.inf, 0.0
        for d in range(first, last):
            peak = max(peak, left[d] + right[c - d])
        if peak > -np.inf:
            for d in range(first, last):
                total += exp(left[d] + right[c - d] - peak)
        product[c] = peak + math.log(total) if peak > -np.inf else -np.inf


@kernel()
def _trim(weight, first, last, least):
    """Return the first count and the one behind the last that are kept, and what the others weigh together."""
    left_out, so_far = 0.0, 0.0
    while first < last - 1 and so_far + weight[first] <= least:
        so_far += weight[first]
        first += 1
    left_out, so_far = so_far, 0.0
    while first < last - 1 and so_far + weight[last - 1] <= least:
        so_far += weight[last - 1]
        last -= 1
    return first, last, left_out + so_far


@kernel()
def _fill_blocks(arithmetic, arity, deepest, p, q, lowest, highest, weight, low, high, rows):
    """Fill P_N of the nodes without children, from rows that grow variable by variable."""
    for node in range(1 << deepest):
        at, begin, n = position_of(arity, deepest, deepest, node)
        rows[0] = 0.0 if arithmetic == LOG else 1.0
        for k in range(n):
            before = rows[(k % 2) * (BLOCK + 1) :][: k + 1]
            after = rows[((k + 1) % 2) * (BLOCK + 1) :][: k + 2] if k < n - 1 else weight[at : at + n + 1]
            if arithmetic == LOG:
                log_add_variable(p[begin + k], q[begin + k], before, after)
            else:
                add_variable(p[begin + k], q[begin + k], before, after)
        own = (1 << deepest) + node
        low[own], high[own] = max(0, lowest - (arity - n)), min(n, highest) + 1


@kernel()
def fill_weights(arithmetic, arity, deepest, p, q, lowest, highest, least, weight, low, high, rows):
    """Fill P_N of all nodes but the root.

    Args:
        arithmetic: LINEAR or LOG.
        arity: How many variables there are.
        deepest: Depth of the nodes without children.
        p: (arity,) weights of "on", or their logs.
        q: (arity,) those of "off"; both sum to 1.
        lowest: First count that has a score.
        highest: Last count that has a score.
        least: What counts at one end may weigh together to be left out; negative if they may not.
        weight: Overwritten: P_N at position N.
        low: Overwritten: the first count of each node that is kept.
        high: Overwritten: behind the last one.
        rows: Room.

    Returns:
        What is left out; inf if that may be all that counts.
    """
    _fill_blocks(arithmetic, arity, deepest, p, q, lowest, highest, weight, low, high, rows)
    left_out = 0.0
    for depth in range(deepest - 1, 0, -1):
        for node in range(1 << depth):
            at, _, n = position_of(arity, depth, deepest, node)
            at_left, _, n_left = position_of(arity, depth + 1, deepest, 2 * node)
            left = (2 << depth) + 2 * node
            begin, end = low[left] + low[left + 1], high[left] + high[left + 1] - 1
            at_right, product = at_left + n_left + 1, weight[at + begin : at + end]
            one, other = weight[at_left + low[left] :][: high[left] - low[left]], weight[at_right:]
            other = other[low[left + 1] : high[left + 1]]
            if arithmetic == LOG:
                _log_multiply(one, other, product)
            else:
                _multiply(one, other, product)
            begin, end = max(begin, lowest - (arity - n)), min(end, highest + 1)
            if begin >= end:
                return np.inf
            if least >= 0.0:
                begin, end, lost = _trim(weight[at : at + n + 1], begin, end, least)
                left_out += lost
            own = (1 << depth) + node
            low[own], high[own] = begin, end
    return left_out


@kernel()
def fill_scores(arithmetic, arity, deepest, weight, low, high, score):
    """Fill S_N of all nodes from that of the root, at the places of `fill_weights`; those without children whole."""
    nothing = -np.inf if arithmetic == LOG else 0.0
    from_count, to_count = 0, arity + 1  # of which the root knows its score
    for depth in range(1, deepest + 1):
        for node in range(1 << depth):
            at, _, n = position_of(arity, depth, deepest, node)
            at_sibling, _, _ = position_of(arity, depth, deepest, node ^ 1)
            at_parent, _, _ = position_of(arity, depth - 1, deepest, node >> 1)
            own, sibling, parent = (1 << depth) + node, (1 << depth) + (node ^ 1), (1 << (depth - 1)) + (node >> 1)
            if depth > 1:
                from_count, to_count = max(0, low[parent] - 1), high[parent] + 1
            if depth == deepest:
                score[at : at + n + 1] = nothing
            for c in range(max(0, low[own] - 1), min(n, high[own]) + 1):
                begin, end = max(low[sibling], from_count - c), min(high[sibling], to_count - c)
                found = nothing
                if begin < end:
                    after = score[at_parent + c + begin : at_parent + c + end]
                    found = dot(arithmetic, weight[at_sibling + begin : at_sibling + end], after)
                score[at + c] = found
