"""Inner rounds: messages among domains, while what lies outside them stands still (frozen tails).

`bp` holds messages over whole universes, `inner` the same messages over the domains only, in the first slots of the
same edges; both are WorkspaceArrays, and `nested` (NestedArrays) says which states the domains hold. With S the
domains, n the messages to a factor at its last update over the universes (a strip sweep or a full one) and o what it
sent, the tail of an edge is what did not come from the domains alone:

    tail_i(x)  =  o_i(x) / product of p_j, j not i   -   o_i of the domains' weights alone,   p_j = max of n_j over S_j

Weights are scaled to a maximum of 1 on either side, over the universe there and over the domain here; the p make up for
it. An inner update adds the tail to what it sums. Where the next update over the universes finds nothing to change, nor
do inner rounds, so that the fixed point is that of the updates over the universes.

All of this is in linear arithmetic and for tables without hard zeros.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import add_exactly, log
from anytimebp.kernels.codes import CONTRACT, CONVERGED, OK, TAILS_LOST, UNSETTLED, UPDATE
from anytimebp.kernels.jit import borrow, kernel, table_view
from anytimebp.kernels.lazy import pending, tell
from anytimebp.kernels.messages import EDGE_COST, cost_of, update_at
from anytimebp.kernels.through_table import contract_at

PLACE, BACK, SWEEPS, MADE = 0, 1, 2, 3  # in the progress of inner rounds; MADE: updates of the sweep so far


@kernel()
def _copy_table(layout, bp, inner, nested, factor):
    """Fill the table of a factor over the domains: from the strip of its last axis, or from the table in full."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    variable = layout.edge_variable[last - 1]
    n, k, start = bp.domain_size[variable], nested.size[variable], bp.variable_slot_start[variable]
    member = nested.member[start : start + k]
    rows, size = 1, n
    nested.row_base[0] = 0
    for edge in range(last - 2, first - 1, -1):
        variable = layout.edge_variable[edge]
        start = bp.variable_slot_start[variable]
        for d in range(nested.size[variable] - 1, -1, -1):
            for r in range(rows):
                nested.row_base[d * rows + r] = nested.row_base[r] + nested.member[start + d] * size
        size *= bp.domain_size[variable]
        rows *= nested.size[variable]
    table = table_view(inner.table_address[factor], rows * k)
    if bp.table_address[factor]:
        given = table_view(bp.table_address[factor], size)
        for r in range(rows):
            row = given[nested.row_base[r] :]
            for d in range(k):
                table[r * k + d] = row[member[d]]
    else:
        strip = nested.pool[nested.strip_start[last - 1] :]
        for r in range(rows):
            row = strip[r * n :]
            for d in range(k):
                table[r * k + d] = row[member[d]]


@kernel()
def _copy_message(layout, bp, inner, nested, edge):
    """Take an edge's message over to the domain."""
    variable, slot = layout.edge_variable[edge], bp.edge_slot_start[edge]
    start, k = bp.variable_slot_start[variable], nested.size[variable]
    peak, low = 0.0, 1.0
    for d in range(k):
        value = bp.message[slot + nested.member[start + d]]
        inner.message[slot + d] = value
        peak = max(peak, value)
    for d in range(k):
        inner.message[slot + d] /= peak
        low = min(low, inner.message[slot + d])
    inner.edge_min[edge] = low
    inner.edge_capacity[edge] = k


@kernel()
def sum_hubs(layout, bp):
    """Fill the totals of variables of high degree from their priors and messages (linear)."""
    for hub in range(bp.hub_variable.size):
        variable = bp.hub_variable[hub]
        start, target = bp.variable_slot_start[variable], bp.hub_start[hub]
        for v in range(bp.domain_size[variable]):
            high, low, zeros = 0.0, 0.0, 0
            value = log(bp.prior[start + v])
            for place in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1] + 1):
                if value == -np.inf:
                    zeros += 1
                else:
                    high, low = add_exactly(high, low, value)
                if place < layout.variable_edge_start[variable + 1]:
                    value = log(bp.message[bp.edge_slot_start[layout.variable_edge[place]] + v])
            bp.hub_high[target + v], bp.hub_low[target + v], bp.hub_zeros[target + v] = high, low, zeros


@kernel()
def take_stock(layout, bp):
    """Find the smallest numbers and the totals of messages that were put in place from outside (linear)."""
    layout, bp = borrow(layout), borrow(bp)
    for edge in range(layout.edge_variable.size):
        slot = bp.edge_slot_start[edge]
        smallest = 1.0
        for v in range(bp.domain_size[layout.edge_variable[edge]]):
            smallest = min(smallest, bp.message[slot + v])
        bp.edge_min[edge] = smallest
    sum_hubs(layout, bp)


