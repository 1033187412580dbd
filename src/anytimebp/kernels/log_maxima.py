"""Upper bounds on the log score of all joint states, by passes that move scores between variables and factors.

A factor f keeps the part theta_f(x_f) - sum_i m_fi(x_i) of its log scores, and a variable i has what they gave it,
b_i(x_i) = theta_i(x_i) + sum_f m_fi(x_i). Whatever the messages m, the log score of a joint state is the sum of all
parts, so that the sum of the largest number of each part bounds all of them. A pass goes through the variables in an
order, or back. Each variable takes all that its factors can give,

    m_fi(x_i) = max over the other variables of f of (theta_f(x_f) - sum_{j != i} m_fj(x_j)),

from those factors that have a variable before it, and returns an equal part of b_i to each that has one behind it, such
that all it returns is b_i at the most. This never raises the bound (Kolmogorov: "A new look at reweighted message
passing", 2015). After a pass no factor holds anything, and the bound is the sum of the largest b_i.

A state that no joint state of some factor allows is excluded for good: its log prior becomes -inf.
"""

from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.arithmetic import larger
from anytimebp.kernels.codes import OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, borrow, kernel, table_view

GAIN = 1e-12  # of a move, relative to the scores that it changes: less is rounding, and could go on forever


class MaximaArrays(NamedTuple):
    """Log scores and messages of a graph.

    Attributes:
        address: (F,) where a factor's log scores over the domains start in memory.
        size: (V,) domain sizes.
        slot_start: (V + 1,) where a variable's slots start.
        log_prior: A number per slot; -inf for states that are excluded.
        order: (V,) variables in the order of passes.
        rank: (V,) the position of each in it.
        edge_slot_start: (E,) where an edge's slots start.
        message: A number per edge slot: what the factor gives.
        to_factor: A number per edge slot: what is added to the factor's scores; -inf for states that are excluded.
        total: Numbers of the largest domain; scratch.
        best: The same.
        index: (3, axes of the largest table) scratch.
        state: (V,) slots of a joint state; -1 where none is chosen.
    """

    address: Any
    size: Any
    slot_start: Any
    log_prior: Any
    order: Any
    rank: Any
    edge_slot_start: Any
    message: Any
    to_factor: Any
    total: Any
    best: Any
    index: Any
    state: Any


@kernel(FAST_WITHOUT_NAN)
def _best_of_columns(matrix, weight, base, out):
    """Raise each number of `out` to the best of its column, each row with its weight; four rows at a time."""
    n, height = out.size, weight.size // 4
    for r in range(height):
        r1, r2, r3 = r + height, r + 2 * height, r + 3 * height
        weight0, weight1, weight2, weight3 = base + weight[r], base + weight[r1], base + weight[r2], base + weight[r3]
        if larger(larger(weight0, weight1), larger(weight2, weight3)) == -np.inf:
            continue
        row0, row1 = matrix[r * n : r * n + n], matrix[r1 * n : r1 * n + n]
        row2, row3 = matrix[r2 * n : r2 * n + n], matrix[r3 * n : r3 * n + n]
        for c in range(n):
            some, others = larger(row0[c] + weight0, row1[c] + weight1), larger(row2[c] + weight2, row3[c] + weight3)
            out[c] = larger(out[c], larger(some, others))
    for r in range(4 * height, weight.size):
        row, own = matrix[r * n : r * n + n], base + weight[r]
        for c in range(n):
            out[c] = larger(out[c], row[c] + own)


@kernel(FAST_WITHOUT_NAN)
def _best_of_rows(matrix, weight, base, out):
    """Raise each number of `out` to the best of its row, each column with its weight; four rows at a time."""
    n, height = weight.size, out.size // 4
    for r in range(height):
        r1, r2, r3 = r + height, r + 2 * height, r + 3 * height
        row0, row1 = matrix[r * n : r * n + n], matrix[r1 * n : r1 * n + n]
        row2, row3 = matrix[r2 * n : r2 * n + n], matrix[r3 * n : r3 * n + n]
        best0, best1, best2, best3 = -np.inf, -np.inf, -np.inf, -np.inf
        for c in range(n):
            own = weight[c]
            best0, best1 = larger(best0, row0[c] + own), larger(best1, row1[c] + own)
            best2, best3 = larger(best2, row2[c] + own), larger(best3, row3[c] + own)
        out[r], out[r1] = larger(out[r], base + best0), larger(out[r1], base + best1)
        out[r2], out[r3] = larger(out[r2], base + best2), larger(out[r3], base + best3)
    for r in range(4 * height, out.size):
        row, best = matrix[r * n : r * n + n], -np.inf
        for c in range(n):
            best = larger(best, row[c] + weight[c])
        out[r] = larger(out[r], base + best)


@kernel()
def _step(index, sizes, n):
    """Go on to the next joint state of n axes, the last one fastest."""
    for k in range(n - 1, -1, -1):
        index[k] += 1
        if index[k] < sizes[k]:
            return
        index[k] = 0


