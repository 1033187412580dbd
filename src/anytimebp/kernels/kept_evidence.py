"""What is kept of a tree of cliques from one query to the next, and how evidence is replaced in it.

Evidence excludes states by zeros in priors, so that cliques, factors and their places stay as they are. A prior is part
of one clique, the variable's own: where it changes, that clique and all on its way to the root are *stale*, and nothing
else is. Children with the same parent and separator are *alike*.
"""

from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.jit import borrow, kernel

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
        joint: Joint marginals of INNER cliques.
        use: (N,) UNWANTED, WANTED or INNER.
        product: Products of each clique's factors, which stay from one query to the next; empty where there is but one.
        has_product: (N,) whether it is there.
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
    joint: Any
    use: Any
    product: Any
    has_product: Any
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
