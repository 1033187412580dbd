"""Leaves summed out of a factor's table, which leaves a smaller one for the core (head of `leaves.py`)."""

import numpy as np

from anytimebp.kernels.arithmetic import exp, larger, log
from anytimebp.kernels.codes import DOWN, LOG, MAX, MAX_LINEAR_RANGE, SUM_AXIS_BY_LOGS
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, by_address, kernel, table_view
from anytimebp.kernels.log_sums import sum_line
from anytimebp.kernels.through_table import edge_size
from anytimebp.kernels.to_factor import largest

LONG_ROW = 64  # entries from which on a row is read alone: four long ones are more places than processors fetch from
HIGHEST = 10.0  # log of the largest number of a linear table that was not scaled


@kernel(FAST)
def sum_rows(table, rows, step, n, weight, out):
    """Fill out[r] with the sum of n entries from r * step on times weights, four short rows at a time (linear)."""
    r = 0
    while n < LONG_ROW and r + 4 <= rows:
        start = r * step
        row0, row1 = table[start : start + n], table[start + step : start + step + n]
        row2, row3 = table[start + 2 * step : start + 2 * step + n], table[start + 3 * step : start + 3 * step + n]
        sum0, sum1, sum2, sum3 = 0.0, 0.0, 0.0, 0.0
        for v in range(n):
            w = weight[v]
            sum0 += row0[v] * w
            sum1 += row1[v] * w
            sum2 += row2[v] * w
            sum3 += row3[v] * w
        out[r], out[r + 1], out[r + 2], out[r + 3] = sum0, sum1, sum2, sum3
        r += 4
    while r < rows:
        row, total = table[r * step : r * step + n], 0.0
        for v in range(n):
            total += row[v] * weight[v]
        out[r] = total
        r += 1


@kernel(FAST)
def _sum_inner_axis(table, outer, n, inner, weight, out):
    """Fill out[o, i] with the sum over v of table[o, v, i] times weights (linear)."""
    for o in range(outer):
        target = out[o * inner : o * inner + inner]
        for i in range(inner):
            target[i] = 0.0
        for v in range(n):
            start, w = (o * n + v) * inner, weight[v]
            row = table[start : start + inner]
            for i in range(inner):
                target[i] += w * row[i]


@kernel(FAST_WITHOUT_NAN)
def _best_of_axis(table, outer, n, inner, weight, out):
    """Do as `_sum_inner_axis`, with the largest term in place of the sum (linear)."""
    for o in range(outer):
        for i in range(inner):
            best = 0.0
            for v in range(n):
                best = larger(best, table[(o * n + v) * inner + i] * weight[v])
            out[o * inner + i] = best


@kernel()
def sum_axis(semiring, table, outer, n, inner, weight, out):
    """Sum the middle axis of a table of shape (outer, n, inner) out, weighted; `out` has shape (outer, inner)."""
    if semiring == MAX:
        _best_of_axis(table, outer, n, inner, weight, out)
    elif inner == 1:
        sum_rows(table, outer, n, n, weight, out)
    else:
        _sum_inner_axis(table, outer, n, inner, weight, out)


@kernel()
def sum_axis_by_logs(semiring, in_logs, table, outer, n, inner, log_weight, line, out):
    """Fill `out` with logs of what `sum_axis` does, of a table that is linear or in logs; `line` is scratch."""
    for o in range(outer):
        for i in range(inner):
            for v in range(n):
                line[v] = table[(o * n + v) * inner + i]
            out[o * inner + i] = sum_line(semiring, in_logs, line[:n], log_weight)
    return 0


sum_axis_by_logs_at = by_address(sum_axis_by_logs, "int64")


@kernel()
def least_product(layout, bp, leaves, factor):
    """Return the log of the least that an entry times weights of leaves in `bp.incoming` can be."""
    least, offset = log(bp.table_min[factor]), 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        if leaves.way[edge] == DOWN and bp.arithmetic == LOG:
            lowest = 0.0
            for v in range(offset, offset + n):
                if bp.incoming[v] > -np.inf:
                    lowest = min(lowest, bp.incoming[v])
            least += lowest
        elif leaves.way[edge] == DOWN:
            smallest = 1.0
            for v in range(offset, offset + n):
                if bp.incoming[v] > 0.0:
                    smallest = min(smallest, bp.incoming[v])
            least += log(smallest)
        offset += n
    return least


@kernel()
def _turn_linear(table):
    """Exponentiate a log table whose numbers linear ones can hold, unscaled; return if they can, and the least one."""
    peak, lowest = largest(table), 0.0
    for k in range(table.size):
        lowest = min(lowest, table[k] if table[k] > -np.inf else 0.0)
    if peak > HIGHEST or lowest < HIGHEST - MAX_LINEAR_RANGE:
        return False, 0.0
    for k in range(table.size):
        table[k] = exp(table[k])
    return True, exp(lowest)


@kernel()
def sum_leaves(layout, bp, leaves, factor):
    """Fill a factor's smaller table from the weights of its leaves in `bp.incoming`, and the least that it can hold.

    In log arithmetic it is summed by logs if it is in logs, or has hard zeros and might lose a number; and holds logs
    then, unless linear numbers will do.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    offset, outer, n_leaves, least = 0, 1, 0, least_product(layout, bp, leaves, factor)
    in_logs = bp.arithmetic == LOG and bp.table_in_logs[factor]
    by_logs = in_logs or (bp.arithmetic == LOG and bp.table_has_zero[factor] and least < HIGHEST - MAX_LINEAR_RANGE)
    for edge in range(first, last):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        outer *= n
        if leaves.way[edge] == DOWN:
            n_leaves += 1
            if bp.arithmetic == LOG and not by_logs:
                for v in range(offset, offset + n):
                    bp.incoming[v] = exp(bp.incoming[v])
        offset += n
    leaves.table_min[factor] = exp(least)
    table, inner, half, turn = table_view(bp.table_address[factor], outer), 1, leaves.scratch.size // 2, 0
    for edge in range(last - 1, first - 1, -1):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        offset -= n
        outer //= n
        if leaves.way[edge] != DOWN:
            inner *= n
            continue
        n_leaves -= 1
        if n_leaves:
            out = leaves.scratch[turn * half : turn * half + outer * inner]
            turn = 1 - turn
        else:
            out = table_view(leaves.table_address[factor], outer * inner)
        weight = bp.incoming[offset : offset + n]
        if by_logs:
            given = (bp.semiring, in_logs, table, outer, n, inner, weight, bp.peak, out)
            sum_axis_by_logs_at(bp.calls[SUM_AXIS_BY_LOGS], given)
            in_logs = True
        else:
            sum_axis(bp.semiring, table, outer, n, inner, weight, out)
        table = out
    leaves.in_logs[factor] = by_logs
    if by_logs:
        is_linear, smallest = _turn_linear(table)
        if is_linear:
            leaves.in_logs[factor], leaves.table_min[factor] = False, smallest
