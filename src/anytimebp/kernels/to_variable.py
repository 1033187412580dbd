"""Messages from factors to variables: scaled, compared with the old ones, damped, kept.

The residual of a message is the dynamic range of log(new / old) over its states. A state that has no probability left
and goes on losing it counts as settled, as long as it does: with n the other messages to the variable, its belief
n * m, old and new, is under GONE of the largest, and it falls behind all states that are not. Around a loop with hard
zeros such a state may fall by a factor a sweep for ever. It takes part in any other message by as little: where a
factor sums over it, its share is at most its belief over that of the state the message is about. So a state of belief b
is off by GONE / b at the most, in relative terms, through all that is not told of states that are gone. Every rise
counts, however small: a state at 1e-35 that rises by 2 % a sweep is back after thousands of sweeps, while nothing else
moves. States that other factors rule out count, and so does every change to or from a hard zero: scores of candidates,
which may lift the zeros, hang on them.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import add_exactly, exp, larger, normal_log, smaller
from anytimebp.kernels.codes import DIVERGED, GONE, LINEAR, LOG, MAX_LOG, MOVE_HUB, VANISHED
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, by_address, kernel
from anytimebp.kernels.log_sums import log_sum
from anytimebp.kernels.to_factor import SMALLEST_NORMAL, largest

TINY = 1e-305  # added to both sides of a ratio, so that zero over zero is one
LOG_GONE = math.log(GONE)
FAR = 1e306  # over any ratio or change that counts; of infinity, loops would not be vectorised
LOWEST = -1e300  # in place of -inf, so that zero over zero is one in logs, too


@kernel(FAST_WITHOUT_NAN)
def _swap_linear(weight, new, old, scale):
    """Scale `new` and swap it with `old` in the same pass.

    Returns:
        The largest and smallest ratio, the smallest positive number, the smallest positive product with `weight`, and
        how many numbers have become zero or positive.
    """
    high, low, smallest, faintest, changed = 0.0, np.inf, 1.0, 1.0, 0
    for v in range(new.size):
        value, before = new[v] * scale, old[v]
        old[v], new[v] = value, before
        ratio = (value + TINY) / (before + TINY)
        high = larger(high, ratio)
        low = smaller(low, ratio)
        smallest = smaller(smallest, value if value > 0.0 else 1.0)
        both = (value > 0.0) & (weight[v] > 0.0)
        faintest = smaller(faintest, weight[v] * value if both else 1.0)
        changed += (value > 0.0) != (before > 0.0)
    return high, low, smallest, faintest, changed


@kernel(FAST_WITHOUT_NAN)
def _swap_positive(weight, new, old, scale):
    """Do as `_swap_linear`, where no number is zero.

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
        high = larger(high, ratio)
        low = smaller(low, ratio)
        smallest = smaller(smallest, value)
        faintest = smaller(faintest, weight[v] * value)
    return high, low, smallest, faintest


@kernel(FAST_WITHOUT_NAN)
def _residual_linear(weight, new, old):
    """Return the residual of a message, without the fall of states that are gone; zeros are where they were."""
    peak, peak_before = 0.0, 0.0
    for v in range(new.size):
        peak = larger(peak, weight[v] * new[v])
        peak_before = larger(peak_before, weight[v] * old[v])
    gone, gone_before = GONE * peak, GONE * peak_before
    high, low = 0.0, FAR
    for v in range(new.size):
        ratio = (new[v] + TINY) / (old[v] + TINY)
        counts = (weight[v] <= 0.0) | (weight[v] * new[v] >= gone) | (weight[v] * old[v] >= gone_before)
        high = larger(high, ratio)
        low = smaller(low, ratio if counts else FAR)
    return math.log(high / low)


@kernel(FAST_WITHOUT_NAN)
def _residual_log(weight, new, old):
    """Do as `_residual_linear`, with logs of everything."""
    peak, peak_before = -np.inf, -np.inf
    for v in range(new.size):
        peak = larger(peak, weight[v] + new[v])
        peak_before = larger(peak_before, weight[v] + old[v])
    gone, gone_before = peak + LOG_GONE, peak_before + LOG_GONE
    high, low = 0.0, FAR
    for v in range(new.size):
        change = larger(new[v], LOWEST) - larger(old[v], LOWEST)
        counts = (weight[v] == -np.inf) | (weight[v] + new[v] >= gone) | (weight[v] + old[v] >= gone_before)
        high = larger(high, change)
        low = smaller(low, change if counts & (new[v] > -np.inf) else FAR)
    return larger(0.0, high - low)


