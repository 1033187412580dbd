"""Messages of factors whose last variable is a noisy OR of others; `inputs` is a StructureInputs of `structures.py`.

Each cause that is on fails to work with probability 1 - p_j. With t_j the sum of the weights of cause j, f_j the part
p_j n_j(on) of it and r_j the rest, "none works" and "some work" add up from cause to cause without subtractions:

    N  ->  N r_j,    S  ->  S t_j + N f_j;    at first N = 1 - leak, S = leak
    o_last(off)  =  N,    o_last(on)  =  S
    o_i(off)  =  L(off) N + L(on) S,    o_i(on)  =  L(off) N (1 - p_i) + L(on) (S + N p_i)

with N and S of all causes but i, and L the weights of the last variable.
"""

import numpy as np

from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, times
from anytimebp.kernels.jit import index_view, kernel, table_view
from anytimebp.kernels.structures import read_inputs


@kernel(inline=True)
def _of(inputs, offset, slot, nothing):
    return inputs.incoming[offset + slot] if slot >= 0 else nothing


@kernel()
def through_noisy_or(inputs, factor, arithmetic):
    """Words: per axis the slots of "off" and "on", or -1; p_j of all causes, 1 - p_j; leak, 1 - leak.

    `none` and `some` hold N and S of the causes before each one; the same of those behind it is kept in three numbers.
    """
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    causes, address = last - first - 1, inputs.table_address[factor]
    slot, words = index_view(address, 2 * causes + 2), table_view(address, 4 * causes + 4)
    p, q = words[2 * causes + 2 : 3 * causes + 2], words[3 * causes + 2 : 4 * causes + 2]
    nothing, one = (-np.inf, 0.0) if arithmetic == LOG else (0.0, 1.0)
    none, some = inputs.peak[:causes], inputs.peak[causes : 2 * causes]
    so_far, works, offset = words[4 * causes + 3], words[4 * causes + 2], 0
    for k in range(causes):
        none[k], some[k] = so_far, works
        is_off, is_on = _of(inputs, offset, slot[2 * k], nothing), _of(inputs, offset, slot[2 * k + 1], nothing)
        works = times(arithmetic, works, add(arithmetic, is_off, is_on))
        works = add(arithmetic, works, times(arithmetic, so_far, times(arithmetic, p[k], is_on)))
        so_far = times(arithmetic, so_far, add(arithmetic, is_off, times(arithmetic, q[k], is_on)))
        offset += inputs.domain_size[inputs.edge_variable[first + k]]
    value_off, value_on = slot[2 * causes], slot[2 * causes + 1]
    last_off, last_on = _of(inputs, offset, value_off, nothing), _of(inputs, offset, value_on, nothing)
    if value_off >= 0:
        inputs.outgoing[offset + value_off] = so_far
    if value_on >= 0:
        inputs.outgoing[offset + value_on] = works
    so_far, works, total = one, nothing, one
    for k in range(causes - 1, -1, -1):
        offset -= inputs.domain_size[inputs.edge_variable[first + k]]
        n = times(arithmetic, none[k], so_far)
        s = add(arithmetic, times(arithmetic, some[k], total), times(arithmetic, none[k], works))
        if slot[2 * k] >= 0:
            inputs.outgoing[offset + slot[2 * k]] = add(
                arithmetic, times(arithmetic, last_off, n), times(arithmetic, last_on, s)
            )
        if slot[2 * k + 1] >= 0:
            fires = add(arithmetic, s, times(arithmetic, n, p[k]))
            fails = times(arithmetic, n, q[k])
            inputs.outgoing[offset + slot[2 * k + 1]] = add(
                arithmetic, times(arithmetic, last_off, fails), times(arithmetic, last_on, fires)
            )
        is_off, is_on = _of(inputs, offset, slot[2 * k], nothing), _of(inputs, offset, slot[2 * k + 1], nothing)
        both = add(arithmetic, is_off, is_on)
        fired = times(arithmetic, p[k], is_on)
        works = add(arithmetic, times(arithmetic, works, both), times(arithmetic, fired, so_far))
        so_far = times(arithmetic, so_far, add(arithmetic, is_off, times(arithmetic, q[k], is_on)))
        total = times(arithmetic, total, both)


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_noisy_or(inputs, factor, arithmetic)
