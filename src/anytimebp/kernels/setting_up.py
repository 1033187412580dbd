"""Setting up a run: the graph as flat arrays, where slots lie, unary factors as priors, leaves to be summed out.

`sources` is a Sources (`inference/adaptive/whole_model.py`).
"""

import numpy as np

from anytimebp.kernels.arithmetic import log, smaller
from anytimebp.kernels.codes import (
    ASKED,
    LOG_TABLE,
    MAX_LINEAR_RANGE,
    POTENTIALS,
    SCALED,
    TABLE,
    WIDE_TABLE,
)
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, borrow, index_view, kernel, table_view
from anytimebp.kernels.to_factor import largest
from anytimebp.model.factor import ARITY, ENTRIES, EXTENT, FACTORS, IS_LOG, MEMBERS, SCOPES, TABLES

# These kernels index one long array instead of slices of it: every slice costs the compiler 30 ms.


MARK, FILL, ADD_UP, SORT, PUT_BACK, LAID_OUT = range(6)  # stages of `fill_topology`
STAGE, PLACE, BLOCK, FACTOR, EDGE = range(5)  # numbers of its state


@kernel()
def fill_topology(rows, size, numbers, log_extent, is_alone, state, widest, limit):
    """Go on with the topology of message factors, the extents of their scores, and which variables have no factors.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`.
        size: (V,) universe sizes.
        numbers: Zeros at first, overwritten: the five arrays of a `GraphLayout`, one after the other.
        log_extent: (3, F) overwritten: largest and smallest finite log score, and whether there is a hard zero; NaN
            where they are not known.
        is_alone: (V,) overwritten: whether a variable has more than one state and no factor of any kind.
        state: (5,) zeros at first, overwritten: the stage, how far it is, the block, and factors and edges so far.
        widest: (1,) zero at first, overwritten: the widest range of a factor's scores that is known.
        limit: Variables, factors and edges to look at before it stops.

    Returns:
        Whether it is through.
    """
    n_variables, n_factors = size.size, log_extent.shape[1]
    n_edges = (numbers.size - n_factors - n_variables - 2) // 3
    by_variable = n_factors + 1 + 2 * n_edges  # edge variables come after the starts of factors
    while state[STAGE] < LAID_OUT and limit > 0:
        stage, begin, length = state[STAGE], state[PLACE], n_edges if state[STAGE] == SORT else n_variables
        if stage == FILL:
            limit -= _fill_some(rows, numbers, log_extent, is_alone, state, widest, limit, n_edges)
            continue
        end = min(length, begin + limit)
        if stage == MARK:
            for variable in range(begin, end):
                is_alone[variable] = size[variable] > 1
        elif stage == ADD_UP:
            for variable in range(begin, end):
                numbers[by_variable + variable + 1] += numbers[by_variable + variable]
        elif stage == SORT:  # by variable; starts move on to the next variable's, and are put back afterwards
            for edge in range(begin, end):
                position = by_variable + numbers[n_factors + 1 + edge]
                numbers[by_variable + n_variables + 1 + numbers[position]] = edge
                numbers[position] += 1
        else:
            for variable in range(n_variables - begin, n_variables - end, -1):
                numbers[by_variable + variable] = numbers[by_variable + variable - 1]
        limit -= end - begin
        state[PLACE] = end
        if end == length:
            state[STAGE], state[PLACE] = stage + 1, 0
    if state[STAGE] == LAID_OUT:
        numbers[by_variable] = 0
    return state[STAGE] == LAID_OUT