@kernel()
def take(layout, at, factor, target, out):
    """Fill what a factor can give to the variable of an edge; return the entries read.

    A table is read as matrices of its last two axes.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    index, sizes, matrices, outer = at.index[0], at.index[1], 1, last - 2 - first
    for k in range(outer):
        index[k], sizes[k] = 0, at.size[layout.edge_variable[first + k]]
        matrices *= sizes[k]
    m, n = at.size[layout.edge_variable[last - 2]], at.size[layout.edge_variable[last - 1]]
    table = table_view(at.address[factor], matrices * m * n)
    row_start, column_start = at.edge_slot_start[last - 2], at.edge_slot_start[last - 1]
    row_weight, weight = at.to_factor[row_start : row_start + m], at.to_factor[column_start : column_start + n]
    best = at.best[:m]
    for v in range(out.size):
        out[v] = -np.inf
    for k in range(matrices):
        matrix, base = table[k * m * n : (k + 1) * m * n], 0.0
        for edge in range(first, last - 2):
            if edge != target:
                base += at.to_factor[at.edge_slot_start[edge] + index[edge - first]]
        if base > -np.inf and target == last - 1:
            _best_of_columns(matrix, row_weight, base, out)
        elif base > -np.inf and target == last - 2:
            _best_of_rows(matrix, weight, base, out)
        elif base > -np.inf:
            for r in range(m):
                best[r] = -np.inf
            _best_of_rows(matrix, weight, base, best)
            for r in range(m):
                out[index[target - first]] = max(out[index[target - first]], best[r] + row_weight[r])
        _step(index, sizes, outer)
    return matrices * m * n


@kernel()
def _has_other(layout, at, edge, side):
    """Tell whether a factor has a variable before that of an edge (side -1), or behind it (1)."""
    factor, own = layout.edge_factor[edge], at.rank[layout.edge_variable[edge]]
    for other in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        if side * (at.rank[layout.edge_variable[other]] - own) > 0:
            return True
    return False


@kernel()
def _exclude(layout, at, variable, total):
    """Exclude the states of a variable that no joint state of a factor allows; return how many are left."""
    left = 0
    for v in range(total.size):
        if total[v] > -np.inf:
            left += 1
            continue
        at.log_prior[at.slot_start[variable] + v] = -np.inf
        for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
            slot = at.edge_slot_start[layout.variable_edge[position]] + v
            at.message[slot], at.to_factor[slot] = 0.0, -np.inf
    return left


@kernel()
def _pass_variable(layout, at, variable, way):
    """Let a variable take and return; return how many states it has left, and the entries read."""
    n, prior = at.size[variable], at.slot_start[variable]
    total, taken, returned, entries = at.total[:n], 0, 0, 0
    first, last = layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
    for v in range(n):
        total[v] = at.log_prior[prior + v]
    for position in range(first, last):
        edge = layout.variable_edge[position]
        start = at.edge_slot_start[edge]
        if _has_other(layout, at, edge, -way):
            entries += take(layout, at, layout.edge_factor[edge], edge, at.message[start : start + n])
            taken += 1
        returned += _has_other(layout, at, edge, way)
        for v in range(n):
            total[v] += at.message[start + v]
    left = _exclude(layout, at, variable, total)
    share = 1.0 / max(taken, returned, 1)
    for position in range(first, last):
        edge = layout.variable_edge[position]
        start, part = at.edge_slot_start[edge], share if _has_other(layout, at, edge, way) else 0.0
        for v in range(n):
            if total[v] > -np.inf:
                at.message[start + v] -= part * total[v]
                at.to_factor[start + v] = -at.message[start + v]
    return left, entries


@kernel()
def pass_slice(layout, at, way, position, cost_limit):
    """Go on with a pass.

    Args:
        layout: Topology.
        at: Overwritten.
        way: 1 in the order of variables, -1 back.
        position: Variables that are through.
        cost_limit: Entries to read, after which it stops.

    Returns:
        Status, the variable without a possible state or how many are through, and entries read.
    """
    layout, at = borrow(layout), borrow(at)
    cost = 0
    while position < at.order.size and cost < cost_limit:
        variable = at.order[position if way > 0 else at.order.size - 1 - position]
        left, entries = _pass_variable(layout, at, variable, way)
        if left == 0:
            return VARIABLE_VANISHED, variable, cost
        cost += entries + at.size[variable]
        position += 1
    return OK, position, cost


@kernel()
def bound_after_pass(layout, at):
    """Return the sum of the largest numbers that variables hold."""
    layout, at = borrow(layout), borrow(at)
    bound = 0.0
    for variable in range(at.size.size):
        n, prior, peak = at.size[variable], at.slot_start[variable], -np.inf
        for v in range(n):
            total = at.log_prior[prior + v]
            for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
                total += at.message[at.edge_slot_start[layout.variable_edge[position]] + v]
            peak = max(peak, total)
        bound += peak
    return bound


# ---------------------------------------------------------------- one joint state
@kernel()
def give(layout, at, factor, target, floor, out):
    """Add what a factor scores for each state of an edge's variable, the others as they are chosen; return the entries.

    Of a variable that is not chosen yet, the best state counts, by the numbers in `to_factor`. Scores under the floor
    count as the floor.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    index, sizes, strides = at.index[0], at.index[1], at.index[2]
    entries, rows, offset = 1, 1, 0
    for edge in range(last - 1, first - 1, -1):
        variable, axis = layout.edge_variable[edge], edge - first
        is_open = edge != target and at.state[variable] < 0
        index[axis], strides[axis], sizes[axis] = 0, entries, at.size[variable] if is_open else 1
        if edge != target and not is_open:
            offset += entries * at.state[variable]
        entries *= at.size[variable]
        rows *= sizes[axis]
    table, stride = table_view(at.address[factor], entries), strides[target - first]
    best = at.best[: out.size]
    for v in range(out.size):
        best[v] = -np.inf
    for _ in range(rows):
        base, here = 0.0, offset
        for edge in range(first, last):
            if sizes[edge - first] > 1:
                base += at.to_factor[at.edge_slot_start[edge] + index[edge - first]]
                here += index[edge - first] * strides[edge - first]
        if base > -np.inf:
            for v in range(out.size):
                best[v] = max(best[v], base + max(floor, table[here + v * stride]))
        _step(index, sizes, last - first)
    for v in range(out.size):
        out[v] += max(best[v], floor)
    return rows * out.size


