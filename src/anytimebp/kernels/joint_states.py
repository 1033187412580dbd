"""Joint states out of a tree of cliques after its way up (`cliques.py`): the best one, or random ones.

Going down, each clique's variable takes a state, given those of its separator, which are chosen by then. The table of
the clique says which: after a way up with maxima its best one is that of the best joint state, and after one with sums
its column is the distribution to draw from.
"""

from anytimebp.kernels.jit import borrow, kernel


@kernel()
def _column(size, tree, clique, state):
    """Return which column of a clique's table belongs to the states chosen for its separator."""
    column, stride = 0, 1
    for k in range(tree.scope_start[clique + 1] - 1, tree.scope_start[clique], -1):
        variable = tree.variable[tree.scope[k]]
        column += stride * state[variable]
        stride *= size[variable]
    return column


@kernel()
def choose_best(size, tree, at, n, state):
    """Choose the best state of each clique's variable, the first of equals; after the way up with maxima.

    Args:
        size: (V,) domain sizes.
        tree: The cliques.
        at: After the way up.
        n: Number of cliques.
        state: (V,) overwritten where a variable has a clique.
    """
    tree, at = borrow(tree), borrow(at)
    for clique in range(n - 1, -1, -1):
        position = tree.table_start[clique] + _column(size, tree, clique, state)
        row, best, variable = tree.message_start[clique + 1] - tree.message_start[clique], 0, tree.variable[clique]
        for v in range(1, size[variable]):
            if at.table[position + v * row] > at.table[position + best * row]:
                best = v
        state[variable] = best


@kernel()
def draw_states(size, tree, at, n, uniform, state):
    """Draw joint states; after the way up with sums.

    Args:
        size: (V,) domain sizes.
        tree: The cliques.
        at: After the way up.
        n: Number of cliques.
        uniform: (samples, cliques) random numbers from 0 up to 1, read.
        state: (samples, V) overwritten where a variable has a clique.
    """
    tree, at = borrow(tree), borrow(at)
    for sample in range(state.shape[0]):
        for clique in range(n - 1, -1, -1):
            position = tree.table_start[clique] + _column(size, tree, clique, state[sample])
            row, variable = tree.message_start[clique + 1] - tree.message_start[clique], tree.variable[clique]
            total, chosen = 0.0, -1
            for v in range(size[variable]):
                total += at.table[position + v * row]
            left = uniform[sample, clique] * total
            for v in range(size[variable]):
                weight = at.table[position + v * row]
                if weight > 0.0 and (left >= 0.0 or chosen < 0):
                    chosen = v
                left -= weight
                if left < 0.0 and chosen >= 0:
                    break
            state[sample, variable] = chosen
