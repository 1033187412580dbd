"""Orders in which variables are eliminated, found greedily.

Eliminating a variable joins all its neighbours: they, and itself, become a clique. Which variable goes next is the one
of the least score: the edges that would be added (MIN_FILL), the same weighted by the sizes of both ends
(WEIGHTED_FILL), or the joint states of the clique (MIN_WEIGHT). Neighbours are kept in lists that move to the end of a
long array when they outgrow their room.
"""

import math
from typing import Any, NamedTuple

from anytimebp.kernels.jit import borrow, kernel

MIN_FILL, MIN_WEIGHT, WEIGHTED_FILL = range(3)
ORDERED, NO_ROOM, TOO_WIDE, TOO_LONG = range(4)  # how the search ended
STAMP, STEPS, RANDOM, USED, FILL = range(5)  # places in `OrderArrays.state`
TIE = 1.0 / 4096.0  # weight of a clique's log size beside its missing edges: decides between equals


class OrderArrays(NamedTuple):
    """What a search writes to; of variables without a choice nothing is read.

    Attributes:
        neighbours: Lists of neighbours, with room for more.
        first: (V,) where a variable's list starts.
        count: (V,) its length.
        room: (V,) the most it may be without moving.
        mark: (V,) zeros; stamps of who has been counted already.
        seen: (V,) zeros; stamps of who has a new score already.
        heap: (V,) variables, the least score on top.
        position: (V,) where each is in the heap, -1 if it is not.
        key: (V,) scores.
        state: (5,) the last stamp, steps taken, the random number, how much of `neighbours` is in use, and twice the
            edges that eliminating has added.
        order: (V,) the variables in the order of elimination.
    """

    neighbours: Any
    first: Any
    count: Any
    room: Any
    mark: Any
    seen: Any
    heap: Any
    position: Any
    key: Any
    state: Any
    order: Any


@kernel()
def greedy_order(layout, log_size, rule, noise, most_entries, most_steps, at):
    """Fill `at.order` with all variables of more than one state.

    Args:
        layout: Topology.
        log_size: (V,) logs of the numbers of states; variables where it is 0 are left out.
        rule: MIN_FILL, MIN_WEIGHT or WEIGHTED_FILL.
        noise: By what part scores are raised at random.
        most_entries: Entries of all cliques together at which the search gives up.
        most_steps: Numbers looked at after which the search gives up.
        at: Overwritten.

    Returns:
        How it ended, how many variables there are, and the entries of all cliques.
    """
    layout, at = borrow(layout), borrow(at)
    if not _list_neighbours(layout, log_size, at):
        return NO_ROOM, 0, 0.0
    n, entries = 0, 0.0
    at.state[FILL] = 0
    for v in range(log_size.size):
        at.position[v] = -1
        if log_size[v] > 0.0:
            at.key[v] = _score(log_size, rule, noise, v, at)
            at.heap[n], at.position[v] = v, n
            n += 1
            _sift_up(at, n - 1)
            if at.state[STEPS] > most_steps:
                return TOO_LONG, n, 0.0
    left = n
    while left > 0:
        v = at.heap[0]
        left -= 1
        last = at.heap[left]
        at.heap[0], at.position[last], at.position[v] = last, 0, -1
        _sift_down(at, 0, left)
        at.order[n - 1 - left] = v
        entries += math.exp(min(700.0, log_size[v] + _sum_of_neighbours(log_size, v, at)))
        if entries > most_entries:
            return TOO_WIDE, n, entries
        joined = _join_neighbours(v, at)
        if joined < 0:
            return NO_ROOM, n, entries
        at.state[FILL] += joined
        _rescore(log_size, rule, noise, v, joined > 0 and rule != MIN_WEIGHT, left, at)
        if at.state[STEPS] > most_steps:
            return TOO_LONG, n, entries
    return ORDERED, n, entries


