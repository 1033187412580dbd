"""Message updates, the sweeps and queues that order them, and the read-out of beliefs.

One factor f with scores t(x) = exp phi(x) and variables i, prior p_i, messages m (factor to variable):

    n_i(x_i)  =  p_i(x_i) * product of m_g(x_i) over the other factors g of i          `_gather`, scaled to maximum 1
    o_i(x_i)  =  sum over x with that x_i of t(x) * product of n_j(x_j), j not i       `_contract`
    m_f(x_i)  =  o_i(x_i) / c_i,  c_i = max o_i                                        `_store`
    residual  =  max over i of the dynamic range of log(new m / old m)
    Z_f       =  sum of n_i(x_i) * o_i(x_i), the same for every i

    log Z     =  sum_f [ (1 - arity) log Z_f + sum_i log c_i ]  +  sum_i log sum_x p_i(x) * product of m(x)

`_contract` reads the table once for any arity. Seen as a matrix (all axes but the last) x (last axis), its product with
n_last is the table of a factor with one variable fewer, and its product with the outer product of the other weights is
o_last; then the same again for the smaller table.

In linear arithmetic, numbers below SAFE would be lost. A factor without hard zeros cannot lose anything that counts,
whatever the weights are, as long as its own range is below MAX_LINEAR_RANGE nats. A factor with hard zeros can, so the
smallest product it could form is bounded from below before each update; if the bound fails, the update is refused with
OUT_OF_RANGE and the run goes on in log arithmetic, where p, n, o, m, c and Z_f all hold logarithms. Even there, a
factor that can lose nothing sums in linear arithmetic, from a linear table: n goes in and o comes out exponentiated.

The functions that call each other stand in one file: Numba's disk cache does not notice a changed callee elsewhere.
Arguments: `layout` is a GraphLayout (read), `space` a WorkspaceArrays (overwritten).
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import add_exactly, exp, log
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, borrow, kernel, table_view

LINEAR, LOG = 0, 1  # arithmetic; max-product would be a third code
OK, CONVERGED, VARIABLE_VANISHED, FACTOR_VANISHED, OUT_OF_RANGE = 0, 1, 2, 3, 4  # status
VANISHED, DIVERGED = -1.0, -2.0  # in place of a residual

SAFE = 1e-290  # products at least this large have full precision; the smallest normal double is 2e-308
MAX_LINEAR_RANGE = 600.0  # nats; exp(-600) = 3e-261 leaves room for sums of small terms above SAFE
MAX_LOG = 1e12  # nats; log messages beyond are those of a run that diverges, and no longer resolve a nat's digits
FLUSH = -700.0  # log weights this far under the largest one are zero in linear arithmetic
TINY = 1e-305  # added to both sides of a ratio, so that zero over zero is one
EDGE_COST = 64  # entries that the bookkeeping of one edge costs, for cutting runs into slices
LOG_COST = 8  # entries that one costs whose table is in logs


# ---------------------------------------------------------------- variable to factor
@kernel(FAST_WITHOUT_NAN)
def _largest(values):
    peak = -np.inf
    for v in range(values.size):
        peak = max(peak, values[v])
    return peak


@kernel(FAST_WITHOUT_NAN)
def _scale_to_one(weight):
    """Divide by the maximum; return it."""
    peak = _largest(weight)
    if peak > 0.0:
        scale = 1.0 / peak
        for v in range(weight.size):
            weight[v] *= scale
    return peak


@kernel()
def _finish_logs(arithmetic, weight):
    """Turn summed logs into weights of the run's arithmetic; return what `_gather` does."""
    peak = _largest(weight)
    if peak == -np.inf:
        return -1.0, 0.0, 0.0
    if arithmetic == LOG:
        for v in range(weight.size):
            weight[v] -= peak
        return 1.0, 1.0, peak
    lowest = 0.0
    for v in range(weight.size):
        below = weight[v] - peak
        if below > -np.inf:
            lowest = min(lowest, below)
        weight[v] = exp(below) if below > FLUSH else 0.0
    return (exp(lowest) if lowest > FLUSH else 0.0), 1.0, peak


