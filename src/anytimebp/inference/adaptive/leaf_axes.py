"""Leaves of dense factors, summed out where strips are filled.

A variable with one message factor sends its prior and nothing else. So a strip holds, in place of an axis of such a
variable, the sum over its states: a table of 42 x 42 x 24 scores whose last variable is a leaf is a table of 42 x 42.
At most one axis of a factor is summed out, the longest; at least two are left. Only dense tables are, as rules and
lists are asked for the very entries that they need.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.rows import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray

LEAST_ARITY = 3  # two axes have to be left


class LeafAxes(NamedTuple):
    """A graph without the leaves that are summed out. F factors, E edges and V variables that are left.

    Attributes:
        compiled: The graph, with a layout and universes of the variables that are left, numbered anew.
        variables: (V,) their numbers in the whole graph.
        edge: (E,) the numbers of the edges in the whole layout.
        edge_stride: (E,) entries of the factor's table between two states of the edge's variable.
        table_size: (F,) entries of the factor's whole table.
        leaf: (F,) the variable that is summed out, or -1.
        leaf_stride: (F,) entries of the table between two of its states.
        leaf_size: (F,) its states, 1 where nothing is summed out.
    """

    compiled: CompiledGraph
    variables: IndexArray
    edge: IndexArray
    edge_stride: IndexArray
    table_size: IndexArray
    leaf: IndexArray
    leaf_stride: IndexArray
    leaf_size: IndexArray

    @property
    def leaves(self) -> IndexArray:
        """The variables that are summed out."""
        return self.leaf[self.leaf >= 0]


def find_leaf_axes(compiled: CompiledGraph, *, sum_out: bool) -> LeafAxes:
    """Return the graph without the edges to leaves, or with all its edges; kept with the layout."""
    key = ("leaf axes", sum_out)
    found = compiled.shared_tables.get(key)
    if not isinstance(found, LeafAxes):
        found = compiled.shared_tables[key] = _find(compiled, sum_out=sum_out)
    return found


def _find(compiled: CompiledGraph, *, sum_out: bool) -> LeafAxes:
    layout, sizes = compiled.arrays, compiled.universe_sizes
    start, n_factors = layout.factor_edge_start, len(layout.factor_edge_start) - 1
    arity = start[1:] - start[:-1]
    edge_stride = np.empty(len(layout.edge_variable), dtype=np.int64)
    table_size = np.ones(n_factors, dtype=np.int64)
    for k in range(int(arity.max(initial=0))):  # from the last axis to the first
        has_axis = arity > k
        edge = start[1:][has_axis] - 1 - k
        edge_stride[edge] = table_size[has_axis]
        table_size[has_axis] *= sizes[layout.edge_variable[edge]]
    cut = _leaf_edges(compiled) if sum_out else np.empty(0, dtype=np.int64)
    factor = layout.edge_factor[cut]
    leaf, leaf_stride = np.full(n_factors, -1, dtype=np.int64), np.ones(n_factors, dtype=np.int64)
    leaf_size = np.ones(n_factors, dtype=np.int64)
    leaf[factor], leaf_stride[factor] = layout.edge_variable[cut], edge_stride[cut]
    leaf_size[factor] = sizes[leaf[factor]]
    left, edge, variables = compiled, np.arange(len(layout.edge_variable)), np.arange(len(sizes))
    if len(cut):
        left, edge, variables = copy(compiled), np.delete(edge, cut), np.delete(variables, leaf[factor])
        left.arrays, left.universe_sizes = _without(layout, edge, variables), sizes[variables]
    return LeafAxes(left, variables, edge, edge_stride[edge], table_size, leaf, leaf_stride, leaf_size)


def _leaf_edges(compiled: CompiledGraph) -> IndexArray:
    """Return the edges to leaves that are summed out: of each dense factor the longest, of equals the last."""
    layout = compiled.arrays
    start, degree = layout.factor_edge_start, np.diff(layout.variable_edge_start)
    edge = np.flatnonzero(degree[layout.edge_variable] == 1)
    edge = edge[(start[1:] - start[:-1] >= LEAST_ARITY)[layout.edge_factor[edge]]]
    if not len(edge):
        return edge
    blocks = [block for _, block in compiled.message_blocks]
    is_dense = np.repeat([b.source.tables is not None for b in blocks], [len(b.scopes) for b in blocks])
    edge = edge[is_dense[layout.edge_factor[edge]]]
    by_length = edge[np.lexsort([edge, compiled.universe_sizes[layout.edge_variable[edge]]])]
    longest = np.full(len(start) - 1, -1, dtype=np.int64)
    longest[layout.edge_factor[by_length]] = by_length  # the last one written stays
    return longest[longest >= 0]


def _without(layout: GraphLayout, edge: IndexArray, variables: IndexArray) -> GraphLayout:
    """Return the layout of some of the edges and variables."""
    number = np.empty(len(layout.variable_edge_start) - 1, dtype=np.int64)
    number[variables] = np.arange(len(variables))
    factor, variable = layout.edge_factor[edge], number[layout.edge_variable[edge]]
    return GraphLayout(
        factor_edge_start=row_starts(np.bincount(factor, minlength=len(layout.factor_edge_start) - 1)),
        edge_variable=variable,
        edge_factor=factor,
        variable_edge_start=row_starts(np.bincount(variable, minlength=len(variables))),
        variable_edge=np.argsort(variable, kind="stable"),
    )


def domains_left(axes: LeafAxes, domains: Domains) -> Domains:
    """Return the domains of the variables that are left; those given, if these are all."""
    if not len(axes.leaves):
        return domains
    sizes = domains.sizes[axes.variables]
    slot = row_items(domains.slot_start[axes.variables], sizes)
    return Domains(
        sizes=sizes,
        slot_start=row_starts(sizes),
        slot_state=domains.slot_state if domains.is_whole else domains.slot_state[slot],
        log_prior=domains.log_prior[slot],
        log_prior_scale=domains.log_prior_scale[axes.variables],
        log_prior_min=domains.log_prior_min[axes.variables],
        scored=domains.scored,
    )


def leaf_weights(axes: LeafAxes, universe_start: IndexArray, domains: Domains) -> FloatArray:
    """Return the priors of all states, zero where evidence excludes one; nothing, where there are no leaves.

    Args:
        axes: The leaves.
        universe_start: (V + 1,) where the states of each variable of the whole graph start.
        domains: Of the whole graph.
    """
    if not len(axes.leaves):
        return np.empty(0)
    weight = np.exp(domains.log_prior)
    if domains.is_whole:
        return weight
    spread = np.zeros(int(universe_start[-1]))
    spread[np.repeat(universe_start[:-1], domains.sizes) + domains.slot_state] = weight
    return spread