@kernel()
def enter_domains(layout, bp, inner, nested):
    """Do as `enter`, for callers in Python."""
    enter(borrow(layout), borrow(bp), borrow(inner), borrow(nested))


@kernel()
def enter(layout, bp, inner, nested):
    """Fill tables, priors and messages over the domains, after they have grown."""
    for factor in range(layout.factor_edge_start.size - 1):
        _copy_table(layout, bp, inner, nested, factor)
    enter_messages(layout, bp, inner, nested)


@kernel()
def enter_messages(layout, bp, inner, nested):
    """Fill priors and messages over the domains."""
    for variable in range(bp.domain_size.size):
        start, k = bp.variable_slot_start[variable], nested.size[variable]
        inner.domain_size[variable] = k
        for d in range(k):
            inner.prior[start + d] = bp.prior[start + nested.member[start + d]]
    for edge in range(layout.edge_variable.size):
        _copy_message(layout, bp, inner, nested, edge)
    sum_hubs(layout, inner)


@kernel()
def _take_message(layout, bp, inner, nested, edge, scale):
    """Take a message that was just sent over to the domain, with what it was divided by (`scale`).

    Returns:
        By how much it moved there, -1 where it is zero.
    """
    variable, slot = layout.edge_variable[edge], bp.edge_slot_start[edge]
    start, k = bp.variable_slot_start[variable], nested.size[variable]
    high, low, peak, smallest = 0.0, np.inf, 0.0, np.inf
    for d in range(k):
        value = bp.message[slot + nested.member[start + d]]
        ratio = value / inner.message[slot + d]
        inner.message[slot + d] = value
        high, low = max(high, ratio), min(low, ratio)
        peak, smallest = max(peak, value), min(smallest, value)
    if not (smallest > 0.0 and high < np.inf):
        return -1.0
    for d in range(k):
        inner.message[slot + d] /= peak
    inner.edge_min[edge] = smallest / peak
    inner.edge_scale[edge] = peak * scale
    return math.log(high / low)