@kernel(FAST)
def _add_logs(arithmetic, weight, values):
    if arithmetic == LOG:
        for v in range(weight.size):
            weight[v] += values[v]
    else:
        for v in range(weight.size):
            weight[v] += log(values[v])


@kernel()
def _gather_logs(layout, space, variable, skipped, weight):
    """Do as `_gather`, by sums of logs: for log arithmetic, and where a product might underflow."""
    for v in range(weight.size):
        weight[v] = 0.0
    start = space.variable_slot_start[variable]
    _add_logs(space.arithmetic, weight, space.prior[start : start + weight.size])
    for place in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
        edge = layout.variable_edge[place]
        if edge != skipped:
            start = space.edge_slot_start[edge]
            _add_logs(space.arithmetic, weight, space.message[start : start + weight.size])
    return _finish_logs(space.arithmetic, weight)


@kernel()
def _gather_hub(space, hub, skipped, weight):
    """Do as `_gather`, from the totals that a variable of high degree keeps."""
    start = space.hub_start[hub]
    reference = -np.inf  # totals are large; their differences are what counts, and lose no digits
    for v in range(weight.size):
        reference = max(reference, space.hub_high[start + v])
    for v in range(weight.size):
        zeros = space.hub_zeros[start + v]
        own = 0.0
        if skipped >= 0:
            own = space.message[space.edge_slot_start[skipped] + v]
            if space.arithmetic == LINEAR:
                own = log(own)
            if own == -np.inf:
                own = 0.0
                zeros -= 1
        weight[v] = (space.hub_high[start + v] - reference) - own + space.hub_low[start + v] if zeros == 0 else -np.inf
    floor, peak, log_peak = _finish_logs(space.arithmetic, weight)
    return floor, peak, log_peak + reference


@kernel(FAST, inline=True)
def _gather(layout, space, variable, skipped, weight):
    """Fill `weight` with the prior times all messages to a variable but that of the edge `skipped` (-1: none).

    Returns:
        A lower bound of the positive weights (-1 where all vanish), and the factor `peak * exp(log_peak)` that was
        divided out to make the largest weight 1 (0 in log arithmetic).
    """
    hub = space.variable_hub[variable]
    if hub >= 0:
        return _gather_hub(space, hub, skipped, weight)
    if space.arithmetic == LOG:
        return _gather_logs(layout, space, variable, skipped, weight)
    first, last = layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
    floor = space.prior_min[variable]
    for place in range(first, last):
        edge = layout.variable_edge[place]
        if edge != skipped:
            floor *= space.edge_min[edge]
    if floor < SAFE:
        return _gather_logs(layout, space, variable, skipped, weight)
    start, untouched = space.variable_slot_start[variable], True
    # Slices, because an index start + v might be negative for all the compiler knows, and would not be vectorised.
    prior = space.prior[start : start + weight.size]
    for place in range(first, last):
        edge = layout.variable_edge[place]
        if edge != skipped:
            start = space.edge_slot_start[edge]
            message = space.message[start : start + weight.size]
            if untouched:
                untouched = False
                for v in range(weight.size):
                    weight[v] = prior[v] * message[v]
            else:
                for v in range(weight.size):
                    weight[v] *= message[v]
    if untouched:
        for v in range(weight.size):
            weight[v] = prior[v]
    peak = _scale_to_one(weight)
    if peak == 0.0:
        return -1.0, 0.0, 0.0
    return floor, peak, 0.0


# ---------------------------------------------------------------- through the table
@kernel(FAST)
def _matrix_linear(matrix, rows, n, row_weight, column_weight, dots, sums):
    """Read a (rows, n) matrix once: dots = matrix @ column_weight, sums = row_weight @ matrix."""
    for c in range(n):
        sums[c] = 0.0
    for r in range(rows):
        weight = row_weight[r]
        row = matrix[r * n : r * n + n]
        dot = 0.0
        for c in range(n):
            entry = row[c]
            dot += entry * column_weight[c]
            sums[c] += weight * entry
        dots[r] = dot


