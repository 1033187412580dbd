"""Through a factor's table: from the messages it receives to those it sends, linear and not scaled yet."""

import numpy as np

from anytimebp.kernels.arithmetic import larger
from anytimebp.kernels.codes import MAX
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, by_address, index_view, kernel, table_view

PAIR = 2
NARROW = 4  # widest bands that have loops of their own; tables that interpolate have such of 2
TALL = 24  # rows from which four are read at a time
UNSIGNED = np.uint64
FIRST, SECOND, THIRD = UNSIGNED(1), UNSIGNED(2), UNSIGNED(3)  # columns behind that where a row of a band begins


@kernel(FAST)
def matrix_linear(matrix, row_start, stride, n, row_weight, column_weight, dots, sums):
    """Read a matrix of n columns once: dots = matrix @ column_weight, sums = row_weight @ matrix.

    Row r starts at row_start[r], or at r * stride where `row_start` is empty.
    """
    for c in range(n):
        sums[c] = 0.0
    for r in range(row_weight.size):
        weight = row_weight[r]
        start = row_start[r] if row_start.size else r * stride
        row = matrix[start : start + n]
        dot = 0.0
        for c in range(n):
            entry = row[c]
            dot += entry * column_weight[c]
            sums[c] += weight * entry
        dots[r] = dot


@kernel(FAST)
def tall_matrix_linear(matrix, stride, n, row_weight, column_weight, dots, sums):
    """Do as `matrix_linear`, in four places at once.

    Processors then fetch ahead more of what lies in memory, and `sums` is read and written a quarter as often: up to
    1.9 times as fast from some dozen rows on. Of few rows, the simple loop is the faster one.
    """
    height = row_weight.size // 4
    for c in range(n):
        sums[c] = 0.0
    for r in range(height):
        r1, r2, r3 = r + height, r + 2 * height, r + 3 * height
        row0, row1 = matrix[r * stride : r * stride + n], matrix[r1 * stride : r1 * stride + n]
        row2, row3 = matrix[r2 * stride : r2 * stride + n], matrix[r3 * stride : r3 * stride + n]
        weight0, weight1, weight2, weight3 = row_weight[r], row_weight[r1], row_weight[r2], row_weight[r3]
        dot0, dot1, dot2, dot3 = 0.0, 0.0, 0.0, 0.0
        for c in range(n):
            entry0, entry1, entry2, entry3, weight = row0[c], row1[c], row2[c], row3[c], column_weight[c]
            dot0 += entry0 * weight
            dot1 += entry1 * weight
            dot2 += entry2 * weight
            dot3 += entry3 * weight
            sums[c] += weight0 * entry0 + weight1 * entry1 + weight2 * entry2 + weight3 * entry3
        dots[r], dots[r1], dots[r2], dots[r3] = dot0, dot1, dot2, dot3
    for r in range(4 * height, row_weight.size):
        row, weight, dot = matrix[r * stride : r * stride + n], row_weight[r], 0.0
        for c in range(n):
            dot += row[c] * column_weight[c]
            sums[c] += weight * row[c]
        dots[r] = dot


@kernel(FAST, inline=True)
def _narrow_row(start, band, width, r, row_weight, column_weight, sums):
    """Add a row of a band of 2 to 4 columns to the sums, and return its dot."""
    begin, place, weight = UNSIGNED(start[r]), UNSIGNED(width) * r, row_weight[r]
    one, two = band[place], band[place + FIRST]
    dot = one * column_weight[begin] + two * column_weight[begin + FIRST]
    sums[begin] += weight * one
    sums[begin + FIRST] += weight * two
    if width > SECOND:
        three = band[place + SECOND]
        dot += three * column_weight[begin + SECOND]
        sums[begin + SECOND] += weight * three
    if width > THIRD:
        four = band[place + THIRD]
        dot += four * column_weight[begin + THIRD]
        sums[begin + THIRD] += weight * four
    return dot


