"""From an elimination order to a tree of cliques, one for each variable that is eliminated.

The clique of a variable holds it, and all that are eliminated later and linked to it by then: by a factor, or by the
clique of a variable eliminated before. Its *separator* is the clique without the variable; it lies in the clique of the
first variable of the separator, the *parent*. A factor belongs to the clique of its variable that goes first. Cliques
are numbered, and their variables sorted, in the order of elimination: so a clique's own variable is the first axis of
its table, and separators keep the order of their axes from one table to the next.
"""

from typing import Any, NamedTuple

from anytimebp.kernels.elimination import NO_ROOM, ORDERED, TOO_WIDE
from anytimebp.kernels.jit import borrow, kernel

FILLING = 3.0  # passes over a clique's table besides one for each factor and message: filling, summing, scaling


class TreeArrays(NamedTuple):
    """A tree of N cliques. Arrays are as long as if no variable were observed.

    Attributes:
        clique_of: (V,) the clique of a variable, -1 if it has one state.
        variable: (N,) the variable of a clique.
        scope_start: (N + 1,) where a clique's members start in `scope`.
        scope: Members of cliques, by the numbers of their own cliques, rising; the first is the clique itself.
        parent: (N,) the parent, -1 for roots.
        first_child: (N,) the first child, -1 if there is none.
        next_child: (N,) the next child of the same parent, or -1.
        factor_start: (N + 1,) where a clique's factors start in `factor`.
        factor: (F,) factors by clique; those of which all variables are observed come last.
        table_start: (N + 1,) where a clique's table starts.
        message_start: (N + 1,) where the message over its separator starts.
        mark: (N,) scratch.
    """

    clique_of: Any
    variable: Any
    scope_start: Any
    scope: Any
    parent: Any
    first_child: Any
    next_child: Any
    factor_start: Any
    factor: Any
    table_start: Any
    message_start: Any
    mark: Any


@kernel()
def has_loop(layout, size, root):
    """Tell whether factors and variables of more than one state form a loop.

    Args:
        layout: Topology.
        size: (V,) domain sizes.
        root: (V + F,) overwritten: variables and factors, each with another one of its component, or itself.
    """
    layout = borrow(layout)
    for k in range(root.size):
        root[k] = k
    for edge in range(layout.edge_variable.size):
        variable = layout.edge_variable[edge]
        if size[variable] > 1:
            a, b = variable, size.size + layout.edge_factor[edge]
            while root[a] != a:
                root[a] = root[root[a]]
                a = root[a]
            while root[b] != b:
                root[b] = root[root[b]]
                b = root[b]
            if a == b:
                return True
            root[b] = a
    return False


@kernel()
def plan_tree(layout, size, order, most_entries, tree):
    """Fill a tree.

    Args:
        layout: Topology.
        size: (V,) domain sizes.
        order: Variables in the order of elimination; all of more than one state, and perhaps others.
        most_entries: Entries of all tables together at which it gives up.
        tree: Overwritten.

    Returns:
        How it ended (ORDERED, NO_ROOM for scopes, TOO_WIDE), the number of cliques, the entries of all tables, those of
        the largest message, and those that both passes read.
    """
    layout, tree = borrow(layout), borrow(tree)
    n, n_factors = _number_cliques(size, order, tree), layout.factor_edge_start.size - 1
    _sort_factors(layout, n, n_factors, tree)
    tree.scope_start[0] = tree.table_start[0] = tree.message_start[0] = 0
    total, work, largest = 0.0, 0.0, 0
    for clique in range(n):
        end, operands = _list_members(layout, clique, tree)
        if end < 0:
            return NO_ROOM, n, total, largest, work
        start = tree.scope_start[clique]
        entries, tree.scope_start[clique + 1] = 1.0, end
        for k in range(start, end):
            entries *= size[tree.variable[tree.scope[k]]]
        total += entries
        if total > most_entries:
            return TOO_WIDE, n, total, largest, work
        work += entries * (operands + FILLING)
        outer = size[tree.variable[clique]]
        message = int(entries) // outer
        tree.table_start[clique + 1] = tree.table_start[clique] + int(entries)
        tree.message_start[clique + 1] = tree.message_start[clique] + message
        largest = max(largest, message)
        tree.parent[clique] = -1
        if end > start + 1:
            parent = tree.scope[start + 1]
            tree.parent[clique], tree.next_child[clique] = parent, tree.first_child[parent]
            tree.first_child[parent] = clique
    return ORDERED, n, total, largest, work