@kernel()
def freeze_tails(layout, bp, inner, nested, factor):
    """Find a factor's tails, just after it was updated over the universes: its weights are in `bp.incoming`.

    Returns:
        By how much the update moved its messages on the domains, -1 where numbers vanish.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    offset, target, product = 0, 0, 1.0
    for edge in range(first, last):
        variable = layout.edge_variable[edge]
        start, k = bp.variable_slot_start[variable], nested.size[variable]
        peak = 0.0
        for d in range(k):
            inner.incoming[target + d] = bp.incoming[offset + nested.member[start + d]]
            peak = max(peak, inner.incoming[target + d])
        if peak <= 0.0:
            return -1.0
        for d in range(k):
            inner.incoming[target + d] /= peak
        nested.edge_peak[edge] = peak
        product *= peak
        offset += bp.domain_size[variable]
        target += k
    if product <= 0.0:
        return -1.0
    contract_at(inner.calls[CONTRACT], (layout, inner, factor, inner.table_address[factor], inner.incoming))
    target, residual, inside = 0, 0.0, 0.0
    for edge in range(first, last):
        variable, slot = layout.edge_variable[edge], bp.edge_slot_start[edge]
        start, k = bp.variable_slot_start[variable], nested.size[variable]
        nested.edge_peak[edge] = product / nested.edge_peak[edge]
        scale = bp.edge_scale[edge] / nested.edge_peak[edge]
        for d in range(k):
            sent = bp.message[slot + nested.member[start + d]] * scale
            inner.tail[slot + d] = max(0.0, sent - inner.outgoing[target + d])
            if edge == first:
                inside += inner.incoming[d] * sent
        target += k
        moved = _take_message(layout, bp, inner, nested, edge, scale)
        if moved < 0.0:
            return -1.0
        nested.moved[variable] += moved
        nested.seen[edge] = nested.moved[variable]
        residual = max(residual, moved)
    inner.factor_total[factor] = inside
    nested.factor_peak[factor] = product
    nested.outside_total[factor] = max(0.0, bp.factor_total[factor] / product - inside)
    return residual


@kernel()
def begin_inner(layout, inner, nested, progress, anew):
    """Start inner rounds: from what the last sweep over the universes left, or with every factor to be updated anew."""
    progress[: MADE + 1] = 0
    if anew:
        nested.seen[:] = -np.inf
    sum_hubs(layout, inner)


@kernel()
def settle_slice(layout, bp, inner, nested, there, back, progress, tolerance, max_sweeps, update_limit, cost_limit):
    """Begin inner rounds where `progress` is all zero, go on with them, and leave the domains when they are over.

    Returns:
        Status (CONVERGED, UNSETTLED after `max_sweeps`, OK where they are not over), updates, entries read.
    """
    layout, bp, inner, nested = borrow(layout), borrow(bp), borrow(inner), borrow(nested)
    if progress[SWEEPS] == 0 and progress[PLACE] == 0:
        begin_inner(layout, inner, nested, progress, False)  # noqa: FBT003
    status, _, updates, work, _ = inner_rounds(
        layout, inner, nested, there, back, progress, tolerance, max_sweeps, update_limit, cost_limit
    )
    if status == OK and progress[SWEEPS] >= max_sweeps:
        status = UNSETTLED
    if status in (CONVERGED, UNSETTLED):
        leave(layout, bp, inner, nested)
    return status, updates, work


@kernel()
def inner_rounds(layout, inner, nested, there, back, progress, tolerance, max_sweeps, update_limit, cost_limit):
    """Sweep over the domains, leaving out what has nothing to catch up with, until that is everything.

    Args:
        layout: Topology.
        inner: Messages, tables and tails over the domains.
        nested: What each variable's messages have moved, and what each factor has seen of it.
        there: (F,) order of every other sweep.
        back: (F,) order of the others.
        progress: Where the sweeps stand, updated.
        tolerance: What a message may have to catch up with.
        max_sweeps: After which to give up.
        update_limit: How many updates to make at the most.
        cost_limit: About how many entries to read.

    Returns:
        Status (CONVERGED, or OK where sweeps are not through or have been given up), culprit, updates, entries read,
        and the cost.
    """
    work, cost, updates = 0, 0, 0
    while cost < cost_limit and updates < update_limit and progress[SWEEPS] < max_sweeps:
        factor = back[progress[PLACE]] if progress[BACK] else there[progress[PLACE]]
        if pending(layout, nested, factor) > tolerance:
            status, culprit, _, entries = update_at(inner.calls[UPDATE], (layout, inner, factor, 0.0))
            if status != OK:
                return status, culprit, updates, work, cost
            tell(layout, inner, nested, factor, 0.0)
            work += entries
            updates += 1
            progress[MADE] += 1
            cost += cost_of(layout.factor_edge_start, inner.table_in_logs, factor, entries)
        cost += EDGE_COST // 16
        progress[PLACE] += 1
        if progress[PLACE] == there.size:
            if progress[MADE] == 0:
                return CONVERGED, -1, updates, work, cost
            progress[PLACE], progress[BACK], progress[MADE] = 0, 1 - progress[BACK], 0
            progress[SWEEPS] += 1
    return OK, -1, updates, work, cost


@kernel()
def leave(layout, bp, inner, nested):
    """Put the domains' messages among those over the universes, in proportion to what lies outside."""
    for edge in range(layout.edge_variable.size):
        variable, slot = layout.edge_variable[edge], bp.edge_slot_start[edge]
        n, start, k = bp.domain_size[variable], bp.variable_slot_start[variable], nested.size[variable]
        message = bp.message[slot : slot + n]
        scale = bp.edge_scale[edge] / nested.edge_peak[edge]
        for v in range(n):
            message[v] *= scale
        for d in range(k):
            message[nested.member[start + d]] = inner.message[slot + d] * inner.edge_scale[edge]
        peak, low = 0.0, np.inf
        for v in range(n):
            peak = max(peak, message[v])
        for v in range(n):
            message[v] /= peak
            low = min(low, message[v])
        bp.edge_min[edge] = low
        bp.edge_scale[edge] = peak * nested.edge_peak[edge]
    for factor in range(nested.factor_peak.size):
        inside = inner.factor_total[factor] + nested.outside_total[factor]
        bp.factor_total[factor] = inside * nested.factor_peak[factor]
    sum_hubs(layout, bp)


@kernel()
def full_sweep(layout, bp, inner, nested, order, position, stop, cost_limit):
    """Update the factors order[position:stop] over whole tables, and find their tails.

    Returns:
        Status, what vanished, the position reached, entries read, the largest residual, the sum of residuals, and the
        largest on the domains.
    """
    layout, bp, inner, nested = borrow(layout), borrow(bp), borrow(inner), borrow(nested)
    work, cost, largest, total, on_domains = 0, 0, 0.0, 0.0, 0.0
    while position < stop and cost < cost_limit:
        factor = order[position]
        status, culprit, residual, entries = update_at(bp.calls[UPDATE], (layout, bp, factor, 0.0))
        if status != OK:
            return status, culprit, position, work, largest, total, on_domains
        position += 1
        work += entries
        cost += cost_of(layout.factor_edge_start, bp.table_in_logs, factor, entries)
        largest = max(largest, residual)
        total += residual
        moved = freeze_tails(layout, bp, inner, nested, factor)
        if moved < 0.0:
            return TAILS_LOST, factor, position, work, largest, total, on_domains
        on_domains = max(on_domains, moved)
    return OK, -1, position, work, largest, total, on_domains
