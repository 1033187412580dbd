"""A tree of cliques that is kept, and calibrated again after evidence has changed.

Evidence excludes states by zeros in priors, so that cliques, factors and their places stay as they are. A prior is part
of one clique, the variable's own: where it changes, that clique and all on its way to the root are *stale*, and nothing
else is. On the way down only cliques are visited that somebody wants, and those on their ways to the root. Equations
and arithmetic are those of `cliques.py`, but tables of the way up stay: joint marginals go to tables of their own. And
children with the same separator are *alike*: their messages are multiplied before the parent's table is walked through,
and the separator's marginal is summed out of the parent's once for all of them.
"""

from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.cliques import (
    MULTIPLY,
    SUM_OUT,
    _factor_axes,
    _is_linear,
    _message_axes,
    _multiply,
    _place_members,
    _sum_in_logs,
    _sum_linear,
    _walk,
)
from anytimebp.kernels.codes import MAX_LINEAR_RANGE, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view

FREE, OTHERWISE = -1, -2  # in place of an observed state: not observed; a set of states or scores
UNWANTED, WANTED, INNER = range(3)  # on the way down; INNER cliques have a child that is wanted
MOST_TRIES = 16  # kinds of separators among which that of a child is looked for
UP, DOWN, IN_LOGS, STALE = range(4)  # places in `KeptArrays.state`


class KeptArrays(NamedTuple):
    """What is kept of a tree of N cliques, besides its `CliqueArrays`.

    Attributes:
        base: A number per slot: log priors without evidence, largest 0.
        base_scale: (V,) what was subtracted to make them so.
        base_min: (V,) smallest finite one.
        prior_scale: (V,) what was subtracted from the log priors in force.
        seen: (V,) the observed state, FREE or OTHERWISE.
        stamp: (V,) scratch: the last query that observed a variable.
        is_stale: (N,) whether a clique's table and message are out of date.
        log_scale: (N,) log of what a clique's message was divided by.
        joint: Joint marginals of INNER cliques.
        use: (N,) UNWANTED, WANTED or INNER.
        alike: (N,) a clique of the same parent and separator; the same one for all of these.
        shared: Per entry of messages, at the place of the clique that stands for those that are alike: products of
            messages on the way up, marginals of separators on the way down.
        is_summed: (N,) whether `shared` holds that marginal.
        state: (4,) the next clique on the way up, the next on the way down, whether one was summed in logs, and the
            entries of all stale cliques.
    """

    base: Any
    base_scale: Any
    base_min: Any
    prior_scale: Any
    seen: Any
    stamp: Any
    is_stale: Any
    log_scale: Any
    joint: Any
    use: Any
    alike: Any
    shared: Any
    is_summed: Any
    state: Any


@kernel()
def observe(tree, at, kept, before, variables, states, query):
    """Replace the evidence by observed states; or change nothing, where one is impossible.

    Args:
        tree: The cliques.
        at: Log priors are overwritten.
        kept: Overwritten.
        before: Variables that were observed.
        variables: Those that are observed now.
        states: Their states.
        query: A number that no earlier call was given.

    Returns:
        The first of `variables` whose state is impossible, or -1.
    """
    return _observe(borrow(tree), borrow(at), borrow(kept), before, variables, states, query)


@kernel()
def _observe(tree, at, kept, before, variables, states, query):
    """Do what `observe` does."""
    for k in range(variables.size):
        if kept.base[at.slot_start[variables[k]] + states[k]] == -np.inf:
            return variables[k]
    for k in range(variables.size):
        kept.stamp[variables[k]] = query
    for k in range(before.size):
        if kept.stamp[before[k]] != query:
            _forget(tree, at, kept, before[k])
    for k in range(variables.size):
        variable, state = variables[k], states[k]
        if kept.seen[variable] != state:
            first, last = at.slot_start[variable], at.slot_start[variable + 1]
            at.log_prior[first:last] = -np.inf
            at.log_prior[first + state] = 0.0
            at.log_prior_min[variable], kept.seen[variable] = 0.0, state
            kept.prior_scale[variable] = kept.base_scale[variable] + kept.base[first + state]
            _spoil(tree, kept, tree.clique_of[variable])
    return -1


@kernel()
def _forget(tree, at, kept, variable):
    """Take the evidence on a variable back."""
    first, last = at.slot_start[variable], at.slot_start[variable + 1]
    for slot in range(first, last):
        at.log_prior[slot] = kept.base[slot]
    at.log_prior_min[variable], kept.prior_scale[variable] = kept.base_min[variable], kept.base_scale[variable]
    kept.seen[variable] = FREE
    _spoil(tree, kept, tree.clique_of[variable])