@kernel(FAST_WITHOUT_NAN)
def _swap_log(weight, new, old, scale):
    """Shift `new` and swap it with `old` in the same pass.

    Zero over zero is no change, which widens no range: of two messages with a largest number of 1 each, one state does
    not rise and one does not fall.

    Returns:
        The largest and smallest change, the smallest finite number, the smallest sum with `weight`, support changes.
    """
    high, low, smallest, faintest, changed = 0.0, 0.0, 0.0, 0.0, 0
    for v in range(new.size):
        value, before = new[v] - scale, old[v]
        old[v], new[v] = value, before
        change = larger(value, LOWEST) - larger(before, LOWEST)
        high = larger(high, change)
        low = smaller(low, change)
        smallest = smaller(smallest, value if value > -np.inf else 0.0)
        faintest = smaller(faintest, weight[v] + value)
        changed += (value > -np.inf) != (before > -np.inf)
    return high, low, smallest, faintest, changed


@kernel()
def _mix_logs(new, old, damping):
    """Replace linear numbers by logs: of those in between along the logarithms, and -inf for hard zeros."""
    for v in range(new.size):  # no branches, so that the compiler makes vectors of it
        a, b = normal_log(larger(new[v], SMALLEST_NORMAL)), normal_log(larger(old[v], SMALLEST_NORMAL))
        mixed = (1.0 - damping) * a + damping * b
        new[v] = (mixed if old[v] > 0.0 else a) if new[v] > 0.0 else -np.inf


@kernel()
def _exponentiate(logs, peak):
    """Replace logs by numbers up to 1, whose log is `peak` now."""
    for v in range(logs.size):
        logs[v] = exp(logs[v] - peak)


@kernel(FAST_WITHOUT_NAN)
def _least(values):
    """Return the smallest positive number, 1 if there is none under it."""
    least = 1.0
    for v in range(values.size):
        least = smaller(least, values[v] if values[v] > 0.0 else 1.0)
    return least


@kernel()
def _damp(arithmetic, new, old, damping):
    """Move from `old` only a part of the way to `new`, along the logarithms; hard zeros are taken at once."""
    if arithmetic == LINEAR:
        _mix_logs(new, old, damping)
        _exponentiate(new, largest(new))
        return _least(new)
    peak, smallest = -np.inf, 0.0
    for v in range(new.size):
        a, b = new[v], old[v]
        new[v] = a if a == -np.inf or b == -np.inf else (1.0 - damping) * a + damping * b
        peak = max(peak, new[v])
    for v in range(new.size):
        new[v] -= peak
        smallest = min(smallest, new[v] if new[v] > -np.inf else 0.0)
    return exp(smallest)


@kernel()
def move_hub(bp, hub, new, old):
    """Replace a message in the totals of a variable of high degree; return 0."""
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
    return 0


move_hub_at = by_address(move_hub, "int64")


@kernel(FAST)
def _scale_of(arithmetic, weight, message, total):
    """Return the c_i for which Z_f / c_i is the sum of n_i * m: what log Z needs where m is not o / c_i, but damped."""
    if arithmetic == LOG:
        return total - log_sum(message, weight)
    overlap = 0.0
    for v in range(weight.size):
        overlap += weight[v] * message[v]
    return total / overlap if overlap > 0.0 else np.inf


@kernel()
def store(layout, bp, edge, weight, new, damping):
    """Scale an outgoing message and keep it; return its undamped residual, or VANISHED or DIVERGED.

    The message that it replaces is in `new` afterwards.
    """
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
    if bp.arithmetic == LOG:
        if peak == -np.inf:
            return VANISHED
        high, low, smallest, faintest, changed = _swap_log(weight, new, old, peak)
        if smallest < -MAX_LOG:
            for v in range(new.size):
                old[v] = new[v]
            return DIVERGED
        residual = np.inf if changed else high - low
        if not changed and faintest < LOG_GONE:
            residual = _residual_log(weight, old, new)
    else:
        if peak <= 0.0:
            return VANISHED
        high, low, smallest, faintest, changed = _swap_linear(weight, new, old, 1.0 / peak)
        residual = np.inf if changed else math.log(high / low)
        if not changed and faintest < GONE:
            residual = _residual_linear(weight, old, new)
        bp.edge_min[edge] = smallest
    bp.edge_scale[edge] = peak
    if damping > 0.0:
        total = bp.factor_total[factor]
        bp.edge_min[edge] = _damp(bp.arithmetic, old, new, damping)
        scale = _scale_of(bp.arithmetic, weight, old, total)
        if np.isfinite(scale) and (bp.arithmetic == LOG or scale > 0.0):  # not where no joint state is possible
            bp.edge_scale[edge] = scale
    if hub >= 0 and (new.size > 1 or old[0] != new[0]):
        move_hub_at(bp.calls[MOVE_HUB], (bp, hub, old, new))
    bp.edge_residual[edge] = residual * (1.0 - damping)
    return residual


store_at = by_address(store, "float64")
