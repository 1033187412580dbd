"""The orders in which sweeps go through factors."""

from anytimebp.kernels.jit import borrow, kernel

COUNT, ADD_UP, BY_FIRST, BY_LAST, BACK, IN_ORDER = range(6)  # stages of `orders_slice`


@kernel()
def orders_slice(factor_edge_start, edge_variable, index, orders, state, limit):
    """Go on with the orders of two sweeps: factors by their last variable, then by their first; and in reverse.

    Args:
        factor_edge_start: (F + 1,).
        edge_variable: (E,); or ranks of the variables, which say what is first and last.
        index: (2, V + 1) zeros at first, overwritten: where the factors of a first and of a last variable go.
        orders: (2, F) overwritten.
        state: (2,) zeros at first, overwritten: the stage, and how far it is.
        limit: Factors and variables to look at before it stops.

    Returns:
        Whether it is through.
    """
    n_factors = orders.shape[1]
    while state[0] < IN_ORDER and limit > 0:
        stage, begin = state[0], state[1]
        length = index.shape[1] - 1 if stage == ADD_UP else n_factors
        end = min(length, begin + limit)
        if stage == COUNT:
            for factor in range(begin, end):
                lowest, highest = _ends(factor_edge_start, edge_variable, factor)
                index[0, lowest + 1] += 1
                index[1, highest + 1] += 1
        elif stage == ADD_UP:
            for variable in range(begin, end):
                index[0, variable + 1] += index[0, variable]
                index[1, variable + 1] += index[1, variable]
        elif stage == BY_FIRST:
            for factor in range(begin, end):  # sorted by counting, twice; the second time keeps the order of the first
                lowest, _ = _ends(factor_edge_start, edge_variable, factor)
                orders[1, index[0, lowest]] = factor
                index[0, lowest] += 1
        elif stage == BY_LAST:
            for position in range(begin, end):
                _, highest = _ends(factor_edge_start, edge_variable, orders[1, position])
                orders[0, index[1, highest]] = orders[1, position]
                index[1, highest] += 1
        else:
            for position in range(begin, end):
                orders[1, n_factors - 1 - position] = orders[0, position]
        limit -= end - begin
        state[0], state[1] = (stage + 1, 0) if end == length else (stage, end)
    return state[0] == IN_ORDER


@kernel(inline=True)
def _ends(factor_edge_start, edge_variable, factor):
    """Return the first and the last variable of a factor."""
    lowest = highest = edge_variable[factor_edge_start[factor]]
    for edge in range(factor_edge_start[factor] + 1, factor_edge_start[factor + 1]):
        lowest, highest = min(lowest, edge_variable[edge]), max(highest, edge_variable[edge])
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
