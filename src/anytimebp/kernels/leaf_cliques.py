"""Cliques without children that have one factor: both passes read the factor's table, and make none of their own.

    m(s) = sum_x p(x) phi(x, s)                 P(x) = p(x) sum_s phi(x, s) P(s) / m(s)

The weights p(x) stand where the clique's table would begin.
"""

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.clique_axes import DIM, STRIDE, _place_members, factor_strides, merge_axes, next_row
from anytimebp.kernels.jit import FAST, kernel, table_view
from anytimebp.kernels.leaf_tables import sum_rows


@kernel()
def is_leaf(tree, at, clique):
    """Tell whether a clique does without a table, where its numbers are linear."""
    n_factors = tree.factor_start[clique + 1] - tree.factor_start[clique]
    return n_factors == 1 and tree.first_child[clique] < 0 and not at.with_joints


@kernel()
def sum_leaf_up(layout, size, tree, at, clique):
    """Fill the message of a leaf, not scaled yet."""
    variable, start = tree.variable[clique], tree.table_start[clique]
    weight = at.table[start : start + size[variable]]
    for v in range(weight.size):
        weight[v] = exp(at.log_prior[at.slot_start[variable] + v])
    n, table = _open_table(layout, size, tree, at, clique)
    _sum_up(table, at.axes, n, weight, at.message[tree.message_start[clique] : tree.message_start[clique + 1]])


@kernel()
def sum_leaf_down(layout, size, tree, at, clique, ratio, belief):
    """Fill the marginal of a leaf's variable, given the marginal of the separator divided by the message."""
    start = tree.table_start[clique]
    weight = at.table[start : start + belief.size]
    n, table = _open_table(layout, size, tree, at, clique)
    _sum_down(table, at.axes, n, ratio, belief)
    whole = 0.0
    for v in range(belief.size):
        belief[v] *= weight[v]
        whole += belief[v]
    for v in range(belief.size):
        belief[v] /= whole


@kernel()
def _open_table(layout, size, tree, at, clique):
    """Set the axes of a leaf's factor, its own variable's first; return how many there are, and the table."""
    factor = tree.factor[tree.factor_start[clique]]
    _place_members(tree, at, clique)
    entries = factor_strides(layout, size, tree, at, clique, factor)
    n_members = tree.scope_start[clique + 1] - tree.scope_start[clique]
    n = merge_axes(at.axes, 1, n_members) if n_members > 1 else 1
    return n, table_view(at.address[factor], entries)


@kernel(FAST)
def _sum_up(table, axes, n, weight, message):
    """Fill a message with the sum of a table over its first axis, weighted."""
    own, n_own = axes[STRIDE, 0], weight.size
    inner, step, offset = (axes[DIM, n - 1], axes[STRIDE, n - 1], 0) if n > 1 else (1, 1, 0)
    for start in range(0, message.size, inner):
        row = message[start : start + inner]
        if own == 1:
            sum_rows(table[offset : offset + (inner - 1) * step + n_own], inner, step, n_own, weight, row)
        else:
            for j in range(inner):
                row[j] = 0.0
            for v in range(n_own):
                w, first = weight[v], offset + v * own
                if step == 1:
                    for j in range(inner):
                        row[j] += w * table[first + j]
                else:
                    for j in range(inner):
                        row[j] += w * table[first + j * step]
        offset = next_row(axes, 1, n, offset)


@kernel(FAST)
def _add_rows(table, rows, step, weight, sums):
    """Add to sums as many entries from r * step on times weight[r], of all rows r, four rows at a time."""
    n, r = sums.size, 0
    while r + 4 <= rows:
        start = r * step
        row0, row1 = table[start : start + n], table[start + step : start + step + n]
        row2, row3 = table[start + 2 * step : start + 2 * step + n], table[start + 3 * step : start + 3 * step + n]
        w0, w1, w2, w3 = weight[r], weight[r + 1], weight[r + 2], weight[r + 3]
        for v in range(n):
            sums[v] += (w0 * row0[v] + w1 * row1[v]) + (w2 * row2[v] + w3 * row3[v])
        r += 4
    while r < rows:
        row, w = table[r * step : r * step + n], weight[r]
        for v in range(n):
            sums[v] += w * row[v]
        r += 1


@kernel(FAST)
def _sum_down(table, axes, n, ratio, sums):
    """Fill sums over all axes of a table but the first, weighted."""
    own, n_own = axes[STRIDE, 0], sums.size
    inner, step, offset = (axes[DIM, n - 1], axes[STRIDE, n - 1], 0) if n > 1 else (1, 1, 0)
    for v in range(n_own):
        sums[v] = 0.0
    for start in range(0, ratio.size, inner):
        row = ratio[start : start + inner]
        if own == 1:
            _add_rows(table[offset : offset + (inner - 1) * step + n_own], inner, step, row, sums)
        else:
            for v in range(n_own):
                total, first = 0.0, offset + v * own
                for j in range(inner):
                    total += row[j] * table[first + j * step]
                sums[v] += total
        offset = next_row(axes, 1, n, offset)
