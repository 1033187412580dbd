"""Sums of tables in log arithmetic: linear ones first, and by logs only what those may have lost.

The weights of a factor, logs of a largest 0, are exponentiated, and its linear table is summed by `contract`. Whatever
that loses, in weights, products or sums, is smaller than the smallest double. So each sum is looked at afterwards: one
of at least CERTAIN is right to all digits, whatever it was made of. A smaller one may be a hard zero, or have lost
everything: that state is summed again by logs, with a shift of its own. Where not even the smallest product of positive
numbers can be lost, zeros are hard zeros, and nothing is summed again.

A table whose range is beyond MAX_LINEAR_RANGE is kept as logs t and as a linear table e, which is scaled per state, so
that each state of each variable has an entry of 1 (`scale_tables_slice`; variables of one state have no scale, so that
they may be left out). In logs, with b_i what makes n'_i at most 0:

    t(x)  =  log e(x) + sum of a_i(x_i)
    n'_i(x_i)  =  n_i(x_i) + a_i(x_i) - b_i
    o_i(x_i)  =  log (sum of e(x) * product of exp n'_j(x_j), j not i) + a_i(x_i) + sum of b_j, j not i

The sum is linear, as above; where that fails, it is one of logs over t. Tables of growing runs that hold logs have no
such companion: they are summed by logs throughout.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, larger, log, normal_log, smaller
from anytimebp.kernels.codes import CERTAIN, CONTRACT, MAX, MAX_LINEAR_RANGE
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, by_address, kernel, table_view
from anytimebp.kernels.through_table import PAIR, contract_at, edge_size, row_starts
from anytimebp.kernels.to_factor import largest

LOG_CERTAIN = math.log(CERTAIN)
FAINT = 60.0  # nats under the largest term, below which even a billion others do not change a digit
PENDING = np.inf  # in place of a log: not summed yet


@kernel(FAST_WITHOUT_NAN)
def log_sum(row, weight):
    """Return log sum exp of a row plus weights."""
    peak = -np.inf
    for c in range(row.size):
        peak = larger(peak, row[c] + weight[c])
    if peak == -np.inf:
        return -np.inf
    total = 0.0
    for c in range(row.size):
        total += exp(row[c] + weight[c] - peak)
    return peak + math.log(total)


# ------------------------------------------------------------ by logs, one state at a time
@kernel(FAST_WITHOUT_NAN)
def _highest(in_logs, row, weight):
    """Return the largest log term of a row, or of a linear row the largest log weight of a positive entry."""
    peak = -np.inf
    if in_logs:
        for c in range(row.size):
            peak = larger(peak, row[c] + weight[c])
    else:
        for c in range(row.size):
            peak = larger(peak, weight[c] if row[c] > 0.0 else -np.inf)
    return peak


@kernel(FAST_WITHOUT_NAN)
def _total(semiring, in_logs, row, weight, peak):
    """Return the sum of a row's terms, or the largest, divided by exp(peak)."""
    if semiring == MAX and in_logs:
        return 1.0
    total = 0.0
    if semiring == MAX:
        for c in range(row.size):
            total = larger(total, row[c] * exp(smaller(0.0, weight[c] - peak)))
    elif in_logs:
        for c in range(row.size):
            total += exp(row[c] + weight[c] - peak)
    else:
        for c in range(row.size):
            total += row[c] * exp(smaller(0.0, weight[c] - peak))
    return total


@kernel()
def _sum_rows(semiring, in_logs, matrix, row_start, stride, row_weight, column_weight, first, block, step):
    """Return the log of the sum over the rows first to first + block, every `step` rows again, of all their terms."""
    n, peak, total = column_weight.size, -np.inf, 0.0
    faint = FAINT if in_logs else FAINT + MAX_LINEAR_RANGE  # linear entries may be that small where weights are large
    for begin in range(first, row_weight.size, step):
        for r in range(begin, begin + block):
            if row_weight[r] == -np.inf:
                continue
            start = row_start[r] if row_start.size else r * stride
            row = matrix[start : start + n]
            highest = _highest(in_logs, row, column_weight)
            top = row_weight[r] + highest
            if top == -np.inf or top < peak - faint:
                continue
            if top > peak:
                total *= exp(peak - top)
                peak = top
            part = exp(top - peak) * _total(semiring, in_logs, row, column_weight, highest)
            total = max(total, part) if semiring == MAX else total + part
    return peak + math.log(total) if peak > -np.inf else -np.inf


