"""Beliefs out of messages, and the Bethe estimate of log Z."""

from __future__ import annotations

import numpy as np

from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import OK
from anytimebp.kernels.readout import read_beliefs, sum_bethe_terms
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.rows import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays


def beliefs_of(
    compiled: CompiledGraph,
    layout: GraphLayout,
    arrays: WorkspaceArrays,
    belief_start: IndexArray,
    variables: IndexArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the beliefs, variable after variable, and the logs of what they were divided by.

    Args:
        compiled: The graph.
        layout: Topology of the graph, or of its core.
        arrays: Messages.
        belief_start: Where each variable's belief starts.
        variables: Numbers of the core's variables in the graph; None for the whole graph.

    Raises:
        InconsistentModelError: Where messages exclude every state of a variable.
    """
    belief, log_normaliser = np.empty(int(belief_start[-1])), np.empty(len(arrays.domain_size))
    status, variable = read_beliefs(layout, arrays, belief_start, belief, log_normaliser)
    if status != OK:
        raise no_belief(compiled, variable if variables is None else int(variables[variable]))
    return belief, log_normaliser


def beliefs_if_any(layout: GraphLayout, arrays: WorkspaceArrays, belief_start: IndexArray) -> FloatArray | None:
    """Return the beliefs, variable after variable; None where messages exclude each other as yet."""
    belief, log_normaliser = np.empty(int(belief_start[-1])), np.empty(len(belief_start) - 1)
    status, _ = read_beliefs(layout, arrays, belief_start, belief, log_normaliser)
    return belief if status == OK else None


def part_of(layout: GraphLayout, arrays: WorkspaceArrays, variables: IndexArray) -> tuple[GraphLayout, WorkspaceArrays]:
    """Return some variables of a graph, numbered for themselves, as far as beliefs are read from them.

    Edges keep their numbers. `edge_variable` goes by the places in `variable_edge` instead.
    """
    first = layout.variable_edge_start[variables]
    degree = layout.variable_edge_start[variables + 1] - first
    edges = layout.variable_edge[row_items(first, degree)]
    owner = np.repeat(np.arange(len(variables)), degree)
    part = layout._replace(variable_edge_start=row_starts(degree), variable_edge=edges, edge_variable=owner)
    names = ("domain_size", "variable_slot_start", "prior_min", "variable_hub")
    return part, arrays._replace(**{name: getattr(arrays, name)[variables] for name in names})


def no_belief(compiled: CompiledGraph, variable: int) -> InconsistentModelError:
    """Return the error that names a variable without a possible state."""
    name = compiled.variables.name(variable)
    return InconsistentModelError(f"no joint state is possible: messages exclude every state of variable {name!r}")


def bethe_terms(layout: GraphLayout, arrays: WorkspaceArrays, log_normaliser: FloatArray) -> float:
    """Return log Z by the formula that heads the kernels, but for the scales of tables and priors."""
    total: float = sum_bethe_terms(
        layout.factor_edge_start, arrays.arithmetic, arrays.factor_total, arrays.edge_scale, log_normaliser
    )
    return total
