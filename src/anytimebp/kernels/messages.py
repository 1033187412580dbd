"""Message updates, and sweeps of them.

One factor f with scores t(x) = exp phi(x) and variables i, prior p_i, messages m (factor to variable):

    n_i(x_i)  =  p_i(x_i) * product of m_g(x_i) over the other factors g of i          `gather`, scaled to maximum 1
    o_i(x_i)  =  sum over x with that x_i of t(x) * product of n_j(x_j), j not i       `contract`
    m_f(x_i)  =  o_i(x_i) / c_i,  c_i = max o_i                                        `store`
    residual  =  max over i of the dynamic range of log(new m / old m)
    Z_f       =  sum of n_i(x_i) * o_i(x_i), the same for every i

with max in place of every sum over states where the semiring is MAX; then

    log Z     =  sum_f [ (1 - arity) log Z_f + sum_i log c_i ]  +  sum_i log sum_x p_i(x) * product of m(x)

`contract` reads the table once for any arity. Seen as a matrix (all axes but the last) x (last axis), its product with
n_last is the table of a factor with one variable fewer, and its product with the outer product of the other weights is
o_last; then the same again for the smaller table.

In linear arithmetic, numbers below SAFE would be lost. A factor without hard zeros loses nothing that matters if its
range is below MAX_LINEAR_RANGE nats. For others, the smallest product is bounded before each update. If the bound
fails, the update is refused with OUT_OF_RANGE, and the run continues in log arithmetic, where p, n, o, m, c and Z_f are
logarithms. Even there, sums are linear wherever that loses nothing; see `log_sums.py`.

Arguments, here and in the other kernels: `layout` is a GraphLayout (read), `bp` a WorkspaceArrays (overwritten).
"""

import math
from typing import Any

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import (
    BAND,
    CONTRACT,
    FACTOR_VANISHED,
    GATHER,
    GATHER_HUB,
    LINEAR,
    LOG,
    MAX,
    MOVE_HUB,
    N_CALLS,
    OK,
    OUT_OF_RANGE,
    SAFE,
    STORE,
    SUM_AXIS_BY_LOGS,
    SUM_IN_LOGS,
    TABLE,
    UPDATE,
    VANISHED,
    VARIABLE_VANISHED,
)
from anytimebp.kernels.either_arithmetic import best, dot
from anytimebp.kernels.jit import address_of, borrow, by_address, index_view, kernel, table_view
from anytimebp.kernels.leaf_tables import sum_axis_by_logs
from anytimebp.kernels.log_sums import sum_in_logs, sum_in_logs_at
from anytimebp.kernels.structures import ALL, send
from anytimebp.kernels.through_table import band_linear, contract, contract_at, edge_size
from anytimebp.kernels.to_factor import gather, gather_at, gather_hub, is_lone_hub
from anytimebp.kernels.to_variable import move_hub, store, store_at

EDGE_COST = 400  # entries that could be read in the time of an edge's bookkeeping, for cutting runs into slices
AT_ONCE = 2**21  # entries read by several sweeps in one slice, a millisecond; these share one time in the trace
NEARLY = 1e4  # times the tolerance that a sweep may have moved messages by, and still be the last one
LOG_COST = 4  # entries that one costs whose table is in logs, or about that


@kernel()
def smallest_product(layout, bp, factor):
    """Return a lower bound of the positive products a factor can form: sharper, and dearer, than that of `gather`."""
    product, offset = bp.table_min[factor], 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        smallest = 1.0
        for v in range(offset, offset + n):
            if bp.incoming[v] > 0.0:
                smallest = min(smallest, bp.incoming[v])
        product *= smallest
        offset += n
    return product


@kernel()
def through_structure(layout, bp, factor, wanted):
    """Fill `bp.outgoing` by a structure's sums: linear ones even of logs, where those can lose nothing.

    Only the message of one axis is there afterwards, if `wanted` is not ALL.
    """
    if bp.arithmetic == LINEAR or bp.table_in_logs[factor]:
        send(bp.structure_inputs, factor, bp.arithmetic, wanted)
        return
    first, n_slots, begin, end = layout.factor_edge_start[factor], 0, 0, 0
    for edge in range(first, layout.factor_edge_start[factor + 1]):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        if edge == first + wanted:
            begin, end = n_slots, n_slots + n
        n_slots += n
    for v in range(n_slots):
        bp.weight[v] = bp.incoming[v]
        bp.incoming[v] = exp(bp.incoming[v])
    send(bp.structure_inputs, factor, LINEAR, wanted)
    for v in range(n_slots):
        bp.incoming[v] = bp.weight[v]
    for v in range(begin, n_slots if wanted == ALL else end):
        bp.outgoing[v] = math.log(bp.outgoing[v])


