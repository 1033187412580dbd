"""Messages of factors whose variables' states add up to nothing in a group: XOR, or whole numbers modulo n.

Every state s of variable i stands for an element e_i(s). With w_j(e) the weight of the state that stands for e, or 0,

    o_i(s)  =  c(-e_i(s)),    c = convolution of all w_j, j not i

One transform of each w_j and one back for each o_i give all messages. With three variables, what has lost digits is
summed again; with more, all messages are made pair after pair: of what is in front of a variable, and what behind it.

Where all variables but two have one state, each state of one of the two goes with one state of the other:

    o_i(s)  =  w_j(-e_i(s) - c) * product of the weights of the others,   c = sum of the elements of the others

`inputs` is a StructureInputs of `structures.py`. Words: the group, its order n, the length of transforms, the address
of cosines and sines, unless the group is XOR; per axis, the address of its elements, followed by their inverse ones, or
0 where states are their own elements.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import normal_log
from anytimebp.kernels.codes import CERTAIN, LOG
from anytimebp.kernels.convolutions import (
    LISTS,
    PAIR_COST,
    THREE,
    back,
    convolve,
    copy_to,
    fill_weights,
    finish,
    forward,
    lacks_many,
    least_sum,
    lowest,
    multiply_all,
    sum_without_peaks,
    take,
)
from anytimebp.kernels.either_arithmetic import dot, times
from anytimebp.kernels.fourier import turn_size
from anytimebp.kernels.jit import FAST, index_view, kernel, table_view
from anytimebp.kernels.pair_sums import BUCKETS, XOR
from anytimebp.kernels.structures import ALL, read_inputs, wanted_axis

HEAD = 4
PAIR = 2


@kernel()
def _cut(group, arity, n, length, room):
    """Cut the room to what an update needs: weights, logs, spectra, and scratch for pairs."""
    spectrum = n if group == XOR else length + 2
    transform = 0 if group == XOR else 2 * length
    part = max(spectrum, 2 * n)
    ends = 5 * arity
    figures = room[:ends]
    weight, log_weight = room[ends : ends + arity * n], room[ends + arity * n : ends + 2 * arity * n]
    ends += 2 * arity * n
    parts = room[ends : ends + arity * part]
    ends += arity * part
    temp = room[ends : ends + transform]
    ends += transform
    spectra = room[ends : ends + 2 * spectrum]
    ends += 2 * spectrum
    line = room[ends : ends + length]
    ends += length
    lists = room[ends : ends + LISTS * n]
    ends += LISTS * n
    behind = room[ends : ends + 2 * n]
    counts = index_view(room[ends + 2 * n :].ctypes.data, BUCKETS + 1)
    return figures, weight, log_weight, parts, temp, spectra, line, lists, behind, counts


@kernel()
def _elements(words, sizes, axis):
    """Return the elements that the states of an axis stand for, and their inverse ones; none if they are their own."""
    n = sizes[axis]
    if words[HEAD + axis] == 0:
        return words[:0], words[:0]
    both = index_view(words[HEAD + axis], 2 * n)
    return both[:n], both[n:]


@kernel(FAST)
def _send_scaled(group, line, minus, scale, outgoing):
    """Send the sums of a line, times a scale; `minus` are the inverse elements of the states, if not their own."""
    n = line.size
    if minus.size:
        for s in range(outgoing.size):
            outgoing[s] = scale * line[minus[s]]
    elif group == XOR:
        for s in range(n):
            outgoing[s] = scale * line[s]
    else:
        outgoing[0] = scale * line[0]
        for s in range(1, n):
            outgoing[s] = scale * line[np.uint64(n - s)]


@kernel()
def _send_line(group, arithmetic, line, minus, scale, outgoing):
    """Send the sums of a line, of the run's arithmetic; times a scale if they are logs, given as its log."""
    _send_scaled(group, line, minus, 1.0, outgoing)
    if arithmetic == LOG:
        for s in range(outgoing.size):
            outgoing[s] += scale


