"""A state joins the domain of its variable: its slot, its entries, its first messages, and the zeros it may lift."""

import math

import numpy as np

from anytimebp.kernels.arithmetic import add_exactly, exp, log
from anytimebp.kernels.codes import ASKED, LOG, SAFE
from anytimebp.kernels.jit import borrow, kernel, table_view
from anytimebp.kernels.journal import note, note_growth
from anytimebp.kernels.residual import demand_update
from anytimebp.kernels.sparse_tables import fill_slice, slot_message
from anytimebp.kernels.to_variable import move_hub


@kernel()
def join(layout, bp, journal, domain, variable, state):
    """Give a state the next slot of its variable, and fill its entries in the tables of dense factors.

    Returns:
        Entries filled.
    """
    note_growth(journal, variable)
    start, slot = domain.universe_start[variable], bp.domain_size[variable]
    domain.slot_state[start + slot] = state
    bp.domain_size[variable] = slot + 1
    log_prior = domain.log_prior[start + state]
    bp.prior[start + slot] = log_prior if bp.arithmetic == LOG else exp(log_prior)
    if log_prior > -np.inf:
        bp.prior_min[variable] = min(bp.prior_min[variable], exp(log_prior))
        domain.is_impossible[variable] = False
    work = 0
    for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        edge = layout.variable_edge[position]
        if domain.source_kind[layout.edge_factor[edge]] != ASKED:
            work += fill_slice(layout, bp, domain, edge, slot, slot + 1)
    return work


@kernel()
def start_over(layout, bp, heap, journal):
    """Set all messages back to where runs start, and ask for updates of all factors; the journal knows what was."""
    layout, bp, heap, journal = borrow(layout), borrow(bp), borrow(heap), borrow(journal)
    one = 0.0 if bp.arithmetic == LOG else 1.0
    for factor in range(layout.factor_edge_start.size - 1):
        note(layout, bp, journal, factor)
        bp.factor_total[factor] = one
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            variable = layout.edge_variable[edge]
            start, hub = bp.edge_slot_start[edge], bp.variable_hub[variable]
            message = bp.message[start : start + bp.domain_size[variable]]
            new = bp.outgoing[: message.size]
            for v in range(message.size):
                new[v] = one
            if hub >= 0:
                move_hub(bp, hub, new, message)
            for v in range(message.size):
                message[v] = one
            bp.edge_scale[edge], bp.edge_min[edge] = one, 1.0
        demand_update(heap, factor)


@kernel()
def _scale_down(layout, bp, journal, edge, slots, value):
    """Divide a message by the number that a new slot would hold, which is the largest now.

    In linear arithmetic, positive numbers stay at SAFE or above until the factor is updated: they are no hard zeros.
    """
    note(layout, bp, journal, layout.edge_factor[edge])
    start = bp.edge_slot_start[edge]
    message = bp.message[start : start + slots]
    hub = bp.variable_hub[layout.edge_variable[edge]]
    new = bp.outgoing[:slots]
    for v in range(slots):
        if bp.arithmetic == LOG:
            new[v] = message[v] - value
        else:
            new[v] = max(SAFE, message[v] / value) if message[v] > 0.0 else 0.0
    if hub >= 0:
        move_hub(bp, hub, new, message)
    for v in range(slots):
        message[v] = new[v]
    if bp.arithmetic == LOG:
        bp.edge_scale[edge] += value
    else:
        bp.edge_scale[edge] *= value
        bp.edge_min[edge] = max(SAFE, bp.edge_min[edge] / value)


@kernel(merge=True)
def _start_message(layout, bp, journal, domain, edge, slot):
    """Let a new slot hold the message that its factor would send now, or a small one if that is nothing; return work.

    A zero must not stand before the factor is updated: zeros that keep each other alive around a loop would stay.
    """
    value, work = slot_message(layout, bp, domain.line, edge, slot)
    position = bp.edge_slot_start[edge] + slot
    if bp.arithmetic == LOG:
        value -= bp.edge_scale[edge]
        if value == -np.inf:
            value = 0.0
            for v in range(slot):
                if bp.message[bp.edge_slot_start[edge] + v] > -np.inf:
                    value = min(value, bp.message[bp.edge_slot_start[edge] + v])
        bp.message[position] = value
        if value > 0.0:
            _scale_down(layout, bp, journal, edge, slot, value)
            bp.message[position] = 0.0
        return work
    value = min(value / bp.edge_scale[edge], 1.0 / SAFE)
    if value <= 0.0:
        value = bp.edge_min[edge]
    if value > 1.0:
        _scale_down(layout, bp, journal, edge, slot, value)
        value = 1.0
    bp.message[position] = value
    bp.edge_min[edge] = min(bp.edge_min[edge], value)
    return work


