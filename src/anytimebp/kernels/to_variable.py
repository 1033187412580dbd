"""Messages from factors to variables: scaled, compared with the old ones, damped, kept."""

import math

import numpy as np

from anytimebp.kernels.arithmetic import add_exactly, exp, log
from anytimebp.kernels.codes import DIVERGED, LINEAR, LOG, MAX_LOG, VANISHED
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, kernel
from anytimebp.kernels.through_table import log_sum
from anytimebp.kernels.to_factor import largest

TINY = 1e-305  # added to both sides of a ratio, so that zero over zero is one


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
def _replace_positive(new, old, scale):
    """Do as `_compare_linear` and replace `old` in the same pass, where no number is zero."""
    high, low, smallest = 0.0, np.inf, 1.0
    for v in range(new.size):
        value = new[v] * scale
        ratio = value / old[v]
        old[v] = value
        high = max(high, ratio)
        low = min(low, ratio)
        smallest = min(smallest, value)
    return high, low, smallest


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
def move_hub(space, hub, new, old):
    """Replace a message in the totals of a variable of high degree."""
    start = space.hub_start[hub]
    for v in range(new.size):
        a = new[v] if space.arithmetic == LOG else log(new[v])
        b = old[v] if space.arithmetic == LOG else log(old[v])
        space.hub_zeros[start + v] += int(a == -np.inf) - int(b == -np.inf)
        high, low = space.hub_high[start + v], space.hub_low[start + v]
        if a > -np.inf:
            high, low = add_exactly(high, low, a)
        if b > -np.inf:
            high, low = add_exactly(high, low, -b)
        space.hub_high[start + v], space.hub_low[start + v] = high, low


@kernel(FAST)
def _scale_of(arithmetic, in_logs, weight, message, total):
    """Return the c_i for which Z_f / c_i is the sum of n_i * m: what log Z needs where m is not o / c_i, but damped."""
    if in_logs:
        return total - log_sum(message, weight)
    overlap = 0.0
    for v in range(weight.size):
        overlap += weight[v] * (exp(message[v]) if arithmetic == LOG else message[v])
    return total - math.log(overlap) if arithmetic == LOG else total / overlap


@kernel()
def store(layout, space, edge, weight, new, damping):
    """Scale an outgoing message and keep it; return its undamped residual, or VANISHED or DIVERGED."""
    start = space.edge_slot_start[edge]
    old = space.message[start : start + new.size]
    peak = largest(new)
    factor, hub = layout.edge_factor[edge], space.variable_hub[layout.edge_variable[edge]]
    if space.arithmetic == LINEAR and damping == 0.0 and hub < 0 and not space.table_has_zero[factor]:
        high, low, space.edge_min[edge] = _replace_positive(new, old, 1.0 / peak)
        space.edge_scale[edge] = peak
        space.edge_residual[edge] = math.log(high / low)
        return space.edge_residual[edge]
    if space.arithmetic == LOG:
        if peak == -np.inf:
            return VANISHED
        high, low, smallest, changed = _compare_log(new, old, peak)
        if smallest < -MAX_LOG:
            return DIVERGED
        residual = np.inf if changed else high - low
    else:
        if peak <= 0.0:
            return VANISHED
        high, low, smallest, changed = _compare_linear(new, old, 1.0 / peak)
        residual = np.inf if changed else math.log(high / low)
        space.edge_min[edge] = smallest
    space.edge_scale[edge] = peak
    if damping > 0.0:
        in_logs, total = space.table_in_logs[factor], space.factor_total[factor]
        space.edge_min[edge] = _damp(space.arithmetic, new, old, damping)
        scale = _scale_of(space.arithmetic, in_logs, weight, new, total)
        if np.isfinite(scale) and (space.arithmetic == LOG or scale > 0.0):  # not where no joint state is possible
            space.edge_scale[edge] = scale
    if hub >= 0:
        move_hub(space, hub, new, old)
    for v in range(new.size):
        old[v] = new[v]
    space.edge_residual[edge] = residual * (1.0 - damping)
    return residual