@kernel()
def _largest_position(total):
    """Return the position of the largest number, the first of equals."""
    position = 0
    for v in range(1, total.size):
        if total[v] > total[position]:
            position = v
    return position


@kernel()
def choose_states(layout, at, order, floor):
    """Choose a state for each variable in order, given those chosen before; return the entries read.

    A factor of which no other variable is chosen counts by its message.
    """
    layout, at = borrow(layout), borrow(at)
    cost = 0
    for variable in range(at.state.size):
        at.state[variable] = -1
    for variable in order:
        n, prior = at.size[variable], at.slot_start[variable]
        total = at.total[:n]
        for v in range(n):
            total[v] = at.log_prior[prior + v]
        for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
            edge = layout.variable_edge[position]
            factor, chosen = layout.edge_factor[edge], 0
            for other in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
                chosen += at.state[layout.edge_variable[other]] >= 0
            if chosen:
                cost += give(layout, at, factor, edge, floor, total)
            else:
                for v in range(n):
                    total[v] += max(floor, at.message[at.edge_slot_start[edge] + v])
        at.state[variable] = _largest_position(total)
        cost += n
    return cost


@kernel()
def score_states(layout, at):
    """Return the sum of all log scores at the chosen states, priors included."""
    layout, at = borrow(layout), borrow(at)
    total = 0.0
    for factor in range(layout.factor_edge_start.size - 1):
        position = 0
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            variable = layout.edge_variable[edge]
            position = position * at.size[variable] + at.state[variable]
        total += table_view(at.address[factor] + 8 * position, 1)[0]
    for variable in range(at.state.size):
        total += at.log_prior[at.slot_start[variable] + at.state[variable]]
    return total


@kernel()
def improve_slice(layout, at, is_pending, floor, cost_limit):
    """Move single variables to a better state, given all others, until none is left that can be.

    Args:
        layout: Topology.
        at: `state` is overwritten, all of it chosen.
        is_pending: (V,) variables that may have a better state; overwritten.
        floor: See `give`.
        cost_limit: Entries to read, after which it stops.

    Returns:
        Whether none is left, how many moves were made, and entries read.
    """
    layout, at = borrow(layout), borrow(at)
    cost, moves, was_pending = 0, 0, True
    while was_pending:
        was_pending = False
        for variable in range(at.state.size):
            if not is_pending[variable]:
                continue
            if cost >= cost_limit:
                return False, moves, cost
            is_pending[variable], was_pending = False, True
            n, prior = at.size[variable], at.slot_start[variable]
            total = at.total[:n]
            for v in range(n):
                total[v] = at.log_prior[prior + v]
            first, last = layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
            for position in range(first, last):
                edge = layout.variable_edge[position]
                cost += give(layout, at, layout.edge_factor[edge], edge, floor, total)
            cost += n
            now, best = total[at.state[variable]], _largest_position(total)
            if not total[best] > now + GAIN * max(1.0, abs(now)):
                continue
            at.state[variable] = best
            moves += 1
            for position in range(first, last):
                factor = layout.edge_factor[layout.variable_edge[position]]
                for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
                    is_pending[layout.edge_variable[edge]] |= layout.edge_variable[edge] != variable
    return True, moves, cost