@kernel()
def _take_logs(outgoing, scale):
    for s in range(outgoing.size):
        outgoing[s] = normal_log(outgoing[s]) + scale


@kernel()
def _norms(norm, total, arity, axis):
    """Return what bounds the errors of an axis' sums, of weights that add up to 1, but for the norm of these sums."""
    found = 0.0
    for k in range(arity):
        least = 1.0
        for j in range(arity):
            if axis != k != j != axis:
                least = min(least, norm[j] / total[j])
        found += norm[k] / total[k] * least if k != axis else 0.0
    return found


@kernel()
def _is_shift(n, sizes):
    """Tell whether two variables have all their states, and all others one."""
    whole = 0
    for k in range(sizes.size):
        whole += sizes[k] == n
        if sizes[k] != 1 and sizes[k] != n:
            return False
    return whole == PAIR and n > 1


@kernel(FAST)
def _send_shifted(group, shift, line, minus, outgoing):
    """Send each state the weight of the element that goes with it."""
    n = line.size
    if group == XOR and minus.size == 0:
        for s in range(n):
            outgoing[s] = line[s ^ shift]
    elif group == XOR:
        for s in range(n):
            outgoing[s] = line[minus[s] ^ shift]
    else:
        for s in range(n):
            x = (minus[s] if minus.size else n - s) - shift
            x += n if x < 0 else 0
            outgoing[s] = line[x - n if x >= n else x]


@kernel()
def _by_shift(group, arithmetic, arity, n, words, sizes, wanted, incoming, lines, outgoing):
    """Fill all messages where all variables but two have one state; or the one to one of these two."""
    shift, offset, seen, first, unit = 0, 0, 0, 0, (0.0 if arithmetic == LOG else 1.0)
    one, other = lines[:n], lines[:n]
    for k in range(arity):
        element, _ = _elements(words, sizes, k)
        if sizes[k] == 1:
            shift = shift ^ element[0] if group == XOR else (shift + element[0]) % n
        else:
            line = lines[seen * n : (seen + 1) * n] if element.size else incoming[offset : offset + n]
            for s in range(0 if k == wanted else element.size):
                line[element[s]] = incoming[offset + s]
            one, other, first = (line, other, offset) if seen == 0 else (one, line, first)
            seen += 1
        offset += sizes[k]
    for k in range(arity - 1, -1, -1):
        offset -= sizes[k]
        if sizes[k] == n:
            seen -= 1
            line = one if seen else other
            if wanted in (ALL, k):
                _send_shifted(group, shift, line, _elements(words, sizes, k)[1], outgoing[offset : offset + n])
    has_others = wanted == ALL and arity > PAIR
    together = dot(arithmetic, outgoing[first : first + n], incoming[first : first + n]) if has_others else unit
    for k in range(arity):
        scale, at = unit, 0
        if wanted not in (ALL, k):
            offset += sizes[k]
            continue
        for j in range(arity):
            if j != k and sizes[j] == 1:
                scale = times(arithmetic, scale, incoming[at])
            at += sizes[j]
        if sizes[k] == 1:
            outgoing[offset] = times(arithmetic, scale, together)
        elif scale != unit:
            for s in range(offset, offset + n):
                outgoing[s] = times(arithmetic, scale, outgoing[s])
        offset += sizes[k]


