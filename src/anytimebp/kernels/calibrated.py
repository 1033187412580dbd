"""Observations added to a calibrated tree of cliques: joint marginals of all cliques are known without them.

    P(C) = joint marginal of a clique,   q(s) = marginal of its separator,   both without the observations.

Up, from the cliques of observed variables: the rows of other states become 0. With m(s) the sum over the clique's
variable, the parent gets P(C) m(s) / q(s). Where m is q times a number, nothing above is moved: the number is the
probability of the observations below. Down: a clique whose parent was moved is multiplied by the parent's sum over the
same separator, divided by its own, m or q; where that is the same number everywhere, nothing below is moved.

So only what depends on the observations is touched, and no factor is multiplied again. All numbers are probabilities.
"""

from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.arithmetic import log
from anytimebp.kernels.clique_axes import DIM, STRIDE, _message_axes, _place_members, next_row
from anytimebp.kernels.cliques import SUM_OUT, _walk
from anytimebp.kernels.jit import FAST, borrow, kernel
from anytimebp.kernels.kept_cliques import _row_sums, _scaled_rows

SAME = 1e-11  # relative change of a separator's marginal that is rounding, and is not passed on
LEAST = 1e-200  # probability of the observations, below which numbers may have been lost
NOT_SEEN = -1


class CalibratedArrays(NamedTuple):
    """A calibrated tree of N cliques.

    Attributes:
        joint: Joint marginals of all cliques, one after the other; read.
        marginal: Marginals of their separators; read.
        slot_start: (V + 1,) where a variable's slots start.
        root: (N,) the root above a clique.
        alike: (N,) a clique of the same parent and separator; the same one for all of these.
        now: As `joint`, of cliques that were moved; scratch, as are all that follow.
        up: As `marginal`: sums of cliques that were moved on the way up.
        down: As `marginal`, at the place of the clique that stands for those that are alike: sums of the parent.
        ratio: Numbers of the largest separator.
        axes: (3, members of the largest clique).
        position: (N,) the axis of a member in the present clique.
        seen: (N,) the observed state of a clique's variable, or NOT_SEEN.
        marks: (N,) observed and wanted variables whose cliques are this one or below.
        inputs: (N,) children that have moved a clique.
        is_sent: (N,) whether a clique has moved its parent.
        is_moved: (N,) whether `now` holds its numbers.
        came_down: (N,) whether its parent has moved it.
        is_summed: (N,) whether `down` holds the parent's sum.
        is_needed: (N,) whether it, or a clique below, is wanted.
    """

    joint: Any
    marginal: Any
    slot_start: Any
    root: Any
    alike: Any
    now: Any
    up: Any
    down: Any
    ratio: Any
    axes: Any
    position: Any
    seen: Any
    marks: Any
    inputs: Any
    is_sent: Any
    is_moved: Any
    came_down: Any
    is_summed: Any
    is_needed: Any


@kernel()
def sum_separators(size, tree, at, n):
    """Fill `marginal`, and `root`, from the joint marginals.

    Args:
        size: (V,) domain sizes.
        tree: The cliques.
        at: Overwritten.
        n: Number of cliques.
    """
    tree, at = borrow(tree), borrow(at)
    for clique in range(n - 1, -1, -1):
        start, end = tree.message_start[clique], tree.message_start[clique + 1]
        parent = tree.parent[clique]
        at.root[clique] = at.root[parent] if parent >= 0 else clique
        for j in range(start, end):
            at.marginal[j] = 0.0 if parent >= 0 else 1.0
        if parent >= 0:
            _sum_parent(size, tree, at, clique, at.joint, at.marginal[start:end])


