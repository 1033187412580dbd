"""Trees that hang on a loopy core: which factors they are, and the passes from the leaves to the core and back.

A message that goes up, from a tree towards the core, depends on nothing that the core says, so it is sent once. Of a
factor in the core, the axes of leaves are summed out of the table once, weighted by what the leaves send:

    t'(core states)  =  sum over leaf states of t(x) * product of n_j(x_j), j a leaf

The core with these tables, and with the messages from trees in its priors, has the messages, totals Z_f and scales c_i
of the whole graph; what was divided out of n_j on the way up is a constant of log Z. Messages down to the leaves are
sent when somebody reads. The passes are in `leaf_passes.py`.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import (
    CORE,
    CUT,
    DOWN,
    LINEAR,
    LOG,
    MAX_LINEAR_RANGE,
    OK,
    OUT_OF_RANGE,
    TABLE,
    UP,
    VARIABLE_VANISHED,
)
from anytimebp.kernels.jit import borrow, kernel
from anytimebp.kernels.messages import EDGE_COST, LOG_COST, cost_of

TIED_WORTH = 4  # states of leaves together, from which on summing them out of a table that factors share pays

STAGE, POSITION, ORDERED, CORE_EDGES, LINKED = range(5)
"""Places in the state of `peel_slice`: how far it is; factors of trees, edges of the core, variables with any edge."""

COUNT, OPEN, FIRST, TAKE, REST, PEELED = range(6)  # its stages


@kernel()
def peel_slice(layout, domain_size, order, n_left, left_key, n_open, way, state, limit):
    """Peel trees off a graph: fill `order` with message factors, leaves first, each with at most one open variable.

    A variable is open while others of its factors are left; one with a single active state never is. A factor is
    taken once all its variables but one are not open. `left_key` of a variable is the exclusive or of its factors that
    are left, which names the last of them without a search.

    Args:
        layout: Topology.
        domain_size: (V,) active states.
        order: (F,) overwritten.
        n_left: (V,) zeros, overwritten: factors of a variable that are left.
        left_key: (V,) zeros, overwritten.
        n_open: (F,) zeros, overwritten: open variables of a factor, -1 once it is taken.
        way: (E,) overwritten: UP to the open variable of a factor that is taken, CORE to those of one that is left, CUT
            to a variable of one state, DOWN to any other.
        state: (5,) zeros at first; overwritten. All factors are ordered in the end if and only if the graph is a
            forest.
        limit: Edges and factors to look at before it stops.

    Returns:
        Whether it is through.
    """
    layout = borrow(layout)
    while state[STAGE] < PEELED and limit > 0:
        stage, begin = state[STAGE], state[POSITION]
        length = layout.edge_variable.size
        if stage == FIRST:
            length = order.size
        elif stage == TAKE:
            length = state[ORDERED]
        end = min(length, begin + limit)
        if stage == COUNT:
            _count_left(layout, n_left, left_key, state, begin, end)
        elif stage == OPEN:
            for edge in range(begin, end):
                variable = layout.edge_variable[edge]
                n_open[layout.edge_factor[edge]] += n_left[variable] > 1 and domain_size[variable] > 1
        elif stage == FIRST:
            for factor in range(begin, end):
                if n_open[factor] <= 1:
                    _take(order, n_open, state, factor)
        elif stage == TAKE:
            for position in range(begin, end):
                _peel(layout, domain_size, order, n_left, left_key, n_open, way, state, order[position])
            length = state[ORDERED]
        else:
            _find_core(layout, domain_size, n_left, n_open, way, state, begin, end)
        limit -= end - begin
        state[STAGE], state[POSITION] = (stage + 1, 0) if end == length else (stage, end)
    return state[STAGE] == PEELED


@kernel(inline=True)
def _take(order, n_open, state, factor):
    order[state[ORDERED]] = factor
    n_open[factor] = -1
    state[ORDERED] += 1


@kernel()
def _count_left(layout, n_left, left_key, state, begin, end):
    """Count the factors of each variable."""
    for edge in range(begin, end):
        variable = layout.edge_variable[edge]
        state[LINKED] += n_left[variable] == 0
        n_left[variable] += 1
        left_key[variable] ^= layout.edge_factor[edge]


@kernel()
def _peel(layout, domain_size, order, n_left, left_key, n_open, way, state, factor):
    """Take a factor off, and put those into the order that can be taken now."""
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        variable = layout.edge_variable[edge]
        if domain_size[variable] == 1:
            way[edge] = CUT
            continue
        way[edge] = UP if n_left[variable] > 1 else DOWN
        n_left[variable] -= 1
        left_key[variable] ^= factor
        if n_left[variable] == 1:
            last = left_key[variable]
            if n_open[last] >= 0:
                n_open[last] -= 1
                if n_open[last] <= 1:
                    _take(order, n_open, state, last)


@kernel()
def _find_core(layout, domain_size, n_left, n_open, way, state, begin, end):
    """Fill the ways of the edges of factors that are left."""
    for edge in range(begin, end):
        variable = layout.edge_variable[edge]
        if n_open[layout.edge_factor[edge]] >= 0:
            way[edge] = CUT if domain_size[variable] == 1 else CORE if n_left[variable] > 1 else DOWN
            state[CORE_EDGES] += way[edge] == CORE


@kernel()
def _smaller_table(layout, domain_size, way, factor):
    """Return the entries of a factor's table, those without its leaves, and those with its last leaf summed out."""
    entries, left, first_sum = 1, 1, 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        n = domain_size[layout.edge_variable[edge]]
        entries *= n
        left *= 1 if way[edge] == DOWN else n
    n_leaves = 0
    for edge in range(layout.factor_edge_start[factor + 1] - 1, layout.factor_edge_start[factor] - 1, -1):
        if way[edge] == DOWN:
            n_leaves += 1
            if n_leaves == 1:
                first_sum = entries // domain_size[layout.edge_variable[edge]]
    return entries, left, first_sum if n_leaves > 1 else 0


