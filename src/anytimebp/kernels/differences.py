"""Messages of factors that score a difference of states; `inputs` is a StructureInputs of `structures.py`.

o_0(x)  =  sum over y of k(x - y) n_1(y), and o_1 likewise; outside the kernel k, the default
"""

import numpy as np

from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, dot, times
from anytimebp.kernels.jit import index_view, kernel, table_view
from anytimebp.kernels.structures import read_inputs

HEAD = 3  # words before the numbers


@kernel()
def _add_up(arithmetic, weight, below, above):
    """Fill the sums of the weights before each place, and from each place on."""
    n, nothing = weight.size, (-np.inf if arithmetic == LOG else 0.0)
    below[0], above[n] = nothing, nothing
    for v in range(n):
        below[v + 1] = add(arithmetic, below[v], weight[v])
    for v in range(n - 1, -1, -1):
        above[v] = add(arithmetic, above[v + 1], weight[v])


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
        total = dot(arithmetic, scores[place : place + end - begin], weight[begin:end])
        if not none:
            rest = add(arithmetic, below[begin], above[end])
            total = add(arithmetic, total, times(arithmetic, default, rest))
        sums[v] = total


@kernel()
def through_difference(inputs, factor, arithmetic):
    """Words: first difference, how many, default; their scores; the scores backwards."""
    edge = inputs.factor_edge_start[factor]
    address = inputs.table_address[factor]
    head = table_view(address, HEAD)
    counts = index_view(address, HEAD)
    shift, length, default = counts[0], counts[1], head[2]
    words = table_view(address, HEAD + 2 * length)
    scores, backwards = words[HEAD : HEAD + length], words[HEAD + length :]
    n, m = inputs.domain_size[inputs.edge_variable[edge]], inputs.domain_size[inputs.edge_variable[edge + 1]]
    left, right = inputs.incoming[:n], inputs.incoming[n : n + m]
    below, above = inputs.peak[: max(n, m) + 1], inputs.peak[max(n, m) + 1 :]
    _slide(arithmetic, backwards, 1 - shift - length, default, right, below, above, inputs.outgoing[:n])
    _slide(arithmetic, scores, shift, default, left, below, above, inputs.outgoing[n : n + m])


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_difference(inputs, factor, arithmetic)
