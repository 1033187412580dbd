"""Which states hard zeros exclude: generalised arc consistency on tables.

A factor *supports* a state of one of its variables if one of its entries with that state is not zero, and the states of
the others are still possible. A state that a factor does not support has no joint state, and goes. Then the factors of
its variable are looked at again, until nothing changes, or a limit of entries is reached: whatever has gone by then is
impossible, too.
"""

from typing import Any, NamedTuple

from anytimebp.kernels.jit import borrow, kernel, table_view

STATES, SIZE, STRIDE, INDEX, MISSING = range(5)  # rows of `SupportArrays.axes`


class SupportArrays(NamedTuple):
    """What the search reads and writes. V variables, F factors, U states of all universes.

    Attributes:
        universe_size: (V,).
        start: (V + 1,) where a variable's states start in arrays over all states.
        address: (F,) where a factor's table over all states lies; 0 if it has none, or it has no zeros.
        zero: (F,) what a zero is in it: 0, or -inf where it holds log scores.
        is_possible: (U,) overwritten where states go.
        is_news: (V,) variables whose factors are looked at first.
        is_pending: (F,) scratch.
        queue: (F,) scratch: a ring of the factors that are pending.
        axes: (5, largest arity) scratch, for the axes of a table: where the states of one start in `listed`, how many
            there are, how far apart they lie, which one is looked at, and how many have no support yet.
        listed: As many as the states of the factor that has the most; scratch: possible states, axis after axis.
        is_supported: As many; scratch.
    """

    universe_size: Any
    start: Any
    address: Any
    zero: Any
    is_possible: Any
    is_news: Any
    is_pending: Any
    queue: Any
    axes: Any
    listed: Any
    is_supported: Any


@kernel()
def exclude_states(layout, at, most_entries):
    """Mark states that are impossible.

    Args:
        layout: Topology; factors without variables are passed over.
        at: Overwritten.
        most_entries: About how many to read.

    Returns:
        How many states have gone, and the entries read; -1 if a variable has no state left.
    """
    layout, at = borrow(layout), borrow(at)
    head, n_queued, cost, gone = 0, 0, 0, 0
    for factor in range(at.queue.size):
        is_news = False
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            is_news |= at.is_news[layout.edge_variable[edge]]
        at.is_pending[factor] = is_news and at.address[factor] != 0
        if at.is_pending[factor]:
            at.queue[n_queued] = factor
            n_queued += 1
    while n_queued > 0 and cost < most_entries:
        factor = at.queue[head]
        head, n_queued, at.is_pending[factor] = (head + 1) % at.queue.size, n_queued - 1, False
        cost += _find_support(layout, at, factor)
        for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
            axis, variable = edge - layout.factor_edge_start[factor], layout.edge_variable[edge]
            missing = at.axes[MISSING, axis]
            if missing == at.axes[SIZE, axis]:
                return -1, cost
            if missing > 0:
                gone += missing
                _exclude(at, axis, variable)
                n_queued = _wake(layout, at, variable, factor, head, n_queued)
    return gone, cost


@kernel(inline=True)
def _exclude(at, axis, variable):
    """Take away the states of a variable that have no support."""
    for k in range(at.axes[STATES, axis], at.axes[STATES, axis] + at.axes[SIZE, axis]):
        if not at.is_supported[k]:
            at.is_possible[at.start[variable] + at.listed[k]] = False


@kernel()
def _wake(layout, at, variable, factor, head, n_queued):
    """Put the other factors of a variable into the queue; return how many are in it."""
    for k in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        other = layout.edge_factor[layout.variable_edge[k]]
        if other != factor and at.address[other] != 0 and not at.is_pending[other]:
            at.is_pending[other] = True
            at.queue[(head + n_queued) % at.queue.size] = other
            n_queued += 1
    return n_queued


@kernel()
def _find_support(layout, at, factor):
    """Find the states of a factor's variables that it supports; return the entries that were read."""
    first, n = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1] - layout.factor_edge_start[factor]
    entries, rows = _list_states(layout, at, first, n)
    table, zero, axes, last = table_view(at.address[factor], entries), at.zero[factor], at.axes, n - 1
    states, size = axes[STATES, last], axes[SIZE, last]
    offset, cost = 0, n
    for axis in range(last):
        offset += axes[STRIDE, axis] * at.listed[axes[STATES, axis]]
    for _ in range(rows if size > 0 else 0):
        is_open = axes[MISSING, last] > 0
        for axis in range(last):
            is_open |= not at.is_supported[axes[STATES, axis] + axes[INDEX, axis]]
        cost += 1
        if is_open:
            found = False
            for k in range(states, states + size):
                if table[offset + at.listed[k]] != zero:
                    found = True
                    axes[MISSING, last] -= not at.is_supported[k]
                    at.is_supported[k] = True
                    if axes[MISSING, last] == 0:
                        break
            cost += size
            for axis in range(last if found else 0):
                k = axes[STATES, axis] + axes[INDEX, axis]
                axes[MISSING, axis] -= not at.is_supported[k]
                at.is_supported[k] = True
        offset = _next_row(at, last, offset)
    return cost


@kernel(inline=True)
def _next_row(at, last, offset):
    """Go on to the next row of possible states; return where it starts in the table."""
    axes = at.axes
    for axis in range(last - 1, -1, -1):
        k = axes[STATES, axis] + axes[INDEX, axis]
        if axes[INDEX, axis] + 1 < axes[SIZE, axis]:
            axes[INDEX, axis] += 1
            return offset + axes[STRIDE, axis] * (at.listed[k + 1] - at.listed[k])
        offset -= axes[STRIDE, axis] * (at.listed[k] - at.listed[axes[STATES, axis]])
        axes[INDEX, axis] = 0
    return offset


@kernel()
def _list_states(layout, at, first, n):
    """List the possible states of a factor's variables; return the entries of its table, and its possible rows."""
    entries, rows, end = 1, 1, 0
    for axis in range(n - 1, -1, -1):
        variable = layout.edge_variable[first + axis]
        at.axes[STATES, axis], at.axes[STRIDE, axis], at.axes[INDEX, axis] = end, entries, 0
        for state in range(at.universe_size[variable]):
            if at.is_possible[at.start[variable] + state]:
                at.listed[end], at.is_supported[end] = state, False
                end += 1
        at.axes[SIZE, axis] = at.axes[MISSING, axis] = end - at.axes[STATES, axis]
        entries *= at.universe_size[variable]
        if axis < n - 1:
            rows *= at.axes[SIZE, axis]
    return entries, rows
