"""A round on sparse domains, as slices: fill strips, sweep through them, settle the domains, read the beliefs."""

import math

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import CONVERGED, NEEDS_ENTRIES, OK, UNSETTLED
from anytimebp.kernels.fill_strips import fill_strips, fill_tables
from anytimebp.kernels.inner import MADE, SWEEPS, begin_inner, enter, enter_messages, inner_rounds, leave
from anytimebp.kernels.jit import borrow, kernel
from anytimebp.kernels.readout import fill_beliefs
from anytimebp.kernels.strips import strip_sweep

PHASE, POSITION, UPDATES, READ, PICKED = MADE + 1, MADE + 2, MADE + 3, MADE + 4, MADE + 5  # in the progress of a round
COUNTERS = PICKED + 1
FILL, ENTER, FIRST_SETTLE, SWEEP, SETTLE, REPORT, TABLES, ONLY_SETTLE, ONLY_REPORT = range(9)  # phases

RESIDUAL, TOLERANCE, CHANGE, LOG_Z, OUTSIDE = range(5)  # in the figures of a round


@kernel()
def _settle(layout, bp, inner, nested, there, back, progress, tolerance, max_sweeps, update_limit, cost_limit):
    """Go on with inner rounds, and leave the domains when these have settled; return status and cost."""
    status, _, updates, work, cost = inner_rounds(
        layout, inner, nested, there, back, progress, tolerance, max_sweeps, update_limit, cost_limit
    )
    progress[UPDATES] += updates
    progress[READ] += work
    if status == CONVERGED:
        leave(layout, bp, inner, nested)
        progress[PHASE] += 1
        progress[POSITION] = 0
        return OK, cost
    if status == OK and progress[SWEEPS] >= max_sweeps:
        return UNSETTLED, cost
    return status, cost


@kernel()
def _bethe(layout, bp, log_normaliser):
    """Return log Z by the formula that heads `messages.py`, but for the scales of tables and priors."""
    total = 0.0
    for factor in range(bp.factor_total.size):
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        total += (1 - (last - first)) * math.log(bp.factor_total[factor])
        for edge in range(first, last):
            total += math.log(bp.edge_scale[edge])
    for variable in range(log_normaliser.size):
        total += log_normaliser[variable]
    return total


@kernel()
def share_out_of_reach(log_prior, slot_start, place, share):
    """Fill share (V,) with the part of each variable's prior that is not at `place`, where slots are in order."""
    k = 0
    for variable in range(share.size):
        kept, cut = 0.0, 0.0
        for v in range(slot_start[variable], slot_start[variable + 1]):
            if k < place.size and place[k] == v:
                kept += exp(log_prior[v])
                k += 1
            else:
                cut += exp(log_prior[v])
        share[variable] = cut / (kept + cut)


@kernel()
def _report(layout, bp, nested, belief, before, outside, figures):
    """Read beliefs and log Z, how far beliefs have moved since the round before, and how much is outside."""
    status, _ = fill_beliefs(layout, bp, bp.variable_slot_start, belief, outside)
    figures[LOG_Z] = _bethe(layout, bp, outside)
    total, unseen = 0.0, 0.0
    for variable in range(bp.domain_size.size):
        start, square, mass = bp.variable_slot_start[variable], 0.0, 0.0
        for v in range(start, start + bp.domain_size[variable]):
            if before.size:
                square += (belief[v] - before[v]) ** 2
            if not nested.is_member[v]:
                mass += belief[v]
        outside[variable] = mass
        unseen += mass
        total += math.sqrt(square)
    figures[OUTSIDE] = unseen / max(1, bp.domain_size.size)
    figures[CHANGE] = total / max(1, bp.domain_size.size) if before.size else 1.0
    return status


@kernel()
def round_slice(layout, bp, inner, nested, there, back, belief, before, outside, progress, figures, goals, limits):
    """Go on with a round.

    Args:
        layout: Topology.
        bp: Messages over the states within reach.
        inner: Messages, tables and tails over the domains.
        nested: Domains and strips.
        there: (F,) order of every other sweep.
        back: (F,) order of the others.
        belief: Per variable slot, filled at the end of the round.
        before: Those of the round before, or nothing.
        outside: (V,) filled at the end of the round with the belief outside the domains.
        progress: Where the round stands, updated.
        figures: Of the round, updated.
        goals: Tolerance of the run, largest tolerance of the round, part of the sweep's residual to settle to, and the
            tolerance of the first settling.
        limits: Inner sweeps at the most, updates, and about how many entries to read.

    Returns:
        CONVERGED where the round is over, OK where it is not, NEEDS_ENTRIES for strips that Python has to fill,
        UNSETTLED, or a status that says what has vanished.
    """
    layout, bp, inner, nested = borrow(layout), borrow(bp), borrow(inner), borrow(nested)
    cost, status, n_edges = 0, OK, layout.edge_variable.size
    while cost < limits[2] and status == OK:
        if progress[PHASE] == FILL:
            progress[POSITION], entries, spent = fill_strips(layout, bp, nested, progress[POSITION], limits[2] - cost)
            progress[PICKED] += entries
            if progress[POSITION] == n_edges:
                progress[PHASE], status = ENTER, NEEDS_ENTRIES
        elif progress[PHASE] == TABLES:
            position = progress[POSITION]
            progress[POSITION], entries, spent = fill_tables(layout, bp, inner, nested, position, limits[2] - cost)
            progress[PICKED] += entries
            if progress[POSITION] == nested.table_size.size:
                enter_messages(layout, bp, inner, nested)
                progress[PHASE], progress[POSITION] = ONLY_SETTLE, 0
                begin_inner(layout, inner, nested, progress, True)  # noqa: FBT003
        elif progress[PHASE] == ENTER:
            enter(layout, bp, inner, nested)
            for variable in range(nested.size.size):
                nested.old_size[variable] = nested.size[variable]
            progress[PHASE], progress[POSITION], spent = (FIRST_SETTLE if not before.size else SWEEP), 0, n_edges
            begin_inner(layout, inner, nested, progress, True)  # noqa: FBT003
        elif progress[PHASE] == SWEEP:
            stop = min(there.size, progress[POSITION] + max(1, limits[1] - progress[UPDATES]))
            position = progress[POSITION]
            status, progress[POSITION], work, largest, spent = strip_sweep(
                layout, bp, inner, nested, there, position, stop, limits[2] - cost
            )
            figures[RESIDUAL] = max(largest, figures[RESIDUAL] if position else 0.0)
            progress[UPDATES] += progress[POSITION] - position
            progress[READ] += work
            if progress[POSITION] == there.size:
                progress[PHASE] = SETTLE
                figures[TOLERANCE] = max(goals[0], min(goals[1], goals[2] * figures[RESIDUAL]))
                begin_inner(layout, inner, nested, progress, False)  # noqa: FBT003
        elif progress[PHASE] in (REPORT, ONLY_REPORT):
            status = _report(layout, bp, nested, belief, before, outside, figures)
            return CONVERGED if status == OK else status
        else:
            tolerance = figures[TOLERANCE] if progress[PHASE] == SETTLE else goals[3]
            left = max(1, limits[1] - progress[UPDATES])
            status, spent = _settle(
                layout, bp, inner, nested, there, back, progress, tolerance, limits[0], left, limits[2] - cost
            )
        cost += spent
        if progress[UPDATES] >= limits[1]:
            return status
    return status
