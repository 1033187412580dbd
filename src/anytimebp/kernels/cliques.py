"""The two passes over a tree of cliques (`junction_tree.py`).

Up, from the first clique to the last: a clique's table is the product of its variable's prior, its factors and its
children's messages, and its message the sum of the table over the variable,

    t_i(x_i, s_i) = p_i(x_i) prod_f phi_f prod_c m_c(s_c)        m_i(s_i) = sum_{x_i} t_i(x_i, s_i).

t_i / m_i is P(x_i | s_i) of the whole model, and the product of all roots' sums is Z. Down, from the last to the first:
the joint marginal of a clique is that times the marginal of its separator, summed out of the parent's,

    P(x_i, s_i) = t_i(x_i, s_i) / m_i(s_i) P(s_i),               0 / 0 = 0.

A clique without children that has one factor, a *leaf*, has no table where nobody wants its joint marginal: both passes
read the factor's (`leaf_cliques.py`).

Where the semiring is MAX, both passes take the largest number in place of every sum: then t_i / m_i is the part of the
best score below s_i that a state of x_i reaches, P a max-marginal, and Z the score of the best joint state.

Messages are divided by their largest number. A table is linear where the product of the smallest positive numbers that
go in, and that of the largest, are within MAX_LINEAR_RANGE; otherwise it is summed in logs, and holds t_i / m_i after
the way up. Numbers on the way down are probabilities: what underflows there is under 1e-308 of one.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.arithmetic import exp, larger, log, smaller
from anytimebp.kernels.clique_axes import DIM, STRIDE, _factor_axes, _message_axes, _place_members, next_row
from anytimebp.kernels.codes import MAX, MAX_LINEAR_RANGE, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, borrow, kernel, table_view
from anytimebp.kernels.leaf_cliques import is_leaf, sum_leaf_down, sum_leaf_up

MULTIPLY, ADD, ADD_LOG, SUM_OUT, MAX_OUT = range(5)  # what `_walk` does


class CliqueArrays(NamedTuple):
    """Numbers of a tree of N cliques.

    Attributes:
        address: (F,) where a factor's table starts in memory.
        log_min: (F,) log of its smallest positive number.
        log_max: (F,) log of its largest number, 0 if that is smaller.
        in_logs: (F,) whether the table holds logs.
        log_prior: A number per slot of a variable.
        slot_start: (V + 1,) where a variable's slots start.
        log_prior_min: (V,) smallest finite log prior.
        table: Tables of cliques, one after the other; joint marginals in the end.
        message: Messages up, one after the other.
        message_min: (N,) log of a message's smallest positive number.
        message_in_logs: (N,) whether it is in logs.
        scale: (N,) what a message was divided by; 0 where the table was summed in logs.
        log_scale: (N,) log of what it was divided by.
        axes: (3, members of the largest clique) scratch.
        position: (N,) scratch: the axis of a member in the present clique.
        ratio: Numbers of the largest message; scratch.
        is_wanted: (N,) whether the way down comes to a clique.
        with_joints: Whether the joint marginals of all cliques are wanted.
    """

    address: Any
    log_min: Any
    log_max: Any
    in_logs: Any
    log_prior: Any
    slot_start: Any
    log_prior_min: Any
    table: Any
    message: Any
    message_min: Any
    message_in_logs: Any
    scale: Any
    log_scale: Any
    axes: Any
    position: Any
    ratio: Any
    is_wanted: Any
    with_joints: Any


@kernel()
def send_up(semiring, tree, at, clique, is_linear):
    """Fill a clique's message from its table; return the log of its largest sum, -inf if no joint state is possible."""
    table = at.table[tree.table_start[clique] : tree.table_start[clique + 1]]
    message = at.message[tree.message_start[clique] : tree.message_start[clique + 1]]
    if is_linear:
        if not is_leaf(tree, at, clique):
            _sum_linear(semiring, table, message)
        largest, least = _scale(message)
        at.scale[clique], log_largest = largest, log(largest)
    else:
        log_largest, least = _sum_in_logs(semiring, table, message)
        at.scale[clique] = 0.0
    at.message_in_logs[clique] = not is_linear and least < -MAX_LINEAR_RANGE
    if log_largest > -np.inf and not is_linear and least >= -MAX_LINEAR_RANGE:
        for j in range(message.size):
            message[j] = exp(message[j])
    at.message_min[clique], at.log_scale[clique] = least, log_largest
    return log_largest


