"""From the workspace to frozen records: beliefs, factor marginals, the Bethe estimate of log Z."""

from __future__ import annotations

import numpy as np

from anytimebp.engine.options import RunOptions
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import LINEAR, OK
from anytimebp.kernels.readout import read_beliefs, read_weights
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.marginals import FactorMarginals, Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.workspace.space import Workspace


def take_snapshot(
    workspace: Workspace,
    options: RunOptions,
    *,
    seconds: float,
    updates: int,
    swept: bool,
    work_parts: dict[str, int],
    max_residual: float,
    mean_residual: float,
    damping: float,
    consistent: bool,
) -> Snapshot:
    """Read the beliefs out of a workspace; log Z is not known (NaN) before every factor has been updated once."""
    belief, log_normaliser = _beliefs(workspace)
    domains = workspace.domains
    marginals = Marginals(workspace.compiled.variables, belief, domains.slot_start, domains.states)
    return Snapshot(
        marginals=marginals,
        log_z=_bethe(workspace, log_normaliser) if swept else float("nan"),
        max_residual=max_residual,
        mean_residual=mean_residual,
        unexplored_mass=0.0,
        domain_sizes=_frozen(domains.sizes),
        seconds=seconds,
        updates=updates,
        work_parts=work_parts,
        consistent=consistent,
        tolerance=options.tolerance,
        method=options.method,
        arithmetic="linear" if workspace.tables.arithmetic == LINEAR else "log",
        damping=damping,
        factor_marginals=_factor_marginals(workspace, marginals) if options.factor_marginals else None,
    )


def _frozen(values: IndexArray) -> IndexArray:
    view = values.view()
    view.flags.writeable = False
    return view


def _beliefs(workspace: Workspace) -> tuple[FloatArray, FloatArray]:
    belief = np.empty(len(workspace.arrays.prior))
    log_normaliser = np.empty(len(workspace.domains.sizes))
    status, variable = read_beliefs(workspace.layout, workspace.arrays, belief, log_normaliser)
    if status != OK:
        raise _no_belief(workspace, variable)
    return belief, log_normaliser


def _no_belief(workspace: Workspace, variable: int) -> InconsistentModelError:
    name = workspace.compiled.variables.name(variable)
    return InconsistentModelError(f"no joint state is possible: messages exclude every state of variable {name!r}")


def _bethe(workspace: Workspace, log_normaliser: FloatArray) -> float:
    """Return log Z by the formula that heads the kernels."""
    arrays, layout = workspace.arrays, workspace.layout
    linear = workspace.tables.arithmetic == LINEAR
    total = np.log(arrays.factor_total) if linear else arrays.factor_total
    scale = np.log(arrays.edge_scale) if linear else arrays.edge_scale
    arity = layout.factor_edge_start[1:] - layout.factor_edge_start[:-1]
    parts = (
        workspace.tables.log_scale.sum(),
        ((1 - arity) * total).sum(),
        scale.sum(),
        log_normaliser.sum(),
        workspace.domains.log_prior_scale.sum(),
    )
    return float(sum(parts))


def _factor_marginals(workspace: Workspace, marginals: Marginals) -> FactorMarginals:
    log_weight = np.empty(len(workspace.arrays.message))
    status, variable = read_weights(workspace.layout, workspace.arrays, log_weight)
    if status != OK:
        raise _no_belief(workspace, variable)
    compiled = workspace.compiled
    factor_edge = np.full(sum(len(block.scopes) for block in compiled.blocks), -1, dtype=np.int64)
    for first, block in compiled.message_blocks:
        n = len(block.scopes)
        factor_edge[block.first : block.first + n] = workspace.layout.factor_edge_start[first : first + n]
    return FactorMarginals(
        marginals, compiled.blocks, workspace.domains.states, factor_edge, workspace.arrays.edge_slot_start, log_weight
    )
