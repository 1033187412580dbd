"""The best joint state, or random ones, out of a tree of cliques (`junction_tree.py`).

With max in place of the sum over a clique's own variable, the way up of `cliques.py` gives, in the table of a clique,
the score of the best joint state of all variables below it. Going down, each clique's variable takes its best state,
given those of the separator, which are chosen by then; or, after the way up with sums, a random one.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, larger, log, smaller
from anytimebp.kernels.clique_axes import DIM, INDEX, STRIDE, _message_axes, _place_members
from anytimebp.kernels.cliques import _is_linear, _multiply
from anytimebp.kernels.codes import MAX_LINEAR_RANGE, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, borrow, kernel


@kernel(FAST_WITHOUT_NAN)
def _best_linear(table, message):
    """Fill the largest number of each column, divided by the largest of all; return that, and the log of the least."""
    n, largest, least = message.size, 0.0, 1.0
    for j in range(n):
        message[j] = table[j]
    for start in range(n, table.size, n):
        for j in range(n):
            message[j] = larger(message[j], table[start + j])
    for j in range(n):
        largest = larger(largest, message[j])
    for j in range(n if largest > 0.0 else 0):
        message[j] /= largest
        least = smaller(least, message[j] if message[j] > 0.0 else 1.0)
    return largest, math.log(least)


@kernel()
def _best_in_logs(table, message):
    """Do the same in logs, and leave each number of the table divided by the best of its column."""
    n, largest, least = message.size, -np.inf, 0.0
    for j in range(n):
        peak = -np.inf
        for k in range(j, table.size, n):
            peak = max(peak, table[k])
        for k in range(j, table.size, n):
            table[k] = math.exp(table[k] - peak) if table[k] > -np.inf else 0.0
        message[j] = peak
        largest = max(largest, peak)
    for j in range(n if largest > -np.inf else 0):
        message[j] -= largest
        least = min(least, message[j] if message[j] > -np.inf else 0.0)
    return largest, least


@kernel()
def _send_best(tree, at, clique, is_linear):
    """Fill a clique's message from its table; return the log of its largest number."""
    table = at.table[tree.table_start[clique] : tree.table_start[clique + 1]]
    message = at.message[tree.message_start[clique] : tree.message_start[clique + 1]]
    if is_linear:
        largest, least = _best_linear(table, message)
        at.scale[clique], log_largest = largest, log(largest)
    else:
        log_largest, least = _best_in_logs(table, message)
        at.scale[clique] = 0.0
    at.message_in_logs[clique] = not is_linear and least < -MAX_LINEAR_RANGE
    if log_largest > -np.inf and not is_linear and least >= -MAX_LINEAR_RANGE:
        for j in range(message.size):
            message[j] = exp(message[j])
    at.message_min[clique] = least
    return log_largest


@kernel()
def collect_best_slice(layout, size, tree, at, clique, stop, cost_limit):
    """Do as `cliques.collect_slice`, with max in place of sums."""
    layout, tree, at = borrow(layout), borrow(tree), borrow(at)
    cost, log_total, logs_used = 0, 0.0, False
    while clique < stop and cost < cost_limit:
        start, end = tree.table_start[clique], tree.table_start[clique + 1]
        is_linear = _is_linear(tree, at, clique)
        logs_used |= not is_linear
        operands = _multiply(layout, size, tree, at, clique, is_linear)
        log_largest = _send_best(tree, at, clique, is_linear)
        if log_largest == -np.inf:
            return VARIABLE_VANISHED, clique, cost, log_total, logs_used
        log_total += log_largest
        cost += (operands + 2) * (end - start)
        clique += 1
    return OK, clique, cost, log_total, logs_used


@kernel()
def _column(size, tree, clique, state):
    """Return which column of a clique's table belongs to the states chosen for its separator."""
    column, stride = 0, 1
    for k in range(tree.scope_start[clique + 1] - 1, tree.scope_start[clique], -1):
        variable = tree.variable[tree.scope[k]]
        column += stride * state[variable]
        stride *= size[variable]
    return column


