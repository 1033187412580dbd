"""A tree of cliques that is kept, calibrated again after evidence has changed (`kept_evidence.py`).

On the way up only stale cliques are visited, and on the way down only those that somebody wants, and those on their
ways to the root. Equations and arithmetic are those of `cliques.py`, but tables of the way up stay: joint marginals go
to tables of their own. And messages of children that are alike are multiplied before the parent's table is walked
through, and the separator's marginal is summed out of the parent's once for all of them.
"""

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.clique_axes import _factor_axes, _message_axes, _place_members
from anytimebp.kernels.cliques import MULTIPLY, SUM_OUT, _is_linear, _multiply, _walk, send_up
from anytimebp.kernels.codes import OK, SUM, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view
from anytimebp.kernels.kept_evidence import DOWN, IN_LOGS, INNER, STALE, UNWANTED, UP, WANTED, _observe


@kernel()
def calibrate_slice(layout, size, tree, at, kept, n, wanted, with_joints, belief, updates_limit, cost_limit):
    """Go on with the way up through stale cliques, and then down through those that are wanted.

    Args:
        layout: Topology.
        size: (V,) domain sizes: universes.
        tree: The cliques.
        at: Overwritten.
        kept: Overwritten; `state` says how it stands.
        n: Number of cliques.
        wanted: Variables whose marginals are wanted; all, if there are none.
        with_joints: Whether the joint marginals of all cliques are wanted as well.
        belief: A number per slot, overwritten with the marginals of wanted variables and of those above them.
        updates_limit: Cliques to pass, after which it stops.
        cost_limit: Entries to read, after which it stops.

    Returns:
        Status, cliques passed, entries read; and at the end log Z but for constants, which is NaN before.
    """
    layout, tree, at, kept = borrow(layout), borrow(tree), borrow(at), borrow(kept)
    return _calibrate(layout, size, tree, at, kept, n, wanted, with_joints, belief, updates_limit, cost_limit)


@kernel()
def answer(layout, size, tree, at, kept, n, before, variables, states, query, wanted, belief, cost_limit):
    """Replace the evidence by observed states, and calibrate, if that is cheap; arguments as of the two kernels above.

    Returns:
        Status, cliques passed, entries read, log Z but for constants, which is NaN where `cost_limit` has ended it; and
        the first of `variables` whose state is impossible, or -1.
    """
    layout, tree, at, kept = borrow(layout), borrow(tree), borrow(at), borrow(kept)
    culprit = _observe(tree, at, kept, before, variables, states, query)
    if culprit >= 0:
        return VARIABLE_VANISHED, 0, 0, np.nan, culprit
    kept.state[UP], kept.state[DOWN] = 0, n - 1
    if kept.state[STALE] > cost_limit:
        return OK, 0, 0, np.nan, culprit
    status, updates, cost, total = _calibrate(
        layout, size, tree, at, kept, n, wanted, False, belief, 2**62, 4 * cost_limit
    )
    return status, updates, cost, total, culprit


@kernel()
def _calibrate(layout, size, tree, at, kept, n, wanted, with_joints, belief, updates_limit, cost_limit):
    """Do what `calibrate_slice` does."""
    updates, cost = 0, 0
    while kept.state[UP] < n and updates < updates_limit and cost < cost_limit:
        clique = kept.state[UP]
        if kept.is_stale[clique]:
            entries = _collect(layout, size, tree, at, kept, clique)
            if entries < 0:
                return VARIABLE_VANISHED, updates, cost, np.nan
            cost += entries
            updates += 1
        kept.state[UP] += 1
        if kept.state[UP] == n:
            _want(tree, kept, n, wanted, with_joints)
    if kept.state[UP] < n:
        return OK, updates, cost, np.nan
    while kept.state[DOWN] >= 0 and updates < updates_limit and cost < cost_limit:
        clique = kept.state[DOWN]
        if kept.use[clique] != UNWANTED:
            cost += _distribute(size, tree, at, kept, belief, clique)
            updates += 1
        kept.state[DOWN] -= 1
    if kept.state[DOWN] >= 0:
        return OK, updates, cost, np.nan
    return OK, updates, cost, _log_total(at, kept, n)


@kernel()
def _want(tree, kept, n, variables, with_joints):
    """Mark the cliques of some variables, and all on their ways to the root, as wanted; of all, if there are none."""
    for clique in range(n):
        kept.is_summed[clique] = False
        is_inner = with_joints or tree.first_child[clique] >= 0
        kept.use[clique] = UNWANTED if variables.size else INNER if is_inner else WANTED
    for k in range(variables.size):
        clique, use = tree.clique_of[variables[k]], WANTED
        while clique >= 0 and kept.use[clique] < use:
            kept.use[clique] = use
            clique, use = tree.parent[clique], INNER


@kernel()
def _collect(layout, size, tree, at, kept, clique):
    """Fill a clique's table and message; return the entries read, -1 if no joint state is possible."""
    start, end = tree.table_start[clique], tree.table_start[clique + 1]
    is_linear = _is_linear(tree, at, clique)
    if is_linear:
        operands = _multiply_alike(layout, size, tree, at, kept, clique)
    else:
        operands = _multiply(layout, size, tree, at, clique, is_linear)
    log_largest = send_up(SUM, tree, at, clique, is_linear)
    if log_largest == -np.inf:
        return -1
    kept.is_stale[clique] = False
    kept.state[STALE] -= end - start
    return (operands + 2) * (end - start)


