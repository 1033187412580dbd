"""The part of a graph that the marginals of some variables depend on under given evidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.kernels.cutting import where_tables_lie
from anytimebp.kernels.relevance import KEPT, PartArrays, find_part
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.source import BoolArray, FloatArray, IndexArray

SUMS = "sums of factors"  # where they are kept with a layout's tables


class Part(NamedTuple):
    """A part of a graph; variables and factors have the same numbers as in the whole.

    Attributes:
        layout: The topology, in which factors that are left out have no variables.
        sizes: (V,) domain sizes; 0 for variables that are left out.
        kept: (F,) factors that are not left out; None for all.
        log_known: Log of the sum over what was left out; NaN where nobody knows it.
        targets: (V,) variables whose marginals are wanted; None for all.
    """

    layout: GraphLayout
    sizes: IndexArray
    kept: BoolArray | None = None
    log_known: float = 0.0
    targets: BoolArray | None = None


class _Sums(NamedTuple):
    """What a layout keeps for the next search; see `PartArrays`."""

    address: IndexArray
    log_sum: FloatArray


def relevant_part(compiled: CompiledGraph, domains: Domains, targets: IndexArray | None) -> Part:
    """Return what the marginals of the targets depend on; all of the graph if there are no targets.

    Args:
        compiled: The graph.
        domains: All states that the evidence allows, with their priors.
        targets: Indices of variables.
    """
    if targets is None:
        return Part(compiled.arrays, domains.sizes)
    layout = compiled.arrays
    n_variables, n_factors, n_edges = len(domains.sizes), len(layout.factor_edge_start) - 1, len(layout.edge_variable)
    lengths = (n_variables, 2 * n_variables, n_factors, n_factors + 1, n_edges, n_edges, n_variables + 1, n_edges)
    ends = np.cumsum(lengths)
    room = np.empty(int(ends[-1]), dtype=np.int64)
    is_target = np.zeros(n_variables, dtype=np.bool_)
    is_target[targets] = True
    sums = _kept_sums(compiled)
    written = [room[end - length : end] for end, length in zip(ends.tolist(), lengths, strict=True)]
    at = PartArrays(
        domains.sizes,
        compiled.universe_sizes,
        domains.log_prior,
        domains.slot_start,
        is_target,
        sums.address,
        sums.log_sum,
        *written,
    )
    n, log_known, is_known = find_part(layout, at)
    part = GraphLayout(
        at.factor_edge_start, at.edge_variable[:n], at.edge_factor[:n], at.variable_edge_start, at.variable_edge[:n]
    )
    return Part(part, at.left, at.fate == KEPT, log_known if is_known else float("nan"), is_target)


def _kept_sums(compiled: CompiledGraph) -> _Sums:
    """Return what is known of factors' sums; where their potentials lie is found out the first time."""
    known = compiled.shared_tables.get(SUMS)
    if isinstance(known, _Sums):
        return known
    n_factors = len(compiled.arrays.factor_edge_start) - 1
    address, is_log = np.empty(n_factors, dtype=np.int64), np.empty(n_factors, dtype=np.bool_)
    where_tables_lie(compiled.rows, address, is_log)
    address[is_log] = 0
    made = _Sums(address, np.full(len(compiled.arrays.edge_variable), np.nan))
    compiled.shared_tables[SUMS] = made
    return made
