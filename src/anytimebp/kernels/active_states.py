"""Which states are active in rounds of `adaptive`, and what that costs.

`active` is an Active, `candidates` Candidates, `sources` a Sources (`inference/adaptive/whole_model.py`).
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import add_exactly, log
from anytimebp.kernels.codes import LINEAR, LOG, STRUCTURED
from anytimebp.kernels.jit import FAST, borrow, kernel

LIFTED = 1e-8  # least message that takes the place of a zero: products of few of them do not underflow


@kernel(FAST)
def _weigh_from(log_prior, prior, least):
    """Return how many of a variable's log priors are at least so large, and the sum of their priors."""
    n, mass = 0, 0.0
    for v in range(log_prior.size):  # vectorised
        n += 1 if log_prior[v] >= least else 0
        mass += prior[v] if log_prior[v] >= least else 0.0
    return n, mass


@kernel()
def weigh_near(variable_edge_start, slot_start, log_prior, prior, nats, count, mass):
    """Count the states whose log prior is within some nats of the best, and add up their priors.

    Variables of one factor are left out, unless there are no others.

    Args:
        variable_edge_start: (V + 1,) of the topology.
        slot_start: (V + 1,) slots of the states that may take part.
        log_prior: Per slot, largest 0.
        prior: Per slot.
        nats: (n,) of which some may be infinite.
        count: (n,) overwritten: how many are so near.
        mass: (n,) overwritten: the priors of these.
    """
    n_inner = 0
    count[:], mass[:] = 0, 0.0
    for variable in range(slot_start.size - 1):
        n_inner += variable_edge_start[variable + 1] - variable_edge_start[variable] != 1
    for variable in range(slot_start.size - 1):
        if n_inner > 0 and variable_edge_start[variable + 1] - variable_edge_start[variable] == 1:
            continue
        first, last = slot_start[variable], slot_start[variable + 1]
        for k in range(nats.size):
            n, near = _weigh_from(log_prior[first:last], prior[first:last], -nats[k])
            count[k] += n
            mass[k] += near


@kernel()
def weigh_offers(slot_start, log_prior, prior, is_leaf, nats, size, held):
    """Count the slots that `choose_likely` would choose, for several numbers of nats in one go.

    Args:
        slot_start: (V + 1,) slots of the states that may take part.
        log_prior: Per slot.
        prior: Per slot.
        is_leaf: (V,) variables that are summed out.
        nats: (n,).
        size: (n, V) overwritten: how many would be chosen.
        held: (n,) overwritten: the part of the priors that they hold, on average over variables that are not summed
            out.
    """
    n_kept = 0
    held[:] = 0.0
    for variable in range(is_leaf.size):
        if is_leaf[variable]:
            size[:, variable] = 1
            continue
        first, last = slot_start[variable], slot_start[variable + 1]
        _, mass = _weigh_from(log_prior[first:last], prior[first:last], -np.inf)
        for k in range(nats.size):
            size[k, variable], near = _weigh_from(log_prior[first:last], prior[first:last], -nats[k])
            held[k] += near / mass
        n_kept += 1
    for k in range(nats.size):
        held[k] /= max(1, n_kept)


@kernel()
def choose_likely(slot_start, log_prior, prior, is_leaf, nats, size, start, slot):
    """Choose the slots whose log prior is within `nats` of the best, which is 0; of a leaf one slot stands for all.

    Args:
        slot_start: (V + 1,) slots of the states that may take part.
        log_prior: Per slot.
        prior: Per slot.
        is_leaf: (V,) variables that are summed out.
        nats: See above.
        size: (V,) overwritten: how many were chosen.
        start: (V + 1,) overwritten: where they start in `slot`.
        slot: Overwritten.

    Returns:
        How many were chosen in all, and the part of the priors that they hold, on average over variables that are not
        summed out.
    """
    total, held, n_kept = 0, 0.0, 0
    for variable in range(size.size):
        start[variable] = total
        if is_leaf[variable]:
            slot[total] = slot_start[variable]
            total += 1
        else:
            near, mass = 0.0, 0.0
            for v in range(slot_start[variable], slot_start[variable + 1]):
                mass += prior[v]
                if log_prior[v] >= -nats:
                    near += prior[v]
                    slot[total] = v
                    total += 1
            held += near / mass
            n_kept += 1
        size[variable] = total - start[variable]
    start[size.size] = total
    return total, held / max(1, n_kept)


