"""Estimated beliefs of states outside the domains, in plain NumPy: one round of messages out of the domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from anytimebp.domains.domains import Universe
from anytimebp.kernels.codes import LOG
from anytimebp.model.factor import FactorBlock, row_starts
from anytimebp.model.scores import log_sum_exp
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import VariableTable
from anytimebp.tables.readable import Readable
from anytimebp.tables.workspace import Workspace

CHUNK = 2**20  # scores asked for at a time
NO_STATE: IndexArray = np.empty((0, 0), dtype=np.int64)
NO_WEIGHT: FloatArray = np.empty((0, 0))


def log_ratios(
    universe: Universe, workspace: Workspace, log_weights: Callable[[int], FloatArray], variable: int
) -> FloatArray:
    """Return log p(v) + sum_f log(o_f(v) / c_f) for all states v of a variable, -inf for what evidence excludes.

    Args:
        universe: Topology, sources and priors.
        workspace: Domains, and scales of messages and tables.
        log_weights: The log message from an edge's variable to its factor, over the domain.
        variable: The variable.
    """
    compiled, arrays = universe.compiled, workspace.arrays
    allowed = universe.allowed_states(variable)
    total = universe.log_prior[universe.start[variable] + allowed]
    for edge in compiled.edges_of(variable):
        factor = int(compiled.arrays.edge_factor[edge])
        scale = arrays.edge_scale[edge] if arrays.arithmetic == LOG else np.log(arrays.edge_scale[edge])
        total += _message(workspace, log_weights, edge, allowed) - workspace.tables.log_scale[factor] - scale
    whole = np.full(int(compiled.universe_sizes[variable]), -np.inf)
    whole[allowed] = total
    return whole


def _message(
    workspace: Workspace, log_weights: Callable[[int], FloatArray], edge: int, allowed: IndexArray
) -> FloatArray:
    """Return log o_f over some states of an edge's variable."""
    compiled, states_of = workspace.compiled, workspace.domains.states_of
    factor = int(compiled.arrays.edge_factor[edge])
    block, offset = compiled.locate(factor)
    edges = compiled.edges(factor)
    axis = edge - edges.start
    states = [states_of(int(compiled.arrays.edge_variable[e]))[np.newaxis] for e in edges]
    states[axis] = allowed[np.newaxis]
    weights = [NO_WEIGHT if e == edge else log_weights(e)[np.newaxis] for e in edges]
    found: FloatArray = sum_out(block, np.array([offset]), compiled.variables, states, weights, axis)[0]
    return found


def all_log_ratios(
    universe: Universe, known: Readable, log_weight: FloatArray, wanted: npt.NDArray[np.bool_]
) -> FloatArray:
    """Do the same as `log_ratios` for many variables at once; factors with the same shape and domains go together.

    Args:
        universe: Topology, sources and priors.
        known: What is active.
        log_weight: Log messages from variables to factors, per edge slot.
        wanted: (V,) the variables; the numbers of others mean nothing.

    Returns:
        A number per (variable, state) pair.
    """
    total = universe.log_prior.copy()
    allowed = np.flatnonzero(universe.allowed) - np.repeat(universe.start[:-1], universe.n_allowed)
    allowed_start = row_starts(universe.n_allowed)
    layout, log_edge_scale = universe.compiled.arrays, known.log_edge_scale
    for first, block in universe.compiled.message_blocks:
        for axis in range(block.scopes.shape[1]):
            rows = np.flatnonzero(wanted[block.scopes[:, axis]])
            sizes = known.arrays.domain_size[block.scopes[rows]]
            sizes[:, axis] = universe.n_allowed[block.scopes[rows, axis]]
            for shape, group in _groups(sizes):
                for part in np.array_split(rows[group], min(len(group), -(-len(group) * prod(shape) // CHUNK))):
                    edges = layout.factor_edge_start[first + part][:, np.newaxis] + np.arange(len(shape))
                    states, weights = _on_domains(known, log_weight, block.scopes[part], edges, shape, axis)
                    own = block.scopes[part, axis]
                    states[axis] = allowed[allowed_start[own][:, np.newaxis] + np.arange(shape[axis])]
                    found = sum_out(block, part, universe.compiled.variables, states, weights, axis)
                    scale = known.log_scale[first + part] + log_edge_scale[edges[:, axis]]
                    np.add.at(total, universe.start[own][:, np.newaxis] + states[axis], found - scale[:, np.newaxis])
    return total


def _on_domains(
    known: Readable, log_weight: FloatArray, scopes: IndexArray, edges: IndexArray, shape: tuple[int, ...], axis: int
) -> tuple[list[IndexArray], list[FloatArray]]:
    """Return active states and log weights of factors whose axes have these sizes, but for one axis."""
    states, weights = [NO_STATE] * len(shape), [NO_WEIGHT] * len(shape)
    for k in range(len(shape)):
        if k != axis:
            step = np.arange(shape[k])
            states[k] = known.states[known.belief_start[scopes[:, k]][:, np.newaxis] + step]
            weights[k] = log_weight[known.arrays.edge_slot_start[edges[:, k]][:, np.newaxis] + step]
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
        weights: Per axis, (n, states), log messages; ignored for the axis that is not summed out.
        axis: The axis that is not.
    """
    if block.source.has_log_message and prod([part.shape[1] for part in states]) > CHUNK:
        rows = [slice(k, k + 1) for k in range(len(offsets))]  # of no weights at all for the axis
        sent = block.source.log_message
        return np.array(
            [
                sent([s[k].ravel() for s in states], [w[k].ravel() for w in weights], axis, states[axis][k][0])
                for k in rows
            ]
        )
    others = tuple(k + 1 for k in range(len(states)) if k != axis)
    step = max(1, CHUNK // max(1, prod([states[k - 1].shape[1] for k in others])))
    found = np.empty((len(offsets), states[axis].shape[1]))
    for begin in range(0, states[axis].shape[1], step):
        some = [part[:, begin : begin + step] if k == axis else part for k, part in enumerate(states)]
        terms = block.gather(offsets, some, variables)
        for k, weight in enumerate(weights):
            if k != axis:
                terms += _along(weight, k, len(states))
        found[:, begin : begin + step] = log_sum_exp(terms, others)
    return found


def _along(values: npt.NDArray[Any], axis: int, arity: int) -> npt.NDArray[Any]:
    """Return numbers of several factors along one of their axes, ready to be broadcast over the others."""
    return values.reshape([len(values), *(values.shape[1] if k == axis else 1 for k in range(arity))])


def _groups(sizes: IndexArray) -> Iterator[tuple[tuple[int, ...], IndexArray]]:
    """Yield each distinct row with the indices of the rows that equal it."""
    if not len(sizes):
        return
    kinds, which = np.unique(sizes, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(which.reshape(-1), minlength=len(kinds)))
    for kind, rows in zip(kinds.tolist(), np.split(order, ends[:-1]), strict=True):
        yield tuple(kind), rows
