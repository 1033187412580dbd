"""From the workspace to frozen records: beliefs, factor marginals, log Z."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InternalError
from anytimebp.inference.beliefs import beliefs_of, bethe_terms, no_belief
from anytimebp.inference.figures import Figures
from anytimebp.inference.leaf_readout import LaterBeliefs, core_beliefs
from anytimebp.inference.look.unexplored import UnexploredMass
from anytimebp.kernels.codes import LINEAR, OK
from anytimebp.kernels.readout import read_weights
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.marginals import NOT_ASKED_FOR, REPORT_IT, FactorMarginals, Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.readable import Readable


def take_snapshot(
    source: Readable,
    figures: Figures,
    *,
    swept: bool,
    factor_marginals: bool,
    outside: float | Callable[[FloatArray, FloatArray], UnexploredMass],
    error: float | Callable[[FloatArray], Callable[[], float]] | None = None,
    domain_sizes: IndexArray | None = None,
) -> Snapshot:
    """Read the beliefs out of a workspace; log Z is not known (NaN) before every factor has been updated once.

    Args:
        source: What to read.
        figures: What goes with it.
        swept: Whether every factor has been updated.
        factor_marginals: Whether to keep what the marginals of factors need.
        outside: The unexplored mass, or how to compute it from the beliefs and the logs of their sums.
        error: The estimated error, or how to compute it from the beliefs, of the core where there are leaves; None if
            `outside` knows.
        domain_sizes: Of the domains, where messages reach further.
    """
    arrays, leaves = source.arrays, source.leaves
    if leaves is None:
        belief, log_normaliser = beliefs_of(source.compiled, source.compiled.arrays, arrays, source.belief_start)
        marginals = Marginals(source.compiled.variables, belief, source.belief_start, source.states)
        unseen = outside(belief, log_normaliser) if callable(outside) else outside
        log_z = bethe_terms(source.compiled.arrays, arrays, log_normaliser) if swept else float("nan")
    else:
        belief, log_z = core_beliefs(leaves)
        later = LaterBeliefs(leaves, source.belief_start, is_over=figures.ending is not None)
        marginals = Marginals(source.compiled.variables, later, source.belief_start, source.states)
        unseen = 0.0
        if factor_marginals or leaves.workspace.tables.are_borrowed:  # the user may change those before they are read
            marginals.read()
            arrays = later.arrays()
    estimate: float | Callable[[], float] = float("inf")
    if error is not None:
        estimate = error(belief) if callable(error) else error
    elif isinstance(unseen, UnexploredMass):
        estimate = unseen.error
    log_z = _finite(log_z + source.log_scale.sum() + source.log_prior_scale.sum()) if swept else float("nan")
    if swept and figures.consistent and math.isnan(log_z):
        msg = f"internal error: log Z is not a number although all messages have settled; {REPORT_IT}"
        raise InternalError(msg)
    return Snapshot.holding(
        marginals=marginals,
        log_z=log_z,
        outside=unseen,
        error=estimate,
        domain_sizes=read_only(arrays.domain_size if domain_sizes is None else domain_sizes),
        arithmetic="linear" if source.arrays.arithmetic == LINEAR else "log",
        factor_marginals=_factor_marginals(source.compiled, arrays, marginals) if factor_marginals else NOT_ASKED_FOR,
        **figures.shown(),
    )


def prior_snapshot(
    compiled: CompiledGraph,
    domains: Domains,
    figures: Figures,
    *,
    outside: float,
    factor_marginals: bool,
    in_logs: bool = True,
) -> Snapshot:
    """Return what is known before any message: unary scores alone, and for factors, these and their own scores.

    Args:
        compiled: The graph.
        domains: Of every state that the evidence allows, with log priors.
        figures: What goes with it.
        outside: The unexplored mass.
        factor_marginals: Whether the snapshot can give those.
        in_logs: Whether the log priors are such, or a workspace has made priors of them.
    """
    sizes, start = domains.sizes, domains.slot_start
    belief = np.exp(domains.log_prior) if in_logs else domains.log_prior.copy()
    belief /= np.repeat(np.add.reduceat(belief, start[:-1]), sizes) if len(sizes) else 1.0
    marginals = Marginals(compiled.variables, belief, start, domains.slot_state)
    joint: FactorMarginals = NOT_ASKED_FOR
    if factor_marginals:
        with np.errstate(divide="ignore"):
            log_prior = domains.log_prior.copy() if in_logs else np.log(domains.log_prior)
        edge_start = start[compiled.arrays.edge_variable]
        joint = FactorMarginals(marginals, compiled.blocks, _first_edges(compiled), edge_start, log_prior)
    return Snapshot(
        marginals=marginals,
        log_z=float("nan"),
        outside=outside,
        error=float("inf"),
        domain_sizes=read_only(sizes),
        arithmetic="linear",
        factor_marginals=joint,
        **figures.shown(),
    )


def _finite(log_z: float) -> float:
    return float(log_z) if math.isfinite(log_z) else float("nan")


def _factor_marginals(compiled: CompiledGraph, arrays: WorkspaceArrays, marginals: Marginals) -> FactorMarginals:
    log_weight = np.empty(len(arrays.message))
    status, variable = read_weights(compiled.arrays, arrays, log_weight)
    if status != OK:
        raise no_belief(compiled, variable)
    return FactorMarginals(marginals, compiled.blocks, _first_edges(compiled), arrays.edge_slot_start, log_weight)


def _first_edges(compiled: CompiledGraph) -> IndexArray:
    """Return the first edge of every factor of the graph, -1 for unary ones."""
    factor_edge = np.full(sum(len(block.scopes) for block in compiled.blocks), -1, dtype=np.int64)
    for first, block in compiled.message_blocks:
        n = len(block.scopes)
        factor_edge[block.first : block.first + n] = compiled.arrays.factor_edge_start[first : first + n]
    return factor_edge
