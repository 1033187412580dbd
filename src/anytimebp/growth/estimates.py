"""Estimated beliefs of states outside the domains, in plain NumPy: one round of messages out of the domains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.workspace.universe import Universe

CHUNK = 2**20  # scores asked for at a time


def log_ratios(
    universe: Universe,
    states_of: Callable[[int], IndexArray],
    log_weights: Callable[[int], FloatArray],
    edge_scale: Callable[[int], float],
    log_scale: FloatArray,
    variable: int,
) -> FloatArray:
    """Return log p(v) + sum_f log(o_f(v) / c_f) for all states v of a variable, -inf for what evidence excludes.

    Args:
        universe: Topology, sources and priors.
        states_of: The domain of a variable.
        log_weights: The log message from an edge's variable to its factor, over the domain.
        edge_scale: log c of an edge.
        log_scale: (F,) of the tables.
        variable: The variable.
    """
    compiled = universe.compiled
    allowed = universe.allowed_states(variable)
    total = universe.log_prior[universe.start[variable] + allowed]
    for edge in compiled.edges_of(variable):
        factor = int(compiled.arrays.edge_factor[edge])
        total += _message(universe, states_of, log_weights, edge, allowed) - log_scale[factor] - edge_scale(edge)
    whole = np.full(int(compiled.universe_sizes[variable]), -np.inf)
    whole[allowed] = total
    return whole


def _message(
    universe: Universe,
    states_of: Callable[[int], IndexArray],
    log_weights: Callable[[int], FloatArray],
    edge: int,
    allowed: IndexArray,
) -> FloatArray:
    """Return log o_f over some states of an edge's variable, a part of them at a time."""
    compiled = universe.compiled
    factor = int(compiled.arrays.edge_factor[edge])
    source, member = compiled.source(factor)
    edges = compiled.edges(factor)
    axis = edge - edges.start
    states = [states_of(int(compiled.arrays.edge_variable[e])) for e in edges]
    others = tuple(k for k in range(len(edges)) if k != axis)
    step = max(1, CHUNK // max(1, int(np.prod([len(states[k]) for k in others]))))
    found = np.empty(len(allowed))
    for begin in range(0, len(allowed), step):
        states[axis] = allowed[begin : begin + step]
        terms = np.array(source.log_values(member, states))
        for k in others:
            terms += log_weights(edges[k]).reshape([-1 if j == k else 1 for j in range(len(edges))])
        peak = terms.max(axis=others, keepdims=True)
        peak = np.where(peak > -np.inf, peak, 0.0)
        with np.errstate(divide="ignore"):
            found[begin : begin + step] = np.log(np.exp(terms - peak).sum(axis=others)) + peak.reshape(-1)
    return found