@kernel(merge=True)
def sum_out(layout, bp, factor):
    """Fill `bp.outgoing` and Z_f from `bp.incoming`, in the run's arithmetic."""
    if bp.factor_kind[factor] == TABLE and bp.arithmetic == LOG:
        bp.factor_total[factor] = sum_in_logs_at(bp.calls[SUM_IN_LOGS], (layout, bp, factor))
    else:
        if bp.factor_kind[factor] == TABLE:
            contract_at(bp.calls[CONTRACT], (layout, bp, factor, bp.table_address[factor], bp.incoming))
        else:
            through_structure(layout, bp, factor, ALL)
        n = edge_size(layout.edge_variable, bp.domain_size, layout.factor_edge_start[factor])
        if bp.semiring == MAX:
            bp.factor_total[factor] = best(bp.arithmetic, bp.outgoing[:n], bp.incoming[:n])
        else:
            bp.factor_total[factor] = dot(bp.arithmetic, bp.outgoing[:n], bp.incoming[:n])


@kernel(inline=True)
def _is_lone(layout, bp, factor):
    """Tell whether a table has one entry: every variable has one active state."""
    if bp.factor_kind[factor] != TABLE or bp.arithmetic == LOG:
        return False
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        if bp.domain_size[layout.edge_variable[edge]] != 1:
            return False
    return True


@kernel(inline=True)
def _send_lone(layout, bp, factor, value):
    """Send the messages of a table of one positive entry: they stay at 1, and only scales change."""
    bp.factor_total[factor] = value
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        bp.edge_scale[edge], bp.edge_residual[edge] = value, 0.0


@kernel(inline=True)
def _has_plain_table(bp, factor):
    """Tell whether sums go through a table that has no zeros, and no band."""
    is_table = bp.factor_kind[factor] == TABLE and bp.arithmetic == LINEAR and bp.semiring != MAX
    return is_table and not bp.table_has_zero[factor] and bp.table_band[factor] == 0


