"""Messages on active states that do not settle by themselves: they are damped, as those of `bp` are."""

from __future__ import annotations

from collections.abc import Generator

from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.control.damping import Damper
from anytimebp.inference.method import Step, Task
from anytimebp.inference.schedule.lazy_sweeps import LazySchedule
from anytimebp.inference.schedule.sweeps import sequential_orders
from anytimebp.kernels.codes import CONVERGED, OK, UNSETTLED

MOST_SWEEPS = 240  # after which a round does not settle; BP on all states has more patience


def settle_damped(task: Task, model: ActiveModel, tolerance: float) -> Generator[Step, None, tuple[int, int]]:
    """Sweep until messages have settled; return the status, UNSETTLED after too many sweeps, and what vanished."""
    figures, limits, workspace = task.figures, task.limits, model.workspace
    schedule = LazySchedule(workspace, sequential_orders(workspace.layout), tolerance)
    damper, sweeps = Damper(task.options.damping, workspace, tolerance), 0
    while sweeps < MOST_SWEEPS:
        updates, cost = max(1, limits.updates - figures.updates), limits.slice_cost(figures.work)
        progress = schedule.advance(updates, cost, damper.damping)
        figures.count(progress.updates, progress.work)
        if progress.status != OK:
            return progress.status, progress.culprit
        if progress.converged:
            figures.max_residual = figures.mean_residual = tolerance
            return CONVERGED, -1
        if progress.end_of_sweep:
            sweeps += 1
            if damper.hopeless(progress.max_residual):
                break
            figures.damping = damper.damping
        yield Step.WORKING
    return UNSETTLED, -1
