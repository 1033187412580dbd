"""Leaves of factors that share a table: summed out of it, and told, for many factors at once.

Seen as a matrix T of (joint states of the two ends) x (states of the leaf), and with a row of weights for each factor,

    UP       t'  =  T times the weights of the leaf
    DOWN     o   =  the products of the weights of the ends, times T

Four lines of the matrix and two factors are read together, and lines stay in the cache for all factors. That takes
half the time of one factor after the other. Numbers do not depend on which factors are together.
"""

from anytimebp.kernels.codes import DOWN, LINEAR, MAX, TABLE
from anytimebp.kernels.jit import FAST, kernel, table_view
from anytimebp.kernels.through_table import edge_size

EDGES = 3  # of a factor: two ends and the leaf
TOGETHER = 64  # factors; more, and their weights leave the cache
LINES = 4  # that are read together
UP_TILE = 64  # lines that are read for all factors before others are: 25 KB of 50 states each
TILE = 256  # the same on the way down, where they are the length of sums


# ---------------------------------------------------------------- which factors
@kernel()
def _is_relation(layout, bp, leaves, factor):
    """Tell whether a factor is a linear table whose only leaf, which comes last, is summed out of it."""
    first = layout.factor_edge_start[factor]
    last = first + EDGES - 1
    if layout.factor_edge_start[factor + 1] != last + 1 or leaves.table_address[factor] == 0:
        return False
    is_last = leaves.way[last] == DOWN and leaves.way[first] != DOWN and leaves.way[first + 1] != DOWN
    is_linear = bp.factor_kind[factor] == TABLE and not bp.table_in_logs[factor]
    n_ends, n_leaf = 1, edge_size(layout.edge_variable, bp.domain_size, last)
    for edge in range(first, last):
        n_ends *= edge_size(layout.edge_variable, bp.domain_size, edge)
    return is_last and is_linear and n_leaf >= LINES and n_ends >= LINES


@kernel()
def _is_tied(layout, bp, leaves, one, other):
    """Tell whether the table of a relation is that of another factor, too, over as many states."""
    if bp.table_address[one] != bp.table_address[other] or not _is_relation(layout, bp, leaves, other):
        return False
    first, second = layout.factor_edge_start[one], layout.factor_edge_start[other]
    for axis in range(EDGES):
        n = edge_size(layout.edge_variable, bp.domain_size, first + axis)
        if n != edge_size(layout.edge_variable, bp.domain_size, second + axis):
            return False
    return True


@kernel()
def tied_run(layout, bp, leaves, order, position, stop):
    """Return how many factors of an order, from a position on, are passed together; 0 if one has a table of its own."""
    if bp.arithmetic != LINEAR or bp.semiring == MAX or leaves.block.size == 0:
        return 0
    factor, n = order[position], 1
    if not _is_relation(layout, bp, leaves, factor):
        return 0
    most = min(TOGETHER, stop - position)
    while n < most and _is_tied(layout, bp, leaves, factor, order[position + n]):
        n += 1
    if n > 1 or (position > 0 and _is_tied(layout, bp, leaves, factor, order[position - 1])):
        return n
    return 1 if position + 1 < order.size and _is_tied(layout, bp, leaves, factor, order[position + 1]) else 0


# ---------------------------------------------------------------- room
def block_size(n, m, n_leaf):
    """Return the numbers that it takes to pass factors of two ends and a leaf together; arrays or numbers."""
    return TOGETHER * (n + m + 2 * n_leaf + TILE) + TILE * n_leaf + 2 * n_leaf


@kernel()
def cut_block(block, n_factors, row, n_leaf):
    """Return room for the weights of all axes, for what leaves are told, and for the rest of `block_size`."""
    first, second = n_factors * row, n_factors * (row + n_leaf)
    return block[:first], block[first:second], block[second:]


