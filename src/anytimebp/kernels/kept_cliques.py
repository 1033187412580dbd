"""A tree of cliques that is kept, and calibrated again after evidence has changed.

Evidence excludes states by zeros in priors, so that cliques, factors and their places stay as they are. A prior is part
of one clique, the variable's own: where it changes, that clique and all on its way to the root are *stale*, and nothing
else is. On the way down only cliques are visited that somebody wants, and those on their ways to the root. Equations
and arithmetic are those of `cliques.py`, but tables of the way up stay: joint marginals go to tables of their own.
"""

from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.cliques import (
    SUM_OUT,
    _is_linear,
    _message_axes,
    _multiply,
    _place_members,
    _sum_in_logs,
    _sum_linear,
    _walk,
)
from anytimebp.kernels.codes import MAX_LINEAR_RANGE, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, borrow, kernel

FREE, OTHERWISE = -1, -2  # in place of an observed state: not observed; a set of states or scores
UNWANTED, WANTED, INNER = range(3)  # on the way down; INNER cliques have a child that is wanted
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
    tree, at, kept = borrow(tree), borrow(at), borrow(kept)
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
def _distribute(size, tree, at, kept, belief, clique):
    """Fill a clique's joint marginal, if a child needs it, and its variable's; return the entries read."""
    start, end, first = tree.table_start[clique], tree.table_start[clique + 1], tree.message_start[clique]
    ratio, parent, cost = at.ratio[: tree.message_start[clique + 1] - first], tree.parent[clique], end - start
    for j in range(ratio.size):
        ratio[j] = 0.0 if parent >= 0 else 1.0
    if parent >= 0:
        _place_members(tree, at, parent)
        n = _message_axes(size, tree, at, parent, clique)
        whole = kept.joint[tree.table_start[parent] : tree.table_start[parent + 1]]
        _walk(SUM_OUT, whole, at.axes, n, ratio)
        cost += whole.size
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