@kernel()
def _send_line(layout, bp, factor, only):
    """Send the messages of a table without zeros to one variable of several active states; return the residual.

    All others have one active state. The message to that one is a line of the table, whatever the factor is told, so
    that it is written once. Messages to the others stay at 1, and only scales change.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    n, stride = bp.domain_size[layout.edge_variable[only]], 1
    for edge in range(only + 1, last):
        stride *= bp.edge_capacity[edge]
    line, begin = table_view(bp.table_address[factor], (n - 1) * stride + 1), only - first
    weight, new = bp.incoming[begin : begin + n], bp.outgoing[begin : begin + n]
    message = bp.message[bp.edge_slot_start[only] : bp.edge_slot_start[only] + n]
    peak, total, is_same = 0.0, 0.0, True
    for v in range(n):
        new[v] = line[v * stride]
        peak = max(peak, new[v])
        total += new[v] * weight[v]
    for v in range(n):
        is_same &= new[v] * (1.0 / peak) == message[v]
    bp.factor_total[factor] = total
    for edge in range(first, last):
        if edge != only:
            bp.outgoing[edge - first if edge < only else edge - first + n - 1] = 1.0
            bp.edge_scale[edge], bp.edge_residual[edge] = total, 0.0
    if not is_same:
        return store_at(bp.calls[STORE], (layout, bp, only, weight, new, 0.0))
    for v in range(n):
        new[v] = message[v]
    bp.edge_scale[only], bp.edge_residual[only] = peak, 0.0
    return 0.0


@kernel()
def update(layout, bp, factor, damping):
    """Send all messages of a factor; return status, what vanished, the residual and the entries read."""
    if _is_lone(layout, bp, factor):
        value = table_view(bp.table_address[factor], 1)[0]
        if value > 0.0:
            _send_lone(layout, bp, factor, value)
            return OK, -1, 0.0, 1
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    floor, lost, offset, entries, several, only = bp.table_min[factor], False, 0, 1, 0, first
    for edge in range(first, last):
        variable = layout.edge_variable[edge]
        n = bp.domain_size[variable]
        weight = bp.incoming[offset : offset + n]
        if n == 1 and is_lone_hub(bp, variable, edge):
            weight[0], bound = 0.0 if bp.arithmetic == LOG else 1.0, 1.0
        else:
            bound, _, _ = gather_at(bp.calls[GATHER], (layout, bp, variable, edge, weight))
        if bound < 0.0:
            return VARIABLE_VANISHED, variable, 0.0, 0
        lost |= bound == 0.0
        floor *= bound
        offset += n
        entries *= n
        if n > 1:
            several, only = several + 1, edge
    if several == 1 and damping == 0.0 and _has_plain_table(bp, factor):
        return OK, -1, _send_line(layout, bp, factor, only), entries
    if bp.factor_kind[factor] != TABLE:
        entries = bp.structure_work[factor]
    elif bp.table_band[factor]:
        entries = entries // n * index_view(bp.table_band[factor], 1)[0]
    doubtful = floor < SAFE and bp.arithmetic == LINEAR and bp.table_has_zero[factor]
    if doubtful and (lost or smallest_product(layout, bp, factor) < SAFE):
        return OUT_OF_RANGE, factor, 0.0, 0
    sum_out(layout, bp, factor)
    offset, residual = 0, 0.0
    for edge in range(first, last):
        n = edge_size(layout.edge_variable, bp.domain_size, edge)
        end = offset + n
        weight, new = bp.incoming[offset:end], bp.outgoing[offset:end]
        moved = store_at(bp.calls[STORE], (layout, bp, edge, weight, new, damping))
        if moved < 0.0:
            return FACTOR_VANISHED if moved == VANISHED else OUT_OF_RANGE, factor, 0.0, 0
        residual = max(residual, moved)
        offset = end
    return OK, -1, residual, entries


update_at = by_address(update, "int64", "int64", "float64", "int64")

CALLS = np.zeros(N_CALLS, dtype=np.int64)
"""Addresses of kernels that others call by address; the same for all runs of a process."""


def link_calls(layout: Any, bp: Any, *, in_logs: bool) -> None:
    """Load the kernels that others call by address, or compile them, unless they are there already.

    Args:
        layout: Topology.
        bp: Messages.
        in_logs: Whether log arithmetic is used or may be: what only that needs takes four seconds to compile.
    """
    number, weight = 0, bp.incoming
    if in_logs and not CALLS[SUM_IN_LOGS]:
        CALLS[SUM_IN_LOGS] = address_of(sum_in_logs, layout, bp, number)
        sizes = number, number, number
        CALLS[SUM_AXIS_BY_LOGS] = address_of(sum_axis_by_logs, number, in_logs, weight, *sizes, weight, weight, weight)
    if not CALLS[UPDATE]:
        CALLS[GATHER] = address_of(gather, layout, bp, number, number, weight)
        CALLS[CONTRACT] = address_of(contract, layout, bp, number, number, weight)
        CALLS[STORE] = address_of(store, layout, bp, number, weight, weight, 0.0)
        CALLS[UPDATE] = address_of(update, layout, bp, number, 0.0)


def link_hubs(bp: Any) -> None:
    """Do the same with what only variables of high degree need."""
    if not CALLS[MOVE_HUB]:
        CALLS[GATHER_HUB] = address_of(gather_hub, bp, 0, 0, bp.incoming)
        CALLS[MOVE_HUB] = address_of(move_hub, bp, 0, bp.incoming, bp.outgoing)


def link_bands(bp: Any) -> None:
    """Do the same with what only tables with bands need."""
    if not CALLS[BAND]:
        CALLS[BAND] = address_of(band_linear, bp.table_band, *[bp.incoming] * 5)


@kernel(inline=True)
def cost_of(factor_edge_start, table_in_logs, factor, entries):
    """Return about how many entries could have been read in the time of an update."""
    edges = factor_edge_start[factor + 1] - factor_edge_start[factor]
    return EDGE_COST * edges + (LOG_COST * entries if table_in_logs[factor] else entries)


@kernel()
def _has_news(layout, news, factor):
    """Tell whether a message to one of a factor's variables has moved since its last update."""
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        if news.seen[edge] != news.times[layout.edge_variable[edge]] + 1:
            return True
    return False


@kernel()
def _has_changed(arithmetic, now, before, least):
    """Tell whether a number of a message has moved by more than the least that is news; zeros are where they were."""
    one = 1.0 if arithmetic == LOG else 0.0
    for v in range(now.size):
        if now[v] != before[v] and abs(now[v] - before[v]) > least * (one + abs(before[v])):
            return True
    return False