@kernel()
def add_observations(size, tree, at, n, variables, states, wanted, belief):
    """Add observed states to those under which a tree is calibrated.

    Args:
        size: (V,) domain sizes.
        tree: The cliques.
        at: Overwritten.
        n: Number of cliques.
        variables: That are observed; of several states each.
        states: Their states, as places in their domains.
        wanted: Variables whose marginals are wanted; all, if there are none.
        belief: A number per slot: marginals without the observations; those that these move are overwritten.

    Returns:
        The log of the probability of the observations, -inf where it is none or so small that numbers may be lost; how
        many cliques were moved, and the entries read.
    """
    tree, at = borrow(tree), borrow(at)
    _mark(tree, at, n, variables, states, wanted)
    log_share, n_up, cost_up = _go_up(size, tree, at, n, wanted.size == 0, belief)
    if log_share == -np.inf:
        return log_share, n_up, cost_up
    n_down, cost_down = _go_down(size, tree, at, n, belief)
    return log_share, n_up + n_down, cost_up + cost_down


@kernel()
def _mark(tree, at, n, variables, states, wanted):
    """Note what is observed and wanted, and forget the last query."""
    for clique in range(n):
        at.seen[clique], at.marks[clique], at.inputs[clique] = NOT_SEEN, 0, 0
        at.is_sent[clique] = at.is_moved[clique] = at.came_down[clique] = at.is_summed[clique] = False
        at.is_needed[clique] = wanted.size == 0
    for k in range(variables.size):
        clique = tree.clique_of[variables[k]]
        at.seen[clique] = states[k]
        while clique >= 0:
            at.marks[clique] += 1
            clique = tree.parent[clique]
    for k in range(wanted.size):
        clique = tree.clique_of[wanted[k]]
        while clique >= 0:
            at.marks[clique] += 1
            at.is_needed[clique] = True
            clique = tree.parent[clique]


# ---------------------------------------------------------------- up
@kernel()
def _go_up(size, tree, at, n, to_all, belief):
    """Move the cliques of observed variables, and those above that depend on them; return as `add_observations`."""
    log_share, moved, cost = 0.0, 0, 0
    for clique in range(n):
        if at.seen[clique] == NOT_SEEN and at.inputs[clique] == 0:
            continue
        start, end = tree.table_start[clique], tree.table_start[clique + 1]
        first, last, parent = tree.message_start[clique], tree.message_start[clique + 1], tree.parent[clique]
        if at.seen[clique] != NOT_SEEN:
            source = at.joint if at.inputs[clique] == 0 else at.now
            _keep_row(source[start:end], at.now[start:end], last - first, at.seen[clique])
        at.is_moved[clique] = True
        variable = tree.variable[clique]
        own = belief[at.slot_start[variable] : at.slot_start[variable + 1]]
        total = _sum_rows(at.now[start:end], at.up[first:last], own)
        moved, cost = moved + 1, cost + end - start
        if total < LEAST:
            return -np.inf, moved, cost
        is_top = parent < 0 or (not to_all and at.marks[clique] == at.marks[at.root[clique]])
        if is_top or _is_proportional(at.up[first:last], at.marginal[first:last]):
            log_share += log(total)
        else:
            cost += _move_parent(size, tree, at, clique)
    return log_share, moved, cost


@kernel()
def _keep_row(source, target, row, state):
    """Take over the row of a state; the others are 0."""
    for start in range(0, target.size, row):
        share = 1.0 if start == state * row else 0.0
        for j in range(start, start + row):
            target[j] = share * source[j]


@kernel()
def _move_parent(size, tree, at, clique):
    """Multiply the parent's joint marginal by how the sum over the separator has changed; return the entries read."""
    first, last, parent = tree.message_start[clique], tree.message_start[clique + 1], tree.parent[clique]
    start, end = tree.table_start[parent], tree.table_start[parent + 1]
    source = at.joint if at.inputs[parent] == 0 else at.now
    _divide(at.up[first:last], at.marginal[first:last], at.ratio)
    _place_members(tree, at, parent)
    n = _message_axes(size, tree, at, parent, clique)
    _multiply_into(at.now[start:end], source[start:end], at.axes, n, at.ratio)
    at.inputs[parent] += 1
    at.is_sent[clique] = True
    return end - start