@kernel()
def _spoil(tree, kept, clique):
    """Mark a clique and all on its way to the root as stale."""
    while clique >= 0 and not kept.is_stale[clique]:
        kept.is_stale[clique] = True
        kept.state[STALE] += tree.table_start[clique + 1] - tree.table_start[clique]
        clique = tree.parent[clique]


@kernel()
def spoil(tree, kept, cliques):
    """Mark cliques, and all on their ways to the root, as stale."""
    tree, kept = borrow(tree), borrow(kept)
    for k in range(cliques.size):
        _spoil(tree, kept, cliques[k])


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
        if kept.use[kept.state[DOWN]] != UNWANTED:
            cost += _distribute(size, tree, at, kept, belief, kept.state[DOWN])
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
    table, message = at.table[start:end], at.message[tree.message_start[clique] : tree.message_start[clique + 1]]
    if is_linear:
        largest, least = _sum_linear(table, message)
        at.scale[clique], log_largest = largest, log(largest)
    else:
        log_largest, least = _sum_in_logs(table, message)
        at.scale[clique] = 0.0
    if log_largest == -np.inf:
        return -1
    at.message_in_logs[clique] = not is_linear and least < -MAX_LINEAR_RANGE
    if not is_linear and least >= -MAX_LINEAR_RANGE:
        for j in range(message.size):
            message[j] = exp(message[j])
    at.message_min[clique], kept.log_scale[clique] = least, log_largest
    kept.is_stale[clique] = False
    kept.state[STALE] -= table.size
    return (operands + 2) * table.size


@kernel()
def _multiply_alike(layout, size, tree, at, kept, clique):
    """Fill a clique's table; return how many factors, and products of messages that are alike, went in."""
    start, end, variable = tree.table_start[clique], tree.table_start[clique + 1], tree.variable[clique]
    table, row = at.table[start:end], tree.message_start[clique + 1] - tree.message_start[clique]
    for v in range(size[variable]):
        value = exp(at.log_prior[at.slot_start[variable] + v])
        for j in range(v * row, (v + 1) * row):
            table[j] = value
    _place_members(tree, at, clique)
    operands = 0
    for k in range(tree.factor_start[clique], tree.factor_start[clique + 1]):
        n, entries = _factor_axes(layout, size, tree, at, clique, tree.factor[k])
        _walk(MULTIPLY, table, at.axes, n, table_view(at.address[tree.factor[k]], entries))
        operands += 1
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
        first, place = tree.message_start[child], tree.message_start[kept.alike[child]]
        if kept.alike[child] != child:
            for j in range(tree.message_start[child + 1] - first):
                kept.shared[place + j] *= at.message[first + j]
        child = tree.next_child[child]


@kernel()
def find_alike(tree, n, alike):
    """Find children of the same parent and separator; a few kinds for each parent.

    Args:
        tree: The cliques.
        n: Number of cliques.
        alike: (N,) overwritten; see `KeptArrays`.
    """
    tree = borrow(tree)
    for clique in range(n):
        alike[clique] = clique
    for parent in range(n):
        child = tree.first_child[parent]
        while child >= 0:
            other, tries = tree.first_child[parent], 0
            while other != child and tries < MOST_TRIES:
                if alike[other] == other:
                    tries += 1
                    if _have_one_separator(tree, other, child):
                        alike[child] = other
                        break
                other = tree.next_child[other]
            child = tree.next_child[child]


@kernel()
def _have_one_separator(tree, a, b):
    """Tell whether two cliques have the same separator."""
    n = tree.scope_start[a + 1] - tree.scope_start[a]
    if tree.scope_start[b + 1] - tree.scope_start[b] != n:
        return False
    is_same = True
    for k in range(1, n):
        is_same &= tree.scope[tree.scope_start[a] + k] == tree.scope[tree.scope_start[b] + k]
    return is_same


@kernel()
def _distribute(size, tree, at, kept, belief, clique):
    """Fill a clique's joint marginal, if a child needs it, and its variable's; return the entries read."""
    start, end, first = tree.table_start[clique], tree.table_start[clique + 1], tree.message_start[clique]
    ratio, cost = at.ratio[: tree.message_start[clique + 1] - first], end - start
    place = tree.message_start[kept.alike[clique]]
    marginal = kept.shared[place : place + ratio.size]
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
        total += kept.log_scale[clique]
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
