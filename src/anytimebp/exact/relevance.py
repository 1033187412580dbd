"""The part of a graph that the marginals of some variables depend on under given evidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.kernels.relevance import KEPT, PartArrays, find_part
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.source import BoolArray, IndexArray


class Part(NamedTuple):
    """A part of a graph; variables and factors have the same numbers as in the whole.

    Attributes:
        layout: The topology, in which factors that are left out have no variables.
        sizes: (V,) domain sizes; 0 for variables that are left out.
        kept: (F,) factors that are not left out; None for all.
        log_known: Log of the sum over what was left out; NaN if it is unknown.
        targets: (V,) variables whose marginals are wanted; None for all.
    """

    layout: GraphLayout
    sizes: IndexArray
    kept: BoolArray | None = None
    log_known: float = 0.0
    targets: BoolArray | None = None


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
    of_part = (n_factors, n_factors + 1, n_edges, n_edges, n_variables + 1, n_edges)
    lengths = (n_factors, n_factors, n_variables, 2 * n_variables, *of_part)
    ends = np.cumsum(lengths)
    room = np.empty(int(ends[-1]), dtype=np.int64)
    is_target = np.zeros(n_variables, dtype=np.bool_)
    is_target[targets] = True
    written = [room[end - length : end] for end, length in zip(ends.tolist(), lengths, strict=True)]
    at = PartArrays(
        domains.sizes,
        compiled.universe_sizes,
        domains.log_prior,
        domains.slot_start,
        is_target,
        *written,
    )
    n, log_known, is_known = find_part(layout, compiled.rows, at)
    part = GraphLayout(
        at.factor_edge_start, at.edge_variable[:n], at.edge_factor[:n], at.variable_edge_start, at.variable_edge[:n]
    )
    return Part(part, at.left, at.fate == KEPT, log_known if is_known else float("nan"), is_target)
