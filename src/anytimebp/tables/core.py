"""The core of a graph: what is left once trees and leaves are gone, with a layout and arrays of its own.

It is made in three steps, between which the run checks the clock: `lay_out_core`, `with_arrays`, `filled_core`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.kernels.codes import CORE, OK, TABLE
from anytimebp.kernels.leaves import fill_core
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.factor import row_starts
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.workspace import make_structure_inputs


class LeafArrays(NamedTuple):
    """What kernels read and write of trees and leaves. F factors, E edges of the whole graph.

    Attributes:
        way: (E,) CORE, UP, DOWN or CUT.
        table_address: (F,) where a factor's table without its leaves goes; 0 where they stay.
        table_min: (F,) smallest positive product that such an entry is made of (linear).
        in_logs: (F,) whether such a table holds logs.
        scratch: For tables that several leaves are summed out of.
        block: Scratch for factors of a tied table that are passed together.
    """

    way: IndexArray
    table_address: IndexArray
    table_min: FloatArray
    in_logs: BoolArray
    scratch: FloatArray
    block: FloatArray


class Core(NamedTuple):
    """The part of a graph that is iterated on; numbered for itself, messages in the slots of the whole graph.

    Attributes:
        layout: Topology.
        arrays: What kernels write. Messages and totals of hubs are those of the workspace.
        variables: Numbers in the whole graph.
        factors: Numbers in the whole graph.
        edges: Numbers in the whole graph.
        slot_start: Where each variable's slots start in a row of the core's beliefs.
    """

    layout: GraphLayout
    arrays: WorkspaceArrays
    variables: IndexArray
    factors: IndexArray
    edges: IndexArray
    slot_start: IndexArray


def lay_out_core(layout: GraphLayout, arrays: WorkspaceArrays, way: IndexArray) -> Core:
    """Return the core of a graph, its topology complete but for `variable_edge`, with the arrays of the whole graph.

    Args:
        layout: Topology of the whole graph.
        arrays: Of the whole graph.
        way: (E,) CORE on the edges of the core.
    """
    edges = np.flatnonzero(way == CORE)
    variable, factor = layout.edge_variable[edges], layout.edge_factor[edges]
    degree = np.bincount(variable, minlength=len(layout.variable_edge_start) - 1)
    arity = np.bincount(factor, minlength=len(layout.factor_edge_start) - 1)
    variables, factors = np.flatnonzero(degree), np.flatnonzero(arity)
    variable_number, factor_number = np.cumsum(degree > 0) - 1, np.cumsum(arity > 0) - 1
    made = GraphLayout(
        factor_edge_start=row_starts(arity[factors]),
        edge_variable=variable_number[variable],
        edge_factor=factor_number[factor],
        variable_edge_start=row_starts(degree[variables]),
        variable_edge=np.empty(len(edges), dtype=np.int64),
    )
    return Core(made, arrays, variables, factors, edges, row_starts(arrays.domain_size[variables]))


def with_arrays(core: Core, leaves: LeafArrays) -> Core:
    """Return a core that is laid out with arrays of its own, but for domains and priors."""
    arrays, variables, factors, edges = core.arrays, core.variables, core.factors, core.edges
    address = leaves.table_address[factors]
    is_smaller = address != 0
    number = np.full(len(arrays.variable_hub), -1, dtype=np.int64)
    number[variables] = np.arange(len(variables))
    made = arrays._replace(
        edge_slot_start=arrays.edge_slot_start[edges],
        edge_capacity=arrays.edge_capacity[edges],
        edge_min=arrays.edge_min[edges],
        edge_scale=arrays.edge_scale[edges],
        edge_residual=arrays.edge_residual[edges],
        factor_total=arrays.factor_total[factors],
        factor_kind=arrays.factor_kind[factors],
        structure_work=arrays.structure_work[factors],
        table_address=np.where(is_smaller, address, arrays.table_address[factors]),
        table_in_logs=np.where(is_smaller, leaves.in_logs[factors], arrays.table_in_logs[factors]),
        table_scaled=np.where(is_smaller, 0, arrays.table_scaled[factors]),
        table_band=np.zeros(len(factors), dtype=np.int64),
        table_min=np.where(is_smaller, leaves.table_min[factors], arrays.table_min[factors]),
        table_has_zero=arrays.table_has_zero[factors],
        variable_hub=arrays.variable_hub[variables],
        hub_variable=number[arrays.hub_variable],
    )
    return core._replace(arrays=made)


def filled_core(
    core: Core, layout: GraphLayout, arrays: WorkspaceArrays, way: IndexArray
) -> tuple[int, int, float, Core | None]:
    """Complete a core by its edges and priors.

    Args:
        core: With arrays; its layout is written to.
        layout: Topology of the whole graph.
        arrays: Messages of the whole graph.
        way: (E,) of the edges.

    Returns:
        Status, the variable at fault, the constant that the priors add to log Z, and the core, None after a fault.
    """
    prior, prior_min = np.empty(int(core.slot_start[-1])), np.empty(len(core.variables))
    given = layout, arrays, way, core.layout, core.variables, core.slot_start
    status, culprit, constant = fill_core(*given, prior, prior_min)
    if status != OK:
        return status, culprit, 0.0, None
    sizes = arrays.domain_size[core.variables]
    own = core.arrays._replace(domain_size=sizes, variable_slot_start=core.slot_start, prior=prior, prior_min=prior_min)
    if (own.factor_kind != TABLE).any():
        own = own._replace(structure_inputs=make_structure_inputs(core.layout, own))
    return OK, -1, constant, core._replace(arrays=own)