@kernel()
def join_likely(active, candidates, threshold, left, size, start, slot):
    """Fill new lists of slots with the active ones and those candidates of a belief above the threshold.

    Args:
        active: An Active.
        candidates: Candidates with beliefs.
        threshold: See above.
        left: (V,) overwritten: the sum of the beliefs of those that do not join.
        size: (V,) overwritten.
        start: (V + 1,) overwritten.
        slot: Overwritten; slots rise within a variable.

    Returns:
        How many there are in all.
    """
    active, candidates = borrow(active), borrow(candidates)
    total = 0
    for variable in range(size.size):
        start[variable], left[variable] = total, 0.0
        k, last = active.start[variable], active.start[variable + 1]
        for position in range(candidates.start[variable], candidates.start[variable + 1]):
            if candidates.belief[position] <= threshold:
                left[variable] += candidates.belief[position]
            else:
                while k < last and active.slot[k] < candidates.slot[position]:
                    slot[total] = active.slot[k]
                    k += 1
                    total += 1
                slot[total] = candidates.slot[position]
                total += 1
        while k < last:
            slot[total] = active.slot[k]
            k += 1
            total += 1
        size[variable] = total - start[variable]
    start[size.size] = total
    return total


@kernel()
def find_candidates(slot_start, log_prior, prior, is_leaf, active, nats, start, slot, cut):
    """Fill the lists of slots outside the domains whose log prior is within some nats of the best.

    Args:
        slot_start: (V + 1,) slots of the states that may take part.
        log_prior: Per slot.
        prior: Per slot.
        is_leaf: (V,) variables that are summed out.
        active: An Active.
        nats: (V,) see above.
        start: (V + 1,) overwritten: where the slots of each variable start in `slot`.
        slot: Overwritten.
        cut: (V,) overwritten: the sum of the priors that are neither active nor candidates.
    """
    active = borrow(active)
    total = 0
    for variable in range(cut.size):
        start[variable] = total
        k, last, missed = active.start[variable], active.start[variable + 1], 0.0
        if not is_leaf[variable]:
            for v in range(slot_start[variable], slot_start[variable + 1]):
                if k < last and active.slot[k] == v:
                    k += 1
                elif log_prior[v] >= -nats[variable]:
                    slot[total] = v
                    total += 1
                else:
                    missed += prior[v]
        cut[variable] = missed
    start[cut.size] = total
    return total


@kernel()
def take_priors(slot_start, slot_state, log_prior, is_leaf, active, own_prior, own_min, own_state):
    """Fill log priors, the least of them, and states of the active slots; leaves have a prior of 1.

    Args:
        slot_start: (V + 1,) slots of the states that may take part.
        slot_state: The state in each; nothing where all states are, in order.
        log_prior: Per slot.
        is_leaf: (V,) variables that are summed out.
        active: An Active.
        own_prior: Per active slot, overwritten.
        own_min: (V,) overwritten.
        own_state: Per active slot, overwritten.
    """
    active = borrow(active)
    for variable in range(own_min.size):
        low = 0.0
        for k in range(active.start[variable], active.start[variable + 1]):
            v = active.slot[k]
            own_state[k] = slot_state[v] if slot_state.size else v - slot_start[variable]
            own_prior[k] = 0.0 if is_leaf[variable] else log_prior[v]
            if own_prior[k] > -np.inf:
                low = min(low, own_prior[k])
        own_min[variable] = low


# ---------------------------------------------------------------- costs
@kernel()
def count_entries(layout, sources, universe_sizes, size, n_candidates, by_kind):
    """Count the entries of tables over active states, and what it costs to fill them and to look outside.

    STRUCTURED factors are left out.

    Args:
        layout: Topology.
        sources: A Sources.
        universe_sizes: (V,) states.
        size: (V,) active states, 1 for leaves that are summed out.
        n_candidates: (V,) states that a look takes in.
        by_kind: (6, 2) what an entry costs by the kind of its source, and with a leaf a state of the leaf.

    Returns:
        Entries; the cost of filling them; the cost of a look; entries with all states of leaves; edges of factors with
        two or more variables of several states, which have to be updated more than once.
    """
    layout, sources = borrow(layout), borrow(sources)
    entries, filling, looking, with_leaves, busy = 0.0, 0.0, 0.0, 0.0, 0
    for factor in range(sources.leaf.size):
        if sources.kind[factor] == STRUCTURED:
            continue
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        own, leaf, several = 1.0, sources.leaf[factor], 0
        for edge in range(first, last):
            own *= size[layout.edge_variable[edge]]
            several += size[layout.edge_variable[edge]] > 1
        busy += several if several > 1 else 0
        cost, states = by_kind[sources.kind[factor], 0], 1.0
        if leaf >= 0:
            states = universe_sizes[leaf]
            cost += by_kind[sources.kind[factor], 1] * states
        for edge in range(first, last):
            variable = layout.edge_variable[edge]
            looking += own / size[variable] * n_candidates[variable] * cost
        entries += own
        filling += own * cost
        with_leaves += own * states if leaf >= 0 else 0.0
    return entries, filling, looking, with_leaves, busy


