"""Joint active states of a factor: where they lie in its table, what they weigh, and which of them count.

Tables of pairs, which have rows of entries near each other, are picked up row by row.
"""

import math

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG_TABLE, POTENTIALS, WIDE_TABLE
from anytimebp.kernels.jit import fetch, kernel, table_view

PAIR = 2
WORDS = 8  # numbers that come from memory together
PIECE = 128  # entries that are exponentiated at a time, while the next ones are fetched


@kernel()
def locate_rows(layout, sources, active, factor, skipped, row_base):
    """Fill `row_base` with where joint active states lie in a factor's source, but for one edge; return how many."""
    row_base[0], rows = 0, 1
    for edge in range(layout.factor_edge_start[factor + 1] - 1, layout.factor_edge_start[factor] - 1, -1):
        if edge == skipped:
            continue
        start, stride = active.start[layout.edge_variable[edge]], sources.edge_stride[edge]
        n = active.start[layout.edge_variable[edge] + 1] - start
        for d in range(n - 1, -1, -1):
            base = active.state[start + d] * stride
            for r in range(rows):
                row_base[d * rows + r] = row_base[r] + base
        rows *= n
    return rows


@kernel()
def weigh_rows(layout, bp, factor, skipped, in_logs, offsets, row_weight):
    """Fill `row_weight` with the product of the weights of joint active states, but for one edge; return how many."""
    first = layout.factor_edge_start[factor]
    row_weight[0], rows = 0.0 if in_logs else 1.0, 1
    for edge in range(layout.factor_edge_start[factor + 1] - 1, first - 1, -1):
        n = bp.domain_size[layout.edge_variable[edge]]
        if edge == skipped or n == 1:
            continue
        for d in range(n - 1, -1, -1):
            weight = bp.incoming[offsets[edge - first] + d]
            for r in range(rows):
                row_weight[d * rows + r] = row_weight[r] + weight if in_logs else row_weight[r] * weight
        rows *= n
    return rows


@kernel()
def keep_heavy(left_out, row_base, row_weight):
    """Keep the joint states that have most of the weight, in order; return how many.

    Args:
        left_out: Part of the whole weight that the others may have together.
        row_base: Where joint states lie; overwritten.
        row_weight: What they weigh; overwritten.
    """
    total, kept = 0.0, 0
    for r in range(row_weight.size):
        total += row_weight[r]
    least = left_out * total / row_weight.size
    for r in range(row_weight.size):  # nothing branches on what is hard to foresee
        row_base[kept], row_weight[kept] = row_base[r], row_weight[r]
        kept += 1 if row_weight[r] >= least else 0
    return kept


# ---------------------------------------------------------------- entries
@kernel(inline=True)
def fetch_line(source, first, n):
    """Have entries next to each other fetched."""
    for word in range(0, n + WORDS - 1, WORDS):
        fetch(source, first + min(word, n - 1))


@kernel()
def convert(line, kind, shift):
    """Make potentials of a maximum of at most 1 of what was picked up."""
    if kind == LOG_TABLE:
        for v in range(line.size):
            line[v] = exp(line[v] - shift)
    elif kind == POTENTIALS and shift != 0.0:
        scale = math.exp(-shift)
        for v in range(line.size):
            line[v] *= scale


@kernel(inline=True)
def is_pair(layout, sources, factor):
    """Tell whether a factor's numbers are a matrix in memory, from which no leaf is summed out."""
    arity = layout.factor_edge_start[factor + 1] - layout.factor_edge_start[factor]
    is_dense = sources.address[factor] != 0 and sources.kind[factor] != WIDE_TABLE
    return is_dense and arity == PAIR and sources.leaf[factor] < 0


@kernel()
def _fetch_rows(layout, sources, active, factor, begin, end):
    """Have the active columns of a pair's rows fetched, from one active row to before another."""
    first = layout.factor_edge_start[factor]
    a, b = layout.edge_variable[first], layout.edge_variable[first + 1]
    columns = active.state[active.start[b] : active.start[b + 1]]
    source = table_view(sources.address[factor], sources.size[factor])
    span = columns[columns.size - 1] - columns[0] + 1
    for k in range(active.start[a] + begin, min(active.start[a] + end, active.start[a + 1])):
        row = active.state[k] * sources.edge_stride[first]
        if columns.size * WORDS > span:  # all that come together hold an active one, on average
            fetch_line(source, row + columns[0], span)
        else:
            for j in range(columns.size):
                fetch(source, row + columns[j])


@kernel()
def pick_pair(layout, sources, active, factor, table):
    """Fill a pair's table over the domains; memory brings the next rows, and the next pair's, in the meantime."""
    first = layout.factor_edge_start[factor]
    a, b = layout.edge_variable[first], layout.edge_variable[first + 1]
    rows = active.state[active.start[a] : active.start[a + 1]]
    columns = active.state[active.start[b] : active.start[b + 1]]
    source = table_view(sources.address[factor], sources.size[factor])
    n, stride, begin = columns.size, sources.edge_stride[first], 0
    step = max(1, PIECE // n)
    while begin < rows.size:
        end = min(rows.size, begin + step)
        for i in range(begin, end):
            row, line = source[rows[i] * stride : (rows[i] + 1) * stride], table[i * n : (i + 1) * n]
            for j in range(n):
                line[j] = row[columns[j]]
        if end < rows.size:
            _fetch_rows(layout, sources, active, factor, end, end + step)
        elif factor + 1 < sources.leaf.size and is_pair(layout, sources, factor + 1):
            _fetch_rows(layout, sources, active, factor + 1, 0, step)
        convert(table[begin * n : end * n], sources.kind[factor], sources.shift[factor])
        begin = end
