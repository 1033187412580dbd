"""Messages from variables to factors: the prior times what the other factors say."""

import numpy as np

from anytimebp.kernels.arithmetic import exp, larger, log, normal_log, smaller
from anytimebp.kernels.codes import GATHER_HUB, LOG, SAFE
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, by_address, kernel

SMALLEST_NORMAL = 2.3e-308  # under this, digits are gone, and totals take numbers for this one
FLUSH = -700.0  # log weights this far under the largest one are zero in linear arithmetic


@kernel(FAST_WITHOUT_NAN)
def largest(values):
    peak = -np.inf
    for v in range(values.size):
        peak = larger(peak, values[v])
    return peak


@kernel(FAST_WITHOUT_NAN)
def _scale_to_one(weight):
    """Divide by the maximum; return it."""
    peak = largest(weight)
    if peak > 0.0:
        scale = 1.0 / peak
        for v in range(weight.size):
            weight[v] *= scale
    return peak


@kernel(FAST_WITHOUT_NAN)
def _finish_logs(arithmetic, weight):
    """Turn summed logs into weights of the run's arithmetic; return what `gather` does."""
    peak = largest(weight)
    if peak == -np.inf:
        return -1.0, 0.0, 0.0
    if arithmetic == LOG:
        for v in range(weight.size):
            weight[v] -= peak
        return 1.0, 1.0, peak
    lowest = 0.0
    for v in range(weight.size):
        below = weight[v] - peak
        lowest = smaller(lowest, below if below > -np.inf else 0.0)
        weight[v] = exp(below) if below > FLUSH else 0.0
    return (exp(lowest) if lowest > FLUSH else 0.0), 1.0, peak


@kernel()
def _copy_logs(arithmetic, weight, values):
    if arithmetic == LOG:
        for v in range(weight.size):
            weight[v] = values[v]
    else:
        for v in range(weight.size):
            weight[v] = log(values[v])


@kernel(FAST)
def _add_logs(arithmetic, weight, values):
    if arithmetic == LOG:
        for v in range(weight.size):
            weight[v] += values[v]
    else:
        for v in range(weight.size):
            weight[v] += log(values[v])


@kernel()
def _gather_logs(layout, bp, variable, skipped, weight):
    """Do as `gather`, by sums of logs: for log arithmetic, and where a product might underflow."""
    start = bp.variable_slot_start[variable]
    _copy_logs(bp.arithmetic, weight, bp.prior[start : start + weight.size])
    for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        edge = layout.variable_edge[position]
        if edge != skipped:
            start = bp.edge_slot_start[edge]
            _add_logs(bp.arithmetic, weight, bp.message[start : start + weight.size])
    return _finish_logs(bp.arithmetic, weight)


@kernel()
def finite_logs(arithmetic, values, logs):
    """Fill `logs` with the logs of weights, with 0 for those of hard zeros."""
    if arithmetic == LOG:
        for v in range(values.size):
            logs[v] = values[v] if values[v] > -np.inf else 0.0
    else:
        for v in range(values.size):
            logs[v] = normal_log(max(values[v], SMALLEST_NORMAL)) if values[v] > 0.0 else 0.0


@kernel()
def gather_hub(bp, hub, skipped, weight):
    """Do as `gather`, from the totals that a variable of high degree keeps."""
    start, n = bp.hub_start[hub], weight.size
    high, low, zeros = bp.hub_high[start : start + n], bp.hub_low[start : start + n], bp.hub_zeros[start : start + n]
    reference = largest(high)  # totals are large; their differences are what counts, and lose no digits
    if skipped >= 0:
        own = bp.message[bp.edge_slot_start[skipped] : bp.edge_slot_start[skipped] + n]
        nothing = -np.inf if bp.arithmetic == LOG else 0.0
        finite_logs(bp.arithmetic, own, weight)
        for v in range(n):
            rest = (high[v] - reference) - weight[v] + low[v]
            weight[v] = rest if zeros[v] == np.int64(own[v] == nothing) else -np.inf
    else:
        for v in range(n):
            weight[v] = (high[v] - reference) + low[v] if zeros[v] == 0 else -np.inf
    floor, peak, log_peak = _finish_logs(bp.arithmetic, weight)
    return floor, peak, log_peak + reference


gather_hub_at = by_address(gather_hub, "float64", "float64", "float64")


@kernel(inline=True)
def is_lone_hub(bp, variable, edge):
    """Tell whether a variable of one active state has a high degree, and no other message excludes that state."""
    hub = bp.variable_hub[variable]
    if hub < 0:
        return False
    own = bp.message[bp.edge_slot_start[edge]]
    return bp.hub_zeros[bp.hub_start[hub]] == np.int64(own == (-np.inf if bp.arithmetic == LOG else 0.0))


@kernel(FAST)
def gather(layout, bp, variable, skipped, weight):
    """Fill `weight` with the prior times all messages to a variable but that of the edge `skipped` (-1: none).

    Returns:
        A lower bound of the positive weights (-1 where all vanish), and the factor `peak * exp(log_peak)` that was
        divided out to make the largest weight 1 (0 in log arithmetic).
    """
    hub = bp.variable_hub[variable]
    if hub >= 0:
        return gather_hub_at(bp.calls[GATHER_HUB], (bp, hub, skipped, weight))
    if bp.arithmetic == LOG:
        return _gather_logs(layout, bp, variable, skipped, weight)
    first, last = layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
    floor = bp.prior_min[variable]
    for position in range(first, last):
        edge = layout.variable_edge[position]
        if edge != skipped:
            floor *= bp.edge_min[edge]
    if floor < SAFE:
        return _gather_logs(layout, bp, variable, skipped, weight)
    start, untouched = bp.variable_slot_start[variable], True
    # Slices, because an index start + v might be negative for all the compiler knows, and would not be vectorised.
    prior = bp.prior[start : start + weight.size]
    for position in range(first, last):
        edge = layout.variable_edge[position]
        if edge != skipped:
            start = bp.edge_slot_start[edge]
            message = bp.message[start : start + weight.size]
            if untouched:
                untouched = False
                for v in range(weight.size):
                    weight[v] = prior[v] * message[v]
            else:
                for v in range(weight.size):
                    weight[v] *= message[v]
    if untouched:
        for v in range(weight.size):
            weight[v] = prior[v]
    peak = _scale_to_one(weight)
    if peak == 0.0:
        return -1.0, 0.0, 0.0
    return floor, peak, 0.0


gather_at = by_address(gather, "float64", "float64", "float64")