@kernel()
def plan_active(layout, address, size, table_start):
    """Fill where tables over the domains start, (F + 1,); return the most entries and the most axes that one has.

    Those of factors without numbers in memory, whose address is 0, have no entries here.
    """
    layout = borrow(layout)
    total, most, arity = 0, 1, 0
    for factor in range(table_start.size - 1):
        table_start[factor] = total
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        arity = max(arity, last - first)
        if not address[factor]:
            continue
        entries = 1
        for edge in range(first, last):
            entries *= size[layout.edge_variable[edge]]
        total += entries
        most = max(most, entries)
    table_start[table_start.size - 1] = total
    return most, arity


# ---------------------------------------------------------------- messages from round to round
@kernel()
def sum_hub(layout, bp, hub):
    """Fill the totals of a variable of high degree from its prior and messages."""
    variable = bp.hub_variable[hub]
    start, target = bp.variable_slot_start[variable], bp.hub_start[hub]
    last = layout.variable_edge_start[variable + 1]
    for v in range(bp.domain_size[variable]):
        high, low, zeros = 0.0, 0.0, 0
        value = bp.prior[start + v]
        for position in range(layout.variable_edge_start[variable], last + 1):
            if bp.arithmetic == LINEAR:
                value = log(value)
            if value == -np.inf:
                zeros += 1
            else:
                high, low = add_exactly(high, low, value)
            if position < last:
                value = bp.message[bp.edge_slot_start[layout.variable_edge[position]] + v]
        bp.hub_high[target + v], bp.hub_low[target + v], bp.hub_zeros[target + v] = high, low, zeros


@kernel()
def _least_message(layout, bp, edge):
    """Return the smallest positive number of a message, or its log; at least LIFTED where it has zeros."""
    start, least, has_zero = bp.edge_slot_start[edge], np.inf, False
    nothing, lifted = (-np.inf, math.log(LIFTED)) if bp.arithmetic == LOG else (0.0, LIFTED)
    for v in range(start, start + bp.domain_size[layout.edge_variable[edge]]):
        if bp.message[v] > nothing:
            least = min(least, bp.message[v])
        else:
            has_zero = True
    return max(least, lifted) if has_zero else least


@kernel()
def carry_messages(layout, bp, start, slot, new_layout, new, new_start, new_slot, new_edge):
    """Put messages over some states in place of those over more; states that are new get the smallest number.

    So do zeros: of states outside, nobody knows which of them they lift, and those that are right come back by
    themselves. Logs are never put in place of linear numbers.

    Args:
        layout: Topology, without leaves that are summed out.
        bp: Messages over some states.
        start: (V + 1,) where the slots of each variable's start in `slot`.
        slot: Their slots among all states, rising.
        new_layout: Topology, maybe with leaves.
        new: Messages over more states, overwritten; those to leaves stay as they are.
        new_start: (V + 1,) the same for those.
        new_slot: The same for those; nothing where these are all.
        new_edge: (E,) numbers of the edges among those.
    """
    layout, bp, new_layout, new = borrow(layout), borrow(bp), borrow(new_layout), borrow(new)
    to_logs = bp.arithmetic != new.arithmetic
    nothing = -np.inf if bp.arithmetic == LOG else 0.0
    for edge in range(layout.edge_variable.size):
        variable = layout.edge_variable[edge]
        given, target = bp.edge_slot_start[edge], new.edge_slot_start[new_edge[edge]]
        first, k, least = new_start[variable], start[variable], _least_message(layout, bp, edge)
        for v in range(new_start[variable + 1] - first):
            own, value = new_slot[first + v] if new_slot.size else first + v, least
            if k < start[variable + 1] and slot[k] == own:
                value = bp.message[given + k - start[variable]]
                k += 1
                if value == nothing:
                    value = least
            new.message[target + v] = math.log(value) if to_logs else value
        new.edge_min[new_edge[edge]] = min(least, bp.edge_min[edge]) if new.arithmetic == LINEAR else 1.0
    for hub in range(new.hub_variable.size):
        sum_hub(new_layout, new, hub)