@kernel(FAST_WITHOUT_NAN)
def _log_sum(row, weight):
    """Return log sum exp of a row plus weights."""
    peak = -np.inf
    for c in range(row.size):
        peak = max(peak, row[c] + weight[c])
    if peak == -np.inf:
        return -np.inf
    total = 0.0
    for c in range(row.size):
        total += exp(row[c] + weight[c] - peak)
    return peak + math.log(total)


@kernel(FAST_WITHOUT_NAN)
def _matrix_log(matrix, rows, n, row_weight, column_weight, dots, sums, peak):
    """Do as `_matrix_linear` with logarithms throughout; `peak` is scratch for n numbers."""
    for c in range(n):
        peak[c] = -np.inf
    for r in range(rows):
        weight, row = row_weight[r], matrix[r * n : r * n + n]
        dots[r] = _log_sum(row, column_weight)
        for c in range(n):
            peak[c] = max(peak[c], weight + row[c])
    for c in range(n):
        sums[c] = 0.0
        peak[c] = peak[c] if peak[c] > -np.inf else 0.0  # -inf less -inf would be NaN
    for r in range(rows):
        weight, row = row_weight[r], matrix[r * n : r * n + n]
        if weight > -np.inf:
            for c in range(n):
                sums[c] += exp(weight + row[c] - peak[c])
    for c in range(n):
        sums[c] = peak[c] + log(sums[c])


@kernel(FAST, inline=True)
def _outer(arithmetic, rows, columns, product):
    n = columns.size
    for r in range(rows.size):
        weight, target = rows[r], product[r * n : r * n + n]
        if arithmetic == LOG:
            for c in range(n):
                target[c] = weight + columns[c]
        else:
            for c in range(n):
                target[c] = weight * columns[c]


@kernel(inline=True)
def _edge_size(edge_variable, domain_size, edge):
    return domain_size[edge_variable[edge]]


@kernel(inline=True)
def _contract(layout, space, factor, arithmetic):
    """Fill `space.outgoing` with a factor's unscaled messages, from the weights in `space.incoming`.

    Level k of `prefix` and of `dots` has an entry per joint state of the axes 0 to k; level 0 is the incoming and the
    outgoing message of axis 0. `level` is where the level of the axes before `edge` starts.
    """
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    rows = _edge_size(layout.edge_variable, space.domain_size, first)
    offset, level, end = rows, 0, 0
    for edge in range(first + 1, last - 1):
        n = _edge_size(layout.edge_variable, space.domain_size, edge)
        before = space.incoming[:rows] if edge == first + 1 else space.prefix[level : level + rows]
        _outer(arithmetic, before, space.incoming[offset : offset + n], space.prefix[end : end + rows * n])
        level, end = end, end + rows * n
        rows *= n
        offset += n
    matrix = table_view(
        space.table_address[factor], rows * _edge_size(layout.edge_variable, space.domain_size, last - 1)
    )
    for edge in range(last - 1, first, -1):
        n = _edge_size(layout.edge_variable, space.domain_size, edge)
        before = space.incoming[:rows] if edge == first + 1 else space.prefix[level : level + rows]
        dots = space.outgoing[:rows] if edge == first + 1 else space.dots[level : level + rows]
        column, sums = space.incoming[offset : offset + n], space.outgoing[offset : offset + n]
        if arithmetic == LOG:
            _matrix_log(matrix, rows, n, before, column, dots, sums, space.peak)
        else:
            _matrix_linear(matrix, rows, n, before, column, dots, sums)
        matrix = dots
        if edge > first + 1:
            n = _edge_size(layout.edge_variable, space.domain_size, edge - 1)
            rows //= n
            offset -= n
            level -= rows


