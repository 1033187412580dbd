"""From the workspace to frozen records: beliefs, factor marginals, the Bethe estimate of log Z."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anytimebp.domains.universe import Universe
from anytimebp.errors import InconsistentModelError, InternalError
from anytimebp.inference.figures import Figures
from anytimebp.inference.look.unexplored import UnexploredMass
from anytimebp.kernels.codes import LINEAR, OK
from anytimebp.kernels.readout import read_beliefs, read_weights
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.rows import row_starts
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.marginals import NOT_ASKED_FOR, REPORT_IT, FactorMarginals, Marginals
from anytimebp.results.snapshot import Snapshot
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
        error: The estimated error, or how to compute it from the beliefs; None if `outside` knows.
        domain_sizes: Of the domains, where messages reach further.
    """
    arrays = source.arrays
    belief, log_normaliser = np.empty(int(source.belief_start[-1])), np.empty(len(arrays.domain_size))
    status, variable = read_beliefs(source.compiled.arrays, arrays, source.belief_start, belief, log_normaliser)
    if status != OK:
        raise _no_belief(source.compiled, variable)
    marginals = Marginals(source.compiled.variables, belief, source.belief_start, source.states)
    unseen = outside(belief, log_normaliser) if callable(outside) else outside
    estimate: float | Callable[[], float] = float("inf")
    if error is not None:
        estimate = error(belief) if callable(error) else error
    elif isinstance(unseen, UnexploredMass):
        estimate = unseen.error
    log_z = _bethe(source, log_normaliser) if swept else float("nan")
    if swept and figures.consistent and np.isnan(log_z):
        msg = f"internal error: log Z is not a number although all messages have settled; {REPORT_IT}"
        raise InternalError(msg)
    return Snapshot(
        marginals=marginals,
        log_z=log_z,
        outside=unseen,
        error=estimate,
        domain_sizes=read_only(arrays.domain_size if domain_sizes is None else domain_sizes),
        arithmetic="linear" if arrays.arithmetic == LINEAR else "log",
        factor_marginals=_factor_marginals(source, marginals) if factor_marginals else NOT_ASKED_FOR,
        **figures.shown(),
    )


def unary_snapshot(universe: Universe, figures: Figures, *, factor_marginals: bool) -> Snapshot:
    """Return what is known before any message: unary scores alone, and for factors, these and their own scores.

    Args:
        universe: All states that the evidence allows, and their priors.
        figures: What goes with it.
        factor_marginals: Whether the snapshot can give those.
    """
    compiled, sizes, allowed = universe.compiled, universe.n_allowed, np.flatnonzero(universe.allowed)
    log_prior = universe.log_prior[allowed]
    start = row_starts(sizes)
    belief = np.exp(log_prior)
    belief /= np.repeat(np.add.reduceat(belief, start[:-1]), sizes) if len(sizes) else 1.0
    marginals = Marginals(compiled.variables, belief, start, allowed - np.repeat(universe.start[:-1], sizes))
    joint: FactorMarginals = NOT_ASKED_FOR
    if factor_marginals:
        edge_start = start[compiled.arrays.edge_variable]
        joint = FactorMarginals(marginals, compiled.blocks, _first_edges(compiled), edge_start, log_prior)
    return Snapshot(
        marginals=marginals,
        log_z=float("nan"),
        outside=1.0,
        error=float("inf"),
        domain_sizes=read_only(sizes),
        arithmetic="linear",
        factor_marginals=joint,
        **figures.shown(),
    )


def _no_belief(compiled: CompiledGraph, variable: int) -> InconsistentModelError:
    name = compiled.variables.name(variable)
    return InconsistentModelError(f"no joint state is possible: messages exclude every state of variable {name!r}")


def _bethe(source: Readable, log_normaliser: FloatArray) -> float:
    """Return log Z by the formula that heads the kernels."""
    layout = source.compiled.arrays
    arity = layout.factor_edge_start[1:] - layout.factor_edge_start[:-1]
    parts = (
        source.log_scale.sum(),
        ((1 - arity) * source.log_factor_total).sum(),
        source.log_edge_scale.sum(),
        log_normaliser.sum(),
        source.log_prior_scale.sum(),
    )
    log_z = float(sum(parts))
    return log_z if np.isfinite(log_z) else float("nan")


def _factor_marginals(source: Readable, marginals: Marginals) -> FactorMarginals:
    compiled, arrays = source.compiled, source.arrays
    log_weight = np.empty(len(arrays.message))
    status, variable = read_weights(compiled.arrays, arrays, log_weight)
    if status != OK:
        raise _no_belief(compiled, variable)
    return FactorMarginals(marginals, compiled.blocks, _first_edges(compiled), arrays.edge_slot_start, log_weight)


def _first_edges(compiled: CompiledGraph) -> IndexArray:
    """Return the first edge of every factor of the graph, -1 for unary ones."""
    factor_edge = np.full(sum(len(block.scopes) for block in compiled.blocks), -1, dtype=np.int64)
    for first, block in compiled.message_blocks:
        n = len(block.scopes)
        factor_edge[block.first : block.first + n] = compiled.arrays.factor_edge_start[first : first + n]
    return factor_edge
