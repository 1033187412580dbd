"""Messages of factors whose last variable is the AND of all others, bit by bit.

Every state s of variable i stands for an element e_i(s); w_j(e) is the weight of the state that stands for e, or 0. OR
is the AND of elements whose bits are turned round. With sums and differences as in `zeta.py`, x' = n - 1 - x, L the
weights of the last variable and Z_j the sums of w_j:

    o_last  =  difference_above(product of all Z_j)
    o_i(x)  =  sum_above(G * Q')(x'),   G = difference_above(L'),   Q = product of Z_j, j not i

Differences cancel. The same sums without subtractions bound what is lost: with u half the precision of a double and m
bits, the error of o_last is at most u (2 m + 1) sum_above(product of all Z_j), and that of o_i
u (2 m + 1) sum_above(H * Q'), H = sum_above(L'). A message of which some number is not BOUND times as large as that is
summed by `bit_sums.py`.

`inputs` is a StructureInputs of `structures.py`. Words: the number n of elements; per axis, whether elements are
listed; per listed axis the elements.
"""

import math

import numpy as np

from anytimebp.kernels.bit_sums import AGREEMENT, CONJUNCTION, sum_pairs
from anytimebp.kernels.codes import CERTAIN, LINEAR, LOG
from anytimebp.kernels.convolutions import copy_to, fill_weights
from anytimebp.kernels.jit import FAST, index_view, kernel
from anytimebp.kernels.structures import ALL, read_inputs, wanted_axis
from anytimebp.kernels.zeta import difference_above, sum_above

BOUND = 5e8  # how many times its error a number must be: these bounds are far above what is lost as a rule
ROUNDING = 1.2e-16
DIGITS = 64  # room for those of `sum_pairs`
PAIR = 2


@kernel(FAST)
def _reverse(given, target):
    n = given.size
    for v in range(n):
        target[v] = given[n - 1 - v]


@kernel(FAST)
def _multiply(given, scale, target):
    for v in range(target.size):
        target[v] *= given[v] * scale


@kernel(FAST)
def _multiply_reversed(given, scale, target):
    n = given.size
    for v in range(n):
        target[v] *= given[n - 1 - v] * scale


@kernel()
def _elements(words, arity, sizes, axis):
    """Return where the elements that the states of an axis stand for begin and end; nowhere if they are their own."""
    begin = 1 + arity
    for k in range(axis):
        begin += sizes[k] if words[1 + k] else 0
    return begin, begin + (sizes[axis] if words[1 + axis] else 0)


@kernel()
def _send(arithmetic, line, element, is_reversed, scale, outgoing):
    """Send the sums of a line, in the run's arithmetic already, to the states."""
    n = line.size
    for s in range(outgoing.size):
        x = element[s] if element.size else s
        own = line[n - 1 - x if is_reversed else x]
        outgoing[s] = own + scale if arithmetic == LOG else own * scale


@kernel()
def _has_digits(line, bound, least, element, is_reversed):
    """Tell whether all sums that are sent have their digits."""
    n = line.size
    for s in range(element.size or n):
        x = element[s] if element.size else s
        x = n - 1 - x if is_reversed else x
        if line[x] < least * bound[x] or line[x] <= 0.0:
            return False
    return True


@kernel()
def _fill_sums(n, total, weight, sums, last, differences, above):
    """Fill the sums of the inputs' weights, and the differences and sums of those of the last variable, reversed."""
    for k in range(total.size - 1):
        own = sums[k * n : (k + 1) * n]
        copy_to(weight[k * n : (k + 1) * n], own)
        sum_above(own)
    _reverse(last, differences)
    copy_to(differences, above)
    difference_above(differences)
    sum_above(above)


@kernel()
def _by_transforms(arithmetic, axis, arity, n, total, sums, differences, above, line, bound):
    """Fill a line with the sums of one message, and another with what bounds their errors; return their scale.

    Sums of the inputs are divided by their totals, so that products stay within doubles: by the scale, or its log.
    """
    if axis == arity - 1:
        line[:] = 1.0
        bound[:] = 1.0
    else:
        copy_to(differences, line)
        copy_to(above, bound)
    scale, log_scale = 1.0, 0.0
    for k in range(arity - 1):
        if k == axis:
            continue
        own, by = sums[k * n : (k + 1) * n], 1.0 / total[k]
        if arithmetic == LOG:
            log_scale += math.log(total[k])
        else:
            scale *= total[k]
        if axis == arity - 1:
            _multiply(own, by, line)
            _multiply(own, by, bound)
        else:
            _multiply_reversed(own, by, line)
            _multiply_reversed(own, by, bound)
    if axis == arity - 1:
        difference_above(line)
    else:
        sum_above(line)
    sum_above(bound)
    return log_scale if arithmetic == LOG else scale


@kernel()
def _take_logs(line):
    for v in range(line.size):
        line[v] = math.log(line[v]) if line[v] > 0.0 else -np.inf


