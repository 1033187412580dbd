"""Where the slots of edges lie, and how much scratch a run over given domains needs."""

from anytimebp.kernels.codes import TABLE
from anytimebp.kernels.jit import kernel


@kernel()
def place_slots(variable_edge_start, edge_variable, room, hub_degree, slot_start, capacity, variable_hub):
    """Give every edge the slots that its variable has room for, and number the variables of high degree.

    Args:
        variable_edge_start: (V + 1,).
        edge_variable: (E,).
        room: (V,) slots of each variable.
        hub_degree: Variables with more edges are hubs.
        slot_start: (E,) overwritten: first slot of an edge.
        capacity: (E,) overwritten: its slots.
        variable_hub: (V,) overwritten: number of the hub, or -1.

    Returns:
        Slots in all, the slots of the largest variable, and the number of hubs.
    """
    n_slots, largest, n_hubs = 0, 1, 0
    for edge in range(edge_variable.size):
        slot_start[edge], capacity[edge] = n_slots, room[edge_variable[edge]]
        n_slots += capacity[edge]
    for variable in range(room.size):
        largest = max(largest, room[variable])
        is_hub = variable_edge_start[variable + 1] - variable_edge_start[variable] > hub_degree
        variable_hub[variable] = n_hubs if is_hub else -1
        n_hubs += is_hub
    return n_slots, largest, n_hubs


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
