"""Messages of factors that score a difference of states; `inputs` is a StructureInputs of `structures.py`.

o_0(x)  =  sum over y of k(x - y) n_1(y), and o_1 likewise; outside the kernel k, the default

Where there are many differences, that is a convolution by Fourier transforms, of a length of at least all states less
one: then nothing that comes round meets what is wanted. Sums that may have lost digits, by the bound of
`convolutions.py`, are made term by term.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import CERTAIN, LINEAR, LOG
from anytimebp.kernels.convolutions import copy_to, least_sum, norms_of
from anytimebp.kernels.either_arithmetic import add, dot, times
from anytimebp.kernels.fourier import from_spectrum, to_spectrum, turn_size
from anytimebp.kernels.jit import index_view, kernel, table_view
from anytimebp.kernels.pair_sums import CYCLIC
from anytimebp.kernels.structures import read_inputs, wanted_axis

HEAD = 4  # words before the numbers


@kernel()
def _add_up(arithmetic, weight, below, above):
    """Fill the sums of the weights before each position, and from each position on."""
    n, nothing = weight.size, (-np.inf if arithmetic == LOG else 0.0)
    below[0], above[n] = nothing, nothing
    for v in range(n):
        below[v + 1] = add(arithmetic, below[v], weight[v])
    for v in range(n - 1, -1, -1):
        above[v] = add(arithmetic, above[v + 1], weight[v])


@kernel()
def _linear(arithmetic, given, target):
    """Fill the target with numbers of which `given` are the logs, or with themselves."""
    if arithmetic == LOG:
        for v in range(given.size):
            target[v] = exp(given[v])
    else:
        copy_to(given, target)


@kernel()
def _transform(scores, weight, turn, temp, one, other, line):
    """Fill a line with the convolution of scores and weights; return the least sum that has its digits."""
    to_spectrum(scores, turn, temp, one)
    to_spectrum(weight, turn, temp, other)
    h = one.size // 2
    for v in range(h):
        x, y, p, q = one[v], one[h + v], other[v], other[h + v]
        one[v], one[h + v] = x * p - y * q, x * q + y * p
    from_spectrum(one, turn, temp, line)
    return least_sum(CYCLIC, line.size, line, 2.0 * math.sqrt(norms_of(scores)[1] * norms_of(weight)[1]))


@kernel()
def _from_line(arithmetic, sum_there, least, rest, linear_scores, linear_weight):
    """Return a sum of which a line has an estimate, or NaN if that and a linear sum have lost digits.

    Args:
        arithmetic: Of the result, and of `rest`.
        sum_there: The estimate.
        least: Under which it has not its digits.
        rest: What is added to it.
        linear_scores: Of its terms.
        linear_weight: Of its terms.
    """
    more = exp(rest) if arithmetic == LOG else rest
    found = sum_there
    if found + more < least:
        found = dot(LINEAR, linear_scores, linear_weight)
        if arithmetic == LOG and found < CERTAIN:
            return np.nan
    elif arithmetic == LOG and found < CERTAIN and more < CERTAIN:
        return np.nan
    if arithmetic == LOG:
        return add(LOG, math.log(found) if found > 0.0 else -np.inf, rest)
    return max(0.0, found) + rest


@kernel()
def _slide(arithmetic, scores, backwards, shift, default, weight, below, above, transform, sums):
    """Fill sums[v] with the sum over u of the score of u - v, which is scores[u - v - shift] or the default."""
    m, nothing = weight.size, (-np.inf if arithmetic == LOG else 0.0)
    turn, temp, one, other, line, linear_scores, linear_weight = transform
    least, has_line = 0.0, turn.size > 0
    if default != nothing:
        _add_up(arithmetic, weight, below, above)
    if has_line:
        _linear(arithmetic, backwards, linear_scores[: scores.size])
        _linear(arithmetic, weight, linear_weight[:m])
        least = _transform(linear_scores[: scores.size], linear_weight[:m], turn, temp, one, other, line)
        _linear(arithmetic, scores, linear_scores[: scores.size])
    for v in range(sums.size):
        begin = min(max(0, v + shift), m)
        end = max(begin, min(m, v + shift + scores.size))
        position, rest = begin - v - shift, nothing
        if default != nothing:
            rest = times(arithmetic, default, add(arithmetic, below[begin], above[end]))
        total = np.nan
        if has_line and begin < end:
            near, far = linear_scores[position : position + end - begin], linear_weight[begin:end]
            total = _from_line(arithmetic, line[v + shift + scores.size - 1], least, rest, near, far)
        if math.isnan(total):
            total = add(arithmetic, dot(arithmetic, scores[position : position + end - begin], weight[begin:end]), rest)
        sums[v] = total


@kernel()
def through_difference(inputs, factor, arithmetic, wanted):
    """Words: first difference, how many, length of transforms or 0, default; scores; backwards; cosines and sines."""
    edge = inputs.factor_edge_start[factor]
    address, room = inputs.table_address[factor], inputs.room
    head, counts = table_view(address, HEAD), index_view(address, HEAD)
    shift, count, length, default = counts[0], counts[1], counts[2], head[3]
    words = table_view(address, HEAD + 2 * count + turn_size(length))
    scores, backwards = words[HEAD : HEAD + count], words[HEAD + count : HEAD + 2 * count]
    n, m = inputs.domain_size[inputs.edge_variable[edge]], inputs.domain_size[inputs.edge_variable[edge + 1]]
    left, right, most = inputs.incoming[:n], inputs.incoming[n : n + m], max(n, m)
    below, above = inputs.peak[: most + 1], inputs.peak[most + 1 :]
    stride = length + 2 if length else 0
    ends = 2 * length
    one, other = room[ends : ends + stride], room[ends + stride : ends + 2 * stride]
    ends += 2 * stride
    line, linear_scores = room[ends : ends + length], room[ends + length : ends + length + count]
    transform = (
        words[HEAD + 2 * count :],
        room[: 2 * length],
        one,
        other,
        line,
        linear_scores,
        room[ends + 2 * length :],
    )
    out = inputs.outgoing
    if wanted != 1:
        _slide(arithmetic, backwards, scores, 1 - shift - count, default, right, below, above, transform, out[:n])
    if wanted != 0:
        _slide(arithmetic, scores, backwards, shift, default, left, below, above, transform, out[n : n + m])


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_difference(inputs, factor, arithmetic, wanted_axis(address))
