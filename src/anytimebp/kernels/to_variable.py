"""Messages from factors to variables: scaled, compared with the old ones, damped, kept.

The residual of a message is the dynamic range of log(new / old) over its states. A state that has no probability left
and goes on losing it counts as settled, as long as it does: with n the other messages to the variable, its belief
n * m, old and new, is under GONE of the largest, and it falls behind all states that are not. Around a loop with hard
zeros such a state may fall by a factor a sweep for ever. It takes part in any other message by as little: where a
factor sums over it, its share is at most its belief over that of the state the message is about. So a state of belief b
is off by GONE / b at the most, in relative terms, through all that is not told of states that are gone. A state that
rises counts, however small it is: it may come back. States that other factors rule out count, and so does every change
to or from a hard zero: scores of candidates, which may lift the zeros, hang on them.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import add_exactly, exp, log, normal_log
from anytimebp.kernels.codes import DIVERGED, GONE, LINEAR, LOG, MAX_LOG, VANISHED
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, by_address, kernel
from anytimebp.kernels.through_table import log_sum
from anytimebp.kernels.to_factor import SMALLEST_NORMAL, largest

TINY = 1e-305  # added to both sides of a ratio, so that zero over zero is one
LOG_GONE = math.log(GONE)


@kernel(FAST_WITHOUT_NAN)
def _compare_linear(new, old, scale):
    """Scale `new` in place; return the largest and smallest ratio to `old`, the smallest positive, support changes."""
    high, low, smallest, changed = 0.0, np.inf, 1.0, 0
    for v in range(new.size):
        value = new[v] * scale
        new[v] = value
        ratio = (value + TINY) / (old[v] + TINY)
        high = max(high, ratio)
        low = min(low, ratio)
        smallest = min(smallest, value if value > 0.0 else 1.0)
        changed += (value > 0.0) != (old[v] > 0.0)
    return high, low, smallest, changed


@kernel(FAST_WITHOUT_NAN)
def _swap_positive(weight, new, old, scale):
    """Do as `_compare_linear` and swap the two in the same pass, where no number is zero.

    Returns:
        The largest and smallest ratio, the smallest number, and the smallest product with `weight`.
    """
    high, low, smallest, faintest = 0.0, np.inf, 1.0, 1.0
    for v in range(new.size):
        value = new[v] * scale
        before = old[v]
        ratio = value / before
        old[v] = value
        new[v] = before
        high = max(high, ratio)
        low = min(low, ratio)
        smallest = min(smallest, value)
        faintest = min(faintest, weight[v] * value)
    return high, low, smallest, faintest


@kernel(FAST_WITHOUT_NAN)
def _smallest(values):
    least = np.inf
    for v in range(values.size):
        least = min(least, values[v])
    return least


@kernel()
def _residual_linear(weight, new, old):
    """Return the residual of a message, with states that are gone left out; zeros are where they were."""
    peak, peak_before = 0.0, 0.0
    for v in range(new.size):
        peak = max(peak, weight[v] * new[v])
        peak_before = max(peak_before, weight[v] * old[v])
    high, low = 0.0, np.inf
    for v in range(new.size):
        counts = weight[v] <= 0.0 or weight[v] * new[v] >= GONE * peak or weight[v] * old[v] >= GONE * peak_before
        ratio = (new[v] + TINY) / (old[v] + TINY)
        high = max(high, ratio)
        if counts:
            low = min(low, ratio)
    return math.log(high / low)


@kernel()
def _residual_log(in_logs, weight, new, old):
    """Do as `_residual_linear`, for messages in logs; weights are in logs or not."""
    peak, peak_before = -np.inf, -np.inf
    for v in range(new.size):
        share = weight[v] if in_logs else log(weight[v])
        peak = max(peak, share + new[v])
        peak_before = max(peak_before, share + old[v])
    high, low = -np.inf, np.inf
    for v in range(new.size):
        share = weight[v] if in_logs else log(weight[v])
        counts = share == -np.inf or share + new[v] >= LOG_GONE + peak or share + old[v] >= LOG_GONE + peak_before
        if new[v] == -np.inf:
            continue
        high = max(high, new[v] - old[v])
        if counts:
            low = min(low, new[v] - old[v])
    return max(0.0, high - low)


@kernel()
def _compare_log(new, old, scale):
    """Shift `new` in place; return the largest and smallest change, the smallest finite number, support changes."""
    high, low, smallest, changed = -np.inf, np.inf, 0.0, 0
    for v in range(new.size):
        new[v] -= scale
        if new[v] > -np.inf:
            smallest = min(smallest, new[v])
        if new[v] > -np.inf and old[v] > -np.inf:
            high = max(high, new[v] - old[v])
            low = min(low, new[v] - old[v])
        elif new[v] > -np.inf or old[v] > -np.inf:
            changed += 1
    return high, low, smallest, changed


@kernel()
def _damp(arithmetic, new, old, damping):
    """Move from `old` only a part of the way to `new`, along the logarithms; hard zeros are taken at once."""
    peak = -np.inf
    for v in range(new.size):
        a = new[v] if arithmetic == LOG else log(new[v])
        b = old[v] if arithmetic == LOG else log(old[v])
        new[v] = a if a == -np.inf or b == -np.inf else (1.0 - damping) * a + damping * b
        peak = max(peak, new[v])
    smallest = 0.0
    for v in range(new.size):
        new[v] -= peak
        if new[v] > -np.inf:
            smallest = min(smallest, new[v])
        if arithmetic == LINEAR:
            new[v] = exp(new[v])
    return exp(smallest)


@kernel()
def move_hub(bp, hub, new, old):
    """Replace a message in the totals of a variable of high degree."""
    start, n, nothing = bp.hub_start[hub], new.size, -np.inf if bp.arithmetic == LOG else 0.0
    high, low, zeros = bp.hub_high[start : start + n], bp.hub_low[start : start + n], bp.hub_zeros[start : start + n]
    for v in range(n):  # no branches, so that the compiler makes vectors of it
        if bp.arithmetic == LOG:
            a, b = new[v], old[v]
        else:
            a, b = normal_log(max(new[v], SMALLEST_NORMAL)), normal_log(max(old[v], SMALLEST_NORMAL))
        total, rest = add_exactly(high[v], low[v], 0.0 if new[v] == nothing else a)
        high[v], low[v] = add_exactly(total, rest, 0.0 if old[v] == nothing else -b)
        zeros[v] += np.int64(new[v] == nothing) - np.int64(old[v] == nothing)


@kernel(FAST)
def _scale_of(arithmetic, in_logs, weight, message, total):
    """Return the c_i for which Z_f / c_i is the sum of n_i * m: what log Z needs where m is not o / c_i, but damped."""
    if in_logs:
        return total - log_sum(message, weight)
    overlap = 0.0
    for v in range(weight.size):
        overlap += weight[v] * (exp(message[v]) if arithmetic == LOG else message[v])
    if overlap <= 0.0:
        return np.inf
    return total - math.log(overlap) if arithmetic == LOG else total / overlap


@kernel()
def store(layout, bp, edge, weight, new, damping):
    """Scale an outgoing message and keep it; return its undamped residual, or VANISHED or DIVERGED."""
    start = bp.edge_slot_start[edge]
    old = bp.message[start : start + new.size]
    peak = largest(new)
    factor, hub = layout.edge_factor[edge], bp.variable_hub[layout.edge_variable[edge]]
    if bp.arithmetic == LINEAR and damping == 0.0 and hub < 0 and not bp.table_has_zero[factor]:
        high, low, bp.edge_min[edge], faintest = _swap_positive(weight, new, old, 1.0 / peak)
        bp.edge_scale[edge] = peak
        residual = math.log(high / low)
        if faintest < GONE:
            residual = _residual_linear(weight, old, new)
        bp.edge_residual[edge] = residual
        return residual
    in_logs = bp.table_in_logs[factor]
    if bp.arithmetic == LOG:
        if peak == -np.inf:
            return VANISHED
        high, low, smallest, changed = _compare_log(new, old, peak)
        if smallest < -MAX_LOG:
            return DIVERGED
        faintest = _smallest(weight)
        residual = np.inf if changed else high - low
        if not changed and (faintest if in_logs else log(faintest)) + smallest < LOG_GONE:
            residual = _residual_log(in_logs, weight, new, old)
    else:
        if peak <= 0.0:
            return VANISHED
        high, low, smallest, changed = _compare_linear(new, old, 1.0 / peak)
        residual = np.inf if changed else math.log(high / low)
        if not changed and _smallest(weight) * smallest < GONE:
            residual = _residual_linear(weight, new, old)
        bp.edge_min[edge] = smallest
    bp.edge_scale[edge] = peak
    if damping > 0.0:
        total = bp.factor_total[factor]
        bp.edge_min[edge] = _damp(bp.arithmetic, new, old, damping)
        scale = _scale_of(bp.arithmetic, in_logs, weight, new, total)
        if np.isfinite(scale) and (bp.arithmetic == LOG or scale > 0.0):  # not where no joint state is possible
            bp.edge_scale[edge] = scale
    if hub >= 0:
        move_hub(bp, hub, new, old)
    for v in range(new.size):
        old[v] = new[v]
    bp.edge_residual[edge] = residual * (1.0 - damping)
    return residual


store_at = by_address(store, "float64")