# ---------------------------------------------------------------- sums
@kernel(FAST)
def _sum_lines(table, begin, end, weight, other, out, other_out):
    """Fill entries `begin` to `end` of both outs with the products of lines of a table with both weights."""
    n, line = weight.size, begin
    while line < end:
        r = min(line, end - LINES)
        line0, line1 = table[r * n : r * n + n], table[r * n + n : r * n + 2 * n]
        line2, line3 = table[r * n + 2 * n : r * n + 3 * n], table[r * n + 3 * n : r * n + 4 * n]
        sum0, sum1, sum2, sum3, other0, other1, other2, other3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for v in range(n):
            w, o = weight[v], other[v]
            sum0 += line0[v] * w
            sum1 += line1[v] * w
            sum2 += line2[v] * w
            sum3 += line3[v] * w
            other0 += line0[v] * o
            other1 += line1[v] * o
            other2 += line2[v] * o
            other3 += line3[v] * o
        out[r], out[r + 1], out[r + 2], out[r + 3] = sum0, sum1, sum2, sum3
        other_out[r], other_out[r + 1], other_out[r + 2], other_out[r + 3] = other0, other1, other2, other3
        line += LINES


@kernel()
def sum_tied_up(table, gathered, address, factors, n_leaf):
    """Fill the tables of factors without their leaves.

    Args:
        table: That they share, leaf last.
        gathered: Rows of weights, those of the leaf last.
        address: (F,) where the smaller tables lie.
        factors: Their numbers.
        n_leaf: States of a leaf.
    """
    row, n_ends = gathered.size // factors.size, table.size // n_leaf
    for start in range(0, n_ends, UP_TILE):
        end = min(start + UP_TILE, n_ends)
        for k in range(0, factors.size, 2):
            other = min(k + 1, factors.size - 1)
            _sum_lines(
                table,
                max(0, min(start, end - LINES)),
                end,
                gathered[k * row + row - n_leaf : k * row + row],
                gathered[other * row + row - n_leaf : other * row + row],
                table_view(address[factors[k]], n_ends),
                table_view(address[factors[other]], n_ends),
            )


@kernel()
def _multiply_ends(ends, n, m, begin, end, joint):
    """Fill `joint` with the products of the weights of two ends for their joint states `begin` to `end`."""
    i, j, k = begin // m, begin % m, 0
    while k < end - begin:
        length = min(m - j, end - begin - k)
        own, other, weight = joint[k : k + length], ends[n + j : n + j + length], ends[i]
        for v in range(length):  # vectorised
            own[v] = weight * other[v]
        i, j, k = i + 1, 0, k + length


@kernel()
def _turn(table, begin, end, n_leaf, turned):
    """Fill `turned` with the lines `begin` to `end` of a table, by states of the leaf first."""
    length = end - begin
    for k in range(length):
        line = table[(begin + k) * n_leaf : (begin + k + 1) * n_leaf]
        for v in range(n_leaf):
            turned[v * length + k] = line[v]


@kernel()
def sum_tied_down(table, gathered, n_factors, n, m, told, scratch):
    """Fill what factors tell their leaves.

    Args:
        table: That they share, leaf last.
        gathered: A row of weights for each factor: those of its ends, and then those of the leaf.
        n_factors: How many there are.
        n: States of the first end.
        m: States of the second end.
        told: Overwritten: a row for each factor.
        scratch: Room.
    """
    n_leaf, row = told.size // n_factors, gathered.size // n_factors
    joint, rest = scratch[: n_factors * TILE], scratch[n_factors * TILE :]
    turned, own, others = rest[: n_leaf * TILE], rest[n_leaf * TILE :][:n_leaf], rest[n_leaf * (TILE + 1) :][:n_leaf]
    told[:] = 0.0
    for begin in range(0, n * m, TILE):
        end = min(begin + TILE, n * m)
        length = end - begin
        _turn(table, begin, end, n_leaf, turned)
        for k in range(n_factors):
            _multiply_ends(gathered[k * row : k * row + row], n, m, begin, end, joint[k * TILE : k * TILE + length])
        for k in range(0, n_factors, 2):
            other = min(k + 1, n_factors - 1)
            weight, of_other = joint[k * TILE : k * TILE + length], joint[other * TILE : other * TILE + length]
            _sum_lines(turned, 0, n_leaf, weight, of_other, own, others)
            for v in range(n_leaf):
                told[k * n_leaf + v] += own[v]
                if other > k:
                    told[other * n_leaf + v] += others[v]