# ---------------------------------------------------------------- factor to variable
@kernel(FAST_WITHOUT_NAN)
def _compare_linear(new, old, scale):
    """Scale `new` in place; return the largest and smallest ratio to `old`, the smallest positive, support changes."""
    high, low, smallest, changed = 0.0, np.inf, 1.0, 0
    for v in range(new.size):
        value = new[v] * scale
        new[v] = value
        ratio = (value + TINY) / (old[v] + TINY)
        high = max(high, ratio)
        low = min(low, ratio)
        smallest = min(smallest, value if value > 0.0 else 1.0)
        changed += (value > 0.0) != (old[v] > 0.0)
    return high, low, smallest, changed


@kernel(FAST_WITHOUT_NAN)
def _replace_positive(new, old, scale):
    """Do as `_compare_linear` and replace `old` in the same pass, where no number is zero."""
    high, low, smallest = 0.0, np.inf, 1.0
    for v in range(new.size):
        value = new[v] * scale
        ratio = value / old[v]
        old[v] = value
        high = max(high, ratio)
        low = min(low, ratio)
        smallest = min(smallest, value)
    return high, low, smallest


@kernel()
def _compare_log(new, old, scale):
    """Shift `new` in place; return the largest and smallest change, the smallest finite number, support changes."""
    high, low, smallest, changed = -np.inf, np.inf, 0.0, 0
    for v in range(new.size):
        new[v] -= scale
        if new[v] > -np.inf:
            smallest = min(smallest, new[v])
        if new[v] > -np.inf and old[v] > -np.inf:
            high = max(high, new[v] - old[v])
            low = min(low, new[v] - old[v])
        elif new[v] > -np.inf or old[v] > -np.inf:
            changed += 1
    return high, low, smallest, changed


@kernel()
def _damp(arithmetic, new, old, damping):
    """Move from `old` only a part of the way to `new`, along the logarithms; hard zeros are taken at once."""
    peak = -np.inf
    for v in range(new.size):
        a = new[v] if arithmetic == LOG else log(new[v])
        b = old[v] if arithmetic == LOG else log(old[v])
        new[v] = a if a == -np.inf or b == -np.inf else (1.0 - damping) * a + damping * b
        peak = max(peak, new[v])
    smallest = 0.0
    for v in range(new.size):
        new[v] -= peak
        if new[v] > -np.inf:
            smallest = min(smallest, new[v])
        if arithmetic == LINEAR:
            new[v] = exp(new[v])
    return exp(smallest)


@kernel()
def _move_hub(space, hub, new, old):
    """Replace a message in the totals of a variable of high degree."""
    start = space.hub_start[hub]
    for v in range(new.size):
        a = new[v] if space.arithmetic == LOG else log(new[v])
        b = old[v] if space.arithmetic == LOG else log(old[v])
        space.hub_zeros[start + v] += int(a == -np.inf) - int(b == -np.inf)
        high, low = space.hub_high[start + v], space.hub_low[start + v]
        if a > -np.inf:
            high, low = add_exactly(high, low, a)
        if b > -np.inf:
            high, low = add_exactly(high, low, -b)
        space.hub_high[start + v], space.hub_low[start + v] = high, low


@kernel(FAST)
def _scale_of(arithmetic, in_logs, weight, message, total):
    """Return the c_i for which Z_f / c_i is the sum of n_i * m: what log Z needs where m is not o / c_i, but damped."""
    if in_logs:
        return total - _log_sum(message, weight)
    overlap = 0.0
    for v in range(weight.size):
        overlap += weight[v] * (exp(message[v]) if arithmetic == LOG else message[v])
    return total - math.log(overlap) if arithmetic == LOG else total / overlap