@kernel()
def _by_transforms(group, arithmetic, arity, n, length, turn, words, sizes, wanted, cut, outgoing):
    """Fill all messages by one set of transforms; return whether all have their digits, which three variables have.

    If one message is wanted, the weights of its own variable need no transform, and the products of it go nowhere.
    """
    figures, weight, log_weight, parts, temp, spectra, line, lists, _, counts = cut
    total, norm, scale, before = figures[:arity], figures[arity : 2 * arity], figures[2 * arity :], figures[3 * arity :]
    stride = n if group == XOR else length + 2
    part, whole, log_whole = parts[: arity * stride], 1.0, 0.0
    for k in range(arity):
        if k == wanted:
            part[k * stride : (k + 1) * stride] = 1.0
        else:
            forward(group, weight[k * n : (k + 1) * n], turn, temp, part[k * stride : (k + 1) * stride])
        scale[k] = 1.0 / total[k]
    multiply_all(group, part, stride, scale, arity, before)
    offset = 0
    for k in range(arity):
        if wanted not in (ALL, k):
            offset += sizes[k]
            continue
        back(group, n, part[k * stride : (k + 1) * stride], turn, temp, line)
        whole, log_whole = 1.0, 0.0
        for j in range(arity):
            if j != k and arithmetic == LOG:
                log_whole += math.log(total[j])
            elif j != k:
                whole *= total[j]
        least = least_sum(group, n, line, _norms(norm, total, arity, k))
        _, minus = _elements(words, sizes, k)
        factor, message = (log_whole if arithmetic == LOG else whole), outgoing[offset : offset + sizes[k]]
        offset += sizes[k]
        if lowest(line[:n]) >= least:
            _send_scaled(group, line[:n], minus, 1.0 if arithmetic == LOG else factor, message)
            if arithmetic == LOG:
                _take_logs(message, factor)
            continue
        if arity > THREE and not _are_at_least(line[:n], minus, least):
            return False
        a, b = (1 if k == 0 else 0) * n, (1 if k == PAIR else 2) * n
        c, d = a + n, b + n
        one, other, log_one, log_other = weight[a:c], weight[b:d], log_weight[a:c], log_weight[b:d]
        if lacks_many(line[:n], minus, least):
            least = sum_without_peaks(group, one, other, turn, temp, spectra, line, lists, counts)
            least, factor = (max(least, CERTAIN), 0.0) if arithmetic == LOG else (least, 1.0)
        finish(group, arithmetic, one, log_one, other, log_other, factor, line[:n], minus, least, lists, counts)
        _send_line(group, arithmetic, line[:n], minus, 0.0, message)
    return True


@kernel()
def _are_at_least(line, wanted, least):
    """Tell whether all sums of a line, or those that are wanted, have their digits."""
    lowest = math.inf
    for s in range(wanted.size or line.size):
        lowest = min(lowest, line[wanted[s] if wanted.size else s])
    return lowest >= least


@kernel()
def _convolve(group, arithmetic, a, log_a, n_a, b, log_b, n_b, turn, cut):
    """Fill the line of `cut` with the convolution of weights a and b, of which n_a and n_b are positive."""
    _, _, _, _, temp, spectra, line, lists, _, counts = cut
    convolve(group, arithmetic, a, log_a, int(n_a), b, log_b, int(n_b), turn, temp, spectra, line, lists, counts)


@kernel(inline=True)
def _front(cut, n, k):
    """Return the weights in front of variable k, and their logs: those of the first variable lie with its own."""
    weight, log_weight, parts, begin = cut[1], cut[2], cut[3], 2 * n * (k - 1)
    if k == 1:
        return weight[:n], log_weight[:n]
    return parts[begin : begin + n], parts[begin + n : begin + 2 * n]


@kernel()
def _fill_fronts(group, arithmetic, arity, n, turn, cut):
    """Fill the weights in front of all variables: how many are positive, and logs of what they were divided by."""
    figures, weight, log_weight, line = cut[0], cut[1], cut[2], cut[6]
    count, shift, n_front = figures[2 * arity :], figures[3 * arity :], figures[4 * arity :]
    shift[0], n_front[0] = 0.0, count[0]
    for k in range(1, arity - 1):
        front, log_front = _front(cut, n, k)
        own, log_own = weight[k * n : (k + 1) * n], log_weight[k * n : (k + 1) * n]
        _convolve(group, arithmetic, front, log_front, n_front[k - 1], own, log_own, count[k], turn, cut)
        next_front, next_log = _front(cut, n, k + 1)
        more, n_front[k] = take(arithmetic, line[:n], next_front, next_log)
        shift[k] = shift[k - 1] + more


