"""How messages on active states settle: by lazy sweeps in one kernel, and damped, as those of `bp`, if they do not."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from anytimebp.inference.adaptive.active_model import ActiveModel, ImpossibleRoundError, OutOfRangeError
from anytimebp.inference.control.damping import Damper
from anytimebp.inference.figures import UNLIMITED
from anytimebp.inference.method import Step, Task
from anytimebp.inference.schedule.sweeps import LazySchedule, Movement, sequential_orders
from anytimebp.kernels.codes import (
    CONVERGED,
    FACTOR_VANISHED,
    GONE,
    LINEAR,
    OK,
    OUT_OF_RANGE,
    UNSETTLED,
    VARIABLE_VANISHED,
)
from anytimebp.kernels.lazy import settle_slice
from anytimebp.model.source import IndexArray

FIRST_TOLERANCE = 0.05  # nats to which the first domains settle
MAX_SWEEPS = 60  # after which messages of a round are damped
EVERYTHING = 1e300  # nats: a tolerance with which every factor is updated once
MOST_SWEEPS = 240  # more, after which a round does not settle; BP on all states has more patience


def settle(
    task: Task,
    model: ActiveModel,
    orders: tuple[IndexArray, IndexArray],
    tolerance: float,
    *,
    gives_up: bool = True,
) -> Generator[Step, None, bool]:
    """Let messages settle; return whether they have.

    Args:
        task: What is to be done.
        model: The active states.
        orders: Of the factors, there and back.
        tolerance: In nats.
        gives_up: Whether messages that do not settle soon are given up.

    Raises:
        ImpossibleRoundError: Where messages exclude each other.
        OutOfRangeError: Where linear arithmetic would lose something.
    """
    status, culprit = UNSETTLED, -1
    damping = max(task.options.damping, task.figures.damping)  # a round before may have needed some
    if damping == 0.0:
        status, culprit = yield from _undamped(task, model, orders, tolerance)
    if status == UNSETTLED:
        status, culprit = yield from _damped(task, model, tolerance, MOST_SWEEPS if gives_up else UNLIMITED, damping)
    if status == CONVERGED and _may_have_lost_states(model):
        status, culprit = yield from _undamped(task, model, orders, EVERYTHING)
    if status == VARIABLE_VANISHED:
        raise ImpossibleRoundError(model.layout.edge_factor[model.whole.compiled.edges_of(culprit)].tolist())
    if status == FACTOR_VANISHED:
        raise ImpossibleRoundError([culprit])
    if status == OUT_OF_RANGE and model.arrays.arithmetic == LINEAR:
        raise OutOfRangeError
    return status == CONVERGED


def _may_have_lost_states(model: ActiveModel) -> bool:
    """Tell whether some states may be gone for some factors (head of `kernels/to_variable.py`).

    Residuals do not count these states, so that a factor for which they are there may not have been updated since. Its
    messages hardly depend on them, but the scales of its messages do, by which a look compares states outside.
    """
    arrays = model.arrays
    return arrays.arithmetic != LINEAR or bool(np.minimum.reduce(arrays.edge_min, initial=1.0) < GONE)


def _undamped(
    task: Task, model: ActiveModel, orders: tuple[IndexArray, IndexArray], tolerance: float
) -> Generator[Step, None, tuple[int, int]]:
    """Sweep until messages have settled; return the status, UNSETTLED after too many sweeps, and what vanished."""
    limits, figures, layout, status, culprit = task.limits, task.figures, model.layout, OK, -1
    movement = Movement(np.zeros(len(model.size)), np.full(len(layout.edge_variable), -np.inf))
    progress = np.zeros(4, dtype=np.int64)
    while status == OK:
        status, culprit, updates, work, most, mean = settle_slice(
            layout,
            model.arrays,
            movement,
            *orders,
            progress,
            tolerance,
            MAX_SWEEPS,
            max(1, limits.updates - figures.updates),
            limits.slice_cost(figures.work),
        )
        figures.count(updates, work)
        if status == OK:
            yield Step.WORKING
    if status == CONVERGED:
        figures.max_residual, figures.mean_residual = most, mean
    return status, culprit


def _damped(
    task: Task, model: ActiveModel, tolerance: float, most_sweeps: int, damping: float
) -> Generator[Step, None, tuple[int, int]]:
    """Do the same with damping, as much as messages need, and at least as much as is given."""
    figures, limits, workspace = task.figures, task.limits, model.workspace
    schedule = LazySchedule(workspace, sequential_orders(workspace.layout), tolerance)
    damper, sweeps = Damper(damping, workspace, tolerance), 0
    while sweeps < most_sweeps:
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