@kernel(FAST)
def _narrow_band(start, band, width, row_weight, column_weight, dots, sums, rest):
    """Do as `_band_linear`, with widths that the compiler knows: 2 to 4.

    Rows next to each other often add to the same columns, and wait for each other, so two halves of them go side by
    side, one with sums of its own. Indices are unsigned: the compiler need not look whether they are negative.
    """
    half = UNSIGNED(row_weight.size // 2)
    for c in range(sums.size):
        rest[c] = 0.0
    for r in range(half):
        dots[r] = _narrow_row(start, band, width, r, row_weight, column_weight, sums)
        dots[r + half] = _narrow_row(start, band, width, r + half, row_weight, column_weight, rest)
    for r in range(half + half, UNSIGNED(row_weight.size)):
        dots[r] = _narrow_row(start, band, width, r, row_weight, column_weight, sums)
    for c in range(sums.size):
        sums[c] += rest[c]


@kernel(FAST)
def _band_linear(start, band, width, row_weight, column_weight, dots, sums, rest):
    """Do as `matrix_linear`, reading the band of a matrix (`bands.py`); `rest` is scratch for as many sums."""
    for c in range(sums.size):
        sums[c] = 0.0
    if 1 < width <= NARROW:
        _narrow_band(start, band, width, row_weight, column_weight, dots, sums, rest)
        return
    for r in range(row_weight.size):
        begin, weight, dot = start[r], row_weight[r], 0.0
        row, column, total = band[r * width : r * width + width], column_weight[begin:], sums[begin:]
        for c in range(width):
            dot += row[c] * column[c]
            total[c] += weight * row[c]
        dots[r] = dot


@kernel(FAST_WITHOUT_NAN)
def matrix_max(matrix, row_start, stride, n, row_weight, column_weight, dots, sums):
    """Do as `matrix_linear`, with the largest term in place of the sum of all."""
    for c in range(n):
        sums[c] = 0.0
    for r in range(row_weight.size):
        start = row_start[r] if row_start.size else r * stride
        weight, row = row_weight[r], matrix[start : start + n]
        best = 0.0
        for c in range(n):
            best = larger(best, row[c] * column_weight[c])
            sums[c] = larger(sums[c], weight * row[c])
        dots[r] = best


@kernel(FAST, inline=True)
def _outer(rows, columns, product):
    n = columns.size
    for r in range(rows.size):
        weight, target = rows[r], product[r * n : r * n + n]
        for c in range(n):
            target[c] = weight * columns[c]


@kernel(inline=True)
def edge_size(edge_variable, domain_size, edge):
    return domain_size[edge_variable[edge]]


@kernel()
def row_starts(edge_variable, domain_size, edge_capacity, row_start, first, last):
    """Fill where the rows of a table with room to grow start; return how many there are, 0 if a stride will do."""
    roomy = False
    for edge in range(first + 1, last):
        roomy |= edge_capacity[edge] != domain_size[edge_variable[edge]]
    if last - first == PAIR or not roomy:
        return 0
    row_start[0] = 0
    rows = 1
    for edge in range(first, last - 1):
        n, stride = domain_size[edge_variable[edge]], 1
        for inner in range(edge + 1, last):
            stride *= edge_capacity[inner]
        for r in range(rows - 1, -1, -1):
            start = row_start[r]
            for v in range(n - 1, -1, -1):
                row_start[r * n + v] = start + v * stride
        rows *= n
    return rows


@kernel()
def contract(layout, bp, factor, address, incoming):
    """Fill `bp.outgoing` with a factor's unscaled messages, from linear weights and the linear table at an address.

    Level k of `prefix` and of `dots` has an entry per joint state of the axes 0 to k; level 0 is the incoming and the
    outgoing message of axis 0. `level` is where the level of the axes before `edge` starts.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    rows = edge_size(layout.edge_variable, bp.domain_size, first)
    offset, level, end = rows, 0, 0
    for edge in range(first + 1, last - 1):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        before = incoming[:rows] if edge == first + 1 else bp.prefix[level : level + rows]
        _outer(before, incoming[offset : offset + n], bp.prefix[end : end + rows * n])
        level, end = end, end + rows * n
        rows *= n
        offset += n
    starts = row_starts(layout.edge_variable, bp.domain_size, bp.edge_capacity, bp.row_start, first, last)
    row_start, stride = bp.row_start[:starts], bp.edge_capacity[last - 1]
    capacity = stride
    for edge in range(first, last - 1):
        capacity *= bp.edge_capacity[edge]
    matrix = table_view(address, capacity)
    for edge in range(last - 1, first, -1):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        before = incoming[:rows] if edge == first + 1 else bp.prefix[level : level + rows]
        dots = bp.outgoing[:rows] if edge == first + 1 else bp.dots[level : level + rows]
        column, sums = incoming[offset : offset + n], bp.outgoing[offset : offset + n]
        if edge == last - 1 and bp.table_band[factor] and address == bp.table_address[factor]:
            words = index_view(bp.table_band[factor], 1 + rows)
            band = table_view(bp.table_band[factor] + 8 * (1 + rows), rows * words[0])
            _band_linear(words[1:], band, words[0], before, column, dots, sums, bp.peak[:n])
        elif bp.semiring == MAX:
            matrix_max(matrix, row_start, stride, n, before, column, dots, sums)
        elif rows >= TALL and row_start.size == 0:
            tall_matrix_linear(matrix, stride, n, before, column, dots, sums)
        else:
            matrix_linear(matrix, row_start, stride, n, before, column, dots, sums)
        matrix = dots
        if edge > first + 1:
            n = edge_size(layout.edge_variable, bp.domain_size, edge - 1)
            rows //= n
            offset -= n
            level -= rows
            row_start, stride = bp.row_start[:0], n
    return 0


contract_at = by_address(contract, "int64")