@kernel(FAST)
def _multiply_into(target, source, axes, n, operand):
    """Fill a table with another one times an operand, along the axes that this has of it; as `_walk` does."""
    inner, step, offset = axes[DIM, n - 1], axes[STRIDE, n - 1], 0
    for start in range(0, target.size, inner):
        if step == 0:
            x = operand[offset]
            for j in range(start, start + inner):
                target[j] = source[j] * x
        elif step == 1:
            for j in range(inner):
                target[start + j] = source[start + j] * operand[offset + j]
        else:
            for j in range(inner):
                target[start + j] = source[start + j] * operand[offset + j * step]
        offset = next_row(axes, 0, n, offset)


# ---------------------------------------------------------------- down
@kernel()
def _go_down(size, tree, at, n, belief):
    """Move what depends on cliques that were moved; return how many were moved, and the entries read."""
    moved, cost = 0, 0
    for clique in range(n - 1, -1, -1):
        if not at.is_needed[clique]:
            continue
        start, end, parent = tree.table_start[clique], tree.table_start[clique + 1], tree.parent[clique]
        first, last, variable = tree.message_start[clique], tree.message_start[clique + 1], tree.variable[clique]
        own = belief[at.slot_start[variable] : at.slot_start[variable + 1]]
        if parent >= 0 and at.is_moved[parent] and not _knows_all(at, clique, parent):
            sums = tree.message_start[at.alike[clique]]
            marginal = at.down[sums : sums + last - first]
            if not at.is_summed[at.alike[clique]]:
                cost += _sum_parent(size, tree, at, clique, at.now, marginal)
                at.is_summed[at.alike[clique]] = True
            before = at.up[first:last] if at.is_moved[clique] else at.marginal[first:last]
            if not _is_proportional(marginal, before):
                _divide(marginal, before, at.ratio)
                source = at.now if at.is_moved[clique] else at.joint
                if tree.first_child[clique] >= 0:
                    _scaled_rows(source[start:end], at.ratio[: last - first], at.now[start:end], own)
                else:
                    _row_sums(source[start:end], at.ratio[: last - first], own)
                at.is_moved[clique] = at.came_down[clique] = True
                moved, cost = moved + 1, cost + end - start
    return moved, cost


@kernel()
def _knows_all(at, clique, parent):
    """Tell whether a clique is the only one that has moved its parent: the parent has no news for it."""
    is_alone = at.inputs[parent] == 1 and at.seen[parent] == NOT_SEEN and not at.came_down[parent]
    return at.is_sent[clique] and is_alone


@kernel()
def _sum_parent(size, tree, at, clique, tables, marginal):
    """Sum the parent's table over all but a clique's separator; return the entries read."""
    parent = tree.parent[clique]
    table = tables[tree.table_start[parent] : tree.table_start[parent + 1]]
    for j in range(marginal.size):
        marginal[j] = 0.0
    _place_members(tree, at, parent)
    n = _message_axes(size, tree, at, parent, clique)
    _walk(SUM_OUT, table, at.axes, n, marginal)
    return table.size


# ---------------------------------------------------------------- arithmetic
@kernel(FAST)
def _sum_rows(table, sums, belief):
    """Sum a table over its first axis, and each of its rows, as shares of the whole; return that."""
    n, whole = sums.size, 0.0
    for j in range(n):
        sums[j] = 0.0
    for v in range(belief.size):
        start, total = v * n, 0.0
        for j in range(n):
            sums[j] += table[start + j]
            total += table[start + j]
        belief[v] = total
        whole += total
    for v in range(belief.size if whole > 0.0 else 0):  # otherwise the observations exclude each other
        belief[v] /= whole
    return whole


@kernel(FAST)
def _is_proportional(a, b):
    """Tell whether a is b times a number, but for rounding."""
    total_a, total_b, n_other = 0.0, 0.0, 0
    for j in range(a.size):
        total_a += a[j]
        total_b += b[j]
    share = total_a / total_b
    for j in range(a.size):
        n_other += abs(a[j] - share * b[j]) > SAME * share * b[j]
    return n_other == 0


@kernel(FAST)
def _divide(a, b, ratio):
    """Fill a ratio with a / b, 0 / 0 = 0."""
    for j in range(a.size):
        ratio[j] = a[j] / b[j] if b[j] > 0.0 else 0.0
