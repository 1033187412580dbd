"""Dynamic growth priorities: estimated log belief ratios of the states outside the domains, and their queue.

For a state v outside the domain S of variable i, with the messages n from variables to factors and c, p, m as in
`messages`:

    o_f(v)    =  sum over the domains of the other variables of t(v, x) * product of n_j(x_j)
    score(v)  =  log p(v) + sum_f [ log o_f(v) - log c_f ]  -  log sum over u in S of p(u) * product of m_f(u)

What is kept per edge and state is an upper bound of log o_f(v), as `outside` + `edge_slack`. When messages move, only
the slack grows: o_f(v) cannot grow by more than the largest log(new n / old n). So a variable has an upper bound of its
best score, and the queue is by that bound. Only what comes to its head is computed exactly, one state at a time, and
goes back if it no longer is the best; once single states would cost more than all of them, all of them are computed.
A state that joins a domain adds its term to the neighbours' o_f exactly. The order is that of exact scores.

`candidates` is a CandidateArrays, `domain` a DomainArrays.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import ASKED, DYNAMIC_RAW, EXHAUSTED, GATHER, LEAST, LINEAR, LOG, POTENTIALS
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, kernel, table_view
from anytimebp.kernels.residual import sift
from anytimebp.kernels.to_factor import gather_at, largest

UNRESOLVED, IMPOSSIBLE, NONE_LEFT = -1, -2, -3  # in place of a variable

ROUNDING = 1e-13  # nats added to every bound, relative to numbers of some hundreds


@kernel()
def log_weights(layout, bp, variable, skipped, weight):
    """Fill the log message from a variable to a factor; the prior where messages exclude everything."""
    floor, _, _ = gather_at(bp.calls[GATHER], (layout, bp, variable, skipped, weight))
    if floor >= 0.0:
        if bp.arithmetic == LINEAR:
            for v in range(weight.size):
                weight[v] = log(weight[v])
        return
    start = bp.variable_slot_start[variable]
    prior = bp.prior[start : start + weight.size]
    for v in range(weight.size):
        weight[v] = prior[v] if bp.arithmetic == LOG else log(prior[v])
    if largest(weight) == -np.inf:
        for v in range(weight.size):
            weight[v] = 0.0


@kernel(FAST_WITHOUT_NAN)
def _raise_peaks(peak, row, weight):
    for v in range(peak.size):
        peak[v] = max(peak[v], row[v] + weight)


@kernel()
def _add_terms(total, row, weight, peak):
    for v in range(total.size):
        total[v] += exp(row[v] + weight - peak[v])


@kernel()
def _read_line(line, source, position, stride, states, is_potential, shift):
    """Fill a line with the log scores of some states, in the scale of the factor's table."""
    for k in range(line.size):
        line[k] = source[position + stride * states[k]]
    if is_potential:
        for k in range(line.size):
            line[k] = log(line[k])
    for k in range(line.size):
        line[k] -= shift


@kernel()
def _source(layout, bp, domain, candidates, edge):
    """Return what holds the scores of all states of an edge's variable, and the stride of that variable's axis."""
    factor = layout.edge_factor[edge]
    by_slot = domain.source_kind[factor] == ASKED
    size, stride = 1, 1
    for other in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        variable = layout.edge_variable[other]
        whole = domain.universe_start[variable + 1] - domain.universe_start[variable]
        size *= bp.edge_capacity[other] if by_slot and other != edge else whole
        stride *= bp.edge_capacity[other] if other != edge else 1
    if by_slot:
        return table_view(candidates.asked_address[edge], size), stride
    return table_view(domain.source_address[factor], size), domain.edge_stride[edge]


@kernel()
def _joints(layout, bp, edge, fixed):
    """Return the number of joint slots of an edge's other axes, one of them (-1: none) held fixed."""
    factor, n = layout.edge_factor[edge], 1
    for other in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        if other not in (edge, fixed):
            n *= bp.domain_size[layout.edge_variable[other]]
    return n


