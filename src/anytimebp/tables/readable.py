"""What beliefs, log Z and the estimates for states outside the domains are read from at one moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.kernels.codes import LINEAR
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.leaves import Leaves
from anytimebp.tables.workspace import Workspace


class Readable(NamedTuple):
    """Messages over the active states.

    Attributes:
        compiled: The graph.
        arrays: Messages.
        belief_start: (V + 1,) where each variable's belief starts in a row of all of them.
        states: The state of each of these beliefs; empty where they are over the universes in order.
        log_scale: (F,) of the tables.
        log_prior_scale: (V,) of the priors.
        leaves: Trees and leaves that were summed into the core, if there are any.
    """

    compiled: CompiledGraph
    arrays: WorkspaceArrays
    belief_start: IndexArray
    states: IndexArray
    log_scale: FloatArray
    log_prior_scale: FloatArray
    leaves: Leaves | None = None

    @property
    def log_edge_scale(self) -> FloatArray:
        """(E,) log of what each message was divided by."""
        return np.log(self.arrays.edge_scale) if self.arrays.arithmetic == LINEAR else self.arrays.edge_scale

    @property
    def log_factor_total(self) -> FloatArray:
        """(F,) log Z_f of the last updates, in the scale of the tables."""
        with np.errstate(divide="ignore"):  # a factor that admits no joint state of its domains, as yet
            return np.log(self.arrays.factor_total) if self.arrays.arithmetic == LINEAR else self.arrays.factor_total


def readable(workspace: Workspace, arrays: WorkspaceArrays, leaves: Leaves | None = None) -> Readable:
    """Return what is read from a workspace, whose arrays are given as they are or as they were at some moment."""
    domains, sizes = workspace.domains, arrays.domain_size
    start, states = domains.slot_start, domains.slot_state
    if not domains.is_whole and int(sizes.sum()) < start[-1]:  # there is room behind the domains
        start, states = row_starts(sizes), states[row_items(start[:-1], sizes)]
    log_scale = workspace.tables.log_scale.copy()
    return Readable(workspace.compiled, arrays, start, states, log_scale, domains.log_prior_scale, leaves)