@kernel(inline=True)
def _store(layout, space, edge, weight, new, damping):
    """Scale an outgoing message and keep it; return its undamped residual, or VANISHED or DIVERGED."""
    start = space.edge_slot_start[edge]
    old = space.message[start : start + new.size]
    peak = _largest(new)
    factor, hub = layout.edge_factor[edge], space.variable_hub[layout.edge_variable[edge]]
    if space.arithmetic == LINEAR and damping == 0.0 and hub < 0 and not space.table_has_zero[factor]:
        high, low, space.edge_min[edge] = _replace_positive(new, old, 1.0 / peak)
        space.edge_scale[edge] = peak
        space.edge_residual[edge] = math.log(high / low)
        return space.edge_residual[edge]
    if space.arithmetic == LOG:
        if peak == -np.inf:
            return VANISHED
        high, low, smallest, changed = _compare_log(new, old, peak)
        if smallest < -MAX_LOG:
            return DIVERGED
        residual = np.inf if changed else high - low
    else:
        if peak <= 0.0:
            return VANISHED
        high, low, smallest, changed = _compare_linear(new, old, 1.0 / peak)
        residual = np.inf if changed else math.log(high / low)
        space.edge_min[edge] = smallest
    space.edge_scale[edge] = peak
    if damping > 0.0:
        in_logs, total = space.table_in_logs[factor], space.factor_total[factor]
        space.edge_min[edge] = _damp(space.arithmetic, new, old, damping)
        space.edge_scale[edge] = _scale_of(space.arithmetic, in_logs, weight, new, total)
    if hub >= 0:
        _move_hub(space, hub, new, old)
    for v in range(new.size):
        old[v] = new[v]
    space.edge_residual[edge] = residual * (1.0 - damping)
    return residual


@kernel(FAST, inline=True)
def _factor_total(arithmetic, weight, outgoing):
    """Return Z_f, from one variable's incoming and unscaled outgoing message."""
    if arithmetic == LOG:
        return _log_sum(outgoing, weight)
    total = 0.0
    for v in range(weight.size):
        total += weight[v] * outgoing[v]
    return total


@kernel()
def _smallest_product(layout, space, factor):
    """Return a lower bound of the positive products a factor can form: sharper, and dearer, than that of `_gather`."""
    product, offset = space.table_min[factor], 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        n = _edge_size(layout.edge_variable, space.domain_size, edge)
        smallest = 1.0
        for v in range(offset, offset + n):
            if space.incoming[v] > 0.0:
                smallest = min(smallest, space.incoming[v])
        product *= smallest
        offset += n
    return product


@kernel(inline=True)
def _sum_out(layout, space, factor):
    """Fill `space.outgoing` and Z_f from `space.incoming`, in the arithmetic of the factor's table."""
    n_slots = 0
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        n_slots += _edge_size(layout.edge_variable, space.domain_size, edge)
    arithmetic = space.arithmetic
    detour = arithmetic == LOG and not space.table_in_logs[factor]
    if detour:
        arithmetic = np.int64(LINEAR)
        for v in range(n_slots):
            space.incoming[v] = exp(space.incoming[v])
    _contract(layout, space, factor, arithmetic)
    n = _edge_size(layout.edge_variable, space.domain_size, layout.factor_edge_start[factor])
    total = _factor_total(arithmetic, space.incoming[:n], space.outgoing[:n])
    if detour:
        total = math.log(total)
        for v in range(n_slots):
            space.outgoing[v] = math.log(space.outgoing[v])
    space.factor_total[factor] = total


