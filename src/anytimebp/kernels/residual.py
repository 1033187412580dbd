"""Residual BP: an indexed heap of factors and hubs, and updates by priority."""

import numpy as np

from anytimebp.kernels.codes import CONVERGED, OK, UPDATE
from anytimebp.kernels.jit import borrow, kernel
from anytimebp.kernels.journal import note
from anytimebp.kernels.messages import cost_of, update_at

SINCE, CURSOR = 0, 1  # in the turn of a heap
PATIENT = 100  # updates per factor after which those that are pending get a turn
TURN = 8  # every so many updates
LOOKED_AT = 64  # factors, at the most, to find one whose turn it is


@kernel(inline=True)
def _before(heap, a, b):
    """Tell whether item a comes before item b: higher priority, then lower number."""
    return heap.priority[a] > heap.priority[b] or (heap.priority[a] == heap.priority[b] and a < b)


@kernel()
def sift(heap, item):
    """Move an item of changed priority to where it belongs in the indexed heap."""
    position = heap.position[item]
    while position > 0:
        parent = (position - 1) >> 1
        other = heap.item[parent]
        if not _before(heap, item, other):
            break
        heap.item[position], heap.position[other] = other, position
        position = parent
    while True:
        child = 2 * position + 1
        if child >= heap.item.size:
            break
        if child + 1 < heap.item.size and _before(heap, heap.item[child + 1], heap.item[child]):
            child += 1
        other = heap.item[child]
        if not _before(heap, other, item):
            break
        heap.item[position], heap.position[other] = other, position
        position = child
    heap.item[position], heap.position[item] = item, position


@kernel()
def _raise_priority(heap, item, amount):
    if amount > 0.0:
        heap.priority[item] += amount
        sift(heap, item)


@kernel()
def _spread(layout, bp, heap, factor):
    """Tell the neighbours of a factor by how much its messages have moved.

    A variable of high degree is told instead of its factors; it passes the sum on when it reaches the top of the heap,
    so that an update costs the arity and not the degree.
    """
    n_factors = layout.factor_edge_start.size - 1
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        moved = bp.edge_residual[edge]
        variable = layout.edge_variable[edge]
        hub = bp.variable_hub[variable]
        if hub >= 0:
            heap.unspread[edge] += moved
            _raise_priority(heap, n_factors + hub, moved)
            continue
        for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
            other = layout.edge_factor[layout.variable_edge[position]]
            if other != factor:
                _raise_priority(heap, other, moved)


@kernel()
def _spread_hub(layout, bp, heap, hub):
    """Pass what a variable of high degree was told on to its factors, less what each told it; return its degree."""
    item = layout.factor_edge_start.size - 1 + hub
    variable = bp.hub_variable[hub]
    moved = heap.priority[item]
    heap.priority[item] = 0.0
    sift(heap, item)
    first, last = layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
    for position in range(first, last):
        edge = layout.variable_edge[position]
        own = heap.unspread[edge]
        heap.unspread[edge] = 0.0
        _raise_priority(heap, layout.edge_factor[edge], np.inf if moved == np.inf else moved - own)
    return last - first


@kernel()
def _spread_hubs(layout, bp, heap):
    """Let all variables of high degree pass on what they were told; return the sum of the degrees."""
    n_factors, cost = layout.factor_edge_start.size - 1, 0
    for hub in range(bp.hub_variable.size):
        if heap.priority[n_factors + hub] > 0.0:
            cost += _spread_hub(layout, bp, heap, hub)
    return cost


@kernel()
def _in_turn(heap, n_factors, first, tolerance):
    """Return the factor to update: the `first` in the heap, or now and then the next one that is pending.

    Factors that never settle would keep all others waiting for ever.
    """
    heap.turn[SINCE] += 1
    if heap.turn[SINCE] < PATIENT * n_factors or heap.turn[SINCE] % TURN:
        return first
    for _ in range(min(LOOKED_AT, n_factors)):
        factor = heap.turn[CURSOR]
        heap.turn[CURSOR] = (factor + 1) % n_factors
        if heap.priority[factor] > tolerance:
            return factor
    return first


@kernel()
def residual_slice(layout, bp, heap, journal, update_limit, cost_limit, tolerance, damping):
    """Do as `residual_updates`, for callers in Python."""
    return residual_updates(
        borrow(layout), borrow(bp), borrow(heap), borrow(journal), update_limit, cost_limit, tolerance, damping
    )


@kernel()
def residual_updates(layout, bp, heap, journal, update_limit, cost_limit, tolerance, damping):
    """Update the factor of highest priority, again and again, until all are under the tolerance or a limit is met.

    A hub may keep to itself what it was told, as long as that is under the tolerance. Together with what a factor was
    told by others it may be more, so hubs pass everything on before it is said that all are under the tolerance.

    Returns:
        Status, what vanished, updates made, entries read, the cost.
    """
    n_factors = layout.factor_edge_start.size - 1
    work, cost, updates = 0, 0, 0
    if heap.item.size == 0:
        return CONVERGED, -1, updates, work, cost
    while updates < update_limit and cost < cost_limit:
        item = heap.item[0]
        if heap.priority[item] <= tolerance:
            cost += _spread_hubs(layout, bp, heap)
            if heap.priority[heap.item[0]] > tolerance:
                continue
            heap.turn[SINCE] = 0
            return CONVERGED, -1, updates, work, cost
        if item >= n_factors:
            cost += _spread_hub(layout, bp, heap, item - n_factors)
            continue
        item = _in_turn(heap, n_factors, item, tolerance)
        if journal.keep:
            note(layout, bp, journal, item)
        status, culprit, residual, entries = update_at(bp.calls[UPDATE], (layout, bp, item, damping))
        if status != OK:
            return status, culprit, updates, work, cost
        heap.priority[item] = residual * damping if damping > 0.0 else 0.0  # an infinite residual times 0 is NaN
        sift(heap, item)
        _spread(layout, bp, heap, item)
        updates += 1
        work += entries
        cost += cost_of(layout.factor_edge_start, bp.table_in_logs, item, entries)
    return OK, -1, updates, work, cost


@kernel()
def demand_update(heap, factor):
    """Put a factor at the head of the queue."""
    heap.priority[factor] = np.inf
    sift(heap, factor)