@kernel()
def _is_certain(line):
    """Tell whether linear sums of what were logs have lost nothing."""
    least = np.inf
    for v in range(line.size):
        least = min(least, line[v])
    return least >= CERTAIN


@kernel()
def _exactly(arithmetic, what, a, log_a, b, log_b, line, room, digit):
    """Fill a line with sums that have all their digits, in the run's arithmetic."""
    sum_pairs(LINEAR, what, a, b, line, room, digit)
    if arithmetic != LOG:
        return
    if _is_certain(line):
        _take_logs(line)
    else:
        sum_pairs(LOG, what, log_a, log_b, line, room, digit)


@kernel()
def _others(arithmetic, axis, arity, n, weight, log_weight, other, line, room, digit):
    """Fill `other`, weights and their logs, with the AND of all inputs but one, or of none but the last of them."""
    begin = 1 if axis == 0 else 0
    copy_to(weight[begin * n : (begin + 1) * n], other[:n])
    copy_to(log_weight[begin * n : (begin + 1) * n], other[n:])
    for k in range(begin + 1, arity - 1):
        if k == axis or (axis == arity - 1 and k == arity - PAIR):
            continue
        own, end = k * n, (k + 1) * n
        given, log_given = weight[own:end], log_weight[own:end]
        _exactly(arithmetic, CONJUNCTION, other[:n], other[n:], given, log_given, line, room, digit)
        for v in range(n):
            if arithmetic == LOG:
                other[n + v], other[v] = line[v], math.exp(line[v])
            else:
                other[v] = line[v]


@kernel()
def _sum_again(arithmetic, axis, arity, n, weight, log_weight, other, line, room, digit):
    """Fill a line with the sums of one message, pair after pair."""
    if arity == PAIR:
        begin = 0 if axis else n
        copy_to(log_weight[begin : begin + n] if arithmetic == LOG else weight[begin : begin + n], line)
        return
    _others(arithmetic, axis, arity, n, weight, log_weight, other, line, room, digit)
    begin = (arity - PAIR if axis == arity - 1 else arity - 1) * n
    given, log_given = weight[begin : begin + n], log_weight[begin : begin + n]
    what = CONJUNCTION if axis == arity - 1 else AGREEMENT
    _exactly(arithmetic, what, other[:n], other[n:], given, log_given, line, room, digit)


@kernel()
def through_bitwise(inputs, factor, arithmetic, wanted):
    """Fill the messages of a factor, at least the one that is wanted."""
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    arity, address, offset = last - first, inputs.table_address[factor], 0
    n = index_view(address, 1)[0]
    sizes, total = index_view(inputs.peak.ctypes.data, arity), inputs.peak[arity : 2 * arity]
    for k in range(arity):
        sizes[k] = inputs.domain_size[inputs.edge_variable[first + k]]
        offset += sizes[k]
    words, room = index_view(address, 1 + arity + offset), inputs.room
    weight, log_weight, sums = room[: arity * n], room[arity * n : 2 * arity * n], room[2 * arity * n : 3 * arity * n]
    room = room[3 * arity * n :]
    line, bound, differences, above = room[:n], room[n : 2 * n], room[2 * n : 3 * n], room[3 * n : 4 * n]
    other, scratch, digit = room[4 * n : 6 * n], room[6 * n : 9 * n], index_view(room[9 * n :].ctypes.data, DIGITS)
    offset = 0
    for k in range(arity):
        own, log_own = weight[k * n : (k + 1) * n], log_weight[k * n : (k + 1) * n]
        given = inputs.incoming[offset : offset + sizes[k]]
        begin, end = _elements(words, arity, sizes, k)
        total[k] = fill_weights(arithmetic, given, words[begin:end], own, log_own)[0]
        offset += sizes[k]
    if arity > PAIR:
        _fill_sums(n, total, weight, sums, weight[(arity - 1) * n : arity * n], differences, above)
    least, offset = BOUND * ROUNDING * (2.0 * math.log2(n) + 1.0), 0
    for k in range(arity):
        begin, end = _elements(words, arity, sizes, k)
        element, is_input = words[begin:end], k < arity - 1
        outgoing, nothing = inputs.outgoing[offset : offset + sizes[k]], (0.0 if arithmetic == LOG else 1.0)
        offset += sizes[k]
        if wanted not in (ALL, k):
            continue
        if arity > PAIR:
            scale = _by_transforms(arithmetic, k, arity, n, total, sums, differences, above, line, bound)
            if _has_digits(line, bound, least, element, is_input):
                if arithmetic == LOG:
                    _take_logs(line)
                _send(arithmetic, line, element, is_input, scale, outgoing)
                continue
        _sum_again(arithmetic, k, arity, n, weight, log_weight, other, line, scratch, digit)
        _send(arithmetic, line, element, False, nothing, outgoing)


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_bitwise(inputs, factor, arithmetic, wanted_axis(address))
