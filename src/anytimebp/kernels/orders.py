"""The orders in which sweeps go through factors."""

from anytimebp.kernels.jit import borrow, kernel


@kernel()
def fill_orders(factor_edge_start, edge_variable, rank, index, orders):
    """Fill the orders of two sweeps: factors by their last variable, then by their first; and in reverse.

    Args:
        factor_edge_start: (F + 1,).
        edge_variable: (E,).
        rank: (V,) places of the variables in a row, which say what is first and last; empty: they are in order.
        index: (2, V + 1) zeros, overwritten: where the factors of a first and of a last variable go.
        orders: (2, F) overwritten.
    """
    n_factors = orders.shape[1]
    for factor in range(n_factors):
        lowest, highest = _ends(factor_edge_start, edge_variable, rank, factor)
        index[0, lowest + 1] += 1
        index[1, highest + 1] += 1
    for variable in range(1, index.shape[1]):
        index[0, variable] += index[0, variable - 1]
        index[1, variable] += index[1, variable - 1]
    for factor in range(n_factors):  # sorted by counting, twice; the second time keeps the order of the first
        lowest, _ = _ends(factor_edge_start, edge_variable, rank, factor)
        orders[1, index[0, lowest]] = factor
        index[0, lowest] += 1
    for position in range(n_factors):
        _, highest = _ends(factor_edge_start, edge_variable, rank, orders[1, position])
        orders[0, index[1, highest]] = orders[1, position]
        index[1, highest] += 1
    for position in range(n_factors):
        orders[1, n_factors - 1 - position] = orders[0, position]


@kernel(inline=True)
def _ends(factor_edge_start, edge_variable, rank, factor):
    """Return the first and the last place of a factor's variables."""
    lowest, highest = rank.size + edge_variable.size, -1
    for edge in range(factor_edge_start[factor], factor_edge_start[factor + 1]):
        at = edge_variable[edge]
        if rank.size:
            at = rank[at]
        lowest, highest = min(lowest, at), max(highest, at)
    return lowest, highest


@kernel()
def rank_variables(layout, waiting, queue, rank):
    """Rank the variables of a Bayesian network, parents before children; the child is the last variable of its factor.

    Args:
        layout: Topology.
        waiting: (V,) overwritten: parents of a variable that have no rank yet.
        queue: (V,) overwritten: variables in the order of their ranks.
        rank: (V,) overwritten.

    Returns:
        Whether variables are not in such an order already, and can be: there is no cycle, and no variable is the last
        of two factors.
    """
    layout = borrow(layout)
    start, variable = layout.factor_edge_start, layout.edge_variable
    for v in range(waiting.size):
        waiting[v] = 0
    in_order = True
    for factor in range(start.size - 1):
        last = start[factor + 1] - 1
        child = variable[last]
        if waiting[child]:
            return False
        waiting[child] = last - start[factor]
        for edge in range(start[factor], last):
            in_order &= variable[edge] < child
    if in_order:
        return False
    n = 0
    for v in range(waiting.size):
        if waiting[v] == 0:
            queue[n] = v
            n += 1
    position = 0
    while position < n:
        v = queue[position]
        rank[v] = position
        position += 1
        for index in range(layout.variable_edge_start[v], layout.variable_edge_start[v + 1]):
            edge = layout.variable_edge[index]
            last = start[layout.edge_factor[edge] + 1] - 1
            if edge != last:
                child = variable[last]
                waiting[child] -= 1
                if waiting[child] == 0:
                    queue[n] = child
                    n += 1
    return n == waiting.size