@kernel()
def collect_slice(semiring, layout, size, tree, at, clique, stop, cost_limit):
    """Go on with the way up.

    Args:
        semiring: SUM or MAX.
        layout: Topology.
        size: (V,) domain sizes.
        tree: The cliques.
        at: Overwritten.
        clique: The first one to go on with.
        stop: One behind the last.
        cost_limit: Entries to read, after which it stops.

    Returns:
        Status, the clique at which it stopped, entries read, and the logs of what messages were divided by.
    """
    layout, tree, at = borrow(layout), borrow(tree), borrow(at)
    cost, log_total, logs_used = 0, 0.0, False
    while clique < stop and cost < cost_limit:
        start, end = tree.table_start[clique], tree.table_start[clique + 1]
        is_linear = _is_linear(tree, at, clique)
        logs_used |= not is_linear
        operands = -1  # the entries of a leaf are read once
        if is_linear and is_leaf(tree, at, clique):
            sum_leaf_up(layout, size, tree, at, clique)
        else:
            operands = _multiply(layout, size, tree, at, clique, is_linear)
        log_largest = send_up(semiring, tree, at, clique, is_linear)
        if log_largest == -np.inf:
            return VARIABLE_VANISHED, clique, cost, log_total, logs_used
        log_total += log_largest
        cost += (operands + 2) * (end - start)
        clique += 1
    return OK, clique, cost, log_total, logs_used


@kernel()
def _is_linear(tree, at, clique):
    """Tell whether no product of a clique's numbers can leave the range of linear arithmetic."""
    low, high = at.log_prior_min[tree.variable[clique]], 0.0
    for k in range(tree.factor_start[clique], tree.factor_start[clique + 1]):
        low += at.log_min[tree.factor[k]]
        high += at.log_max[tree.factor[k]]
    child = tree.first_child[clique]
    while child >= 0:
        low += at.message_min[child]
        child = tree.next_child[child]
    return low > -MAX_LINEAR_RANGE and high < MAX_LINEAR_RANGE


@kernel()
def _multiply(layout, size, tree, at, clique, is_linear):
    """Fill a clique's table; return how many factors and messages went in."""
    start, end, variable = tree.table_start[clique], tree.table_start[clique + 1], tree.variable[clique]
    table, row = at.table[start:end], tree.message_start[clique + 1] - tree.message_start[clique]
    for v in range(size[variable]):
        value = at.log_prior[at.slot_start[variable] + v]
        value = exp(value) if is_linear else value
        for j in range(v * row, (v + 1) * row):
            table[j] = value
    _place_members(tree, at, clique)
    operands = 0
    for k in range(tree.factor_start[clique], tree.factor_start[clique + 1]):
        factor = tree.factor[k]
        n, entries = _factor_axes(layout, size, tree, at, clique, factor)
        mode = MULTIPLY if is_linear else ADD if at.in_logs[factor] else ADD_LOG
        _walk(mode, table, at.axes, n, table_view(at.address[factor], entries))
        operands += 1
    child = tree.first_child[clique]
    while child >= 0:
        n = _message_axes(size, tree, at, clique, child)
        mode = MULTIPLY if is_linear else ADD if at.message_in_logs[child] else ADD_LOG
        _walk(mode, table, at.axes, n, at.message[tree.message_start[child] : tree.message_start[child + 1]])
        operands += 1
        child = tree.next_child[child]
    return operands


# ---------------------------------------------------------------- walking
@kernel(FAST)
def _walk(mode, table, axes, n, operand):
    """Go through a clique's table, and through an operand along the axes that it has of it.

    MULTIPLY the table by the operand, ADD it or its logs, SUM_OUT: add the table to the operand, or MAX_OUT: raise the
    operand to the table.
    """
    inner, step, offset = axes[DIM, n - 1], axes[STRIDE, n - 1], 0
    for start in range(0, table.size, inner):
        if mode == MULTIPLY and step == 0:
            x = operand[offset]
            for j in range(start, start + inner):
                table[j] *= x
        elif mode == MULTIPLY and step == 1:
            for j in range(inner):
                table[start + j] *= operand[offset + j]
        elif mode == MULTIPLY:
            for j in range(inner):
                table[start + j] *= operand[offset + j * step]
        elif mode == ADD:
            for j in range(inner):
                table[start + j] += operand[offset + j * step]
        elif mode == ADD_LOG:
            for j in range(inner):
                table[start + j] += log(operand[offset + j * step])
        elif mode == MAX_OUT:
            for j in range(inner):
                operand[offset + j * step] = larger(operand[offset + j * step], table[start + j])
        elif step == 0:
            total = 0.0
            for j in range(start, start + inner):
                total += table[j]
            operand[offset] += total
        else:
            for j in range(inner):
                operand[offset + j * step] += table[start + j]
        offset = next_row(axes, 0, n, offset)


# ---------------------------------------------------------------- sums
@kernel(FAST_WITHOUT_NAN)
def _sum_linear(semiring, table, message):
    """Sum a table over its first axis."""
    n = message.size
    for j in range(n):
        message[j] = table[j]
    for start in range(n, table.size, n):
        if semiring == MAX:
            for j in range(n):
                message[j] = larger(message[j], table[start + j])
        else:
            for j in range(n):
                message[j] += table[start + j]