@kernel(inline=True)
def _update(layout, space, factor, damping):
    """Send all messages of a factor; return status, what vanished, the residual and the entries read."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    floor, lost, offset, entries = space.table_min[factor], False, 0, 1
    for edge in range(first, last):
        variable = layout.edge_variable[edge]
        n = space.domain_size[variable]
        bound, _, _ = _gather(layout, space, variable, edge, space.incoming[offset : offset + n])
        if bound < 0.0:
            return VARIABLE_VANISHED, variable, 0.0, 0
        lost |= bound == 0.0
        floor *= bound
        offset += n
        entries *= n
    doubtful = floor < SAFE and space.arithmetic == LINEAR and space.table_has_zero[factor]
    if doubtful and (lost or _smallest_product(layout, space, factor) < SAFE):
        return OUT_OF_RANGE, factor, 0.0, 0
    _sum_out(layout, space, factor)
    offset, residual = 0, 0.0
    for edge in range(first, last):
        n = _edge_size(layout.edge_variable, space.domain_size, edge)
        end = offset + n
        moved = _store(layout, space, edge, space.incoming[offset:end], space.outgoing[offset:end], damping)
        if moved < 0.0:
            return FACTOR_VANISHED if moved == VANISHED else OUT_OF_RANGE, factor, 0.0, 0
        residual = max(residual, moved)
        offset = end
    return OK, -1, residual, entries


# ---------------------------------------------------------------- schedules
@kernel(inline=True)
def _cost(factor_edge_start, table_in_logs, factor, entries):
    """Return about how many entries could have been read in the time of an update."""
    edges = factor_edge_start[factor + 1] - factor_edge_start[factor]
    return EDGE_COST * edges + (LOG_COST * entries if table_in_logs[factor] else entries)


@kernel()
def sweep_slice(layout, space, order, position, stop, cost_limit, damping):
    """Update the factors order[position:stop], at most until `cost_limit` entries are read.

    Returns:
        Status, what vanished, the position reached, entries read, the largest residual and the sum of residuals.
    """
    layout, space = borrow(layout), borrow(space)
    work, cost, largest, total = 0, 0, 0.0, 0.0
    while position < stop and cost < cost_limit:
        factor = order[position]
        status, culprit, residual, entries = _update(layout, space, factor, damping)
        if status != OK:
            return status, culprit, position, work, largest, total
        position += 1
        work += entries
        cost += _cost(layout.factor_edge_start, space.table_in_logs, factor, entries)
        largest = max(largest, residual)
        total += residual
    return OK, -1, position, work, largest, total


@kernel()
def largest_pending(layout, space, order, moved, damping):
    """Return a bound on how far any message of the last sweep is from what its factor would send now.

    A factor never stretches the range of a change, so the changes of its incoming messages since it was updated bound
    its own, together with what damping kept back. They are added up per variable, from the last update of the sweep to
    the first; `moved` is scratch, zero for every variable.
    """
    layout, space = borrow(layout), borrow(space)
    largest = 0.0
    for position in range(order.size - 1, -1, -1):
        first, last = layout.factor_edge_start[order[position]], layout.factor_edge_start[order[position] + 1]
        pending, kept_back = 0.0, 0.0
        for edge in range(first, last):
            pending += moved[layout.edge_variable[edge]]
            if damping > 0.0:
                kept_back = max(kept_back, space.edge_residual[edge] * damping / (1.0 - damping))
        for edge in range(first, last):
            moved[layout.edge_variable[edge]] += space.edge_residual[edge]
        largest = max(largest, pending + kept_back)
    return largest


@kernel(inline=True)
def _before(heap, a, b):
    """Tell whether item a comes before item b: higher priority, then lower number."""
    return heap.priority[a] > heap.priority[b] or (heap.priority[a] == heap.priority[b] and a < b)


@kernel()
def _sift(heap, item):
    """Move an item of changed priority to where it belongs in the indexed heap."""
    place = heap.place[item]
    while place > 0:
        parent = (place - 1) >> 1
        other = heap.item[parent]
        if not _before(heap, item, other):
            break
        heap.item[place], heap.place[other] = other, place
        place = parent
    while True:
        child = 2 * place + 1
        if child >= heap.item.size:
            break
        if child + 1 < heap.item.size and _before(heap, heap.item[child + 1], heap.item[child]):
            child += 1
        other = heap.item[child]
        if not _before(heap, other, item):
            break
        heap.item[place], heap.place[other] = other, place
        place = child
    heap.item[place], heap.place[item] = item, place


@kernel()
def _raise_priority(heap, item, amount):
    if amount > 0.0:
        heap.priority[item] += amount
        _sift(heap, item)


@kernel()
def _spread(layout, space, heap, factor):
    """Tell the neighbours of a factor by how much its messages have moved.

    A variable of high degree is told instead of its factors; it passes the sum on when it reaches the top of the heap,
    so that an update costs the arity and not the degree.
    """
    n_factors = layout.factor_edge_start.size - 1
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        moved = space.edge_residual[edge]
        variable = layout.edge_variable[edge]
        hub = space.variable_hub[variable]
        if hub >= 0:
            heap.unspread[edge] += moved
            _raise_priority(heap, n_factors + hub, moved)
            continue
        for place in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
            other = layout.edge_factor[layout.variable_edge[place]]
            if other != factor:
                _raise_priority(heap, other, moved)


@kernel()
def _spread_hub(layout, space, heap, hub):
    """Pass what a variable of high degree was told on to its factors, less what each told it; return its degree."""
    item = layout.factor_edge_start.size - 1 + hub
    variable = space.hub_variable[hub]
    moved = heap.priority[item]
    heap.priority[item] = 0.0
    _sift(heap, item)
    first, last = layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]
    for place in range(first, last):
        edge = layout.variable_edge[place]
        own = heap.unspread[edge]
        heap.unspread[edge] = 0.0
        _raise_priority(heap, layout.edge_factor[edge], np.inf if moved == np.inf else moved - own)
    return last - first


@kernel()
def residual_slice(layout, space, heap, update_limit, cost_limit, tolerance, damping):
    """Update the factor of highest priority, again and again, until all are under the tolerance or a limit is met.

    Returns:
        Status, what vanished, updates made, entries read.
    """
    layout, space, heap = borrow(layout), borrow(space), borrow(heap)
    n_factors = layout.factor_edge_start.size - 1
    work, cost, updates = 0, 0, 0
    while updates < update_limit and cost < cost_limit:
        item = heap.item[0]
        if heap.priority[item] <= tolerance:
            return CONVERGED, -1, updates, work
        if item >= n_factors:
            cost += _spread_hub(layout, space, heap, item - n_factors)
            continue
        status, culprit, residual, entries = _update(layout, space, item, damping)
        if status != OK:
            return status, culprit, updates, work
        heap.priority[item] = residual * damping if damping > 0.0 else 0.0  # an infinite residual times 0 is NaN
        _sift(heap, item)
        _spread(layout, space, heap, item)
        updates += 1
        work += entries
        cost += _cost(layout.factor_edge_start, space.table_in_logs, item, entries)
    return OK, -1, updates, work


# ---------------------------------------------------------------- read-out
@kernel()
def read_beliefs(layout, space, belief, log_normaliser):
    """Fill the marginals of all variables over their domains, and the log of what they were divided by.

    Returns:
        Status, and the variable whose belief vanished or -1.
    """
    layout, space = borrow(layout), borrow(space)
    for variable in range(log_normaliser.size):
        start = space.variable_slot_start[variable]
        weight = belief[start : start + space.domain_size[variable]]
        floor, peak, log_peak = _gather(layout, space, variable, np.int64(-1), weight)
        if floor < 0.0:
            return VARIABLE_VANISHED, variable
        if space.arithmetic == LOG:
            for v in range(weight.size):
                weight[v] = exp(weight[v])
        total = 0.0
        for v in range(weight.size):
            total += weight[v]
        for v in range(weight.size):
            weight[v] /= total
        log_normaliser[variable] = math.log(total) + math.log(peak) + log_peak
    return OK, -1


@kernel()
def read_weights(layout, space, log_weight):
    """Fill the log of the messages from variables to factors, in the slots of their edges."""
    layout, space = borrow(layout), borrow(space)
    for edge in range(layout.edge_variable.size):
        variable = layout.edge_variable[edge]
        start = space.edge_slot_start[edge]
        weight = log_weight[start : start + space.domain_size[variable]]
        floor, _, _ = _gather(layout, space, variable, edge, weight)
        if floor < 0.0:
            return VARIABLE_VANISHED, variable
        if space.arithmetic == LINEAR:
            for v in range(weight.size):
                weight[v] = log(weight[v])
    return OK, -1