@kernel()
def choose_best(size, tree, at, n, state):
    """Choose the best state of each clique's variable, the first of equals; after the way up.

    Args:
        size: (V,) domain sizes.
        tree: The cliques.
        at: After the way up.
        n: Number of cliques.
        state: (V,) overwritten where a variable has a clique.
    """
    tree, at = borrow(tree), borrow(at)
    for clique in range(n - 1, -1, -1):
        place = tree.table_start[clique] + _column(size, tree, clique, state)
        row, best, variable = tree.message_start[clique + 1] - tree.message_start[clique], 0, tree.variable[clique]
        for v in range(1, size[variable]):
            if at.table[place + v * row] > at.table[place + best * row]:
                best = v
        state[variable] = best


@kernel()
def draw_states(size, tree, at, n, uniform, state):
    """Draw joint states; after the way up with sums.

    Args:
        size: (V,) domain sizes.
        tree: The cliques.
        at: After the way up.
        n: Number of cliques.
        uniform: (samples, cliques) random numbers from 0 up to 1, read.
        state: (samples, V) overwritten where a variable has a clique.
    """
    tree, at = borrow(tree), borrow(at)
    for sample in range(state.shape[0]):
        for clique in range(n - 1, -1, -1):
            place = tree.table_start[clique] + _column(size, tree, clique, state[sample])
            row, variable = tree.message_start[clique + 1] - tree.message_start[clique], tree.variable[clique]
            total, chosen = 0.0, -1
            for v in range(size[variable]):
                total += at.table[place + v * row]
            left = uniform[sample, clique] * total
            for v in range(size[variable]):
                weight = at.table[place + v * row]
                if weight > 0.0 and (left >= 0.0 or chosen < 0):
                    chosen = v
                left -= weight
                if left < 0.0 and chosen >= 0:
                    break
            state[sample, variable] = chosen


# ---------------------------------------------------------------- max-marginals
@kernel()
def _best_of_separator(size, tree, at, clique, best):
    """Fill the largest number of the parent's table for each joint state of a separator."""
    parent = tree.parent[clique]
    for j in range(best.size):
        best[j] = 0.0 if parent >= 0 else 1.0
    if parent < 0:
        return
    _place_members(tree, at, parent)
    axes, n = at.axes, _message_axes(size, tree, at, parent, clique)
    inner, step, offset = axes[DIM, n - 1], axes[STRIDE, n - 1], 0
    for start in range(tree.table_start[parent], tree.table_start[parent + 1], inner):
        for j in range(inner):
            best[offset + j * step] = max(best[offset + j * step], at.table[start + j])
        for k in range(n - 2, -1, -1):
            axes[INDEX, k] += 1
            offset += axes[STRIDE, k]
            if axes[INDEX, k] < axes[DIM, k]:
                break
            offset -= axes[STRIDE, k] * axes[DIM, k]
            axes[INDEX, k] = 0


@kernel()
def distribute_best_slice(size, tree, at, belief, clique, cost_limit):
    """Do as `cliques.distribute_slice`: tables become max-marginals of cliques, `belief` those of variables."""
    tree, at = borrow(tree), borrow(at)
    cost = 0
    while clique >= 0 and cost < cost_limit:
        table = at.table[tree.table_start[clique] : tree.table_start[clique + 1]]
        first, variable, peak = tree.message_start[clique], tree.variable[clique], 0.0
        n, scale = tree.message_start[clique + 1] - first, at.scale[clique]
        _best_of_separator(size, tree, at, clique, at.ratio[:n])
        for j in range(n if scale > 0.0 else 0):
            m = at.message[first + j] * scale
            at.ratio[j] = at.ratio[j] / m if m > 0.0 else 0.0
        own = belief[at.slot_start[variable] : at.slot_start[variable + 1]]
        for v in range(own.size):
            own[v] = 0.0
            for j in range(n):
                table[v * n + j] *= at.ratio[j]
                own[v] = max(own[v], table[v * n + j])
            peak = max(peak, own[v])
        for v in range(own.size):
            own[v] /= peak
        parent = tree.parent[clique]
        cost += table.size + (tree.table_start[parent + 1] - tree.table_start[parent] if parent >= 0 else 0)
        clique -= 1
    return clique, cost
