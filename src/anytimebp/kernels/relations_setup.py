"""Setting up the first round of `adaptive` on relations (`relations.py`): priors, leaves, tables, costs.

`model` is a Relations (`inference/adaptive/relations.py`).
"""

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import LOG_TABLE, POTENTIALS, SCALED
from anytimebp.kernels.jit import borrow, index_view, kernel, table_view
from anytimebp.kernels.setting_up import longest_leaf
from anytimebp.kernels.to_factor import largest
from anytimebp.model.factor import ARITY, ENTRIES, FACTORS, IS_LOG, MEMBERS, SCOPES, TABLES

EDGES = 3  # of a factor, the leaf's last
COUNTS = 7
ENTRIES_OF_TABLES, FILLING, WITH_ALL, BUSY, HELD, ACTIVE, SLOTS = range(COUNTS)
"""Columns: entries over active states; the cost of filling them; entries with all states of leaves; edges of factors
with two ends of several states; part of priors that active states hold, as a mean; active states; numbers in messages.
"""
DONE = -1  # in place of the number of a variable's unary factors


@kernel()
def exponentiate(given, shift, made):
    for k in range(made.size):  # vectorised
        made[k] = exp(given[k] - shift)


@kernel()
def _finish(given, is_leaf, prior, log_prior):
    """Fill priors, and of variables that are no leaves log priors, from log scores; return the largest of these."""
    most = largest(given)
    if most == -np.inf:
        return most
    if not is_leaf:
        for v in range(given.size):
            log_prior[v] = given[v] - most
    exponentiate(given, most, prior)
    return most


@kernel()
def fold_linear(rows, slot_start, is_leaf, n_unary, prior, log_prior, scale):
    """Fill the priors of all states, largest 1, from unary tables; of ends of relations, their logs as well.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`.
        slot_start: (V + 1,) where a variable's states start.
        is_leaf: (V,) which variables are leaves of relations.
        n_unary: (V,) zeros, overwritten.
        prior: Overwritten.
        log_prior: Overwritten but for leaves.
        scale: (V,) overwritten: the logs of what priors were divided by.

    Returns:
        Whether every variable has a possible state.
    """
    for block in range(rows.shape[0]):
        scopes = index_view(rows[block, SCOPES], rows[block, FACTORS] if rows[block, ARITY] == 1 else 0)
        for k in range(scopes.size):
            n_unary[scopes[k]] += 1
    for variable in range(n_unary.size):
        if n_unary[variable] != 1:
            prior[slot_start[variable] : slot_start[variable + 1]] = 0.0
    for block in range(rows.shape[0]):
        size, is_log = rows[block, ENTRIES], rows[block, IS_LOG] > 0
        scopes = index_view(rows[block, SCOPES], rows[block, FACTORS] if rows[block, ARITY] == 1 else 0)
        for k in range(scopes.size):
            variable = scopes[k]
            values = table_view(rows[block, TABLES] + (8 * size * k if rows[block, MEMBERS] > 1 else 0), size)
            first, last = slot_start[variable], slot_start[variable + 1]
            own = prior[first:last]
            if is_log and n_unary[variable] == 1:
                scale[variable] = _finish(values, is_leaf[variable], own, log_prior[first:last])
                n_unary[variable] = DONE
                continue
            for v in range(own.size):
                value = values[v] if is_log else log(values[v])
                own[v] = value if n_unary[variable] == 1 else own[v] + value
    is_possible = True
    for variable in range(n_unary.size):
        first, last = slot_start[variable], slot_start[variable + 1]
        if n_unary[variable] != DONE:
            scale[variable] = _finish(prior[first:last], is_leaf[variable], prior[first:last], log_prior[first:last])
        is_possible = is_possible and scale[variable] > -np.inf
    return is_possible


@kernel()
def find_relations(layout, universe_sizes, is_leaf):
    """Mark the leaves, (V,); return whether all factors are relations: the last one of three is the longest leaf."""
    layout = borrow(layout)
    for variable in range(is_leaf.size):
        is_leaf[variable] = False
    for factor in range(layout.factor_edge_start.size - 1):
        last = layout.factor_edge_start[factor + 1] - 1
        if last != EDGES * factor + EDGES - 1 or longest_leaf(layout, universe_sizes, factor) != last:
            return False
        is_leaf[layout.edge_variable[last]] = True
    return True


@kernel()
def find_lines(rows, many_tied, kind, address, made_start):
    """Fill what the tables of relations are, and where they lie.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`.
        many_tied: Factors that share a log table, from which on it is SCALED.
        kind: (F,) overwritten: LOG_TABLE, POTENTIALS or SCALED.
        address: (F,) overwritten: of the table as it is given.
        made_start: (F,) overwritten: where its entries start among those of all SCALED tables.

    Returns:
        The entries of all log tables, as many as there are.
    """
    factor, entries, log_entries = 0, 0, 0
    for block in range(rows.shape[0]):
        n, size, is_tied = rows[block, FACTORS], rows[block, ENTRIES], rows[block, MEMBERS] == 1
        if rows[block, ARITY] == 1:
            continue
        own = POTENTIALS
        if rows[block, IS_LOG] == 1:
            own = SCALED if is_tied and n >= many_tied else LOG_TABLE
            log_entries += rows[block, MEMBERS] * size
        for k in range(n):
            kind[factor], address[factor] = own, rows[block, TABLES] + (0 if is_tied else 8 * k * size)
            made_start[factor] = entries
            factor += 1
        entries += size if own == SCALED else 0
    return log_entries


@kernel()
def count_offers(model, by_kind, least, size, counts):
    """Count what rounds on active states take, for several domains.

    Args:
        model: Relations.
        by_kind: (6, 2) cost of filling an entry by the kind of its source, and of each state of the leaf besides.
        least: (n,) smallest priors of active states.
        size: (V, n) overwritten: active states.
        counts: (n, COUNTS) overwritten, see above.
    """
    model = borrow(model)
    n_ends = 0
    counts[:] = 0.0
    for variable in range(model.is_leaf.size):
        if model.is_leaf[variable]:
            continue
        n_ends += 1
        own, mass = model.prior[model.slot_start[variable] : model.slot_start[variable + 1]], 0.0
        for v in range(own.size):
            mass += own[v]
        for k in range(least.size):
            near, n = 0.0, 0
            for v in range(own.size):
                near += own[v] if own[v] >= least[k] else 0.0
                n += 1 if own[v] >= least[k] else 0
            size[variable, k] = n
            counts[k, HELD] += near / mass
            counts[k, ACTIVE] += n
    for factor in range(model.kind.size):
        a, b = model.edge_variable[EDGES * factor], model.edge_variable[EDGES * factor + 1]
        states = model.universe_sizes[model.edge_variable[EDGES * factor + 2]]
        each = by_kind[model.kind[factor], 0] + by_kind[model.kind[factor], 1] * states
        for k in range(least.size):
            entries = size[a, k] * size[b, k]
            counts[k, ENTRIES_OF_TABLES] += entries
            counts[k, FILLING] += entries * each
            counts[k, WITH_ALL] += entries * states
            counts[k, BUSY] += 2.0 if size[a, k] > 1 and size[b, k] > 1 else 0.0
            counts[k, SLOTS] += size[a, k] + size[b, k]
    for k in range(least.size):
        counts[k, HELD] /= max(1, n_ends)
        counts[k, ACTIVE] += model.is_leaf.size - n_ends
