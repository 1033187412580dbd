"""A snapshot of rounds on sparse domains: marginals over all states within reach."""

from __future__ import annotations

from anytimebp.inference.adaptive.strip_stage import StripStage
from anytimebp.inference.options import RunOptions
from anytimebp.inference.readout import Figures, Readable, frozen, take_snapshot
from anytimebp.results.marginals import NOT_ASKED_FOR, Marginals
from anytimebp.results.snapshot import Snapshot


def read_stage(stage: StripStage, options: RunOptions, seconds: float, *, settled: bool) -> Snapshot:
    """Return what a stage knows: at the end of its last round, or now."""
    last = stage.settled if settled else None
    workspace = last.workspace if last else stage.workspace
    figures = Figures(
        seconds=seconds,
        updates=last.updates if last else stage.updates,
        work_parts=dict(last.work_parts if last else stage.work_parts),
        max_residual=last.residual if last else stage.max_residual,
        mean_residual=last.residual if last else stage.mean_residual,
        damping=0.0,
        consistent=last is not None,
        tolerance=last.tolerance if last else options.tolerance,
        method=options.method,
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
    if last is None or options.factor_marginals:
        return take_snapshot(
            source,
            figures,
            swept=last is not None,
            factor_marginals=options.factor_marginals,
            outside=last.outside if last else 1.0,
            error=last.error if last else float("inf"),
            domain_sizes=last.domain_size if last else workspace.nested.size.copy(),
        )
    return Snapshot(
        marginals=Marginals(stage.compiled.variables, last.belief.copy(), domains.slot_start, source.states),
        log_z=last.log_z,
        outside=last.outside,
        error=last.error,
        domain_sizes=frozen(last.domain_size),
        arithmetic="linear",
        factor_marginals=NOT_ASKED_FOR,
        **figures._asdict(),
    )
