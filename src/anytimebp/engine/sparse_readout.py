"""A snapshot of a run on sparse domains: what is active, and a way to ask for what is not."""

from __future__ import annotations

import numpy as np

from anytimebp.engine.readout import Figures, Readable, take_snapshot, unary_snapshot
from anytimebp.engine.unexplored import UnexploredMass
from anytimebp.results.snapshot import Snapshot
from anytimebp.workspace.space import WorkspaceArrays
from anytimebp.workspace.sparse import SparseWorkspace
from anytimebp.workspace.universe import Universe


def read_sparse(
    workspace: SparseWorkspace, arrays: WorkspaceArrays, figures: Figures, *, swept: bool, factor_marginals: bool
) -> Snapshot:
    """Return what frozen arrays of a workspace say.

    Args:
        workspace: Of the run.
        arrays: Its messages and domains at the moment, which nothing changes any more.
        figures: Of the run at the moment.
        swept: Whether every factor has been updated once.
        factor_marginals: Whether the snapshot can give those.
    """
    universe = workspace.universe
    states = workspace.domain.slot_state[workspace.slots(arrays.domain_size)]
    start = np.append(0, np.cumsum(arrays.domain_size))
    log_scale = workspace.log_scale.copy()
    return take_snapshot(
        Readable(universe.compiled, arrays, start, states, log_scale, universe.log_prior_scale),
        figures,
        swept=swept,
        factor_marginals=factor_marginals,
        outside=lambda log_normaliser: UnexploredMass(universe, arrays, states, log_scale, log_normaliser),
    )


def read_unary(universe: Universe, figures: Figures, *, factor_marginals: bool) -> Snapshot:
    """Return what unary scores say of all states, while messages do not say anything yet."""
    allowed, sizes = np.flatnonzero(universe.allowed), universe.n_allowed
    log_prior = universe.log_prior
    return unary_snapshot(universe.compiled, sizes, log_prior, allowed, figures, factor_marginals=factor_marginals)
