"""The graph as flat arrays, from the rows of its blocks; the order of sweeps."""

import numpy as np

from anytimebp.kernels.jit import index_view, kernel, table_view
from anytimebp.model.block_rows import ARITY, EXTENT, FACTORS, MEMBERS, SCOPES


@kernel()
def fill_topology(rows, size, layout, log_max, log_min, has_zero, is_alone):
    """Fill the topology of message factors, the extents of their scores, and which variables have no factors.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`.
        size: (V,) universe sizes.
        layout: Topology, overwritten; `variable_edge_start` is zero.
        log_max: (F,) overwritten; NaN where it is not known.
        log_min: (F,) overwritten; NaN where it is not known.
        has_zero: (F,) overwritten; False where it is not known.
        is_alone: (V,) overwritten: whether a variable has more than one state and no factor of any kind.

    Returns:
        How many variables are alone.
    """
    for variable in range(size.size):
        is_alone[variable] = size[variable] > 1
    factor_edge_start, edge_variable, edge_factor, variable_edge_start, variable_edge = layout
    edge = factor = 0
    factor_edge_start[0] = 0
    for block in range(rows.shape[0]):
        n, arity, members = rows[block, FACTORS], rows[block, ARITY], rows[block, MEMBERS]
        scopes = index_view(rows[block, SCOPES], n * arity)
        if arity == 1:
            for k in range(n):
                is_alone[scopes[k]] = False
            continue
        extent = table_view(rows[block, EXTENT], 3 * members if rows[block, EXTENT] else 0)
        for k in range(n):
            for axis in range(arity):
                edge_variable[edge] = scopes[k * arity + axis]
                edge_factor[edge] = factor
                variable_edge_start[edge_variable[edge] + 1] += 1
                is_alone[edge_variable[edge]] = False
                edge += 1
            member = k if members > 1 else 0
            log_max[factor] = extent[member] if extent.size else np.nan
            log_min[factor] = extent[members + member] if extent.size else np.nan
            has_zero[factor] = extent.size > 0 and extent[2 * members + member] > 0.0
            factor += 1
            factor_edge_start[factor] = edge
    _edges_by_variable(edge_variable, variable_edge_start, variable_edge)
    n_alone = 0
    for variable in range(size.size):
        n_alone += is_alone[variable]
    return n_alone


@kernel(merge=True)
def _edges_by_variable(edge_variable, variable_edge_start, variable_edge):
    """Sort the edges by variable, given how many each variable has, one place further on."""
    n_variables = variable_edge_start.size - 1
    for variable in range(n_variables):
        variable_edge_start[variable + 1] += variable_edge_start[variable]
    for edge in range(edge_variable.size):  # starts move on to the next variable's, and are put back afterwards
        variable = edge_variable[edge]
        variable_edge[variable_edge_start[variable]] = edge
        variable_edge_start[variable] += 1
    for variable in range(n_variables, 0, -1):
        variable_edge_start[variable] = variable_edge_start[variable - 1]
    variable_edge_start[0] = 0


@kernel()
def order_by_variable(factor_edge_start, edge_variable, start, by_lowest, order):
    """Sort the factors by their last variable, then by their first, then as they are.

    Args:
        factor_edge_start: (F + 1,).
        edge_variable: (E,).
        start: (2, V + 1) zeros, overwritten.
        by_lowest: (F,) overwritten.
        order: (F,) overwritten.
    """
    n_factors, n_variables = factor_edge_start.size - 1, start.shape[1] - 1
    for factor in range(n_factors):
        lowest, highest = _ends(factor_edge_start, edge_variable, factor)
        start[0, lowest + 1] += 1
        start[1, highest + 1] += 1
    for variable in range(n_variables):
        start[0, variable + 1] += start[0, variable]
        start[1, variable + 1] += start[1, variable]
    for factor in range(n_factors):
        lowest, _ = _ends(factor_edge_start, edge_variable, factor)
        by_lowest[start[0, lowest]] = factor
        start[0, lowest] += 1
    for place in range(n_factors):
        _, highest = _ends(factor_edge_start, edge_variable, by_lowest[place])
        order[start[1, highest]] = by_lowest[place]
        start[1, highest] += 1


@kernel(inline=True)
def _ends(factor_edge_start, edge_variable, factor):
    """Return the lowest and the highest variable of a factor."""
    lowest = highest = edge_variable[factor_edge_start[factor]]
    for edge in range(factor_edge_start[factor] + 1, factor_edge_start[factor + 1]):
        lowest, highest = min(lowest, edge_variable[edge]), max(highest, edge_variable[edge])
    return lowest, highest