@kernel()
def mark_wanted(tree, is_target, is_wanted):
    """Mark the cliques of targets, and those that lie between them and the roots.

    Args:
        tree: The cliques.
        is_target: (V,).
        is_wanted: (N,) overwritten.
    """
    tree = borrow(tree)
    for clique in range(is_wanted.size):
        is_wanted[clique] = False
    for clique in range(is_wanted.size):
        is_wanted[clique] |= is_target[tree.variable[clique]]
        if is_wanted[clique] and tree.parent[clique] >= 0:
            is_wanted[tree.parent[clique]] = True


@kernel()
def _number_cliques(size, order, tree):
    """Number the variables of more than one state in order; return how many there are."""
    n = 0
    for v in range(size.size):
        tree.clique_of[v] = -1
    for k in range(order.size):
        v = order[k]
        if size[v] > 1:
            tree.clique_of[v], tree.variable[n] = n, v
            tree.first_child[n] = tree.next_child[n] = tree.mark[n] = -1
            n += 1
    return n


@kernel(inline=True)
def _first_clique(layout, factor, n, clique_of):
    """Return the clique that a factor belongs to; n if all its variables are observed."""
    found = n
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        clique = clique_of[layout.edge_variable[edge]]
        if 0 <= clique < found:
            found = clique
    return found


@kernel()
def _sort_factors(layout, n, n_factors, tree):
    """Sort the factors by clique."""
    for clique in range(n + 1):
        tree.factor_start[clique] = 0
    for factor in range(n_factors):
        tree.factor_start[_first_clique(layout, factor, n, tree.clique_of)] += 1
    total = 0
    for clique in range(n + 1):  # where the next one ends, from which factors are put in backwards
        total += tree.factor_start[clique]
        tree.factor_start[clique] = total
    for factor in range(n_factors - 1, -1, -1):
        clique = _first_clique(layout, factor, n, tree.clique_of)
        tree.factor_start[clique] -= 1
        tree.factor[tree.factor_start[clique]] = factor


@kernel()
def _list_members(layout, clique, tree):
    """List the members of a clique; return where they end, -1 if there is no room, and its factors and messages."""
    start = end = tree.scope_start[clique]
    operands = 0
    if end == tree.scope.size:
        return -1, 0
    tree.scope[end], tree.mark[clique] = clique, clique
    end += 1
    for k in range(tree.factor_start[clique], tree.factor_start[clique + 1]):
        factor = tree.factor[k]
        operands += 1
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            member = tree.clique_of[layout.edge_variable[edge]]
            if member >= 0 and tree.mark[member] != clique:
                if end == tree.scope.size:
                    return -1, 0
                tree.scope[end], tree.mark[member] = member, clique
                end += 1
    child = tree.first_child[clique]
    while child >= 0:
        operands += 2
        for k in range(tree.scope_start[child] + 1, tree.scope_start[child + 1]):
            member = tree.scope[k]
            if tree.mark[member] != clique:
                if end == tree.scope.size:
                    return -1, 0
                tree.scope[end], tree.mark[member] = member, clique
                end += 1
        child = tree.next_child[child]
    for k in range(start + 1, end):
        member, j = tree.scope[k], k
        while j > start and tree.scope[j - 1] > member:
            tree.scope[j] = tree.scope[j - 1]
            j -= 1
        tree.scope[j] = member
    return end, operands
