"""Strips: a factor's entries with at most one variable outside its domain, and messages through them.

A run of `adaptive` keeps messages over whole universes (`bp`) and a domain of few states a variable (`nested`). Of a
factor with variables i, j, ... it reads only the joint states in which at most one variable is outside its domain S:

    o_i(x)  =  sum over x_j in S_j, ... of t * product of n_j(x_j)                         x anywhere
            +  sum over k, over x_k outside S_k, the others in their S, of the same        x in S_i only: the tail

The strip of axis i is a matrix of (joint states of the other domains) x (universe of i). One pass over it gives the
first sum, and with the weights outside S_i, the tails of the others. A fixed point of these updates is a fixed point of
BP on the model without the joint states that are never read; those weigh as much as two variables outside at a time do.

`nested` is a NestedArrays.
"""

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import FACTOR_VANISHED, GATHER, LOG_TABLE, OK, STORE, VARIABLE_VANISHED
from anytimebp.kernels.fill_strips import locate_entries
from anytimebp.kernels.inner import freeze_tails
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view
from anytimebp.kernels.messages import EDGE_COST
from anytimebp.kernels.through_table import TALL, matrix_linear, tall_matrix_linear
from anytimebp.kernels.to_factor import gather_at
from anytimebp.kernels.to_variable import store_at


@kernel()
def _row_weights(layout, bp, nested, edge, offsets):
    """Fill `row_weight` with the product of the other variables' weights, per joint state of their domains."""
    factor = layout.edge_factor[edge]
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    rows = 1
    nested.row_weight[0] = 1.0
    for other in range(last - 1, first - 1, -1):
        if other != edge:
            variable = layout.edge_variable[other]
            start, n = bp.variable_slot_start[variable], nested.size[variable]
            for d in range(n - 1, -1, -1):
                weight = bp.incoming[offsets[other - first] + nested.member[start + d]]
                for r in range(rows):
                    nested.row_weight[d * rows + r] = nested.row_weight[r] * weight
            rows *= n
    return rows


