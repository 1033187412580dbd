"""A snapshot of rounds on sparse domains: marginals over all states within reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from anytimebp.inference.adaptive.nested import NestedWorkspace
from anytimebp.inference.adaptive.round_end import RoundEnd
from anytimebp.inference.adaptive.strip_sources import StripSources
from anytimebp.inference.figures import Figures
from anytimebp.inference.readout import take_snapshot
from anytimebp.kernels.strips import read_leaves
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.model.variable import VariableTable
from anytimebp.results.marginals import NOT_ASKED_FOR, Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.readable import Readable

NO_STATES: IndexArray = np.empty(0, dtype=np.int64)  # beliefs are over the universes in order


class Rounds(Protocol):
    """What is read of the rounds."""

    compiled: CompiledGraph
    variables: VariableTable
    sources: StripSources
    workspace: NestedWorkspace
    settled: RoundEnd | None

    def sizes_with_leaves(self, sizes: IndexArray) -> IndexArray:
        """Return the sizes of the domains of all variables, leaves included."""
        ...


def read_stage(stage: Rounds, figures: Figures, *, settled: bool, joint: bool) -> Snapshot:
    """Return what a stage knows: at the end of its last round, or now; `joint` if factor marginals are wanted.

    Leaves are read at the end of rounds only. So in a round with leaves, what is known now is what was known then.
    """
    has_leaves = len(stage.sources.axes.leaves) > 0
    last = stage.settled if settled or has_leaves else None
    workspace = last.workspace if last else stage.workspace
    if last and settled:
        figures = replace(
            figures,
            updates=last.updates,
            work_parts=last.work_parts,
            max_residual=last.residual,
            mean_residual=last.residual,
            damping=0.0,
            consistent=True,
            tolerance=last.tolerance,
        )
    domains = workspace.reach.domains
    source = Readable(
        stage.compiled,
        last.arrays if last else workspace.space,
        domains.slot_start,
        workspace.reach.slot_state,
        workspace.nested.shift,
        domains.log_prior_scale,
    )
    if last is None or joint:
        return take_snapshot(
            source,
            figures,
            swept=last is not None,
            factor_marginals=joint,
            outside=last.outside if last else 1.0,
            error=last.error if last else float("inf"),
            domain_sizes=last.domain_size if last else workspace.nested.size.copy(),
        )
    belief, slot_start, states = last.belief.copy(), domains.slot_start, source.states
    if has_leaves:
        belief, slot_start, states = _with_leaves(stage, last), stage.sources.universe_start, NO_STATES
    return Snapshot(
        marginals=Marginals(stage.variables, belief, slot_start, states),
        log_z=last.log_z,
        outside=last.outside,
        error=last.error,
        domain_sizes=read_only(stage.sizes_with_leaves(last.domain_size)),
        arithmetic="linear",
        factor_marginals=NOT_ASKED_FOR,
        **figures.shown(),
    )


def _with_leaves(stage: Rounds, last: RoundEnd) -> FloatArray:
    """Return the beliefs of all states of all variables, the leaves read from the domains of the others."""
    workspace, axes, start = last.workspace, stage.sources.axes, stage.sources.universe_start
    belief = np.zeros(int(start[-1]))
    owner = np.repeat(start[axes.variables], np.diff(workspace.reach.domains.slot_start))
    belief[owner + workspace.reach.slot_state] = last.belief
    nested = workspace.nested._replace(size=last.domain_size)
    read_leaves(workspace.layout, last.arrays, nested, belief)
    return belief
