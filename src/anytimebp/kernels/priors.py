"""Unary factors to priors."""

import numpy as np

from anytimebp.kernels.arithmetic import log, smaller
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, index_view, kernel, table_view
from anytimebp.kernels.to_factor import largest
from anytimebp.model.block_rows import ARITY, ENTRIES, FACTORS, IS_LOG, MEMBERS, SCOPES, TABLES


@kernel(FAST_WITHOUT_NAN)
def fold_priors(rows, slot_start, slot_state, log_prior, scale, smallest):
    """Add the scores of unary tables to the log priors; then subtract each variable's largest log prior.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`; none if nothing is to be added.
        slot_start: (V + 1,) where a variable's slots start; each has one at least.
        slot_state: The state in each slot; empty where every domain is the universe in order.
        log_prior: A number per slot; overwritten.
        scale: (V,) overwritten: what was subtracted; empty if nothing is to be.
        smallest: (V,) overwritten: the smallest finite log prior that is left; or empty.

    Returns:
        The first variable without a possible state, at which it stops, or -1.
    """
    for block in range(rows.shape[0]):
        if rows[block, ARITY] > 1 or rows[block, TABLES] == 0:
            continue
        size, is_log = rows[block, ENTRIES], rows[block, IS_LOG] > 0
        scopes = index_view(rows[block, SCOPES], rows[block, FACTORS])
        for k in range(scopes.size):
            values = table_view(rows[block, TABLES] + (8 * size * k if rows[block, MEMBERS] > 1 else 0), size)
            start = slot_start[scopes[k]]
            own = log_prior[start : slot_start[scopes[k] + 1]]
            if is_log and slot_state.size == 0:
                for v in range(own.size):
                    own[v] += values[v]
            else:
                for v in range(own.size):
                    value = values[slot_state[start + v] if slot_state.size else v]
                    own[v] += value if is_log else log(value)
    for variable in range(scale.size):
        own = log_prior[slot_start[variable] : slot_start[variable + 1]]
        most, least = largest(own), 0.0
        if most == -np.inf:
            return variable
        for v in range(own.size):
            own[v] -= most
            least = smaller(least, own[v] if own[v] > -np.inf else 0.0)
        scale[variable], smallest[variable] = most, least
    return -1
