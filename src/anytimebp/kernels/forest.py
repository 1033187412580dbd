"""The order in which a forest's factors are passed, leaves first."""

from anytimebp.kernels.jit import kernel


@kernel()
def elimination_order(layout, order, n_left, left_key, n_open):
    """Fill `order` with message factors such that each has at most one variable in common with later ones.

    A factor is taken once all its variables but one are in no other factor that is left. `left_key` of a variable is
    the exclusive or of its factors that are left, which names the last of them without a search.

    Args:
        layout: Topology.
        order: (F,) overwritten.
        n_left: (V,) zeros, overwritten: factors of a variable that are left.
        left_key: (V,) zeros, overwritten.
        n_open: (F,) zeros, overwritten: variables of a factor that are in others that are left.

    Returns:
        How many factors were ordered: all of them if and only if the graph is a forest.
    """
    n_factors = layout.factor_edge_start.size - 1
    for edge in range(layout.edge_variable.size):
        n_left[layout.edge_variable[edge]] += 1
        left_key[layout.edge_variable[edge]] ^= layout.edge_factor[edge]
    for edge in range(layout.edge_variable.size):
        n_open[layout.edge_factor[edge]] += n_left[layout.edge_variable[edge]] > 1
    ordered = 0
    for factor in range(n_factors):
        if n_open[factor] <= 1:
            order[ordered] = factor
            n_open[factor] = -1
            ordered += 1
    done = 0
    while done < ordered:
        factor = order[done]
        done += 1
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            variable = layout.edge_variable[edge]
            n_left[variable] -= 1
            left_key[variable] ^= factor
            if n_left[variable] == 1:
                last = left_key[variable]
                if n_open[last] >= 0:
                    n_open[last] -= 1
                    if n_open[last] <= 1:
                        order[ordered] = last
                        n_open[last] = -1
                        ordered += 1
    return ordered
