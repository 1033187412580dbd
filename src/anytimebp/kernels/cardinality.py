"""Messages of factors that score how many variables are "on"; `inputs` is a StructureInputs of `structures.py`.

`count_trees.py` has the score S(c) of c variables that are on among a few that are next to each other, summed over all
others. With p_k and q_k the weights of "on" and "off" of the k-th of the few, divided by their sum, F_k(c) the
weight of c variables on among those before it, and B_k(c) the score of those from k on if c are on before:

    F_0(0)  =  1,       F_k+1(c)  =  q_k F_k(c) + p_k F_k(c - 1)
    B_n(c)  =  S(c),    B_k(c)    =  q_k B_k+1(c) + p_k B_k+1(c + 1)
    o_k(off)  =  sum over c of F_k(c) B_k+1(c),    o_k(on)  =  sum over c of F_k(c) B_k+1(c + 1)

Trees leave counts out that weigh next to nothing. What they may lack is bounded: if any message is not TRUSTED times as
large, all are summed again with all counts. In logs, linear sums do where they have lost nothing (`log_sums.py` says
why); if not, all of them are made by logs.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import CERTAIN, LINEAR, LOG
from anytimebp.kernels.count_trees import (
    BLOCK,
    add_variable,
    fill_scores,
    fill_weights,
    log_add_variable,
    position_of,
)
from anytimebp.kernels.either_arithmetic import add, dot, sum_of
from anytimebp.kernels.jit import FAST, index_view, kernel, table_view
from anytimebp.kernels.structures import read_inputs

NEGLIGIBLE = 1e-20  # what counts at one end of a node may weigh to be left out, times the number of variables
TRUSTED = 1e11  # times what it may lack, a message must be


@kernel(FAST)
def _backward(p, q, after):
    """Turn B_k+1 to B_k in place; the last number is left as it is."""
    for c in range(after.size - 1):
        after[c] = q * after[c] + p * after[c + 1]


@kernel()
def _log_backward(p, q, after):
    for c in range(after.size - 1):
        after[c] = add(LOG, q + after[c], p + after[c + 1])


@kernel()
def _fill_on_and_off(inputs, first, arity, slot, arithmetic, on, off, total):
    """Fill the weights of on and off, and their sums; return the sum of the logs of these, or their product."""
    offset, whole, nothing = 0, (0.0 if arithmetic == LOG else 1.0), (-np.inf if arithmetic == LOG else 0.0)
    for k in range(arity):
        n = inputs.domain_size[inputs.edge_variable[first + k]]
        cut = slot[k] if slot[k] >= 0 else n
        on[k] = inputs.incoming[offset + slot[k]] if slot[k] >= 0 else nothing
        off[k] = sum_of(arithmetic, inputs.incoming[offset : offset + cut])
        off[k] = add(arithmetic, off[k], sum_of(arithmetic, inputs.incoming[offset + min(n, cut + 1) : offset + n]))
        total[k] = add(arithmetic, on[k], off[k])
        if arithmetic == LOG:
            on[k], off[k], whole = on[k] - total[k], off[k] - total[k], whole + total[k]
        else:
            on[k], off[k], whole = on[k] / total[k], off[k] / total[k], whole * total[k]
        offset += n
    return whole


@kernel()
def _sum_block(arithmetic, p, q, behind, rows, is_on, is_off):
    """Fill the sums of "on" and "off" of a few variables; `behind` is S(c), overwritten."""
    n, begin = p.size, 0
    rows[0] = 0.0 if arithmetic == LOG else 1.0
    for k in range(n - 1):
        row, after = rows[begin : begin + k + 1], rows[begin + k + 1 : begin + 2 * k + 3]
        if arithmetic == LOG:
            log_add_variable(p[k], q[k], row, after)
        else:
            add_variable(p[k], q[k], row, after)
        begin += k + 1
    for k in range(n - 1, -1, -1):
        row = rows[begin : begin + k + 1]
        is_off[k] = dot(arithmetic, row, behind[: k + 1])
        is_on[k] = dot(arithmetic, row, behind[1 : k + 2])
        if arithmetic == LOG:
            _log_backward(p[k], q[k], behind[: k + 2])
        else:
            _backward(p[k], q[k], behind[: k + 2])
        begin -= k


@kernel()
def _sum_counts(arithmetic, arity, deepest, p, q, scores, least, tree, is_on, is_off):
    """Fill the sums of "on" and "off" of all variables; return what they may lack, of a largest score of 1."""
    weight, score, low, high, rows = tree
    lowest, highest, nothing = arity, 0, (-np.inf if arithmetic == LOG else 0.0)
    for c in range(arity + 1):
        score[c] = scores[c]
        if scores[c] > nothing:
            lowest, highest = min(lowest, c), max(highest, c)
    left_out = 0.0
    if deepest:
        left_out = fill_weights(arithmetic, arity, deepest, p, q, lowest, highest, least, weight, low, high, rows)
        if left_out == np.inf:
            return np.inf
        fill_scores(arithmetic, arity, deepest, weight, low, high, score)
    for node in range(1 << deepest):
        at, begin, n = position_of(arity, deepest, deepest, node)
        end, behind = begin + n, score[at : at + n + 1]
        _sum_block(arithmetic, p[begin:end], q[begin:end], behind, rows, is_on[begin:end], is_off[begin:end])
    return (4.0 * deepest + 1.0) * left_out


@kernel()
def _smallest(a, b):
    found = np.inf
    for k in range(a.size):
        found = min(found, a[k], b[k])
    return found


@kernel()
def _sum_with_digits(arithmetic, arity, deepest, on, off, scores, tree, linear, is_on, is_off):
    """Fill all sums: linear ones with some counts left out, with all of them, or by logs, until they have digits."""
    p, q, weight = on, off, scores
    if arithmetic == LOG:
        p, q, weight = linear[:arity], linear[arity : 2 * arity], linear[2 * arity :]
        for k in range(arity):
            p[k], q[k] = exp(on[k]), exp(off[k])
        for c in range(arity + 1):
            weight[c] = exp(scores[c])
    floor = CERTAIN if arithmetic == LOG else 0.0
    for attempt in range(2 if deepest else 1):
        least = NEGLIGIBLE / arity if deepest and attempt == 0 else -1.0
        lacks = _sum_counts(LINEAR, arity, deepest, p, q, weight, least, tree, is_on, is_off)
        if lacks < np.inf and _smallest(is_on, is_off) >= max(floor, TRUSTED * lacks):
            if arithmetic == LOG:
                for k in range(arity):
                    is_on[k], is_off[k] = math.log(is_on[k]), math.log(is_off[k])
            return
    if arithmetic == LOG:
        _sum_counts(LOG, arity, deepest, on, off, scores, -1.0, tree, is_on, is_off)


@kernel()
def through_cardinality(inputs, factor, arithmetic):
    """Words: per axis the slot of the state "on", or -1; the scores of all counts."""
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    arity, address, room = last - first, inputs.table_address[factor], inputs.room
    slot, scores = index_view(address, arity), table_view(address, 2 * arity + 1)[arity:]
    deepest = 0
    while arity > BLOCK << deepest:
        deepest += 1
    on, off, total = room[:arity], room[arity : 2 * arity], room[2 * arity : 3 * arity]
    is_on, is_off, linear = room[3 * arity : 4 * arity], room[4 * arity : 5 * arity], room[5 * arity : 8 * arity + 1]
    ends, nodes, numbers = 8 * arity + 1, 2 << deepest, (deepest + 1) * (arity + (1 << deepest))
    weight, score = room[ends : ends + numbers], room[ends + numbers : ends + 2 * numbers]
    ends += 2 * numbers
    low, high = index_view(room[ends:].ctypes.data, nodes), index_view(room[ends + nodes :].ctypes.data, nodes)
    tree = weight, score, low, high, room[ends + 2 * nodes :]
    whole = _fill_on_and_off(inputs, first, arity, slot, arithmetic, on, off, total)
    _sum_with_digits(arithmetic, arity, deepest, on, off, scores, tree, linear, is_on, is_off)
    offset = 0
    for k in range(arity):
        n = inputs.domain_size[inputs.edge_variable[first + k]]
        if arithmetic == LOG:
            is_on[k], is_off[k] = is_on[k] + whole - total[k], is_off[k] + whole - total[k]
        else:
            is_on[k], is_off[k] = is_on[k] * (whole / total[k]), is_off[k] * (whole / total[k])
        inputs.outgoing[offset : offset + n] = is_off[k]
        if slot[k] >= 0:
            inputs.outgoing[offset + slot[k]] = is_on[k]
        offset += n


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_cardinality(inputs, factor, arithmetic)