@kernel(FAST_WITHOUT_NAN)
def _scale(message):
    """Divide a message by its largest number; return that, and the log of the least that is left."""
    n, largest, least = message.size, 0.0, 1.0
    for j in range(n):
        largest = larger(largest, message[j])
    for j in range(n if largest > 0.0 else 0):
        message[j] /= largest
        least = smaller(least, message[j] if message[j] > 0.0 else 1.0)
    return largest, math.log(least)


@kernel()
def _sum_in_logs(semiring, table, message):
    """Do the same in logs, and leave P(x | s) in the table."""
    n, largest, least = message.size, -np.inf, 0.0
    for j in range(n):
        peak, total = -np.inf, 0.0
        for k in range(j, table.size, n):
            peak = max(peak, table[k])
        for k in range(j, table.size, n):
            table[k] = math.exp(table[k] - peak) if table[k] > -np.inf else 0.0
            total += table[k]
        if semiring == MAX:
            total = min(total, 1.0)  # the largest number is 1, unless all are 0
        message[j] = peak + log(total) if peak > -np.inf else -np.inf
        for k in range(j, table.size, n):
            table[k] = table[k] / total if total > 0.0 else 0.0
        largest = max(largest, message[j])
    for j in range(n if largest > -np.inf else 0):
        message[j] -= largest
        least = min(least, message[j] if message[j] > -np.inf else 0.0)
    return largest, least


# ---------------------------------------------------------------- down
@kernel()
def distribute_slice(semiring, layout, size, tree, at, belief, clique, cost_limit):
    """Go on with the way down.

    Args:
        semiring: SUM or MAX.
        layout: Topology.
        size: (V,) domain sizes.
        tree: The cliques.
        at: After the way up; overwritten.
        belief: A number per slot, overwritten with the marginals of cliques that are wanted.
        clique: The last one that is still to do.
        cost_limit: Entries to read, after which it stops.

    Returns:
        The clique at which it stopped, -1 after the first; and entries read.
    """
    layout, tree, at = borrow(layout), borrow(tree), borrow(at)
    cost = 0
    while clique >= 0 and cost < cost_limit:
        if not at.is_wanted[clique]:
            clique -= 1
            continue
        start, end = tree.table_start[clique], tree.table_start[clique + 1]
        table, first = at.table[start:end], tree.message_start[clique]
        n = tree.message_start[clique + 1] - first
        _read_separator(semiring, size, tree, at, clique, at.ratio[:n])
        scale = at.scale[clique]
        for j in range(n if scale > 0.0 else 0):
            m = at.message[first + j] * scale
            at.ratio[j] = at.ratio[j] / m if m > 0.0 else 0.0
        own = belief[at.slot_start[tree.variable[clique]] : at.slot_start[tree.variable[clique] + 1]]
        if scale > 0.0 and is_leaf(tree, at, clique):
            sum_leaf_down(layout, size, tree, at, clique, at.ratio[:n], own)
        else:
            _scale_rows(semiring, table, at.ratio[:n], own)
        parent = tree.parent[clique]
        cost += table.size + (tree.table_start[parent + 1] - tree.table_start[parent] if parent >= 0 else 0)
        clique -= 1
    return clique, cost


@kernel()
def _read_separator(semiring, size, tree, at, clique, marginal):
    """Fill the marginal of a separator from the parent's joint marginal."""
    parent = tree.parent[clique]
    for j in range(marginal.size):
        marginal[j] = 0.0 if parent >= 0 else 1.0
    if parent >= 0:
        _place_members(tree, at, parent)
        n = _message_axes(size, tree, at, parent, clique)
        table = at.table[tree.table_start[parent] : tree.table_start[parent + 1]]
        if semiring == MAX:
            _walk(MAX_OUT, table, at.axes, n, marginal)
        else:  # a call of its own, which is compiled for this one mode
            _walk(SUM_OUT, table, at.axes, n, marginal)


@kernel(FAST)
def _scale_rows(semiring, table, ratio, belief):
    """Multiply each row of a table by the same numbers, and sum it up."""
    n, whole = ratio.size, 0.0
    for v in range(belief.size):
        start, total = v * n, 0.0
        if semiring == MAX:
            for j in range(n):
                table[start + j] *= ratio[j]
                total = larger(total, table[start + j])
        else:
            for j in range(n):
                table[start + j] *= ratio[j]
                total += table[start + j]
        belief[v] = total
        whole = larger(whole, total) if semiring == MAX else whole + total
    for v in range(belief.size):
        belief[v] /= whole