@kernel()
def _spread_tail(layout, bp, nested, edge, rows, offsets):
    """Add what the states outside the domain of an edge's variable give to the messages to the others."""
    factor = layout.edge_factor[edge]
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    if last - first == 2:  # noqa: PLR2004
        other = first + last - 1 - edge
        target = nested.tail[bp.edge_slot_start[other] :]
        for r in range(rows):
            target[r] += nested.dots[r]
        return
    inner = 1
    for target in range(last - 1, first - 1, -1):
        if target == edge:
            continue
        n = nested.size[layout.edge_variable[target]]
        start, slot = bp.variable_slot_start[layout.edge_variable[target]], bp.edge_slot_start[target]
        for r in range(rows):
            d = (r // inner) % n
            weight = bp.incoming[offsets[target - first] + nested.member[start + d]]
            if weight > 0.0:
                nested.tail[slot + d] += nested.dots[r] * (nested.row_weight[r] / weight)
        inner *= n


@kernel()
def _through_strips(layout, bp, nested, factor, offsets):
    """Fill `bp.outgoing` and `nested.tail` of a factor from `bp.incoming`; return the entries read."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    entries = 0
    for edge in range(first, last):
        slot = bp.edge_slot_start[edge]
        nested.tail[slot : slot + nested.size[layout.edge_variable[edge]]] = 0.0
    for edge in range(first, last):
        variable = layout.edge_variable[edge]
        n, offset, start = bp.domain_size[variable], offsets[edge - first], bp.variable_slot_start[variable]
        rows = _row_weights(layout, bp, nested, edge, offsets)
        outside = nested.outside[:n]
        for v in range(n):
            outside[v] = bp.incoming[offset + v]
        for d in range(nested.size[variable]):
            outside[nested.member[start + d]] = 0.0
        strip = nested.pool[nested.strip_start[edge] : nested.strip_start[edge] + rows * n]
        weight, dots, sums = nested.row_weight[:rows], nested.dots[:rows], bp.outgoing[offset : offset + n]
        if rows >= TALL:
            tall_matrix_linear(strip, n, n, weight, outside, dots, sums)
        else:
            matrix_linear(strip, bp.row_start[:0], n, n, weight, outside, dots, sums)
        entries += rows * n
        _spread_tail(layout, bp, nested, edge, rows, offsets)
    for edge in range(first, last):
        variable, slot, offset = layout.edge_variable[edge], bp.edge_slot_start[edge], offsets[edge - first]
        start = bp.variable_slot_start[variable]
        for d in range(nested.size[variable]):
            bp.outgoing[offset + nested.member[start + d]] += nested.tail[slot + d]
    return entries


@kernel()
def _strip_update(layout, bp, inner, nested, factor):
    """Send a factor's messages through its strips; return status, residual on the domains, entries."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    offset, offsets = 0, nested.offsets
    for edge in range(first, last):
        variable = layout.edge_variable[edge]
        n = bp.domain_size[variable]
        weight = bp.incoming[offset : offset + n]
        bound, _, _ = gather_at(bp.calls[GATHER], (layout, bp, variable, edge, weight))
        if bound < 0.0:
            return VARIABLE_VANISHED, 0.0, 0
        offsets[edge - first] = offset
        offset += n
    entries = _through_strips(layout, bp, nested, factor, offsets)
    total = 0.0
    for v in range(bp.domain_size[layout.edge_variable[first]]):
        total += bp.incoming[v] * bp.outgoing[v]
    bp.factor_total[factor] = total
    for edge in range(first, last):
        n, offset = bp.domain_size[layout.edge_variable[edge]], offsets[edge - first]
        weight, new = bp.incoming[offset : offset + n], bp.outgoing[offset : offset + n]
        store_at(bp.calls[STORE], (layout, bp, edge, weight, new, 0.0))
    residual = freeze_tails(layout, bp, inner, nested, factor)
    if residual < 0.0:
        return FACTOR_VANISHED, 0.0, 0
    return OK, residual, entries


@kernel()
def strip_sweep(layout, bp, inner, nested, order, position, stop, cost_limit):
    """Update the factors order[position:stop] through their strips, at most until `cost_limit` entries are read.

    Returns:
        Status, the position reached, entries read, the largest residual on the domains, and the cost.
    """
    work, cost, largest = 0, 0, 0.0
    while position < stop and cost < cost_limit:
        status, residual, entries = _strip_update(layout, bp, inner, nested, order[position])
        if status != OK:
            return status, position, work, largest, cost
        position += 1
        work += entries
        cost += entries + 2 * EDGE_COST
        largest = max(largest, residual)
    return OK, position, work, largest, cost


@kernel()
def join_above(layout, bp, nested, belief, threshold):
    """Let all states of a belief above the threshold join their domains; return how many did.

    Args:
        layout: Topology.
        bp: Where the variables' slots start.
        nested: Domains, extended.
        belief: A number per variable slot.
        threshold: See above.
    """
    layout, bp, nested = borrow(layout), borrow(bp), borrow(nested)
    joined = 0
    for variable in range(bp.domain_size.size):
        start, n = bp.variable_slot_start[variable], nested.size[variable]
        for d in range(bp.domain_size[variable]):
            if belief[start + d] > threshold and not nested.is_member[start + d]:
                nested.is_member[start + d] = True
                nested.member[start + n] = d
                n += 1
        joined += n - nested.size[variable]
        nested.size[variable] = n
    return joined


@kernel(FAST)
def _add_line(entries, first, stride, weight, kind, shift, sums):
    """Add entries along a leaf's axis to `sums`, times a weight; `first` is where the first state's entry is."""
    n = sums.size
    if kind == LOG_TABLE:
        for v in range(n):
            sums[v] += weight * exp(entries[first + v * stride] - shift)
    elif stride == 1:  # vectorised
        row = entries[first : first + n]
        for v in range(n):
            sums[v] += weight * row[v]
    else:
        row = entries[first:]
        for v in range(n):
            sums[v] += weight * row[v * stride]


@kernel()
def _leaf_message(layout, bp, nested, factor, offsets, sums):
    """Fill `sums`, over the universe of a factor's leaf, with what it is sent from the domains of the others."""
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    rows = locate_entries(layout, bp, nested, factor)
    nested.row_weight[0], filled = 1.0, 1
    for edge in range(last - 1, first - 1, -1):
        variable = layout.edge_variable[edge]
        start, n = bp.variable_slot_start[variable], nested.size[variable]
        for d in range(n - 1, -1, -1):
            weight = bp.incoming[offsets[edge - first] + nested.member[start + d]]
            for r in range(filled):
                nested.row_weight[d * filled + r] = nested.row_weight[r] * weight
        filled *= n
    kind, shift, stride = nested.source_kind[factor], nested.shift[factor], nested.leaf_stride[factor]
    source = table_view(nested.source_address[factor], nested.table_size[factor])
    sums[:] = 0.0
    for r in range(rows):
        _add_line(source, nested.row_base[r], stride, nested.row_weight[r], kind, shift, sums)


@kernel()
def read_leaves(layout, bp, nested, belief):
    """Fill the beliefs of the leaves that strips have summed out, from the domains of the others.

    Args:
        layout: Topology, without the leaves.
        bp: Messages.
        nested: Domains and sources; its scratch is overwritten.
        belief: Of all states of all variables; overwritten where the variable is a leaf.
    """
    layout, bp, nested = borrow(layout), borrow(bp), borrow(nested)
    for factor in range(nested.leaf_start.size):
        start = nested.leaf_start[factor]
        if start < 0:
            continue
        offset, first = 0, layout.factor_edge_start[factor]
        for edge in range(first, layout.factor_edge_start[factor + 1]):
            variable = layout.edge_variable[edge]
            weight = bp.incoming[offset : offset + bp.domain_size[variable]]
            gather_at(bp.calls[GATHER], (layout, bp, variable, edge, weight))
            nested.offsets[edge - first] = offset
            offset += bp.domain_size[variable]
        sums, n = belief[start : start + nested.leaf_size[factor]], nested.leaf_size[factor]
        _leaf_message(layout, bp, nested, factor, nested.offsets, sums)
        total, prior = 0.0, nested.leaf_weight[start : start + n]
        for v in range(n):
            sums[v] *= prior[v]
            total += sums[v]
        for v in range(n):
            sums[v] /= total
