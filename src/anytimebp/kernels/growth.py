"""Growing domains: choose states, let them join, converge, score anew; a resumable loop over rounds.

`progress` holds where the loop stands, so that it goes on in the next slice as if it had never stopped. The places in
it are named below.
"""

from anytimebp.kernels.candidates import (
    IMPOSSIBLE,
    UNRESOLVED,
    account,
    extend_candidates,
    resolve,
    set_base,
    set_bound,
)
from anytimebp.kernels.codes import (
    CHOOSE,
    CONVERGE,
    CONVERGED,
    EXHAUSTED,
    FINISHED,
    GATHER,
    JOIN,
    NEEDS_ENTRIES,
    NEEDS_RANKING,
    NEEDS_ROOM,
    NEEDS_SCORES,
    OK,
    OUT_OF_RANGE,
    POLLED,
    RANKED,
    REPORT,
    RESCORE,
    ROUND_DONE,
    START,
    UNSETTLED,
    VARIABLE_VANISHED,
    WORKING,
)
from anytimebp.kernels.jit import borrow, kernel
from anytimebp.kernels.joining import join, lift_zeros, start_messages
from anytimebp.kernels.journal import N_TOUCHED, begin_round, settle
from anytimebp.kernels.residual import residual_updates, sift
from anytimebp.kernels.to_factor import gather_at

PHASE, CHOSEN, NEXT, ROUND_UPDATES, SETTLED, STATUS, CULPRIT, ACCOUNTED, SCORED, N_IMPOSSIBLE = range(10)
ROUNDS, UPDATES, STATES, MESSAGES, SCORING, GROWTH = range(10, 16)  # the last three: work
COUNTERS = 16
"""Places in `progress`; the next COUNTERS hold them as they were at the last consistent state."""

ROUND_COST = 5_000  # entries that could be read in the time of a round's bookkeeping
SCORE_COST = 4  # the same for a candidate's entry


@kernel()
def best_ranked(domain, ranking):
    """Return the variable and state that come first in a fixed ranking, or -1."""
    while ranking.item.size:
        variable = ranking.item[0]
        if ranking.priority[variable] == EXHAUSTED:
            return -1, -1
        start, end = domain.universe_start[variable], domain.universe_start[variable + 1]
        position = ranking.next_position[variable]
        while start + position < end and not domain.is_open[start + ranking.state[start + position]]:
            position += 1
        if position == ranking.next_position[variable]:
            return variable, ranking.state[start + position]
        ranking.next_position[variable] = position
        open_left = start + position < end
        ranking.priority[variable] = ranking.score[start + ranking.state[start + position]] if open_left else EXHAUSTED
        sift(ranking, variable)
    return -1, -1


@kernel(merge=True)
def _choose_round(layout, bp, domain, ranking, candidates, progress, limit):
    """Choose the states of a round; return OK, WORKING if the work was cut short, or NEEDS_RANKING."""
    before = progress[SCORING]
    while progress[CHOSEN] < domain.chosen_variable.size:
        variable, state = IMPOSSIBLE, -1
        if SCORE_COST * (progress[SCORING] - before) >= limit:
            return WORKING
        if candidates.mode != RANKED:
            variable, state, work = resolve(layout, bp, domain, candidates, candidates.mode == POLLED)
            progress[SCORING] += work
            if variable == UNRESOLVED:
                continue
        if variable == IMPOSSIBLE:
            if candidates.mode != RANKED and ranking.score.size == 0:
                return NEEDS_RANKING
            variable, state = best_ranked(domain, ranking)
        if variable < 0:
            break
        domain.chosen_variable[progress[CHOSEN]] = variable
        domain.chosen_state[progress[CHOSEN]] = state
        domain.is_open[domain.universe_start[variable] + state] = False
        domain.n_open[variable] -= 1
        progress[CHOSEN] += 1
    return OK


