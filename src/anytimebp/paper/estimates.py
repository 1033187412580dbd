"""Estimated beliefs of states outside the domains, in plain NumPy: one round of messages out of the domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anytimebp.domains.universe import Universe
from anytimebp.model.factor import FactorBlock
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import VariableTable

CHUNK = 2**20  # scores asked for at a time
NO_STATE: IndexArray = np.empty((0, 0), dtype=np.int64)
NO_WEIGHT: FloatArray = np.empty((0, 0))


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
    """Return log o_f over some states of an edge's variable."""
    compiled = universe.compiled
    factor = int(compiled.arrays.edge_factor[edge])
    block, offset = compiled.locate(factor)
    edges = compiled.edges(factor)
    axis = edge - edges.start
    states = [states_of(int(compiled.arrays.edge_variable[e]))[np.newaxis] for e in edges]
    states[axis] = allowed[np.newaxis]
    weights = [NO_WEIGHT if e == edge else log_weights(e)[np.newaxis] for e in edges]
    found: FloatArray = sum_out(block, np.array([offset]), compiled.variables, states, weights, axis)[0]
    return found


def all_log_ratios(universe: Universe, domains: FlatDomains, wanted: npt.NDArray[np.bool_]) -> FloatArray:
    """Do as `log_ratios` for many variables at once, factors of the same shape and domain sizes together.

    Args:
        universe: Topology, sources and priors.
        domains: What is active, and the messages from it.
        wanted: (V,) the variables; the numbers of others mean nothing.

    Returns:
        A number per (variable, state) pair.
    """
    total = universe.log_prior.copy()
    allowed = np.flatnonzero(universe.allowed) - np.repeat(universe.start[:-1], universe.n_allowed)
    allowed_start = np.append(0, np.cumsum(universe.n_allowed))
    layout = universe.compiled.arrays
    for first, block in universe.compiled.message_blocks:
        for axis in range(block.scopes.shape[1]):
            rows = np.flatnonzero(wanted[block.scopes[:, axis]])
            sizes = domains.size[block.scopes[rows]]
            sizes[:, axis] = universe.n_allowed[block.scopes[rows, axis]]
            for shape, group in _groups(sizes):
                for part in np.array_split(rows[group], min(len(group), -(-len(group) * prod(shape) // CHUNK))):
                    edges = layout.factor_edge_start[first + part][:, np.newaxis] + np.arange(len(shape))
                    states, weights = domains.of(block.scopes[part], edges, shape, axis)
                    own = block.scopes[part, axis]
                    states[axis] = allowed[allowed_start[own][:, np.newaxis] + np.arange(shape[axis])]
                    found = sum_out(block, part, universe.compiled.variables, states, weights, axis)
                    scale = domains.log_scale[first + part] + domains.log_edge_scale[edges[:, axis]]
                    np.add.at(total, universe.start[own][:, np.newaxis] + states[axis], found - scale[:, np.newaxis])
    return total


class FlatDomains(NamedTuple):
    """Domains and messages from them, one after the other.

    Attributes:
        size: (V,) active states.
        start: (V,) where the states of a variable start.
        states: The active states.
        slot_start: (E,) where the weights of an edge start.
        log_weight: Log messages from variables to factors.
        log_scale: (F,) of the tables.
        log_edge_scale: (E,) of the messages to variables.
    """

    size: IndexArray
    start: IndexArray
    states: IndexArray
    slot_start: IndexArray
    log_weight: FloatArray
    log_scale: FloatArray
    log_edge_scale: FloatArray

    def of(
        self, scopes: IndexArray, edges: IndexArray, shape: tuple[int, ...], axis: int
    ) -> tuple[list[IndexArray], list[FloatArray]]:
        """Return states and log weights of factors whose axes have these sizes, but for one axis."""
        states, weights = [NO_STATE] * len(shape), [NO_WEIGHT] * len(shape)
        for k in range(len(shape)):
            if k != axis:
                step = np.arange(shape[k])
                states[k] = self.states[self.start[scopes[:, k]][:, np.newaxis] + step]
                weights[k] = self.log_weight[self.slot_start[edges[:, k]][:, np.newaxis] + step]
        return states, weights


def sum_out(
    block: FactorBlock,
    offsets: IndexArray,
    variables: VariableTable,
    states: list[IndexArray],
    weights: list[FloatArray],
    axis: int,
) -> FloatArray:
    """Return log o_f for several factors of one block, over the states of one axis.

    Args:
        block: Of the factors.
        offsets: (n,) their places in it.
        variables: Of the graph.
        states: Per axis, (n, states).
        weights: Per axis, (n, states), log messages; of no meaning for the axis that is not summed out.
        axis: The axis that is not.
    """
    others = tuple(k + 1 for k in range(len(states)) if k != axis)
    step = max(1, CHUNK // max(1, prod([states[k - 1].shape[1] for k in others])))
    found = np.empty((len(offsets), states[axis].shape[1]))
    for begin in range(0, states[axis].shape[1], step):
        some = [part[:, begin : begin + step] if k == axis else part for k, part in enumerate(states)]
        terms = block.gather(offsets, some, variables)
        for k, weight in enumerate(weights):
            if k != axis:
                terms += _along(weight, k, len(states))
        peak = terms.max(axis=others, keepdims=True)
        peak = np.where(peak > -np.inf, peak, 0.0)
        with np.errstate(divide="ignore"):
            total = np.log(np.exp(terms - peak).sum(axis=others, keepdims=True)) + peak
        found[:, begin : begin + step] = total.reshape(len(offsets), -1)
    return found


def _along(values: npt.NDArray[Any], axis: int, arity: int) -> npt.NDArray[Any]:
    """Return numbers of several factors along one of their axes, ready to be broadcast over the others."""
    return values.reshape([len(values), *(values.shape[1] if k == axis else 1 for k in range(arity))])


def _groups(sizes: IndexArray) -> Iterator[tuple[tuple[int, ...], IndexArray]]:
    """Give the rows that are alike, each kind with its rows."""
    if not len(sizes):
        return
    kinds, which = np.unique(sizes, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(which.reshape(-1), minlength=len(kinds)))
    for kind, rows in zip(kinds.tolist(), np.split(order, ends[:-1]), strict=True):
        yield tuple(kind), rows
