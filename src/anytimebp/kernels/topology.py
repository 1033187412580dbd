"""The graph as flat arrays, from the rows of its blocks."""

import numpy as np

from anytimebp.kernels.jit import index_view, kernel, table_view
from anytimebp.model.block_rows import ARITY, EXTENT, FACTORS, MEMBERS, SCOPES

# These kernels index one long array instead of slices of it: every slice costs the compiler 30 ms.


@kernel()
def fill_topology(rows, size, numbers, log_extent, is_alone):
    """Fill the topology of message factors, the extents of their scores, and which variables have no factors.

    Args:
        rows: (blocks, WIDTH), see `model/block_rows.py`.
        size: (V,) universe sizes.
        numbers: Zeros, overwritten: the five arrays of a `GraphLayout`, one after the other.
        log_extent: (3, F) overwritten: largest and smallest finite log score, and whether there is a hard zero; NaN
            where they are not known.
        is_alone: (V,) overwritten: whether a variable has more than one state and no factor of any kind.

    Returns:
        The widest range of a factor's scores that is known, how many variables are alone, and the states of all.
    """
    n_variables, factor, widest, n_alone, n_states = size.size, 0, 0.0, 0, 0
    n_edges = (numbers.size - log_extent.shape[1] - n_variables - 2) // 3
    edge = log_extent.shape[1] + 1  # edge variables come after the starts of factors
    by_variable = edge + 2 * n_edges
    for variable in range(n_variables):
        is_alone[variable] = size[variable] > 1
    for block in range(rows.shape[0]):
        arity, members = rows[block, ARITY], rows[block, MEMBERS]
        scopes = index_view(rows[block, SCOPES], rows[block, FACTORS] * arity)
        for k in range(scopes.size):
            is_alone[scopes[k]] = False
            if arity > 1:
                numbers[edge] = scopes[k]
                numbers[edge + n_edges] = factor + k // arity
                numbers[by_variable + scopes[k] + 1] += 1
                edge += 1
        extent = table_view(rows[block, EXTENT], 3 * members)
        for k in range(rows[block, FACTORS] if arity > 1 else 0):
            known = rows[block, EXTENT] != 0
            for j in range(3):
                log_extent[j, factor] = extent[j * members + (k if members > 1 else 0)] if known else np.nan
            if known:
                widest = max(widest, log_extent[0, factor] - log_extent[1, factor])
            factor += 1
            numbers[factor] = numbers[factor - 1] + arity
    _sort_edges(numbers, by_variable, n_variables, n_edges)
    for variable in range(n_variables):
        n_alone += is_alone[variable]
        n_states += size[variable]
    return widest, n_alone, n_states


@kernel(merge=True)
def _sort_edges(numbers, start, n_variables, n_edges):
    """Sort the edges by variable, given how many each variable has, one place further on, from `start` on."""
    target, edge_variable = start + n_variables + 1, start - 2 * n_edges
    for variable in range(n_variables):
        numbers[start + variable + 1] += numbers[start + variable]
    for edge in range(n_edges):  # starts move on to the next variable's, and are put back afterwards
        place = start + numbers[edge_variable + edge]
        numbers[target + numbers[place]] = edge
        numbers[place] += 1
    for variable in range(n_variables, 0, -1):
        numbers[start + variable] = numbers[start + variable - 1]
    numbers[start] = 0
