"""Sums of whole tables along their axes, read once: what fixed growth priorities are made of."""

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.jit import FAST, kernel, table_view
from anytimebp.kernels.log_sums import log_sum


@kernel()
def log_sum_rows(block, log_weight, sums):
    """Fill sums[r] with log sum exp of row r of a block plus the weights.

    Args:
        block: (rows, columns) log scores, read.
        log_weight: (columns,) read.
        sums: (rows,) overwritten.
    """
    for r in range(sums.size):
        sums[r] = log_sum(block[r], log_weight)


@kernel(FAST)
def _add_row(row, column_sum):
    total = 0.0
    for c in range(row.size):
        total += row[c]
        column_sum[c] += row[c]
    return total


@kernel()
def _exponentiate(row, shift, made):
    for c in range(row.size):
        made[c] = exp(row[c] - shift)


@kernel()
def table_sums_slice(address, shift, is_log, row_sum, column_sum, line, table, row, limit):
    """Add up the rows and columns of some tables, seen as matrices (all axes but the last) x (last axis).

    Args:
        address: (tables,) where each starts, read.
        shift: (tables,) subtracted from log scores before they are exponentiated.
        is_log: Whether the tables hold log scores.
        row_sum: (tables, rows) overwritten.
        column_sum: (tables, columns) added to.
        line: (columns,) scratch.
        table: The table to go on with.
        row: The row to go on with.
        limit: About how many entries to read.

    Returns:
        The table and row to go on with.
    """
    rows, n = row_sum.shape[1], column_sum.shape[1]
    while table < address.size and limit > 0:
        given = table_view(address[table] + 8 * row * n, n)
        if is_log:
            _exponentiate(given, shift[table], line)
            row_sum[table, row] = _add_row(line, column_sum[table])
        else:
            row_sum[table, row] = _add_row(given, column_sum[table])
        limit -= n
        row += 1
        if row == rows:
            table, row = table + 1, 0
    return table, row