@kernel()
def _multiply_alike(layout, size, tree, at, kept, clique):
    """Fill a clique's table; return how many factors, and products of messages that are alike, went in."""
    start, end, variable = tree.table_start[clique], tree.table_start[clique + 1], tree.variable[clique]
    table, row = at.table[start:end], tree.message_start[clique + 1] - tree.message_start[clique]
    _place_members(tree, at, clique)
    operands, is_kept = 0, kept.product.size > 0
    product = kept.product[start:end] if is_kept else table
    if not (is_kept and kept.has_product[clique]):
        product[:] = 1.0
        operands += _multiply_factors(layout, size, tree, at, clique, product)
        kept.has_product[clique] = is_kept
    for v in range(size[variable]):
        value = exp(at.log_prior[at.slot_start[variable] + v])
        for j in range(v * row, (v + 1) * row):
            table[j] = product[j] * value
    _multiply_messages(tree, at, kept, clique)
    child = tree.first_child[clique]
    while child >= 0:
        if kept.alike[child] == child:
            n = _message_axes(size, tree, at, clique, child)
            _walk(MULTIPLY, table, at.axes, n, kept.shared[tree.message_start[child] : tree.message_start[child + 1]])
            operands += 1
        child = tree.next_child[child]
    return operands


@kernel()
def _multiply_factors(layout, size, tree, at, clique, product):
    """Multiply by the tables of a clique's factors; return how many there are."""
    for k in range(tree.factor_start[clique], tree.factor_start[clique + 1]):
        n, entries = _factor_axes(layout, size, tree, at, clique, tree.factor[k])
        _walk(MULTIPLY, product, at.axes, n, table_view(at.address[tree.factor[k]], entries))
    return tree.factor_start[clique + 1] - tree.factor_start[clique]


@kernel()
def _multiply_messages(tree, at, kept, clique):
    """Multiply the messages of children that are alike."""
    child = tree.first_child[clique]
    while child >= 0:
        if kept.alike[child] == child:
            for j in range(tree.message_start[child], tree.message_start[child + 1]):
                kept.shared[j] = at.message[j]
        child = tree.next_child[child]
    child = tree.first_child[clique]
    while child >= 0:
        first, position = tree.message_start[child], tree.message_start[kept.alike[child]]
        if kept.alike[child] != child:
            for j in range(tree.message_start[child + 1] - first):
                kept.shared[position + j] *= at.message[first + j]
        child = tree.next_child[child]


@kernel()
def _distribute(size, tree, at, kept, belief, clique):
    """Fill a clique's joint marginal, if a child needs it, and its variable's; return the entries read."""
    start, end, first = tree.table_start[clique], tree.table_start[clique + 1], tree.message_start[clique]
    ratio, cost = at.ratio[: tree.message_start[clique + 1] - first], end - start
    position = tree.message_start[kept.alike[clique]]
    marginal = kept.shared[position : position + ratio.size]
    if not kept.is_summed[kept.alike[clique]]:
        cost += _sum_separator(size, tree, at, kept, clique, marginal)
        kept.is_summed[kept.alike[clique]] = True
    for j in range(ratio.size):
        ratio[j] = marginal[j]
    scale = at.scale[clique]
    for j in range(ratio.size if scale > 0.0 else 0):
        m = at.message[first + j] * scale
        ratio[j] = ratio[j] / m if m > 0.0 else 0.0
    own = belief[at.slot_start[tree.variable[clique]] : at.slot_start[tree.variable[clique] + 1]]
    if kept.use[clique] == INNER:
        _scaled_rows(at.table[start:end], ratio, kept.joint[start:end], own)
    else:
        _row_sums(at.table[start:end], ratio, own)
    return cost


@kernel()
def _sum_separator(size, tree, at, kept, clique, marginal):
    """Fill the marginal of a separator from the parent's joint marginal; return the entries read."""
    parent = tree.parent[clique]
    for j in range(marginal.size):
        marginal[j] = 0.0 if parent >= 0 else 1.0
    if parent < 0:
        return 0
    _place_members(tree, at, parent)
    n = _message_axes(size, tree, at, parent, clique)
    whole = kept.joint[tree.table_start[parent] : tree.table_start[parent + 1]]
    _walk(SUM_OUT, whole, at.axes, n, marginal)
    return whole.size


@kernel()
def _log_total(at, kept, n):
    """Return log Z but for constants, and note whether a clique was summed in logs."""
    total = 0.0
    kept.state[IN_LOGS] = 0
    for clique in range(n):
        total += at.log_scale[clique]
        if at.scale[clique] == 0.0:
            kept.state[IN_LOGS] = 1
    for variable in range(kept.prior_scale.size):
        total += kept.prior_scale[variable]
    return total


@kernel(FAST)
def _scaled_rows(table, ratio, joint, belief):
    """Fill a joint marginal with the rows of a table, each times the same numbers, and sum them up."""
    n, whole = ratio.size, 0.0
    for v in range(belief.size):
        start, total = v * n, 0.0
        for j in range(n):
            joint[start + j] = table[start + j] * ratio[j]
            total += joint[start + j]
        belief[v] = total
        whole += total
    for v in range(belief.size):
        belief[v] /= whole


@kernel(FAST)
def _row_sums(table, ratio, belief):
    """Sum up the rows of a table, each times the same numbers."""
    n, whole = ratio.size, 0.0
    for v in range(belief.size):
        start, total = v * n, 0.0
        for j in range(n):
            total += table[start + j] * ratio[j]
        belief[v] = total
        whole += total
    for v in range(belief.size):
        belief[v] /= whole