@kernel(merge=True)
def _rescore(layout, bp, journal, domain, candidates, progress, cost_limit):
    """Take in what a round has moved, a part at a time; return the cost and whether it is done."""
    cost = 0
    while progress[ACCOUNTED] < journal.counts[N_TOUCHED]:
        if cost >= cost_limit:
            return cost, False
        factor = journal.touched_factor[progress[ACCOUNTED]]
        progress[ACCOUNTED] += 1
        if candidates.mode != POLLED:
            account(layout, bp, candidates, factor)
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            _mark(candidates, layout.edge_variable[edge])
            cost += 8 * bp.domain_size[layout.edge_variable[edge]]
    while progress[NEXT] < progress[CHOSEN]:
        _mark(candidates, domain.chosen_variable[progress[NEXT]])
        progress[NEXT] += 1
    while progress[SCORED] < candidates.n_dirty[0]:
        if candidates.mode == POLLED:
            return cost, True
        if cost >= cost_limit:
            return cost, False
        variable = candidates.dirty[progress[SCORED]]
        progress[SCORED] += 1
        candidates.is_dirty[variable] = False
        set_base(layout, bp, candidates, candidates.mode, variable)
        set_bound(domain, candidates, variable)
        cost += domain.universe_start[variable + 1] - domain.universe_start[variable]
    return cost, True


@kernel(merge=True)
def _find_impossible(layout, bp, journal, domain):
    """Look for variables whose belief vanishes, among those that a round has touched; return how many more."""
    more = 0
    for k in range(journal.counts[N_TOUCHED]):
        factor = journal.touched_factor[k]
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            variable = layout.edge_variable[edge]
            weight = bp.incoming[: bp.domain_size[variable]]
            floor, _, _ = gather_at(bp.calls[GATHER], (layout, bp, variable, -1, weight))
            more += int(floor < 0.0) - int(domain.is_impossible[variable])
            domain.is_impossible[variable] = floor < 0.0
    return more


@kernel()
def _mark(candidates, variable):
    if not candidates.is_dirty[variable]:
        candidates.is_dirty[variable] = True
        candidates.dirty[candidates.n_dirty[0]] = variable
        candidates.n_dirty[0] += 1


@kernel()
def take_scores(domain, candidates):
    """Put the variables that somebody else has scored where they belong in the queue."""
    domain, candidates = borrow(domain), borrow(candidates)
    for k in range(candidates.n_dirty[0]):
        candidates.is_dirty[candidates.dirty[k]] = False
        set_bound(domain, candidates, candidates.dirty[k])
    candidates.n_dirty[0] = 0


@kernel(merge=True)
def _join_next(layout, bp, journal, domain, progress):
    """Let the next chosen state join; return OK or what is needed, the variable, and the cost."""
    if progress[NEXT] == progress[CHOSEN]:
        progress[PHASE] = CONVERGE
        return OK, -1, 0
    variable = domain.chosen_variable[progress[NEXT]]
    if bp.domain_size[variable] == domain.room[variable]:
        return NEEDS_ROOM, variable, 0
    impossible = domain.is_impossible[variable]
    work = join(layout, bp, journal, domain, variable, domain.chosen_state[progress[NEXT]])
    progress[N_IMPOSSIBLE] -= impossible and not domain.is_impossible[variable]
    progress[GROWTH] += work
    progress[STATES] += 1
    progress[PHASE] = START
    return NEEDS_ENTRIES if domain.is_asked[variable] else OK, variable, work


@kernel(merge=True)
def _start_next(layout, bp, heap, journal, domain, candidates, progress):
    """Send the state that has just joined its first messages; return the cost."""
    variable = domain.chosen_variable[progress[NEXT]]
    work = start_messages(layout, bp, heap, journal, domain, variable)
    progress[MESSAGES] += work
    cost = work
    if domain.zero_queue.size:
        cost += lift_zeros(layout, bp, heap, journal, domain.zero_queue, variable)
    if candidates.mode > POLLED:
        scored = extend_candidates(layout, bp, domain, candidates, variable)
        progress[SCORING] += scored
        cost += SCORE_COST * scored
    progress[NEXT] += 1
    progress[PHASE] = JOIN
    return cost