@kernel()
def start_messages(layout, bp, heap, journal, domain, variable):
    """Send the last slot of a variable its first messages, and ask for updates of its factors; return entries read."""
    slot, work = bp.domain_size[variable] - 1, 0
    first, last = layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
    for position in range(first, last):
        edge = layout.variable_edge[position]
        work += _start_message(layout, bp, journal, domain, edge, slot)
        note(layout, bp, journal, layout.edge_factor[edge])
        demand_update(heap, layout.edge_factor[edge])
    hub = bp.variable_hub[variable]
    if hub >= 0:
        _start_hub_slot(layout, bp, domain, variable, slot, bp.hub_start[hub] + slot)
    return work


@kernel(merge=True)
def _start_hub_slot(layout, bp, domain, variable, slot, position):
    log_prior = domain.log_prior[
        domain.universe_start[variable] + domain.slot_state[bp.variable_slot_start[variable] + slot]
    ]
    total, rest, zeros = 0.0, 0.0, 0
    if log_prior > -np.inf:
        total = log_prior
    else:
        zeros = 1
    for k in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        value = bp.message[bp.edge_slot_start[layout.variable_edge[k]] + slot]
        total, rest = add_exactly(total, rest, value if bp.arithmetic == LOG else math.log(value))
    bp.hub_high[position], bp.hub_low[position], bp.hub_zeros[position] = total, rest, zeros


@kernel()
def _lift(layout, bp, heap, journal, edge, slot):
    """Let a message number that is zero be small instead, until its factor is updated; tell whether it was zero."""
    position = bp.edge_slot_start[edge] + slot
    zero = -np.inf if bp.arithmetic == LOG else 0.0
    if bp.message[position] != zero:
        return False
    note(layout, bp, journal, layout.edge_factor[edge])
    value = 0.0 if bp.arithmetic == LOG else bp.edge_min[edge]
    hub = bp.variable_hub[layout.edge_variable[edge]]
    bp.message[position] = value
    if hub >= 0:
        index = bp.hub_start[hub] + slot
        bp.hub_zeros[index] -= 1
        bp.hub_high[index], bp.hub_low[index] = add_exactly(
            bp.hub_high[index], bp.hub_low[index], value if bp.arithmetic == LOG else log(value)
        )
    demand_update(heap, layout.edge_factor[edge])
    return True


@kernel()
def lift_zeros(layout, bp, heap, journal, zero_queue, variable):
    """Lift every zero message that the last slot of a variable may have made wrong, however far away.

    A zero says that a state has no support. A new state may give support to one state, which may give support to the
    next; updates alone would not find out where each waits for the other around a loop. So all zeros that are linked to
    the new state by possible joint states are lifted, and updates put back those that are right.

    Args:
        layout: Topology.
        bp: Messages, changed.
        heap: The factors of lifted messages come to its head.
        journal: What was there before.
        zero_queue: (3, slots) scratch: variable, slot and factor of the states still to be followed.
        variable: The variable that has grown.

    Returns:
        Entries looked at.
    """
    zero_queue[0, 0], zero_queue[1, 0], zero_queue[2, 0] = variable, bp.domain_size[variable] - 1, -1
    head, tail, work = 0, np.int64(1), 0
    while head < tail:
        here, slot, source = zero_queue[0, head], zero_queue[1, head], zero_queue[2, head]
        head += 1
        for position in range(layout.variable_edge_start[here], layout.variable_edge_start[here + 1]):
            edge = layout.variable_edge[position]
            factor = layout.edge_factor[edge]
            if factor == source:
                continue
            demand_update(heap, factor)  # a lifted zero has moved a belief, which no update tells of
            if not bp.table_has_zero[factor]:
                continue
            tail, seen = _lift_neighbours(layout, bp, heap, journal, zero_queue, tail, edge, slot)
            work += seen
    return work


@kernel(merge=True)
def _lift_neighbours(layout, bp, heap, journal, zero_queue, tail, edge, slot):
    """Lift the zeros that a factor sends to states possible together with one slot; queue those states."""
    factor = layout.edge_factor[edge]
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    capacity, total = 1, 1
    for other in range(first, last):
        capacity *= bp.edge_capacity[other]
        if other != edge:
            total *= bp.domain_size[layout.edge_variable[other]]
    table = table_view(bp.table_address[factor], capacity)
    zero = -np.inf if bp.table_in_logs[factor] else 0.0
    for index in range(total):
        rest, position, stride = index, 0, 1
        for other in range(last - 1, first - 1, -1):
            size = bp.domain_size[layout.edge_variable[other]]
            if other == edge:
                position += stride * slot
            else:
                position += stride * (rest % size)
                rest //= size
            stride *= bp.edge_capacity[other]
        if table[position] == zero:
            continue
        rest = index
        for other in range(last - 1, first - 1, -1):
            if other == edge:
                continue
            variable = layout.edge_variable[other]
            size = bp.domain_size[variable]
            x = rest % size
            rest //= size
            if _lift(layout, bp, heap, journal, other, x):
                zero_queue[0, tail], zero_queue[1, tail], zero_queue[2, tail] = variable, x, factor
                tail += 1
    return tail, total
