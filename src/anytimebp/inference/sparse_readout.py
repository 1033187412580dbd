"""A snapshot of a run on sparse domains: what is active, and a way to ask for what is not."""

from __future__ import annotations

from functools import partial

import numpy as np

from anytimebp.inference.figures import Figures
from anytimebp.inference.look.unexplored import UnexploredMass
from anytimebp.inference.readout import Readable, take_snapshot
from anytimebp.model.source import FloatArray
from anytimebp.paper.workspace import SparseWorkspace
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.workspace import WorkspaceArrays


def read_sparse(
    workspace: SparseWorkspace,
    arrays: WorkspaceArrays,
    figures: Figures,
    pending: FloatArray,
    *,
    swept: bool,
    factor_marginals: bool,
) -> Snapshot:
    """Return what frozen arrays of a workspace say.

    Args:
        workspace: Of the run.
        arrays: Its messages and domains at the moment, which nothing changes any more.
        figures: Of the run at the moment.
        pending: (F,) by how much the messages of each factor may still move, in nats; owned.
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
        outside=partial(UnexploredMass, universe, arrays, states, log_scale, pending),
    )
