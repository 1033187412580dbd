"""How much scratch a run over given domains needs."""

from anytimebp.kernels.codes import TABLE
from anytimebp.kernels.jit import kernel


@kernel()
def scratch_sizes(factor_edge_start, edge_size, factor_kind):
    """Return the most slots that a factor has, the most entries of its levels as a float, and the most variables.

    Levels are what is left of a table with its trailing axes summed out, from the first axis to the last but one. Of a
    pair, that is a line of the table, which is summed by logs at times.

    Args:
        factor_edge_start: (F + 1,).
        edge_size: (E,) states on each edge.
        factor_kind: (F,) structures have no levels.
    """
    most_slots, most_levels, most_edges = 0, 0.0, 0
    for factor in range(factor_kind.size):
        first, last = factor_edge_start[factor], factor_edge_start[factor + 1] - 1
        slots, rows, levels = edge_size[last], 1.0, 0.0
        for edge in range(first, last):
            slots += edge_size[edge]
            rows *= edge_size[edge]
            levels += rows
        most_slots, most_edges = max(most_slots, slots), max(most_edges, last + 1 - first)
        if factor_kind[factor] == TABLE:
            most_levels = max(most_levels, levels)
    return most_slots, most_levels, most_edges