@kernel()
def _list_joints(layout, bp, domain, candidates, edge, fixed, slot, begin, count):
    """List where joint states of an edge's other axes lie in the source, and their log weights.

    The axis `fixed` (-1: none) stays at one slot; the joint slots of the others are counted from `begin` on.
    """
    factor = layout.edge_factor[edge]
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    by_slot = domain.source_kind[factor] == ASKED
    positions, weights = candidates.joint_position[:count], candidates.joint_weight[:count]
    for k in range(count):
        positions[k], weights[k] = 0, 0.0
    repeat, stride = 1, 1
    for other in range(last - 1, first - 1, -1):
        if other == edge:
            continue
        variable = layout.edge_variable[other]
        n = bp.domain_size[variable]
        seen = candidates.seen[bp.edge_slot_start[other] : bp.edge_slot_start[other] + n]
        start = domain.universe_start[variable]
        states, step = domain.slot_state[start : start + n], domain.edge_stride[other]
        for k in range(count):
            x = slot if other == fixed else ((begin + k) // repeat) % n
            weights[k] += seen[x]
            positions[k] += stride * x if by_slot else step * states[x]
        stride *= bp.edge_capacity[other]
        repeat *= 1 if other == fixed else n


@kernel()
def list_open(domain, candidates, variable):
    """List the open states of a variable; return how many there are."""
    start, end, n = domain.universe_start[variable], domain.universe_start[variable + 1], 0
    is_open = domain.is_open[start:end]
    for v in range(is_open.size):
        candidates.open_state[n] = v
        n += is_open[v]
    return n


@kernel()
def _sums(layout, bp, domain, candidates, edge, fixed, slot, states):
    """Fill `candidates.total` with log o_f of some states of an edge's variable; return entries read."""
    factor, n = layout.edge_factor[edge], states.size
    line, peak, total = candidates.line[:n], candidates.peak[:n], candidates.total[:n]
    source, stride = _source(layout, bp, domain, candidates, edge)
    is_potential, shift = domain.source_kind[factor] == POTENTIALS, domain.table_scale[factor]
    joints, step = _joints(layout, bp, edge, fixed), candidates.joint_position.size
    for k in range(n):
        peak[k], total[k] = -np.inf, 0.0
    for chunk in range(0, joints, step):
        count = min(step, joints - chunk)
        _list_joints(layout, bp, domain, candidates, edge, fixed, slot, chunk, count)
        for j in range(count):
            _read_line(line, source, candidates.joint_position[j], stride, states, is_potential, shift)
            _raise_peaks(peak, line, candidates.joint_weight[j])
    for k in range(n):
        peak[k] = peak[k] if peak[k] > -np.inf else 0.0  # -inf less -inf would be NaN
    for chunk in range(0, joints, step):
        count = min(step, joints - chunk)
        if joints > step:
            _list_joints(layout, bp, domain, candidates, edge, fixed, slot, chunk, count)
        for j in range(count):
            if candidates.joint_weight[j] > -np.inf:
                if joints > 1:
                    _read_line(line, source, candidates.joint_position[j], stride, states, is_potential, shift)
                _add_terms(total, line, candidates.joint_weight[j], peak)
    for k in range(n):
        total[k] = peak[k] + log(total[k])
    return joints * n


@kernel()
def _log_add(a, b):
    high, low = max(a, b), min(a, b)
    return high + math.log(1.0 + math.exp(low - high)) if low > -np.inf else high


# ---------------------------------------------------------------- what is kept per variable
@kernel()
def _sum_key(layout, domain, candidates, variable, state):
    """Return the part of a state's score that differs between the states of its variable, less the slack."""
    key = domain.log_prior[domain.universe_start[variable] + state]
    for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        key += candidates.outside[candidates.outside_start[layout.variable_edge[position]] + state]
    return key


@kernel(merge=True)
def _score(layout, bp, domain, candidates, variable, state):
    """Score one state of a variable exactly, or all open ones (-1); return entries read."""
    start, work, whole = domain.universe_start[variable], 0, state < 0
    candidates.open_state[0] = state
    states = candidates.open_state[: list_open(domain, candidates, variable) if whole else 1]
    for k in range(states.size):
        candidates.key[start + states[k]] = domain.log_prior[start + states[k]]
        candidates.fresh[start + states[k]] = candidates.version[variable]
    for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        edge = layout.variable_edge[position]
        work += _sums(layout, bp, domain, candidates, edge, np.int64(-1), np.int64(0), states)
        if whole:
            candidates.edge_slack[edge] = 0.0
        slack, outside = candidates.edge_slack[edge], candidates.outside_start[edge]
        for k in range(states.size):
            candidates.outside[outside + states[k]] = candidates.total[k] - slack
            candidates.key[start + states[k]] += candidates.total[k] - slack
    candidates.spent[variable] += work
    if whole:
        candidates.slack[variable] = 0.0
        candidates.spent[variable] = 0
        candidates.stale[variable] = False
    return work


@kernel()
def _best_open(domain, candidates, variable):
    """Return the open state of the largest key, the lowest of equals, or -1."""
    start, end = domain.universe_start[variable], domain.universe_start[variable + 1]
    key, is_open = candidates.key[start:end], domain.is_open[start:end]
    best, high = -1, -np.inf
    for v in range(key.size):
        if is_open[v] and (key[v] > high or best < 0):
            best, high = v, key[v]
    return best


@kernel()
def set_bound(domain, candidates, variable):
    """Put a variable where the upper bound of its best score belongs in the queue; return that state."""
    best = -1
    if domain.n_open[variable] == 0:
        candidates.priority[variable] = EXHAUSTED
    elif candidates.stale[variable]:
        candidates.priority[variable] = np.inf
    else:
        best = _best_open(domain, candidates, variable)
        score = candidates.key[domain.universe_start[variable] + best]
        score += candidates.slack[variable] + candidates.base[variable]
        candidates.priority[variable] = max(LEAST, score)
    sift(candidates, variable)
    return best


@kernel(merge=True)
def _refresh_cost(layout, bp, domain, variable):
    cost = 0
    for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        cost += domain.n_open[variable] * _joints(layout, bp, layout.variable_edge[position], np.int64(-1))
    return cost


@kernel()
def resolve(layout, bp, domain, candidates, exact):
    """Bring the variable at the head of the queue one step closer to an exact score of its best state.

    Args:
        layout: Topology.
        bp: Messages.
        domain: Domains.
        candidates: Scores and the queue, changed.
        exact: Whether keys are exact as they stand, because somebody else gave them.

    Returns:
        The variable if its best state is known exactly now, that state, and the entries read. Instead of the variable:
        UNRESOLVED if one more step is needed, IMPOSSIBLE if no candidate is possible as things stand, NONE_LEFT.
    """
    if candidates.item.size == 0 or candidates.priority[candidates.item[0]] == EXHAUSTED:
        return NONE_LEFT, -1, 0
    variable = candidates.item[0]
    if domain.n_open[variable] == 0:
        set_bound(domain, candidates, variable)
        return UNRESOLVED, -1, 0
    if candidates.priority[variable] <= LEAST:
        return IMPOSSIBLE, -1, 0
    before = candidates.priority[variable]
    best = set_bound(domain, candidates, variable)
    if best >= 0:
        if candidates.priority[variable] <= LEAST or (
            candidates.priority[variable] != before and candidates.item[0] != variable
        ):
            return UNRESOLVED, -1, 0
        if exact or candidates.fresh[domain.universe_start[variable] + best] == candidates.version[variable]:
            return variable, best, 0
        if candidates.spent[variable] > _refresh_cost(layout, bp, domain, variable):
            best = -1
    work = _score(layout, bp, domain, candidates, variable, best)
    set_bound(domain, candidates, variable)
    return UNRESOLVED, -1, work


# ---------------------------------------------------------------- keeping up with messages and domains
@kernel()
def account(layout, bp, candidates, factor):
    """Take in how the messages to a factor have moved: the slack of its edges grows."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    total, unbounded = 0.0, 0
    for edge in range(first, last):
        variable = layout.edge_variable[edge]
        n, start = bp.domain_size[variable], bp.edge_slot_start[edge]
        weight, seen = bp.incoming[:n], candidates.seen[start : start + n]
        log_weights(layout, bp, variable, edge, weight)
        moved = -np.inf
        for v in range(n):
            if weight[v] > -np.inf:
                moved = max(moved, weight[v] - seen[v])
            seen[v] = weight[v]
        candidates.moved[edge] = moved
        if moved == np.inf:
            unbounded += 1
        else:
            total += moved
    for edge in range(first, last):
        own = candidates.moved[edge]
        others = unbounded - (1 if own == np.inf else 0)
        step = np.inf if others else total - (0.0 if own == np.inf else own)
        candidates.edge_slack[edge] += step + ROUNDING


@kernel()
def set_base(layout, bp, candidates, mode, variable):
    """Take in the scales of a variable's messages and the sum of its belief: what all its scores have in common."""
    n, start = bp.domain_size[variable], bp.variable_slot_start[variable]
    weight = bp.incoming[:n]
    floor, peak, log_peak = gather_at(bp.calls[GATHER], (layout, bp, variable, -1, weight))
    total, first, last = 0.0, layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
    for v in range(n):
        total += exp(weight[v]) if bp.arithmetic == LOG else weight[v]
    base = 0.0 if floor < 0.0 else -(math.log(total) + math.log(peak) + log_peak)
    if mode == DYNAMIC_RAW:
        base = candidates.degree[variable]
        top = largest(bp.prior[start : start + n])
        if bp.arithmetic == LINEAR:
            top = log(top)
        base -= top if top > -np.inf else 0.0
    slack, stale = 0.0, candidates.stale[variable]
    for position in range(first, last):
        edge = layout.variable_edge[position]
        scale = bp.edge_scale[edge]
        base -= scale if bp.arithmetic == LOG else math.log(scale)
        slack += candidates.edge_slack[edge]
        stale |= candidates.edge_slack[edge] == np.inf
    candidates.base[variable] = base
    candidates.slack[variable] = slack
    candidates.stale[variable] = stale
    candidates.version[variable] += 1


@kernel(merge=True)
def _add_to_neighbour(layout, bp, domain, candidates, edge, fixed, slot):
    """Add a joining state's term to the o_f of all open states of a neighbour; return entries read."""
    variable = layout.edge_variable[edge]
    if domain.n_open[variable] == 0 or candidates.edge_slack[edge] == np.inf or candidates.stale[variable]:
        return 0
    states = candidates.open_state[: list_open(domain, candidates, variable)]
    work = _sums(layout, bp, domain, candidates, edge, fixed, slot, states)
    start, outside = domain.universe_start[variable], candidates.outside_start[edge]
    for k in range(states.size):
        term, v = candidates.total[k] - candidates.edge_slack[edge], states[k]
        if term == -np.inf:
            continue
        old = candidates.outside[outside + v]
        new = _log_add(old, term)
        candidates.outside[outside + v] = new
        if old > -np.inf:
            candidates.key[start + v] += new - old
        else:
            candidates.key[start + v] = _sum_key(layout, domain, candidates, variable, v)
    return work


@kernel()
def extend_candidates(layout, bp, domain, candidates, variable):
    """Take in the last slot of a variable: the weight it has for each factor, and what it adds to the neighbours."""
    n, work = bp.domain_size[variable], 0
    for position in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        edge = layout.variable_edge[position]
        weight, start = bp.incoming[:n], bp.edge_slot_start[edge]
        log_weights(layout, bp, variable, edge, weight)
        top = 0
        for v in range(n - 1):
            top = v if weight[v] > weight[top] else top
        shift = candidates.seen[start + top] - weight[top]  # to the scale of what was seen before
        candidates.seen[start + n - 1] = weight[n - 1] + shift if np.isfinite(shift) else weight[n - 1]
        factor = layout.edge_factor[edge]
        for other in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            if other != edge:
                work += _add_to_neighbour(layout, bp, domain, candidates, other, edge, n - 1)
    return work