@kernel()
def sum_line(semiring, in_logs, line, weight):
    """Return the log of the sum of the terms of a row or column."""
    peak = _highest(in_logs, line, weight)
    return peak + math.log(_total(semiring, in_logs, line, weight, peak)) if peak > -np.inf else -np.inf


@kernel()
def _fill_row_weights(layout, bp, first, last, skipped):
    """Fill `bp.prefix` with a log weight per row, that of all variables but the last and `skipped`."""
    bp.prefix[0] = 0.0
    rows, offset = 1, 0
    for edge in range(first, last - 1):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        for r in range(rows - 1, -1, -1):
            before = bp.prefix[r]
            for v in range(n - 1, -1, -1):
                bp.prefix[r * n + v] = before + (0.0 if edge == skipped else bp.incoming[offset + v])
        rows *= n
        offset += n
    return rows


@kernel()
def sum_pending(layout, bp, factor):
    """Sum by logs what is PENDING in `bp.outgoing`, from `bp.incoming`."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    capacity, rows, offset = 1, 1, 0
    for edge in range(first, last):
        capacity *= bp.edge_capacity[edge]
        if edge < last - 1:
            n = edge_size(layout.edge_variable, bp.domain_size, edge)
            rows *= n
            offset += n
    in_logs, matrix = bp.table_in_logs[factor], table_view(bp.table_address[factor], capacity)
    starts = row_starts(layout.edge_variable, bp.domain_size, bp.edge_capacity, bp.row_start, first, last)
    row_start, stride = bp.row_start[:starts], bp.edge_capacity[last - 1]
    columns = bp.incoming[offset : offset + edge_size(layout.edge_variable, bp.domain_size, last - 1)]
    block, offset = rows, 0
    for edge in range(first, last):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        outgoing = bp.outgoing[offset : offset + n]
        is_last, offset = edge == last - 1, offset + n
        block = block // n if not is_last else block
        if largest(outgoing) < PENDING:
            continue
        if last - first > PAIR:
            _fill_row_weights(layout, bp, first, last, edge)
        weight = bp.incoming[:rows] if last - first == PAIR else bp.prefix[:rows]
        line = bp.dots[:rows]
        for v in range(n):
            if outgoing[v] < PENDING:
                continue
            if is_last:
                for r in range(rows):
                    line[r] = matrix[(row_start[r] if row_start.size else r * stride) + v]
                outgoing[v] = sum_line(bp.semiring, in_logs, line, weight)
            elif last - first == PAIR:
                row = matrix[v * stride : v * stride + columns.size]
                outgoing[v] = sum_line(bp.semiring, in_logs, row, columns)
            else:
                outgoing[v] = _sum_rows(
                    bp.semiring, in_logs, matrix, row_start, stride, weight, columns, v * block, block, n * block
                )


# ------------------------------------------------------------ linear sums of log weights
@kernel()
def _exponentiate(log_weight, weight):
    for v in range(weight.size):
        weight[v] = exp(log_weight[v])


@kernel(FAST_WITHOUT_NAN)
def _exponentiate_scaled(log_weight, scale, weight):
    """Fill as many linear weights for a scaled table as there are scales; return the log of what divides them."""
    n = scale.size
    for v in range(n):
        weight[v] = log_weight[v] + scale[v]
    peak = largest(weight[:n])
    for v in range(n):
        weight[v] = exp(weight[v] - peak)
    return peak


@kernel(FAST_WITHOUT_NAN)
def _take_logs(outgoing):
    """Turn sums into logs, those under CERTAIN into PENDING; return how many these are."""
    count = 0
    for v in range(outgoing.size):
        value = outgoing[v]
        outgoing[v] = normal_log(value) if value >= CERTAIN else PENDING
        count += value < CERTAIN
    return count


@kernel(FAST_WITHOUT_NAN)
def _lowest(log_weight):
    """Return the lowest finite number, at most 0."""
    lowest = 0.0
    for v in range(log_weight.size):
        lowest = smaller(lowest, log_weight[v] if log_weight[v] > -np.inf else 0.0)
    return lowest


@kernel()
def _lost_nothing(layout, bp, factor):
    """Tell whether all products of positive numbers that a factor can form are at least CERTAIN."""
    floor, offset = 0.0, 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        end = offset + edge_size(layout.edge_variable, bp.domain_size, edge)
        floor += _lowest(bp.incoming[offset:end])
        offset = end
    return floor > LOG_CERTAIN and floor + log(bp.table_min[factor]) > LOG_CERTAIN


@kernel()
def _rule_out_pending(outgoing):
    for v in range(outgoing.size):
        outgoing[v] = outgoing[v] if outgoing[v] < PENDING else -np.inf


@kernel(FAST_WITHOUT_NAN)
def _overlap(semiring, outgoing, weight):
    total = 0.0
    if semiring == MAX:
        for v in range(weight.size):
            total = larger(total, outgoing[v] * weight[v])
    else:
        for v in range(weight.size):
            total += outgoing[v] * weight[v]
    return total


@kernel()
def _log_overlap(semiring, outgoing, weight):
    """Return log Z_f, from logs."""
    if semiring == MAX:
        return _highest(semiring == MAX, outgoing, weight)
    return log_sum(outgoing, weight)


@kernel()
def _fill_weights(layout, bp, factor, n_slots, entries):
    """Fill `bp.weight`, and `bp.peak` with the logs of what each axis was divided by; return the sum of these."""
    if bp.table_scaled[factor] == 0:
        _exponentiate(bp.incoming[:n_slots], bp.weight[:n_slots])
        return 0.0
    scale, offset, shift = table_view(bp.table_scaled[factor] + 8 * entries, n_slots), 0, 0.0
    position = 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        peak = bp.incoming[offset]
        if n > 1:
            end = position + n
            peak = _exponentiate_scaled(bp.incoming[offset:], scale[position:end], bp.weight[offset:])
            position = end
        else:
            bp.weight[offset] = 1.0
        bp.peak[edge - layout.factor_edge_start[factor]] = peak
        shift += peak
        offset += n
    return shift


@kernel()
def _unscale(layout, bp, factor, n_slots, entries, shift):
    """Add to log sums what a scaled table and its weights were divided by."""
    scale, offset, position = table_view(bp.table_scaled[factor] + 8 * entries, n_slots), 0, 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        others = shift - bp.peak[edge - layout.factor_edge_start[factor]]
        for v in range(n):
            bp.outgoing[offset + v] += others + (scale[position + v] if n > 1 else 0.0)
        position += n if n > 1 else 0
        offset += n


@kernel()
def sum_in_logs(layout, bp, factor):
    """Fill `bp.outgoing` with the logs of a table's unscaled messages, from logs in `bp.incoming`; return log Z_f."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    n_slots, entries, size = 0, 1, edge_size(layout.edge_variable, bp.domain_size, first)
    for edge in range(first, last):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        n_slots += n
        entries *= n
    is_scaled = bp.table_scaled[factor] != 0
    if bp.table_in_logs[factor] and not is_scaled:
        for v in range(n_slots):
            bp.outgoing[v] = PENDING
        sum_pending(layout, bp, factor)
        return _log_overlap(bp.semiring, bp.outgoing[:size], bp.incoming[:size])
    shift = _fill_weights(layout, bp, factor, n_slots, entries)
    address = bp.table_scaled[factor] if is_scaled else bp.table_address[factor]
    contract_at(bp.calls[CONTRACT], (layout, bp, factor, address, bp.weight))
    total = _overlap(bp.semiring, bp.outgoing[:size], bp.weight[:size])
    doubtful = _take_logs(bp.outgoing[:n_slots])
    if is_scaled:
        _unscale(layout, bp, factor, n_slots, entries, shift)
    if doubtful and not is_scaled and _lost_nothing(layout, bp, factor):
        _rule_out_pending(bp.outgoing[:n_slots])
    elif doubtful:
        sum_pending(layout, bp, factor)
    if total >= CERTAIN:
        return math.log(total) + shift
    return _log_overlap(bp.semiring, bp.outgoing[:size], bp.incoming[:size])


sum_in_logs_at = by_address(sum_in_logs, "float64")
