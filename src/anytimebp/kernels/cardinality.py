"""Messages of factors that score how many variables are "on"; `inputs` is a StructureInputs of `structures.py`.

With p_j and q_j the weights of "on" and "off" of variable j, divided by their sum, s(c) the score of a count, F_k(c)
the weight of c variables on among the first k, and B_k(c) the weighted score of those from k on if c are on before:

    F_0(0)  =  1,       F_k+1(c)  =  q_k F_k(c) + p_k F_k(c - 1)
    B_n(c)  =  s(c),    B_k(c)    =  q_k B_k+1(c) + p_k B_k+1(c + 1)
    o_k(off)  =  sum over c of F_k(c) B_k+1(c),    o_k(on)  =  sum over c of F_k(c) B_k+1(c + 1)

Nothing is subtracted. Counts at both ends of F_k are left out while all that is left out is, together, at most a part
NEGLIGIBLE of the smallest sum that scores of this range can lead to; scores with hard zeros leave nothing out. B_k is
known of the counts of F_k and of one more at each end: o_j leaves variable j out, of which p or q may be next to
nothing, and with that the count moves by one.
"""

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, dot, sum_of
from anytimebp.kernels.jit import FAST, index_view, kernel, table_view
from anytimebp.kernels.structures import read_inputs

NEGLIGIBLE = 1e-16


@kernel(FAST)
def _forward(p, q, before, after):
    """Fill F_k+1 of one count more from F_k."""
    n = before.size
    after[0] = q * before[0]
    for c in range(1, n):
        after[c] = q * before[c] + p * before[c - 1]
    after[n] = p * before[n - 1]


@kernel(FAST)
def _backward(p, q, after):
    """Turn B_k+1 to B_k in place; the last number is left as it is."""
    for c in range(after.size - 1):
        after[c] = q * after[c] + p * after[c + 1]


@kernel()
def _log_forward(p, q, before, after):
    n = before.size
    after[0] = q + before[0]
    for c in range(1, n):
        after[c] = add(LOG, q + before[c], p + before[c - 1])
    after[n] = p + before[n - 1]


@kernel()
def _log_backward(p, q, after):
    for c in range(after.size - 1):
        after[c] = add(LOG, q + after[c], p + after[c + 1])


@kernel()
def _trim(arithmetic, row, negligible):
    """Return the first count and the one behind the last that are kept."""
    first, last, left_out = 0, row.size, 0.0
    while first < last - 1:
        left_out += exp(row[first]) if arithmetic == LOG else row[first]
        if left_out > negligible:
            break
        first += 1
    left_out = 0.0
    while last > first + 1:
        left_out += exp(row[last - 1]) if arithmetic == LOG else row[last - 1]
        if left_out > negligible:
            break
        last -= 1
    return first, last


@kernel()
def _fill_weights(inputs, first, arity, slot, arithmetic, on, off, total):
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
    return whole, offset


@kernel()
def through_cardinality(inputs, factor, arithmetic):
    """Words: per axis the slot of the state "on", or -1; the log of what may be left out; the scores of all counts."""
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    arity, address, room = last - first, inputs.table_address[factor], inputs.room
    slot, words = index_view(address, arity), table_view(address, 2 * arity + 2)
    log_range, scores = words[arity], words[arity + 1 :]
    negligible = NEGLIGIBLE * exp(-log_range) / arity if log_range < np.inf else -1.0
    nothing = -np.inf if arithmetic == LOG else 0.0
    on, off, total = room[:arity], room[arity : 2 * arity], room[2 * arity : 3 * arity]
    begin, low = index_view(room[3 * arity :].ctypes.data, arity), index_view(room[4 * arity :].ctypes.data, arity + 1)
    behind, rows = room[5 * arity + 1 : 6 * arity + 3], room[6 * arity + 3 :]
    whole, offset = _fill_weights(inputs, first, arity, slot, arithmetic, on, off, total)
    place, width = 0, 1
    rows[0], begin[0], low[0] = (0.0 if arithmetic == LOG else 1.0), 0, 0
    for k in range(arity - 1):
        row, after = rows[place : place + width], rows[place + width : place + 2 * width + 1]
        if arithmetic == LOG:
            _log_forward(on[k], off[k], row, after)
        else:
            _forward(on[k], off[k], row, after)
        start, end = _trim(arithmetic, after, negligible)
        begin[k + 1], low[k + 1] = place + width + start, low[k] + start
        place, width = place + width + start, end - start
    for c in range(arity + 1):
        behind[c] = scores[c]
    behind[arity + 1] = nothing
    known_from, known_to = 0, arity + 1  # counts of which `behind` has scores
    for k in range(arity - 1, -1, -1):
        n, low_k = inputs.domain_size[inputs.edge_variable[first + k]], low[k]
        from_count, to_count = max(0, low_k - 1), min(k + 1, low_k + width + 1)
        behind[from_count:known_from] = nothing
        behind[known_to : to_count + 1] = nothing
        row, offset = rows[begin[k] : begin[k] + width], offset - n
        factor_of = whole - total[k] if arithmetic == LOG else whole / total[k]
        is_off = dot(arithmetic, row, behind[low_k : low_k + width])
        is_on = dot(arithmetic, row, behind[low_k + 1 : low_k + 1 + width])
        inputs.outgoing[offset : offset + n] = is_off + factor_of if arithmetic == LOG else is_off * factor_of
        if slot[k] >= 0:
            inputs.outgoing[offset + slot[k]] = is_on + factor_of if arithmetic == LOG else is_on * factor_of
        if arithmetic == LOG:
            _log_backward(on[k], off[k], behind[from_count : to_count + 1])
        else:
            _backward(on[k], off[k], behind[from_count : to_count + 1])
        known_from, known_to = from_count, to_count
        if k > 0:  # row k - 1 ends where row k began before it was trimmed
            width = begin[k] - (low_k - low[k - 1]) - begin[k - 1]


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_cardinality(inputs, factor, arithmetic)
