"""Along which axes the table of a clique and that of a factor, or a message, are walked through together.

An axis of a clique is a member's; its stride is how far apart two states of the member are in the other table, 0 where
the member is not in it.
"""

from anytimebp.kernels.jit import kernel

DIM, STRIDE, INDEX = range(3)  # rows of `CliqueArrays.axes`


@kernel()
def _place_members(tree, at, clique):
    """Note which axis of the clique's table each member has."""
    for k in range(tree.scope_start[clique], tree.scope_start[clique + 1]):
        at.position[tree.scope[k]] = k - tree.scope_start[clique]


@kernel()
def _factor_axes(layout, size, tree, at, clique, factor):
    """Set the axes along which a factor's table is walked; return how many there are, and its entries."""
    entries = factor_strides(layout, size, tree, at, clique, factor)
    return merge_axes(at.axes, 0, tree.scope_start[clique + 1] - tree.scope_start[clique]), entries


@kernel()
def factor_strides(layout, size, tree, at, clique, factor):
    """Set an axis for each member of a clique, with the stride that it has in a factor's table; return its entries."""
    _clear_axes(size, tree, at, clique)
    entries = 1
    for edge in range(layout.factor_edge_start[factor + 1] - 1, layout.factor_edge_start[factor] - 1, -1):
        variable = layout.edge_variable[edge]
        if tree.clique_of[variable] >= 0:
            at.axes[STRIDE, at.position[tree.clique_of[variable]]] = entries
            entries *= size[variable]
    return entries


@kernel()
def _message_axes(size, tree, at, clique, child):
    """Set the axes along which a child's message is walked; return how many there are."""
    _clear_axes(size, tree, at, clique)
    entries = 1
    for k in range(tree.scope_start[child + 1] - 1, tree.scope_start[child], -1):
        at.axes[STRIDE, at.position[tree.scope[k]]] = entries
        entries *= size[tree.variable[tree.scope[k]]]
    return merge_axes(at.axes, 0, tree.scope_start[clique + 1] - tree.scope_start[clique])


@kernel()
def _clear_axes(size, tree, at, clique):
    for k in range(tree.scope_start[clique], tree.scope_start[clique + 1]):
        axis = k - tree.scope_start[clique]
        at.axes[DIM, axis], at.axes[STRIDE, axis] = size[tree.variable[tree.scope[k]]], 0


@kernel()
def merge_axes(axes, first, n):
    """Make one axis of neighbours that are walked as one, from the first one on; return how many are left."""
    last = first
    for k in range(first + 1, n):
        if axes[STRIDE, last] == axes[STRIDE, k] * axes[DIM, k]:
            axes[DIM, last] *= axes[DIM, k]
            axes[STRIDE, last] = axes[STRIDE, k]
        else:
            last += 1
            axes[DIM, last], axes[STRIDE, last] = axes[DIM, k], axes[STRIDE, k]
    for k in range(last + 1):
        axes[INDEX, k] = 0
    return last + 1


@kernel(inline=True)
def next_row(axes, first, n, offset):
    """Return where the next row starts in the other table; a row is what the last axis walks through.

    Args:
        axes: (3, axes) the present row by its `INDEX` on each axis; overwritten.
        first: The axis that changes last; those before it stay.
        n: How many axes there are.
        offset: Where the present row starts.
    """
    for k in range(n - 2, first - 1, -1):
        axes[INDEX, k] += 1
        offset += axes[STRIDE, k]
        if axes[INDEX, k] < axes[DIM, k]:
            break
        offset -= axes[STRIDE, k] * axes[DIM, k]
        axes[INDEX, k] = 0
    return offset