@kernel(merge=True)
def _fill_some(rows, numbers, log_extent, is_alone, state, widest, limit, n_edges):
    """Go through some factors of a block; return what that counts for."""
    block, begin, factor, edge = state[BLOCK], state[PLACE], state[FACTOR], state[EDGE]
    if block == rows.shape[0]:
        state[STAGE], state[PLACE] = ADD_UP, 0
        return 0
    first, by_variable = log_extent.shape[1] + 1, log_extent.shape[1] + 1 + 2 * n_edges
    arity, members = rows[block, ARITY], rows[block, MEMBERS]
    end = min(rows[block, FACTORS], begin + max(1, limit // (arity + 1)))
    scopes = index_view(rows[block, SCOPES], rows[block, FACTORS] * arity)
    for k in range(begin * arity, end * arity):
        is_alone[scopes[k]] = False
        if arity > 1:
            numbers[first + edge] = scopes[k]
            numbers[first + edge + n_edges] = factor + k // arity - begin
            numbers[by_variable + scopes[k] + 1] += 1
            edge += 1
    extent, known = table_view(rows[block, EXTENT], 3 * members), rows[block, EXTENT] != 0
    for k in range(begin, end if arity > 1 else begin):
        for j in range(3):
            log_extent[j, factor] = extent[j * members + (k if members > 1 else 0)] if known else np.nan
        if known:
            widest[0] = max(widest[0], log_extent[0, factor] - log_extent[1, factor])
        factor += 1
        numbers[factor] = numbers[factor - 1] + arity
    is_over = end == rows[block, FACTORS]
    state[PLACE], state[BLOCK] = 0 if is_over else end, block + is_over
    state[FACTOR], state[EDGE] = factor, edge
    return (end - begin) * (arity + 1) + 1


@kernel()
def place_slots(variable_edge_start, edge_variable, room, hub_degree, slot_start, capacity, variable_hub, state, limit):
    """Go on giving every edge the slots that its variable has room for, and numbering variables of high degree.

    Args:
        variable_edge_start: (V + 1,).
        edge_variable: (E,).
        room: (V,) slots of each variable.
        hub_degree: Variables with more edges are hubs.
        slot_start: (E,) overwritten: first slot of an edge.
        capacity: (E,) overwritten: its slots.
        variable_hub: (V,) overwritten: number of the hub, or -1.
        state: (4,) zeros at first, overwritten: edges and variables looked at; the slots, and the number of hubs.
        limit: Edges and variables to look at before it stops.

    Returns:
        Whether it is through.
    """
    edge, variable, n_slots, n_hubs = state[0], state[1], state[2], state[3]
    end = min(edge_variable.size, edge + limit)
    limit -= end - edge
    while edge < end:
        slot_start[edge], capacity[edge] = n_slots, room[edge_variable[edge]]
        n_slots += capacity[edge]
        edge += 1
    end = min(room.size, variable + limit)
    while variable < end:
        is_hub = variable_edge_start[variable + 1] - variable_edge_start[variable] > hub_degree
        variable_hub[variable] = n_hubs if is_hub else -1
        n_hubs += is_hub
        variable += 1
    state[0], state[1], state[2], state[3] = edge, variable, n_slots, n_hubs
    return edge == edge_variable.size and variable == room.size


@kernel()
def start_hubs(hub_variable, hub_start, slot_start, size, log_prior, high, zeros):
    """Fill the totals of hubs with their log priors; messages start at 1 and add nothing.

    Args:
        hub_variable: (H,) variables of high degree.
        hub_start: (H,) where their totals start.
        slot_start: (V + 1,) where a variable's slots start.
        size: (V,) its active states.
        log_prior: Per slot.
        high: Per hub slot, overwritten: finite log priors, 0 for others.
        zeros: Per hub slot, overwritten: how many are -inf.
    """
    for hub in range(hub_variable.size):
        first, target = slot_start[hub_variable[hub]], hub_start[hub]
        for v in range(size[hub_variable[hub]]):
            is_zero = log_prior[first + v] == -np.inf
            high[target + v], zeros[target + v] = 0.0 if is_zero else log_prior[first + v], is_zero


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


@kernel()
def fill_entries(factor_edge_start, edge_variable, size, entries):
    """Fill the entries of each factor's table over domains of given sizes.

    Args:
        factor_edge_start: (F + 1,).
        edge_variable: (E,).
        size: (V,).
        entries: (F,) overwritten; floats, which hold any product.
    """
    for factor in range(entries.size):
        product = 1.0
        for edge in range(factor_edge_start[factor], factor_edge_start[factor + 1]):
            product *= size[edge_variable[edge]]
        entries[factor] = product


@kernel(FAST_WITHOUT_NAN)
def fold_priors(rows, slot_start, slot_state, log_prior, scale, smallest):
    """Add the scores of unary tables to the log priors; then subtract each variable's largest log prior.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`; none if nothing is to be added.
        slot_start: (V + 1,) where a variable's slots start; each has one at least.
        slot_state: The state in each slot; empty where every domain is the universe in order.
        log_prior: A number per slot; overwritten.
        scale: (V,) overwritten: what was subtracted; empty if nothing is to be.
        smallest: (V,) overwritten: the smallest finite log prior that is left; or empty.

    Returns:
        The first variable without a possible state, at which it stops, or -1.
    """
    for block in range(rows.shape[0]):
        if rows[block, ARITY] > 1 or rows[block, TABLES] == 0:
            continue
        size, is_log = rows[block, ENTRIES], rows[block, IS_LOG] > 0
        scopes = index_view(rows[block, SCOPES], rows[block, FACTORS])
        for k in range(scopes.size):
            values = table_view(rows[block, TABLES] + (8 * size * k if rows[block, MEMBERS] > 1 else 0), size)
            start = slot_start[scopes[k]]
            own = log_prior[start : slot_start[scopes[k] + 1]]
            if is_log and slot_state.size == 0:
                for v in range(own.size):
                    own[v] += values[v]
            else:
                for v in range(own.size):
                    value = values[slot_state[start + v] if slot_state.size else v]
                    own[v] += value if is_log else log(value)
    for variable in range(scale.size):
        own = log_prior[slot_start[variable] : slot_start[variable + 1]]
        most, least = largest(own), 0.0
        if most == -np.inf:
            return variable
        for v in range(own.size):
            own[v] -= most
            least = smaller(least, own[v] if own[v] > -np.inf else 0.0)
        scale[variable], smallest[variable] = most, least
    return -1


# ---------------------------------------------------------------- rounds on active states
@kernel()
def longest_leaf(layout, universe_sizes, factor):
    """Return the edge of a factor to its longest leaf, the last one of equals; -1 where two axes would not be left."""
    first, last, found = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1], -1
    for edge in range(last - 1, first - 1, -1):
        variable = layout.edge_variable[edge]
        is_alone = layout.variable_edge_start[variable + 1] - layout.variable_edge_start[variable] == 1
        if is_alone and (found < 0 or universe_sizes[variable] > universe_sizes[layout.edge_variable[found]]):
            found = edge
    return found if last - first > 2 else -1  # noqa: PLR2004


@kernel()
def find_sources(rows, log_max, log_min, many_tied, sources):
    """Fill what the sources of factors are, and where they lie; those without tables are ASKED.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`.
        log_max: (F,) largest log score.
        log_min: (F,) smallest finite one.
        many_tied: Factors that share a log table, from which on it is SCALED.
        sources: A Sources; kinds, addresses and shifts are overwritten.

    Returns:
        How many factors are asked from Python, how many have a range that may need logs, and the entries of all log
        tables, as many as there are.
    """
    sources = borrow(sources)
    factor, asked, wide, log_entries = 0, 0, 0, 0
    for block in range(rows.shape[0]):
        n = rows[block, FACTORS] if rows[block, ARITY] > 1 else 0
        is_log, is_tied, is_known = rows[block, IS_LOG] == 1, rows[block, MEMBERS] == 1, rows[block, EXTENT] != 0
        kind = (SCALED if is_tied and n >= many_tied else LOG_TABLE) if is_log else POTENTIALS
        log_entries += rows[block, MEMBERS] * rows[block, ENTRIES] if is_log and n > 0 else 0
        for k in range(n):
            own, shift = kind if is_known else ASKED, log_max[factor]
            if is_known and shift - log_min[factor] > MAX_LINEAR_RANGE:
                own = WIDE_TABLE if is_log else ASKED
            sources.kind[factor], sources.shift[factor] = own, 0.0 if np.isnan(shift) else shift
            sources.address[factor] = 0
            if own != ASKED:
                sources.address[factor] = rows[block, TABLES] + (0 if is_tied else 8 * k * rows[block, ENTRIES])
            asked += own == ASKED
            wide += own == WIDE_TABLE
            factor += 1
    return asked, wide, log_entries


@kernel()
def find_leaves(layout, universe_sizes, sum_out, edge, sources, is_leaf):
    """Find of each dense factor the leaf to sum out, the edges that are left, and the strides of its table.

    Args:
        layout: Topology.
        universe_sizes: (V,) states.
        sum_out: Whether any leaf may be summed out.
        edge: (E,) overwritten: the edges that are left.
        sources: A Sources with kinds; sizes, strides of edges that are left, leaves and their strides are overwritten.
        is_leaf: (V,) overwritten: variables that are summed out.

    Returns:
        How many edges are left, and how many leaves have another source than SCALED.
    """
    layout, sources = borrow(layout), borrow(sources)
    n_left, n_others = 0, 0
    for variable in range(is_leaf.size):
        is_leaf[variable] = False
    for factor in range(sources.leaf.size):
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        kind, summed = sources.kind[factor], -1
        if sum_out and kind in (LOG_TABLE, POTENTIALS, SCALED):
            summed = longest_leaf(layout, universe_sizes, factor)
        sources.leaf[factor], sources.leaf_stride[factor] = -1, 0
        stride, position = 1, n_left + last - first - (1 if summed >= 0 else 0)
        n_left = position
        for own in range(last - 1, first - 1, -1):
            if own == summed:
                sources.leaf[factor], sources.leaf_stride[factor] = layout.edge_variable[own], stride
                is_leaf[layout.edge_variable[own]] = True
                n_others += kind != SCALED
            else:
                position -= 1
                edge[position], sources.edge_stride[position] = own, stride
            stride *= universe_sizes[layout.edge_variable[own]]
        sources.size[factor] = stride
    return n_left, n_others


@kernel()
def leave_edges(layout, edge, left):
    """Fill `left`, a GraphLayout, with the topology of some edges of `layout`."""
    layout, left = borrow(layout), borrow(left)
    left.factor_edge_start[:] = 0
    left.variable_edge_start[:] = 0
    for k in range(edge.size):
        left.edge_variable[k], left.edge_factor[k] = layout.edge_variable[edge[k]], layout.edge_factor[edge[k]]
        left.factor_edge_start[left.edge_factor[k] + 1] += 1
        left.variable_edge_start[left.edge_variable[k] + 1] += 1
    for factor in range(left.factor_edge_start.size - 1):
        left.factor_edge_start[factor + 1] += left.factor_edge_start[factor]
    for variable in range(left.variable_edge_start.size - 1):
        left.variable_edge_start[variable + 1] += left.variable_edge_start[variable]
    for k in range(edge.size):
        variable = left.edge_variable[k]
        left.variable_edge[left.variable_edge_start[variable]] = k
        left.variable_edge_start[variable] += 1
    for variable in range(left.variable_edge_start.size - 1, 0, -1):  # every start has moved to where the next one was
        left.variable_edge_start[variable] = left.variable_edge_start[variable - 1]
    left.variable_edge_start[0] = 0
