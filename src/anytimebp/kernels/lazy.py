"""Sweeps that leave out what has nothing to catch up with.

`movement` says what all messages to a variable have moved, in all, and how much of that each factor has taken in. A
factor never stretches ranges, so what messages to its variables have moved since its last update bounds what its own
messages would move, without any being computed.
"""

from anytimebp.kernels.codes import OK, UPDATE
from anytimebp.kernels.jit import borrow, kernel
from anytimebp.kernels.messages import EDGE_COST, cost_of, update_at

MOST = 1e3  # nats that count as infinitely many: sums of them keep the digits that tolerances need


@kernel()
def pending(layout, movement, factor):
    """Return a bound on what a factor's messages would move."""
    total = 0.0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        total += movement.moved[layout.edge_variable[edge]] - movement.seen[edge]
    return total


@kernel()
def tell(layout, bp, movement, factor, kept_back):
    """Tell a factor's variables by how much its messages have moved, and the factor what damping kept back."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    for edge in range(first, last):
        variable = layout.edge_variable[edge]
        movement.moved[variable] += min(bp.edge_residual[edge], MOST)
        movement.seen[edge] = movement.moved[variable]
    movement.seen[first] -= min(kept_back, MOST)


@kernel()
def lazy_slice(layout, bp, movement, order, position, threshold, update_limit, cost_limit, damping):
    """Update those of the factors order[position:] that have more than `threshold` to catch up with.

    Returns:
        Status, what vanished, the position reached, updates, entries read, the largest residual of an update, their
        sum, and the most that a factor left out had to catch up with.
    """
    layout, bp, movement = borrow(layout), borrow(bp), borrow(movement)
    work, cost, updates, largest, total, left = 0, 0, 0, 0.0, 0.0, 0.0
    while position < order.size and cost < cost_limit and updates < update_limit:
        factor = order[position]
        waiting = pending(layout, movement, factor)
        if waiting > threshold:
            status, culprit, residual, entries = update_at(bp.calls[UPDATE], (layout, bp, factor, damping))
            if status != OK:
                return status, culprit, position, updates, work, largest, total, left
            tell(layout, bp, movement, factor, residual * damping if damping > 0.0 else 0.0)
            updates += 1
            work += entries
            cost += cost_of(layout.factor_edge_start, bp.table_in_logs, factor, entries)
            largest = max(largest, residual)
            total += residual
        else:
            cost += EDGE_COST // 16
            left = max(left, waiting)
        position += 1
    return OK, -1, position, updates, work, largest, total, left
