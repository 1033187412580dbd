"""How much a run over given domains needs: counted, before anything is allocated."""

from anytimebp.kernels.codes import TABLE
from anytimebp.kernels.jit import kernel
from anytimebp.model.block_rows import ARITY, ENTRIES, FACTORS, MEMBERS, TABLES


@kernel()
def count_entries(rows, factor_edge_start, edge_variable, size):
    """Count table entries and slots over domains of these sizes.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`.
        factor_edge_start: (F + 1,).
        edge_variable: (E,).
        size: (V,) states in each domain.

    Returns:
        As floats: entries of all tables of blocks that have tables, whole ones that are shared counted once; the same
        of blocks that are asked for scores, none shared; the largest of the latter; slots of all edges; the most
        entries of levels between the first and last axis of a table.
    """
    filled, asked, largest, slots, most_levels, factor = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    for block in range(rows.shape[0]):
        if rows[block, ARITY] == 1:
            continue
        n_whole, whole = 0, float(rows[block, ENTRIES])
        for _ in range(rows[block, FACTORS]):
            first, last = factor_edge_start[factor], factor_edge_start[factor + 1] - 1
            entries, levels = 1.0, 0.0
            for edge in range(first, last + 1):
                entries *= size[edge_variable[edge]]
                slots += size[edge_variable[edge]]
                levels += entries if first < edge < last else 0.0
            most_levels = max(most_levels, levels)
            factor += 1
            if rows[block, TABLES] == 0:
                asked += entries
                largest = max(largest, entries)
            elif entries < whole:
                filled += entries
            else:
                n_whole += 1
        filled += whole * min(n_whole, rows[block, MEMBERS])
    return filled, asked, largest, slots, most_levels


@kernel()
def scratch_sizes(factor_edge_start, edge_size, factor_kind):
    """Return the most slots that a factor has, the most entries of its levels as a float, and the most variables.

    Levels are what is left of a table with its trailing axes summed out, between the first and last axis.

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
            levels += rows if edge > first else 0.0
        most_slots, most_edges = max(most_slots, slots), max(most_edges, last + 1 - first)
        if factor_kind[factor] == TABLE:
            most_levels = max(most_levels, levels)
    return most_slots, most_levels, most_edges
