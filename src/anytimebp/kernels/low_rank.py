"""Messages of factors that are sums of products; `inputs` is a StructureInputs of `structures.py`.

    t(x)    =  sum over r of the product of a_j(x_j, r)
    d_j(r)  =  sum over x of a_j(x, r) n_j(x)
    o_i(x)  =  sum over r of a_i(x, r) * product of d_j(r), j not i

All numbers are non-negative, so nothing cancels.
"""

import numpy as np

from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, dot, times
from anytimebp.kernels.jit import FAST, index_view, kernel, table_view
from anytimebp.kernels.structures import read_inputs


@kernel(FAST)
def _add_row(row, by, sums):
    for v in range(sums.size):
        sums[v] += by * row[v]


@kernel()
def _add_log_row(row, by, sums):
    for v in range(sums.size):
        sums[v] = add(LOG, sums[v], by + row[v])


@kernel()
def through_low_rank(inputs, factor, arithmetic):
    """Words: the rank; per axis, and then per term, the numbers of all states."""
    first, last = inputs.factor_edge_start[factor], inputs.factor_edge_start[factor + 1]
    arity, address, slots = last - first, inputs.table_address[factor], 0
    rank = index_view(address, 1)[0]
    for edge in range(first, last):
        slots += inputs.domain_size[inputs.edge_variable[edge]]
    numbers, dots, before = table_view(address + 8, rank * slots), inputs.room, inputs.room[arity * rank :]
    offset = 0
    for k in range(arity):
        n = inputs.domain_size[inputs.edge_variable[first + k]]
        for r in range(rank):
            row = numbers[rank * offset + r * n : rank * offset + (r + 1) * n]
            dots[k * rank + r] = dot(arithmetic, row, inputs.incoming[offset : offset + n])
        offset += n
    one = 0.0 if arithmetic == LOG else 1.0
    for r in range(rank):
        so_far = one
        for k in range(arity):
            before[k] = so_far
            so_far = times(arithmetic, so_far, dots[k * rank + r])
        so_far = one
        for k in range(arity - 1, -1, -1):
            own = dots[k * rank + r]
            dots[k * rank + r] = times(arithmetic, before[k], so_far)
            so_far = times(arithmetic, so_far, own)
    offset = 0
    for k in range(arity):
        n = inputs.domain_size[inputs.edge_variable[first + k]]
        sums = inputs.outgoing[offset : offset + n]
        sums[:] = -np.inf if arithmetic == LOG else 0.0
        for r in range(rank):
            row = numbers[rank * offset + r * n : rank * offset + (r + 1) * n]
            if arithmetic == LOG:
                _add_log_row(row, dots[k * rank + r], sums)
            else:
                _add_row(row, dots[k * rank + r], sums)
        offset += n


def send(address):
    """Fill the messages of the factor that the row at an address speaks of."""
    inputs, factor, arithmetic = read_inputs(address)
    through_low_rank(inputs, factor, arithmetic)
