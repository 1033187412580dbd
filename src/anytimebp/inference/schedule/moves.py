"""What messages may still move, by what a schedule knows of them."""

from __future__ import annotations

from anytimebp.inference.control.estimated_error import expected_moves
from anytimebp.inference.readout import part_of
from anytimebp.inference.schedule.protocol import Messages, Schedule
from anytimebp.inference.schedule.residual import ResidualSchedule
from anytimebp.inference.schedule.sweeps import LazySchedule
from anytimebp.model.source import FloatArray, IndexArray


def moves_left(
    messages: Messages, schedule: Schedule | None, followed: IndexArray | None
) -> tuple[IndexArray, FloatArray]:
    """Return the variables that edges lead to, and by how many nats their messages may still move.

    Args:
        messages: The graph, or its core.
        schedule: That updates them.
        followed: Variables whose edges count; None for all.
    """
    layout, arrays, edges = messages.layout, messages.arrays, None
    moved = arrays.edge_residual
    if followed is not None:
        layout, _ = part_of(layout, arrays, followed)
        edges = layout.variable_edge
        moved = moved[edges]
    pending = schedule.pending(edges) if isinstance(schedule, ResidualSchedule | LazySchedule) else None
    return layout.edge_variable, expected_moves(moved, pending)
