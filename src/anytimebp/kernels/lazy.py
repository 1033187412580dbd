"""Sweeps that leave out what has nothing to catch up with.

`movement` says what all messages to a variable have moved, in all, and how much of that each factor has taken in. A
factor never stretches ranges, so what messages to its variables have moved since its last update bounds what its own
messages would move, without any being computed.
"""

from anytimebp.kernels.arithmetic import log
from anytimebp.kernels.codes import CONVERGED, GONE, LOG, OK, UNSETTLED, UPDATE
from anytimebp.kernels.jit import borrow, kernel
from anytimebp.kernels.messages import EDGE_COST, cost_of, update_at
from anytimebp.kernels.to_variable import LOG_GONE

PLACE, BACK, SWEEPS, MADE = 0, 1, 2, 3  # in the progress of settling; MADE: updates of the sweep so far
MOST = 1e3  # nats that count as infinitely many: sums of them keep the digits that tolerances need


@kernel()
def pending(layout, movement, factor):
    """Return a bound on what a factor's messages would move."""
    total = 0.0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        total += movement.moved[layout.edge_variable[edge]] - movement.seen[edge]
    return total


@kernel()
def _fall(arithmetic, now, before):
    """Return by how much the state of a message has fallen that has fallen most, of those that were not gone by it."""
    least = 0.0
    for v in range(now.size):
        if arithmetic == LOG and before[v] > LOG_GONE:
            least = min(least, now[v] - before[v])
        elif arithmetic != LOG and before[v] > GONE and now[v] < before[v]:
            least = min(least, log(now[v]) - log(before[v]))
    return -least


@kernel()
def tell(layout, bp, movement, factor, kept_back):
    """Tell a factor's variables by how much its messages have moved, and the factor what damping kept back.

    Residuals leave out states that are gone by what others say of them. For these others they may be there, so that the
    fall of such states counts until they are gone by the message itself.
    """
    first, last, offset = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1], 0
    for edge in range(first, last):
        variable, moved = layout.edge_variable[edge], bp.edge_residual[edge]
        start, n = bp.edge_slot_start[edge], bp.domain_size[variable]
        if bp.arithmetic == LOG or bp.edge_min[edge] < GONE:
            before = bp.outgoing[offset : offset + n]  # where updates leave what they have replaced
            moved = max(moved, _fall(bp.arithmetic, bp.message[start : start + n], before))
        movement.moved[variable] += min(moved, MOST)
        movement.seen[edge] = movement.moved[variable]
        offset += n
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
        unsent = pending(layout, movement, factor)
        if unsent > threshold:
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
            left = max(left, unsent)
        position += 1
    return OK, -1, position, updates, work, largest, total, left


@kernel()
def settle_slice(layout, bp, movement, there, back, progress, tolerance, max_sweeps, update_limit, cost_limit):
    """Sweep there and back, leaving out what has nothing to catch up with, until that is everything.

    Args:
        layout: Topology.
        bp: Messages.
        movement: A Movement.
        there: (F,) order of every other sweep.
        back: (F,) order of the others.
        progress: Where the sweeps stand, updated; zeros at first.
        tolerance: What a factor may have to catch up with.
        max_sweeps: After which to give up.
        update_limit: How many updates to make at the most.
        cost_limit: About how many entries to read.

    Returns:
        Status (CONVERGED, UNSETTLED, OK where neither is so yet, or what vanished), what vanished, updates and entries
        read; and, of what messages may still have to move once they have settled, the most and the mean over factors.
    """
    layout, bp, movement = borrow(layout), borrow(bp), borrow(movement)
    work, cost, updates = 0, 0, 0
    while cost < cost_limit and updates < update_limit and progress[SWEEPS] < max_sweeps:
        if progress[PLACE] == there.size:
            if progress[MADE] == 0:
                most, total = 0.0, 0.0
                for factor in range(there.size):
                    unsent = pending(layout, movement, factor)
                    most, total = max(most, unsent), total + unsent
                return CONVERGED, -1, updates, work, most, total / max(1, there.size)
            progress[PLACE], progress[BACK], progress[MADE] = 0, 1 - progress[BACK], 0
            progress[SWEEPS] += 1
            continue
        factor = back[progress[PLACE]] if progress[BACK] else there[progress[PLACE]]
        if pending(layout, movement, factor) > tolerance:
            status, culprit, _, entries = update_at(bp.calls[UPDATE], (layout, bp, factor, 0.0))
            if status != OK:
                return status, culprit, updates, work, 0.0, 0.0
            tell(layout, bp, movement, factor, 0.0)
            work += entries
            updates += 1
            progress[MADE] += 1
            cost += cost_of(layout.factor_edge_start, bp.table_in_logs, factor, entries)
        cost += EDGE_COST // 16
        progress[PLACE] += 1
    return (UNSETTLED if progress[SWEEPS] >= max_sweeps else OK), -1, updates, work, 0.0, 0.0
