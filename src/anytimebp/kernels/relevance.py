"""What of a graph the marginals of some variables, the targets, depend on.

Two things are left out. A variable is *barren* if it is no target, nothing is known of it, and the only factor that it
is left in has the same sum over its states, whatever the states of the others: as a conditional distribution has. It
goes, and the factor with it; others may be barren then. The second is whatever no path of factors, and of variables of
more than one state, joins to a target. On a Bayesian network, both leave out all that is d-separated from the targets.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.arithmetic import larger, smaller
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, borrow, kernel, table_view
from anytimebp.model.factor import ARITY, ENTRIES, EXTENT, FACTORS, IS_LOG, MEMBERS, TABLES

ROUNDED = 1e-6  # by what part sums may differ that count as the same: those of numbers printed with six digits
SIDE_BY_SIDE = 4  # sums that are made at the same time
SUMMED, KEPT, LEFT_OUT = range(3)  # what becomes of a factor
REACHED, GONE = -2, -1  # in place of the factors that a variable is left in


class PartArrays(NamedTuple):
    """What the search reads and writes. V variables, F message factors, E edges.

    Attributes:
        size: (V,) domain sizes.
        universe_size: (V,).
        log_prior: A number per slot; the largest of each variable is 0.
        slot_start: (V + 1,) where a variable's slots start.
        is_target: (V,).
        address: (F,) overwritten: where a factor's potentials over all states lie; 0 if it has no such table.
        sums: (F,) overwritten: where the logs of what it sums to over each of its axes lie: infinite where that varies,
            NaN where it is not known yet. Kept with the tables from one search to the next.
        left: (V,) overwritten: the domain sizes of the part, 0 for variables that are left out.
        stack: (2 V,) scratch.
        fate: (F,) overwritten: SUMMED, KEPT or LEFT_OUT.
        factor_edge_start: (F + 1,) overwritten, as all below: the topology of the part, see `GraphLayout`.
        edge_variable: (E,).
        edge_factor: (E,).
        variable_edge_start: (V + 1,).
        variable_edge: (E,).
    """

    size: Any
    universe_size: Any
    log_prior: Any
    slot_start: Any
    is_target: Any
    address: Any
    sums: Any
    left: Any
    stack: Any
    fate: Any
    factor_edge_start: Any
    edge_variable: Any
    edge_factor: Any
    variable_edge_start: Any
    variable_edge: Any


@kernel()
def find_part(layout, rows, at):
    """Find what the targets depend on.

    Args:
        layout: Topology.
        rows: (blocks, WIDTH), see `model/factor.py`.
        at: Overwritten.

    Returns:
        The edges of the part; the log of the sum over what was left out; and whether that is all of it, or something
        was left out of which nobody knows the sum.
    """
    layout, at = borrow(layout), borrow(at)
    _find_tables(rows, at)
    log_known = _drop_summed(layout, at)
    more, is_known = _find_connected(layout, at)
    for factor in range(at.fate.size):
        is_observed = at.fate[factor] == LEFT_OUT
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            is_observed &= at.size[layout.edge_variable[edge]] == 1
        if is_observed:
            at.fate[factor] = KEPT
    for v in range(at.size.size):
        at.left[v] = at.size[v] if at.size[v] == 1 or at.left[v] == REACHED else 0
    return _write_layout(layout, at), log_known + more, is_known


@kernel()
def _find_tables(rows, at):
    """List where the potentials of message factors lie, and what is known of their sums."""
    factor = 0
    for block in range(rows.shape[0]):
        members, arity, is_there = rows[block, MEMBERS], rows[block, ARITY], rows[block, TABLES] != 0
        for offset in range(rows[block, FACTORS] if arity > 1 else 0):
            member = offset if members > 1 else 0
            at.address[factor] = at.sums[factor] = 0
            if is_there and rows[block, IS_LOG] == 0:
                at.address[factor] = rows[block, TABLES] + 8 * rows[block, ENTRIES] * member
                at.sums[factor] = rows[block, EXTENT] + 8 * (3 * members + arity * member)
            factor += 1


@kernel()
def _drop_summed(layout, at):
    """Leave out barren variables and their factors; return the log of what they sum to."""
    n, log_known = 0, 0.0
    for factor in range(at.fate.size):
        at.fate[factor] = LEFT_OUT
    for v in range(at.size.size):
        at.left[v] = layout.variable_edge_start[v + 1] - layout.variable_edge_start[v]
        if at.left[v] == 1 and _says_nothing(at, v):
            at.stack[n] = v
            n += 1
    while n > 0:
        n -= 1
        v = at.stack[n]
        edge = _last_edge(layout, at, v)
        if edge < 0:
            continue
        factor = layout.edge_factor[edge]
        log_sum = _known_sum(layout, at, factor, edge)
        if log_sum == np.inf:
            continue
        log_known += log_sum
        at.fate[factor], at.left[v] = SUMMED, GONE
        for other in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            u = layout.edge_variable[other]
            if u != v:
                at.left[u] -= 1
                if at.left[u] == 1 and _says_nothing(at, u):
                    at.stack[n] = u
                    n += 1
    return log_known


@kernel(inline=True)
def _says_nothing(at, v):
    """Tell whether a variable is no target, and all its states are as likely as each other but for its factors."""
    says_nothing = not at.is_target[v] and at.size[v] > 1 and at.size[v] == at.universe_size[v]
    for slot in range(at.slot_start[v], at.slot_start[v + 1] if says_nothing else 0):
        says_nothing &= at.log_prior[slot] == 0.0
    return says_nothing


@kernel(inline=True)
def _last_edge(layout, at, v):
    """Return the edge to the only factor that a variable is left in, -1 if there is none."""
    for k in range(layout.variable_edge_start[v], layout.variable_edge_start[v + 1] if at.left[v] == 1 else 0):
        edge = layout.variable_edge[k]
        if at.fate[layout.edge_factor[edge]] == LEFT_OUT:
            return edge
    return -1


@kernel()
def _known_sum(layout, at, factor, edge):
    """Return the log of what a factor sums to over a variable, infinity if that varies; found out once per table."""
    if at.address[factor] == 0:
        return np.inf
    first = layout.factor_edge_start[factor]
    known = table_view(at.sums[factor], layout.factor_edge_start[factor + 1] - first)
    if known[edge - first] != known[edge - first]:
        known[edge - first] = _log_sum(layout, at, factor, edge)
    return known[edge - first]


@kernel()
def _log_sum(layout, at, factor, edge):
    """Return the log of what a factor sums to over a variable, infinity if that is not always the same."""
    inner, outer = 1, 1
    for other in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        if other < edge:
            outer *= at.universe_size[layout.edge_variable[other]]
        elif other > edge:
            inner *= at.universe_size[layout.edge_variable[other]]
    n = at.universe_size[layout.edge_variable[edge]]
    table = table_view(at.address[factor], outer * n * inner)
    first, (least, most) = 0.0, _range_of_sums(table, outer, n, inner)
    for k in range(0, n * inner, inner):
        first += table[k]
    is_same = first > 0.0 and max(most - first, first - least) <= ROUNDED * first
    return math.log(first) if is_same else np.inf


@kernel(FAST_WITHOUT_NAN)
def _range_of_sums(table, outer, n, inner):
    """Return the least and the largest sum of an (outer, n, inner) table over its second axis.

    Stops where they differ. Neighbouring sums are made side by side, so that numbers are read in order.
    """
    least, most = np.inf, 0.0
    for block in range(outer):
        for first in range(0, inner, SIDE_BY_SIDE):
            start, width = block * n * inner + first, min(SIDE_BY_SIDE, inner - first)
            if width < SIDE_BY_SIDE:
                for j in range(start, start + width):
                    total = 0.0
                    for k in range(n):
                        total += table[j + k * inner]
                    least, most = smaller(least, total), larger(most, total)
            else:
                a = b = c = d = 0.0
                for j in range(start, start + n * inner, inner):
                    a, b, c, d = a + table[j], b + table[j + 1], c + table[j + 2], d + table[j + 3]
                least = smaller(smaller(least, a), smaller(smaller(b, c), d))
                most = larger(larger(most, a), larger(larger(b, c), d))
        if most - least > 2.0 * ROUNDED * most:
            break
    return least, most


@kernel()
def _find_connected(layout, at):
    """Keep what is joined to a target; return the log of the sum of variables without factors, and if that is all."""
    n, log_known, is_known = 0, 0.0, True
    for v in range(at.size.size):
        if at.is_target[v] and at.size[v] > 1:
            at.left[v], at.stack[n] = REACHED, v
            n += 1
    while n > 0:
        n -= 1
        v = at.stack[n]
        for k in range(layout.variable_edge_start[v], layout.variable_edge_start[v + 1]):
            factor = layout.edge_factor[layout.variable_edge[k]]
            if at.fate[factor] != LEFT_OUT:
                continue
            at.fate[factor] = KEPT
            for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
                u = layout.edge_variable[edge]
                if at.size[u] > 1 and at.left[u] != REACHED:
                    at.left[u], at.stack[n] = REACHED, u
                    n += 1
    for v in range(at.size.size):
        if at.size[v] > 1 and at.left[v] > 0:
            is_known = False
        elif at.size[v] > 1 and at.left[v] == 0:
            total = 0.0
            for slot in range(at.slot_start[v], at.slot_start[v + 1]):
                total += math.exp(at.log_prior[slot])
            log_known += math.log(total)
    return log_known, is_known


@kernel()
def _write_layout(layout, at):
    """Write the topology of the factors that are kept; return how many edges there are."""
    n = 0
    at.factor_edge_start[0] = 0
    for factor in range(at.fate.size):
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            if at.fate[factor] == KEPT:
                at.edge_variable[n], at.edge_factor[n] = layout.edge_variable[edge], factor
                n += 1
        at.factor_edge_start[factor + 1] = n
    for v in range(at.size.size + 1):
        at.variable_edge_start[v] = 0
    for edge in range(n):
        at.variable_edge_start[at.edge_variable[edge] + 1] += 1
    for v in range(at.size.size):
        at.variable_edge_start[v + 1] += at.variable_edge_start[v]
        at.stack[v] = at.variable_edge_start[v]
    for edge in range(n):
        v = at.edge_variable[edge]
        at.variable_edge[at.stack[v]] = edge
        at.stack[v] += 1
    return n
