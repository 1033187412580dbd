"""Messages of factors that let at most one variable be "on"; `inputs` is a StructureInputs of `structures.py`.

    o_i(on)   =  product of q_j
    o_i(off)  =  that + sum over k of p_k * product of q_j, j not k

p_j is the weight of the state "on" and q_j that of all others; products and sums are over j, k other than i.
"""

import numpy as np

from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, sum_of, times
from anytimebp.kernels.jit import index_view, kernel
from anytimebp.kernels.structures import read_inputs


@kernel()
def through_at_most_one(inputs, factor, arithmetic):
    """Words: per axis the slot of the state "on", or -1.

    `none` and `one` hold, per edge, the weight of no "on", and of one, among the edges before it; the same from behind
    is kept in two numbers.
    """
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    arity, nothing = last - first, (-np.inf if arithmetic == LOG else 0.0)
    slot = index_view(inputs.table_address[factor], arity)
    on, off = inputs.peak[:arity], inputs.peak[arity : 2 * arity]
    none, one = inputs.peak[2 * arity : 3 * arity], inputs.peak[3 * arity : 4 * arity]
    offset, so_far, once = 0, (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity):
        n = inputs.domain_size[inputs.edge_variable[first + k]]
        on[k] = inputs.incoming[offset + slot[k]] if slot[k] >= 0 else nothing
        cut = slot[k] if slot[k] >= 0 else n
        off[k] = sum_of(arithmetic, inputs.incoming[offset : offset + cut])
        off[k] = add(arithmetic, off[k], sum_of(arithmetic, inputs.incoming[offset + min(n, cut + 1) : offset + n]))
        none[k], one[k] = so_far, once
        once = add(arithmetic, times(arithmetic, once, off[k]), times(arithmetic, so_far, on[k]))
        so_far = times(arithmetic, so_far, off[k])
        offset += n
    so_far, once = (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity - 1, -1, -1):
        n = inputs.domain_size[inputs.edge_variable[first + k]]
        offset -= n
        nobody = times(arithmetic, none[k], so_far)
        somebody = add(arithmetic, times(arithmetic, one[k], so_far), times(arithmetic, none[k], once))
        inputs.outgoing[offset : offset + n] = add(arithmetic, nobody, somebody)
        if slot[k] >= 0:
            inputs.outgoing[offset + slot[k]] = nobody
        once = add(arithmetic, times(arithmetic, once, off[k]), times(arithmetic, so_far, on[k]))
        so_far = times(arithmetic, so_far, off[k])


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_at_most_one(inputs, factor, arithmetic)
