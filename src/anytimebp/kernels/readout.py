"""From messages to beliefs."""

import math

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import GATHER, LINEAR, LOG, MAX, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, borrow, kernel
from anytimebp.kernels.to_factor import gather_at


@kernel()
def read_beliefs(layout, bp, belief_start, belief, log_normaliser):
    """Do as `fill_beliefs`, for callers in Python."""
    return fill_beliefs(borrow(layout), borrow(bp), belief_start, belief, log_normaliser)


@kernel()
def fill_beliefs(layout, bp, belief_start, belief, log_normaliser):
    """Fill the marginals of all variables over their domains, and the log of what they were divided by.

    Max-marginals have a largest number of 1 instead of a sum of 1.

    Args:
        layout: Topology.
        bp: Messages.
        belief_start: (V,) where each variable's marginal starts in `belief`.
        belief: Overwritten.
        log_normaliser: (V,) overwritten.

    Returns:
        Status, and the variable whose belief vanished or -1.
    """
    for variable in range(log_normaliser.size):
        start = belief_start[variable]
        weight = belief[start : start + bp.domain_size[variable]]
        floor, peak, log_peak = gather_at(bp.calls[GATHER], (layout, bp, variable, -1, weight))
        if floor < 0.0:
            return VARIABLE_VANISHED, variable
        if bp.arithmetic == LOG:
            for v in range(weight.size):
                weight[v] = exp(weight[v])
        total = 0.0
        for v in range(weight.size):
            total = max(total, weight[v]) if bp.semiring == MAX else total + weight[v]
        for v in range(weight.size):
            weight[v] /= total
        log_normaliser[variable] = math.log(total) + math.log(peak) + log_peak
    return OK, -1


@kernel(FAST)
def sum_bethe_terms(factor_edge_start, arithmetic, factor_total, edge_scale, log_normaliser):
    """Return log Z by the formula at the head of `messages.py`, but for the scales of tables and priors."""
    linear, total = arithmetic == LINEAR, 0.0
    for factor in range(factor_total.size):
        edges = factor_edge_start[factor + 1] - factor_edge_start[factor]
        total += (1 - edges) * (log(factor_total[factor]) if linear else factor_total[factor])
    for edge in range(edge_scale.size):
        total += log(edge_scale[edge]) if linear else edge_scale[edge]
    for variable in range(log_normaliser.size):
        total += log_normaliser[variable]
    return total


@kernel()
def read_weights(layout, bp, log_weight):
    """Fill the log of the messages from variables to factors, in the slots of their edges."""
    layout, bp = borrow(layout), borrow(bp)
    for edge in range(layout.edge_variable.size):
        variable = layout.edge_variable[edge]
        start = bp.edge_slot_start[edge]
        weight = log_weight[start : start + bp.domain_size[variable]]
        floor, _, _ = gather_at(bp.calls[GATHER], (layout, bp, variable, edge, weight))
        if floor < 0.0:
            return VARIABLE_VANISHED, variable
        if bp.arithmetic == LINEAR:
            for v in range(weight.size):
                weight[v] = log(weight[v])
    return OK, -1