@kernel()
def plan_tables(layout, tables, domain_size, n_open, way, limit, table_start):
    """Choose the core's factors whose leaves are summed out of their tables; the others keep their leaves in the core.

    Those are structures, and tables that are shared and would gain little, or would take more room than there is.

    Args:
        layout: Topology.
        tables: A TableArrays, read.
        domain_size: (V,) active states.
        n_open: (F,) of `peel_slice`, read.
        way: (E,) of `peel_slice`; edges of factors that stay whole are set to CORE.
        limit: Entries that the smaller tables may have in all.
        table_start: (F,) overwritten: where a factor's smaller table starts, -1 where there is none.

    Returns:
        Entries of the smaller tables in all, entries of scratch, the cost of a sweep over the whole graph and over the
        core, and the edges of the core.
    """
    layout, tables = borrow(layout), borrow(tables)
    total, scratch, whole, core, core_edges = 0, 0, 0.0, 0.0, 0
    n_factors = layout.factor_edge_start.size - 1
    for factor in range(n_factors):
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        entries, left, first_sum = _smaller_table(layout, domain_size, way, factor)
        is_table = tables.kind[factor] == TABLE
        work = entries if is_table else tables.structure_work[factor]
        whole += cost_of(layout.factor_edge_start, tables.in_logs, factor, work)
        table_start[factor] = -1
        if n_open[factor] < 0:
            continue
        address = tables.address[factor]
        tied = factor > 0 and tables.address[factor - 1] == address
        tied |= factor + 1 < n_factors and tables.address[factor + 1] == address
        pays = is_table and (not tied or entries >= TIED_WORTH * left) and total + left <= limit
        if left < entries and pays:
            table_start[factor] = total
            total += left
            scratch = max(scratch, first_sum)
        elif left < entries or not is_table:
            left = work
            for edge in range(first, last):
                way[edge] = CORE
        n_edges = 0
        for edge in range(first, last):
            n_edges += way[edge] == CORE
        core_edges += n_edges
        core += EDGE_COST * n_edges + (LOG_COST * left if tables.in_logs[factor] else left)
    return total, scratch, whole, core, core_edges


# ---------------------------------------------------------------- the core
@kernel()
def _fold(layout, bp, way, variable, weight):
    """Fill `weight` with a prior times the messages from trees, scaled; return the least number and the log scale.

    Both are -inf where nothing is left.
    """
    start, is_alone = bp.variable_slot_start[variable], True
    for v in range(weight.size):
        weight[v] = bp.prior[start + v]
    for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        edge = layout.variable_edge[position]
        if way[edge] == UP:
            start = bp.edge_slot_start[edge]
            for v in range(weight.size):
                if is_alone and bp.arithmetic == LINEAR:
                    weight[v] = log(weight[v])
                own = bp.message[start + v]
                weight[v] += own if bp.arithmetic == LOG else log(own)
            is_alone = False
    if is_alone:
        return bp.prior_min[variable], 0.0
    peak, lowest = -np.inf, 0.0
    for v in range(weight.size):
        peak = max(peak, weight[v])
    if peak == -np.inf:
        return -np.inf, -np.inf
    for v in range(weight.size):
        weight[v] -= peak
        if weight[v] > -np.inf:
            lowest = min(lowest, weight[v])
        if bp.arithmetic == LINEAR:
            weight[v] = exp(weight[v])
    return (math.exp(lowest) if lowest > -MAX_LINEAR_RANGE else 0.0), peak


@kernel()
def fill_core(layout, bp, way, core, variables, slot_start, prior, prior_min):
    """Fill what the core has of its own: edges by variable, and priors with the messages from trees in them.

    Variables of high degree keep their priors: their totals have those messages in them already.

    Args:
        layout: Topology of the whole graph.
        bp: Messages of the whole graph.
        way: (E,) of the edges.
        core: Topology of the core; its `variable_edge` is overwritten, and `variable_edge_start` complete.
        variables: The core's variables, by their numbers in the whole graph.
        slot_start: Where their slots start in `prior`.
        prior: Overwritten.
        prior_min: Overwritten.

    Returns:
        Status, the variable at fault, and the constant that the priors add to log Z.
    """
    layout, bp, core = borrow(layout), borrow(bp), borrow(core)
    for edge in range(core.edge_variable.size):
        position = core.variable_edge_start[core.edge_variable[edge]]
        core.variable_edge[position] = edge
        core.variable_edge_start[core.edge_variable[edge]] = position + 1
    for k in range(variables.size, 0, -1):  # every start has moved to where the next one was
        core.variable_edge_start[k] = core.variable_edge_start[k - 1]
    core.variable_edge_start[0] = 0
    constant = 0.0
    for k in range(variables.size):
        weight = prior[slot_start[k] : slot_start[k + 1]]
        if bp.variable_hub[variables[k]] >= 0:
            start = bp.variable_slot_start[variables[k]]
            for v in range(weight.size):
                weight[v] = bp.prior[start + v]
            prior_min[k] = bp.prior_min[variables[k]]
            continue
        least, log_scale = _fold(layout, bp, way, variables[k], weight)
        if log_scale == -np.inf:
            return VARIABLE_VANISHED, variables[k], 0.0
        if least == 0.0 and bp.arithmetic == LINEAR:
            return OUT_OF_RANGE, variables[k], 0.0
        prior_min[k] = least
        constant += log_scale
    return OK, -1, constant