@kernel()
def least_clique(layout, log_size, enough, at):
    """Return the log of the entries that some clique has at the least, whatever the order; and whether there was room.

    Of any part of the graph, some variable goes first, and all its neighbours in that part are in its clique. So the
    smallest such neighbourhood bounds the largest clique. Parts are what is left when the variable of the smallest one
    is taken away, again and again.

    Args:
        layout: Topology.
        log_size: (V,) logs of the numbers of states; variables where it is 0 are left out.
        enough: A bound that needs not be raised.
        at: Overwritten.
    """
    layout, at = borrow(layout), borrow(at)
    if not _list_neighbours(layout, log_size, at):
        return 0.0, False
    left, bound = 0, 0.0
    for v in range(log_size.size):
        at.position[v] = -1
        if log_size[v] > 0.0:
            at.key[v] = log_size[v] + _sum_of_neighbours(log_size, v, at)
            at.heap[left], at.position[v] = v, left
            left += 1
    for k in range(left // 2 - 1, -1, -1):
        _sift_down(at, k, left)
    while left > 0 and bound <= enough:
        v = at.heap[0]
        left -= 1
        last = at.heap[left]
        at.heap[0], at.position[last], at.position[v] = last, 0, -1
        _sift_down(at, 0, left)
        bound = max(bound, at.key[v])
        for k in range(at.first[v], at.first[v] + at.count[v]):
            u = at.neighbours[k]
            if at.position[u] >= 0:
                at.key[u] -= log_size[v]
                _sift_up(at, at.position[u])
    return bound, True


@kernel()
def _list_neighbours(layout, log_size, at):
    """Fill the lists; return whether there was room."""
    used = 0
    for v in range(log_size.size):
        at.first[v] = used
        at.state[STAMP] += 1
        stamp = at.state[STAMP]
        at.mark[v] = stamp
        for k in range(layout.variable_edge_start[v], layout.variable_edge_start[v + 1] if log_size[v] > 0.0 else 0):
            factor = layout.edge_factor[layout.variable_edge[k]]
            for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
                u = layout.edge_variable[edge]
                if log_size[u] > 0.0 and at.mark[u] != stamp:
                    if used == at.neighbours.size:
                        return False
                    at.mark[u], at.neighbours[used] = stamp, u
                    used += 1
        at.count[v] = at.room[v] = used - at.first[v]
    at.state[USED] = used
    at.state[STEPS] += used
    return True


@kernel(inline=True)
def _sum_of_neighbours(log_size, v, at):
    total = 0.0
    for k in range(at.first[v], at.first[v] + at.count[v]):
        total += log_size[at.neighbours[k]]
    return total


@kernel()
def _score(log_size, rule, noise, v, at):
    """Return how little a variable should be eliminated next."""
    first, n = at.first[v], at.count[v]
    log_weight, score = log_size[v] + _sum_of_neighbours(log_size, v, at), 0.0
    if rule == MIN_WEIGHT:
        score = log_weight
    else:
        at.state[STAMP] += 1
        stamp, all_sizes = at.state[STAMP], 0.0
        for k in range(first, first + n):
            at.mark[at.neighbours[k]] = stamp
            all_sizes += math.exp(log_size[at.neighbours[k]])
        for k in range(first, first + n):
            u = at.neighbours[k]
            here, there = at.first[u], at.first[u] + at.count[u]
            at.state[STEPS] += at.count[u]
            if rule == MIN_FILL:
                missing = n - 1
                for j in range(here, there):
                    missing -= at.mark[at.neighbours[j]] == stamp
                score += 0.5 * missing
            else:
                own = math.exp(log_size[u])
                others = all_sizes - own
                for j in range(here, there):
                    if at.mark[at.neighbours[j]] == stamp:
                        others -= math.exp(log_size[at.neighbours[j]])
                score += own * max(0.0, others - 1e-9 * all_sizes)
        score += TIE * log_weight
    if noise > 0.0:
        at.state[RANDOM] = (at.state[RANDOM] * 1103515245 + 12345) & 0x7FFFFFFF
        score *= 1.0 + noise * (at.state[RANDOM] >> 8) / 8388608.0
    return score


@kernel()
def _join_neighbours(v, at):
    """Take a variable out of its neighbours' lists and join these with each other; return how many were not, or -1."""
    joined = 0
    for k in range(at.count[v]):
        u = at.neighbours[at.first[v] + k]
        at.state[STAMP] += 1
        stamp, first, n = at.state[STAMP], at.first[u], at.count[u]
        at.mark[u], here = stamp, first
        for j in range(first, first + n):
            at.mark[at.neighbours[j]] = stamp
            if at.neighbours[j] == v:
                here = j
        n -= 1
        at.neighbours[here] = at.neighbours[first + n]
        at.state[STEPS] += n + at.count[v]
        for j in range(at.count[v]):
            w = at.neighbours[at.first[v] + j]
            if at.mark[w] == stamp:
                continue
            if n == at.room[u]:
                if not _move(u, n, at):
                    return -1
                first = at.first[u]
            at.neighbours[first + n] = w
            n += 1
            joined += 1
        at.count[u] = n
    return joined


@kernel()
def _move(u, n, at):
    """Move a list of n neighbours to where it can become twice as long; return whether there is such a place."""
    room, target = 2 * n + 4, at.state[USED]
    if target + room > at.neighbours.size:
        return False
    for j in range(n):
        at.neighbours[target + j] = at.neighbours[at.first[u] + j]
    at.first[u], at.room[u] = target, room
    at.state[USED] = target + room
    return True


@kernel()
def _rescore(log_size, rule, noise, v, further, left, at):
    """Give new scores to the neighbours of an eliminated variable, and where edges were added, to theirs."""
    at.state[STAMP] += 1
    stamp = at.state[STAMP]
    for k in range(at.first[v], at.first[v] + at.count[v]):
        u = at.neighbours[k]
        at.seen[u] = stamp
        _put(u, _score(log_size, rule, noise, u, at), left, at)
    for k in range(at.first[v], at.first[v] + at.count[v] if further else 0):
        u = at.neighbours[k]
        for j in range(at.first[u], at.first[u] + at.count[u]):
            w = at.neighbours[j]
            if at.seen[w] != stamp:
                at.seen[w] = stamp
                _put(w, _score(log_size, rule, noise, w, at), left, at)


@kernel()
def _put(v, key, size, at):
    """Change the score of a variable in the heap."""
    rises = key < at.key[v]
    at.key[v] = key
    if rises:
        _sift_up(at, at.position[v])
    else:
        _sift_down(at, at.position[v], size)


@kernel()
def _sift_up(at, start):
    k, v = start, at.heap[start]
    while k > 0:
        above = at.heap[(k - 1) // 2]
        if not (at.key[v] < at.key[above] or (at.key[v] == at.key[above] and v < above)):
            break
        at.heap[k], at.position[above] = above, k
        k = (k - 1) // 2
    at.heap[k], at.position[v] = v, k


@kernel()
def _sift_down(at, start, size):
    if start >= size:
        return
    k, v = start, at.heap[start]
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size:
            left, right = at.heap[child], at.heap[child + 1]
            if at.key[right] < at.key[left] or (at.key[right] == at.key[left] and right < left):
                child += 1
        below = at.heap[child]
        if not (at.key[below] < at.key[v] or (at.key[below] == at.key[v] and below < v)):
            break
        at.heap[k], at.position[below] = below, k
        k = child
    at.heap[k], at.position[v] = v, k
