"""Log tables to linear ones."""

import numpy as np

from anytimebp.kernels.arithmetic import exp, larger
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, kernel, table_view
from anytimebp.kernels.to_factor import largest


@kernel()
def _shift_and_exponentiate(given, made, shift):
    for k in range(given.size):
        made[k] = exp(given[k] - shift)


@kernel()
def exponentiate_slice(given, target, size, shift, position, entry, limit):
    """Write exp(given - shift) of some tables, from entry `entry` of table `position` on, about `limit` entries.

    Args:
        given: (tables,) addresses of log tables, read.
        target: (tables,) addresses of the results, overwritten.
        size: (tables,) their entries.
        shift: (tables,) numbers to subtract first.
        position: The table to go on with.
        entry: The entry of that table to go on with.
        limit: How many entries to do at the most.

    Returns:
        The table and entry to go on with.
    """
    while position < size.size and limit > 0:
        n = min(limit, size[position] - entry)
        _shift_and_exponentiate(
            table_view(given[position] + 8 * entry, n), table_view(target[position] + 8 * entry, n), shift[position]
        )
        limit -= n
        entry += n
        if entry == size[position]:
            position, entry = position + 1, 0
    return position, entry


@kernel(FAST_WITHOUT_NAN)
def _raise_to(highest, row):
    for c in range(row.size):
        highest[c] = larger(highest[c], row[c])


@kernel(FAST)
def _lower_by(row, scale):
    for c in range(row.size):
        row[c] -= scale[c]


@kernel()
def _scale_last_axis(made, scale):
    """Subtract from each column its largest number, which `scale` is filled with (0 for a column of hard zeros)."""
    n = scale.size
    for c in range(n):
        scale[c] = -np.inf
    for start in range(0, made.size, n):
        _raise_to(scale, made[start : start + n])
    for c in range(n):
        scale[c] = scale[c] if scale[c] > -np.inf else 0.0
    for start in range(0, made.size, n):
        _lower_by(made[start : start + n], scale)


@kernel()
def _scale_axis(made, scale, inner):
    """Do as `_scale_last_axis` along an axis of which `inner` numbers in a row have the same state."""
    n = scale.size
    for v in range(n):
        scale[v] = -np.inf
    for start in range(0, made.size, inner):
        v = start // inner % n
        scale[v] = max(scale[v], largest(made[start : start + inner]))
    for start in range(0, made.size, inner):
        v = start // inner % n
        shift = scale[v] if scale[v] > -np.inf else 0.0
        for k in range(start, start + inner):
            made[k] -= shift
    for v in range(n):
        scale[v] = scale[v] if scale[v] > -np.inf else 0.0


@kernel()
def scale_tables_slice(factor_edge_start, edge_size, factors, given, target, position, limit):
    """Write log tables as linear ones that are scaled per state, each followed by the logs of its scales.

    Every state of every axis that is possible at all then has an entry of 1 (head of `log_sums.py`).

    Args:
        factor_edge_start: (F + 1,) of the layout, read.
        edge_size: (E,) states per edge, read.
        factors: (tables,) a factor for each table, read.
        given: (tables,) addresses of log tables, read.
        target: (tables,) addresses of the results, overwritten: entries, then a number per state, axis after axis, but
            for axes of one state.
        position: The table to go on with.
        limit: About how many entries to do.

    Returns:
        The table to go on with.
    """
    while position < factors.size and limit > 0:
        first, last = factor_edge_start[factors[position]], factor_edge_start[factors[position] + 1]
        entries, n_slots = 1, 0
        for edge in range(first, last):
            entries *= edge_size[edge]
            n_slots += edge_size[edge]
        log_table, made = table_view(given[position], entries), table_view(target[position], entries)
        scale = table_view(target[position] + 8 * entries, n_slots)
        for k in range(entries):
            made[k] = log_table[k]
        inner, offset = entries, 0
        for edge in range(first, last):
            n = edge_size[edge]
            inner //= n
            if n == 1:
                continue
            if inner == 1:
                _scale_last_axis(made, scale[offset : offset + n])
            else:
                _scale_axis(made, scale[offset : offset + n], inner)
            offset += n
        for k in range(entries):
            made[k] = exp(made[k])
        limit -= entries
        position += 1
    return position