@kernel(merge=True)
def _end_convergence(layout, bp, heap, journal, domain, candidates, progress, residual, status, culprit):
    """Take note of how the updates of a round ended: in a consistent state, or with something that vanished."""
    if domain.zero_queue.size:
        progress[N_IMPOSSIBLE] += _find_impossible(layout, bp, journal, domain)
    if status == CONVERGED and progress[N_IMPOSSIBLE]:
        status = VARIABLE_VANISHED
    progress[SETTLED] = status == CONVERGED
    progress[STATUS] = 0 if status == CONVERGED else status
    progress[CULPRIT] = culprit
    progress[PHASE] = RESCORE
    progress[ACCOUNTED] = progress[SCORED] = progress[NEXT] = candidates.n_dirty[0] = 0
    if status == CONVERGED:
        settle(bp, journal)
        for position in range(COUNTERS):
            progress[COUNTERS + position] = progress[position]
        residual[0] = heap.priority[heap.item[0]] if heap.item.size else 0.0


@kernel()
def growth_slice(
    layout, bp, heap, journal, domain, ranking, candidates, progress, residual, limits, tolerance, damping
):
    """Go on with the loop until something needs Python, a round is done that is to be reported, or a limit is met.

    Args:
        layout: Topology.
        bp: Messages and tables.
        heap: The queue of factors.
        journal: What changed since the last consistent state.
        domain: Domains.
        ranking: Growth priorities that never change; empty if not needed.
        candidates: Growth priorities that do.
        progress: Where the loop stands.
        residual: (1,) set to the largest residual at the last consistent state.
        limits: Updates in all, cost of this slice, updates of this round, rounds in all, states in all.
        tolerance: Residual under which a round is settled.
        damping: Part of the old message kept.

    Returns:
        How it ended, and the variable that needs something.
    """
    layout, bp, heap, journal = borrow(layout), borrow(bp), borrow(heap), borrow(journal)
    domain, ranking, candidates = borrow(domain), borrow(ranking), borrow(candidates)
    cost, cost_limit = 0, limits[1]
    while cost < cost_limit:
        if progress[PHASE] == CHOOSE:
            scored = progress[SCORING]
            status = _choose_round(layout, bp, domain, ranking, candidates, progress, cost_limit - cost)
            if status != OK:
                return status, -1
            if progress[CHOSEN] == 0:
                return FINISHED, -1
            cost += ROUND_COST * progress[CHOSEN] + SCORE_COST * (progress[SCORING] - scored)
            begin_round(journal)
            progress[ROUND_UPDATES] = progress[NEXT] = 0
            progress[PHASE] = JOIN
        elif progress[PHASE] == JOIN:
            status, variable, spent = _join_next(layout, bp, journal, domain, progress)
            cost += spent
            if status != OK:
                return status, variable
        elif progress[PHASE] == START:
            cost += _start_next(layout, bp, heap, journal, domain, candidates, progress)
        elif progress[PHASE] == CONVERGE:
            allowed = min(limits[0] - progress[UPDATES], limits[2] - progress[ROUND_UPDATES])
            if allowed <= 0:
                return WORKING if limits[0] <= progress[UPDATES] else UNSETTLED, -1
            status, culprit, updates, work, spent = residual_updates(
                layout, bp, heap, journal, allowed, cost_limit - cost, tolerance, damping
            )
            progress[UPDATES] += updates
            progress[ROUND_UPDATES] += updates
            progress[MESSAGES] += work
            cost += spent
            if status == OUT_OF_RANGE:
                return OUT_OF_RANGE, culprit
            if status != OK:
                _end_convergence(layout, bp, heap, journal, domain, candidates, progress, residual, status, culprit)
        elif progress[PHASE] == RESCORE:
            if candidates.mode != RANKED:
                spent, done = _rescore(layout, bp, journal, domain, candidates, progress, cost_limit - cost)
                cost += spent
                if not done:
                    return WORKING, -1
            progress[ROUNDS] += 1
            progress[CHOSEN] = 0
            progress[PHASE] = REPORT
            if candidates.mode == POLLED:
                return NEEDS_SCORES, -1
        else:
            progress[PHASE] = CHOOSE
            if progress[ROUNDS] >= limits[3] or progress[STATES] >= limits[4]:
                return ROUND_DONE, -1
    return WORKING, -1
