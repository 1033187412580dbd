"""Through a factor's table: from the messages it receives to those it sends, linear and not scaled yet."""

import numpy as np

from anytimebp.kernels.arithmetic import larger
from anytimebp.kernels.codes import BAND, MAX
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, by_address, index_view, kernel, table_view

PAIR = 2
NARROW = 4  # widest bands that have loops of their own; tables that interpolate have such of 2
TALL = 24  # rows from which four are read at a time
UNSIGNED = np.uint64


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


@kernel(FAST)
def _narrow_rows(row, band, width, row_weight, column_weight, dots, sums):
    """Add the rows of a band of 2 to 4 columns that begin at the same column to the sums, and fill their dots.

    Args:
        row: Numbers of the rows, read.
        band: Their entries, read.
        width: Of the band.
        row_weight: Of all rows, read.
        column_weight: From the first column of the rows on, read.
        dots: Of all rows, those of these rows overwritten.
        sums: From the first column of the rows on, added to.
    """
    last = width - 1
    first_weight, second_weight = column_weight[0], column_weight[1]
    third_weight, last_weight = column_weight[last - 1], column_weight[last]
    first_sum, second_sum, third_sum, last_sum = 0.0, 0.0, 0.0, 0.0
    for k in range(UNSIGNED(row.size)):
        r, position = UNSIGNED(row[k]), UNSIGNED(width) * k
        weight, one, two = row_weight[r], band[position], band[position + UNSIGNED(1)]
        dot = one * first_weight + two * second_weight
        first_sum += weight * one
        second_sum += weight * two
        if width == NARROW:
            three = band[position + UNSIGNED(2)]
            dot += three * third_weight
            third_sum += weight * three
        if width > PAIR:
            four = band[position + UNSIGNED(last)]
            dot += four * last_weight
            last_sum += weight * four
        dots[r] = dot
    sums[0] += first_sum
    sums[1] += second_sum
    sums[last - 1] += third_sum
    sums[last] += last_sum


@kernel(FAST)
def band_linear(words, band, row_weight, column_weight, dots, sums):
    """Do as `matrix_linear`, reading the band of a matrix (`bands.py`); return 0."""
    width, n_begins = words[0], sums.size - words[0] + 1
    row, first = words[1 + n_begins :], 0
    for c in range(sums.size):
        sums[c] = 0.0
    for begin in range(n_begins):
        end = words[1 + begin]
        column, total = column_weight[begin:], sums[begin:]
        if 1 < width <= NARROW and first < end:
            _narrow_rows(row[first:end], band[width * first : width * end], width, row_weight, column, dots, total)
        else:
            for k in range(first, end):
                entries, weight, dot = band[k * width : k * width + width], row_weight[row[k]], 0.0
                for c in range(width):
                    dot += entries[c] * column[c]
                    total[c] += weight * entries[c]
                dots[row[k]] = dot
        first = end
    return 0


band_linear_at = by_address(band_linear, "int64")


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
            width = index_view(bp.table_band[factor], 1)[0]
            n_words = 2 + n - width + rows
            band = table_view(bp.table_band[factor] + 8 * n_words, rows * width)
            words = index_view(bp.table_band[factor], n_words)
            band_linear_at(bp.calls[BAND], (words, band, before, column, dots, sums))
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