@kernel()
def _tell_news(layout, bp, news, factor):
    """Count the messages of a factor that its update has moved, which are in `bp.outgoing` as they were.

    Residuals leave out states that are gone, but others do not settle while these fall, so their fall is news as well.
    """
    offset = 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        variable, start = layout.edge_variable[edge], bp.edge_slot_start[edge]
        n = bp.domain_size[variable]
        news.rest[variable] += bp.edge_residual[edge]
        now, before = bp.message[start : start + n], bp.outgoing[offset : offset + n]
        if news.rest[variable] > news.least or _has_changed(bp.arithmetic, now, before, news.least):
            news.times[variable] += 1
            news.rest[variable] = 0.0
        news.seen[edge] = news.times[variable] + 1
        offset += n


@kernel()
def largest_pending(layout, bp, order, moved, damping, least):
    """Return a bound on how far any message of the last sweep is from what its factor would send now.

    A factor never stretches the range of a change, so the changes of its incoming messages since it was updated bound
    its own, together with what damping kept back. They are added up per variable, from the last update of the sweep to
    the first, in `moved`, which is scratch. Of earlier sweeps, a factor that was passed over may have missed up to
    `least` per variable.
    """
    largest = 0.0
    for variable in range(moved.size):
        moved[variable] = 0.0
    for position in range(order.size - 1, -1, -1):
        first, last = layout.factor_edge_start[order[position]], layout.factor_edge_start[order[position] + 1]
        pending, kept_back = least * (last - first), 0.0
        for edge in range(first, last):
            pending += moved[layout.edge_variable[edge]]
            if damping > 0.0:
                kept_back = max(kept_back, bp.edge_residual[edge] * damping / (1.0 - damping))
        for edge in range(first, last):
            moved[layout.edge_variable[edge]] += bp.edge_residual[edge]
        largest = max(largest, pending + kept_back)
    return largest


@kernel()
def sweep_slice(layout, bp, news, orders, position, stop, cost_limit, damping, tolerance, sweeps, moved):
    """Update factors in order, at most until `cost_limit` entries are read; stop after a sweep that may be the last.

    That is one that moves nothing, or after which nothing is pending. Another is begun only while all of them together
    are cheap (AT_ONCE). A factor that would send the same messages again, or all but, counts as updated, but is not:
    what it receives has hardly moved since its last update. `news` counts, per variable, how often messages to it have
    moved, and says, per edge, how much of that the factor has seen. Damped messages move by themselves, so all factors
    are updated then.

    Args:
        layout: Topology.
        bp: Messages.
        news: Which factors have something new to take in; overwritten.
        orders: (n, F) the orders of sweeps, taken in turn.
        position: Of the next update, counted from the first one of the first order.
        stop: Position at which to stop in any case.
        cost_limit: See above.
        damping: Part of the old message to keep.
        tolerance: Residual up to which a message does not move.
        sweeps: (sweeps, 3) a row for each, from the present one on: entries read, the largest residual, and the sum of
            residuals; added to.
        moved: (V,) scratch.

    Returns:
        Status, what vanished, the position reached, and what is pending after the last sweep, if it may be the last of
        all; infinite if not.
    """
    layout, bp, news = borrow(layout), borrow(bp), borrow(news)
    n_factors, first, cost = orders.shape[1], position // orders.shape[1], 0
    while position < stop and cost < cost_limit:
        sweep = position // n_factors
        factor, row = orders[sweep % orders.shape[0], position - sweep * n_factors], sweep - first
        residual, entries = 0.0, 0
        if damping > 0.0 or _has_news(layout, news, factor):
            status, culprit, residual, entries = update_at(bp.calls[UPDATE], (layout, bp, factor, damping))
            if status != OK:
                return status, culprit, position, np.inf
            _tell_news(layout, bp, news, factor)
            cost += cost_of(layout.factor_edge_start, bp.table_in_logs, factor, entries)
        else:
            for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
                bp.edge_residual[edge] = 0.0
            cost += EDGE_COST // 16
        position += 1
        sweeps[row, 0] += entries
        sweeps[row, 1] = max(sweeps[row, 1], residual)
        sweeps[row, 2] += residual
        is_over = position == (sweep + 1) * n_factors
        if is_over and sweeps[row, 1] <= NEARLY * tolerance:
            pending = largest_pending(layout, bp, orders[sweep % orders.shape[0]], moved, damping, news.least)
            if min(sweeps[row, 1], pending) <= tolerance:
                return OK, -1, position, pending
        if is_over and cost + cost // (row + 1) > AT_ONCE:
            break
    return OK, -1, position, np.inf