@kernel()
def _pair_after_pair(group, arithmetic, arity, n, turn, words, sizes, cut, outgoing):
    """Fill all messages by convolutions of what is in front of each variable, and what is behind it."""
    figures, weight, log_weight, line, behind = cut[0], cut[1], cut[2], cut[6], cut[8]
    count, shift, n_front = figures[2 * arity :], figures[3 * arity :], figures[4 * arity :]
    _fill_fronts(group, arithmetic, arity, n, turn, cut)
    last, offset, rear_shift = arity - 1, 0, 0.0
    for k in range(arity):
        offset += sizes[k]
    rear, log_rear, n_rear = weight[last * n :], log_weight[last * n :], count[last]
    for k in range(last, -1, -1):
        offset -= sizes[k]
        front, log_front = _front(cut, n, max(1, k))
        if k == last:
            copy_to(log_front if arithmetic == LOG else front, line[:n])
        elif k == 0:
            copy_to(log_rear if arithmetic == LOG else rear, line[:n])
        else:
            _convolve(group, arithmetic, front, log_front, n_front[k - 1], rear, log_rear, n_rear, turn, cut)
        _, minus = _elements(words, sizes, k)
        total = rear_shift + (shift[k - 1] if k > 0 else 0.0)
        _send_line(group, arithmetic, line[:n], minus, total, outgoing[offset : offset + sizes[k]])
        if 0 < k < last:
            own, log_own = weight[k * n : (k + 1) * n], log_weight[k * n : (k + 1) * n]
            _convolve(group, arithmetic, rear, log_rear, n_rear, own, log_own, count[k], turn, cut)
            rear, log_rear = behind[:n], behind[n : 2 * n]
            more, n_rear = take(arithmetic, line[:n], rear, log_rear)
            rear_shift += more


@kernel()
def through_group(inputs, factor, arithmetic, wanted):
    """Fill the messages of a factor, at least the one that is wanted."""
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    arity, address = last - first, inputs.table_address[factor]
    head = index_view(address, HEAD)
    group, n, length = head[0], head[1], head[2]
    sizes, words = index_view(inputs.peak.ctypes.data, arity), index_view(address, HEAD + arity)
    for k in range(arity):
        sizes[k] = inputs.domain_size[inputs.edge_variable[first + k]]
    if _is_shift(n, sizes):
        only = wanted if wanted != ALL and sizes[wanted] > 1 else ALL
        _by_shift(group, arithmetic, arity, n, words, sizes, only, inputs.incoming, inputs.room, inputs.outgoing)
        return
    turn = inputs.room[:0] if group == XOR else table_view(words[3], turn_size(length))
    cut = _cut(group, arity, n, length, inputs.room)
    figures, weight, log_weight = cut[0], cut[1], cut[2]
    offset, most, next_most = 0, 0.0, 0.0
    for k in range(arity):
        elements, _ = _elements(words, sizes, k)
        own, end = weight[k * n : (k + 1) * n], offset + sizes[k]
        found = fill_weights(arithmetic, inputs.incoming[offset:end], elements, own, log_weight[k * n : (k + 1) * n])
        figures[k], figures[arity + k], count = found
        if count > most:
            most, next_most = count, most
        else:
            next_most = max(next_most, count)
        offset = end
    is_dense = arity > PAIR and most * next_most > length * math.log2(2.0 * length) / PAIR_COST
    if is_dense and _by_transforms(
        group, arithmetic, arity, n, length, turn, words, sizes, wanted, cut, inputs.outgoing
    ):
        return
    for k in range(arity):
        nothing = log_weight if arithmetic == LOG else weight
        figures[2 * arity + k] = count_above(nothing[k * n : (k + 1) * n], arithmetic)
    _pair_after_pair(group, arithmetic, arity, n, turn, words, sizes, cut, inputs.outgoing)


@kernel()
def count_above(weight, arithmetic):
    """Return how many weights are positive, or how many logs finite."""
    least, count = (-math.inf if arithmetic == LOG else 0.0), 0
    for v in range(weight.size):
        count += weight[v] > least
    return count


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_group(inputs, factor, arithmetic, wanted_axis(address))
