"""Unary factors to priors."""

import numpy as np

from anytimebp.kernels.arithmetic import log
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, index_view, kernel, table_view
from anytimebp.model.block_rows import ARITY, ENTRIES, FACTORS, IS_LOG, MEMBERS, SCOPES, TABLES


@kernel()
def add_unary_tables(rows, slot_start, slot_state, log_prior):
    """Add the scores of all unary tables to the log priors.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`.
        slot_start: (V + 1,) where a variable's slots start.
        slot_state: The state in each slot; empty where every domain is the universe in order.
        log_prior: A number per slot, added to.
    """
    for block in range(rows.shape[0]):
        if rows[block, ARITY] > 1 or rows[block, TABLES] == 0:
            continue
        size, is_log = rows[block, ENTRIES], rows[block, IS_LOG] > 0
        scopes = index_view(rows[block, SCOPES], rows[block, FACTORS])
        for k in range(scopes.size):
            member = k if rows[block, MEMBERS] > 1 else 0
            values = table_view(rows[block, TABLES] + 8 * size * member, size)
            start, end = slot_start[scopes[k]], slot_start[scopes[k] + 1]
            if slot_state.size == 0 and is_log:
                for v in range(size):
                    log_prior[start + v] += values[v]
                continue
            for slot in range(start, end):
                value = values[slot_state[slot] if slot_state.size else slot - start]
                log_prior[slot] += value if is_log else log(value)


@kernel(FAST_WITHOUT_NAN)
def normalise_priors(slot_start, log_prior, scale, smallest):
    """Subtract each variable's largest log prior.

    Args:
        slot_start: (V + 1,) where a variable's slots start; each has one at least.
        log_prior: A number per slot, overwritten.
        scale: (V,) overwritten: what was subtracted.
        smallest: (V,) overwritten: the smallest finite log prior that is left.

    Returns:
        The first variable without a possible state, at which it stops, or -1.
    """
    for variable in range(scale.size):
        prior = log_prior[slot_start[variable] : slot_start[variable + 1]]
        largest = -np.inf
        for v in range(prior.size):
            largest = max(largest, prior[v])
        if largest == -np.inf:
            return variable
        least = 0.0
        for v in range(prior.size):
            prior[v] -= largest
            least = min(least, prior[v] if prior[v] > -np.inf else 0.0)
        scale[variable], smallest[variable] = largest, least
    return -1
