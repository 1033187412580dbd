"""BP on many small graphs that are parts of one, in one call of a kernel: the sweeps of a run on each of them alone.

A part is left to a run of its own where that would not begin with plain sweeps over all its factors, or is not over
within a few of them. What is answered here is what that run would have answered, to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.inference.all_states import UNWATCHED
from anytimebp.inference.control.damping import WINDOW
from anytimebp.inference.schedule.sweeps import no_news, there_and_back
from anytimebp.kernels.bands import LEAST_ENTRIES
from anytimebp.kernels.codes import CORE, LINEAR, MAX_LINEAR_RANGE, OK
from anytimebp.kernels.messages import EDGE_COST, LOG_COST
from anytimebp.kernels.parts import sweep_parts
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_starts
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.tables.leaves import OVERHEAD, SWEEPS, TreeOrder
from anytimebp.tables.workspace import Workspace

PARTS = "many graphs as parts of one"  # the kernels that only this needs
MOST_SWEEPS = min(UNWATCHED, WINDOW) - 1  # that a run makes before it may damp messages, or follows beliefs


class Parts(NamedTuple):
    """P parts of a graph, each with variables, factors and edges that stand together.

    Attributes:
        variables: (P + 1,) where the variables of a part start.
        factors: (P + 1,) the same of its message factors.
        edges: (P + 1,) the same of its edges.
    """

    variables: IndexArray
    factors: IndexArray
    edges: IndexArray

    @classmethod
    def of(cls, layout: GraphLayout, variables: IndexArray) -> Parts:
        """Return the parts of a graph, given where their variables start."""
        owner = np.searchsorted(variables, layout.edge_variable[layout.factor_edge_start[:-1]], side="right") - 1
        factors = row_starts(np.bincount(owner, minlength=len(variables) - 1))
        return cls(variables, factors, layout.factor_edge_start[factors])

    def layout(self, whole: GraphLayout, part: int) -> GraphLayout:
        """Return the topology of one part, numbered for itself."""
        (v, v_end), (f, f_end), (e, e_end) = ((start[part], start[part + 1]) for start in self)
        return GraphLayout(
            factor_edge_start=whole.factor_edge_start[f : f_end + 1] - e,
            edge_variable=whole.edge_variable[e:e_end] - v,
            edge_factor=whole.edge_factor[e:e_end] - f,
            variable_edge_start=whole.variable_edge_start[v : v_end + 1] - e,
            variable_edge=whole.variable_edge[e:e_end] - e,
        )


class PartSweeps(NamedTuple):
    """What sweeps over parts have come to.

    Attributes:
        workspace: Messages of all parts.
        parts: Where they are.
        is_settled: (P,) which have settled; of others nothing is known.
        figures: (P, sweeps, 3) of each sweep, entries read, the largest residual, and the sum of residuals.
        n_sweeps: (P,) how many were made.
        pending: (P,) a bound on what another sweep would move.
    """

    workspace: Workspace
    parts: Parts
    is_settled: BoolArray
    figures: FloatArray
    n_sweeps: IndexArray
    pending: FloatArray


def sweep_all_parts(
    compiled: CompiledGraph, domains: Domains, variables: IndexArray, tolerance: float, most_sweeps: int = MOST_SWEEPS
) -> PartSweeps:
    """Sweep over the parts of a graph that has tables only, until each has settled.

    Args:
        compiled: The graph.
        domains: All states that the evidence allows; owned.
        variables: (P + 1,) where the variables of a part start.
        tolerance: Residual of a message that has settled.
        most_sweeps: After which a part is given up.
    """
    layout, parts = compiled.arrays, Parts.of(compiled.arrays, variables)
    is_linear = _is_linear(compiled, domains, parts)  # before priors are made of log priors
    workspace = Workspace(compiled, domains, LINEAR)
    for _ in workspace.prepare():
        pass
    n, n_factors = len(variables) - 1, len(layout.factor_edge_start) - 1
    figures, endings = np.zeros((n, most_sweeps, 3)), np.zeros((n, 2), dtype=np.int64)
    pending, moved = np.full(n, np.inf), np.empty(len(domains.sizes))
    is_plain = is_linear & _are_plain(workspace, parts)
    order, orders = there_and_back(layout)[0], np.empty(2 * n_factors, dtype=np.int64)
    arity = _largest(np.diff(layout.factor_edge_start), parts.factors)
    for most in np.unique(arity[is_plain]).tolist():  # on which depends what is news
        chosen = np.flatnonzero(is_plain & (arity == most))
        news = no_news(layout, tolerance, int(most))
        given = layout, workspace.arrays, news, chosen, order, parts.factors, tolerance
        sweep_parts(*given, figures, moved, orders, endings, pending)
    is_settled = is_plain & (endings[:, 0] == OK) & (pending <= tolerance)
    return PartSweeps(workspace, parts, is_settled, figures, endings[:, 1], pending)


def _is_linear(compiled: CompiledGraph, domains: Domains, parts: Parts) -> BoolArray:
    """Tell which parts begin in linear arithmetic when they are alone."""
    widest = _largest(compiled.extent.log_max - compiled.extent.log_min, parts.factors)
    least = _largest(-domains.log_prior_min, parts.variables)
    found: BoolArray = (widest <= MAX_LINEAR_RANGE) & (least <= MAX_LINEAR_RANGE)
    return found


def _are_plain(workspace: Workspace, parts: Parts) -> BoolArray:
    """Tell which parts a run makes plain sweeps over: with loops, and without leaves, or so small that these stay."""
    layout, arrays, trees = workspace.layout, workspace.arrays, TreeOrder(workspace)
    while not trees.advance():
        pass
    in_core = np.add.reduceat(np.append(trees.way == CORE, 0), parts.edges[:-1])
    n_edges, n_factors = np.diff(parts.edges), np.diff(parts.factors)
    size = arrays.domain_size[layout.edge_variable].astype(np.float64)
    entries = np.multiply.reduceat(size, layout.factor_edge_start[:-1]) if len(size) else size
    made = np.append(0.0, np.cumsum(entries))[parts.factors]
    most_saved = SWEEPS * (EDGE_COST * n_edges + LOG_COST * n_factors * (made[1:] - made[:-1]))
    may_have_bands = _largest(np.where(arrays.table_has_zero, entries, 0.0), parts.factors) >= LEAST_ENTRIES
    has_loops = (n_edges > 0) & (in_core > 0)
    found: BoolArray = has_loops & ((in_core == n_edges) | (most_saved < OVERHEAD)) & ~may_have_bands
    return found


def _largest(values: FloatArray | IndexArray, start: IndexArray) -> FloatArray:
    """Return the largest of each part's values, at least 0."""
    found: FloatArray = np.zeros(len(start) - 1)
    np.maximum.at(found, np.repeat(np.arange(len(found)), np.diff(start)), values)
    return found
