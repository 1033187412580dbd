"""Compact tables over domains: filling the slices of states that join, and what a new state is sent.

`domain` is a DomainArrays: the states in the slots, and where each factor's scores come from.
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import ASKED, GATHER, LINEAR, LOG, LOG_TABLE, SAFE
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view
from anytimebp.kernels.log_sums import log_sum
from anytimebp.kernels.to_factor import gather_at


@kernel()
def _convert(line, kind, in_logs, scale):
    """Turn numbers of a source into those of a table."""
    if kind == LOG_TABLE:
        for c in range(line.size):
            line[c] -= scale
        if not in_logs:
            for c in range(line.size):
                line[c] = exp(line[c])
    elif in_logs:
        for c in range(line.size):
            line[c] = log(line[c]) - scale
    elif scale != 0.0:
        for c in range(line.size):
            line[c] = math.exp(log(line[c]) - scale)


@kernel()
def fill_slice(layout, bp, domain, edge, low, high):
    """Fill the entries of a dense factor whose slot on the axis of `edge` is from `low` up to `high`.

    Returns:
        How many entries that were.
    """
    factor = layout.edge_factor[edge]
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    inner = last - 1
    outer = 1
    size, capacity = 1, 1
    for other in range(first, last):
        variable = layout.edge_variable[other]
        size *= domain.universe_start[variable + 1] - domain.universe_start[variable]
        capacity *= bp.edge_capacity[other]
        if other != inner:
            outer *= high - low if other == edge else bp.domain_size[variable]
    source = table_view(domain.source_address[factor], size)
    table = table_view(bp.table_address[factor], capacity)
    variable = layout.edge_variable[inner]
    start = domain.universe_start[variable]
    begin, end = (low, high) if inner == edge else (np.int64(0), bp.domain_size[variable])
    states = domain.slot_state[start + begin : start + end]
    line = domain.line[: end - begin]
    for index in range(outer):
        rest, given, made, stride = index, 0, begin, bp.edge_capacity[inner]
        for other in range(inner - 1, first - 1, -1):
            variable = layout.edge_variable[other]
            n = high - low if other == edge else bp.domain_size[variable]
            slot = rest % n + (low if other == edge else 0)
            rest //= n
            given += domain.edge_stride[other] * domain.slot_state[domain.universe_start[variable] + slot]
            made += stride * slot
            stride *= bp.edge_capacity[other]
        for c in range(line.size):
            line[c] = source[given + states[c]]
        _convert(line, domain.source_kind[factor], bp.table_in_logs[factor], domain.table_scale[factor])
        row = table[made : made + line.size]
        for c in range(line.size):
            row[c] = line[c]
    return outer * line.size


@kernel()
def fill_tables(layout, bp, domain, factor, limit):
    """Fill the tables of dense factors from `factor` on, about `limit` entries; return where it stopped and work."""
    layout, bp, domain = borrow(layout), borrow(bp), borrow(domain)
    n_factors, work = layout.factor_edge_start.size - 1, 0
    while factor < n_factors and work < limit:
        if domain.source_kind[factor] != ASKED:
            edge = layout.factor_edge_start[factor]
            work += fill_slice(layout, bp, domain, edge, np.int64(0), bp.domain_size[layout.edge_variable[edge]])
        factor += 1
    return factor, work


@kernel()
def copy_slots(edge_size, old_start, new_start, old, new):
    """Copy the slots of all edges to other places."""
    for edge in range(edge_size.size):
        here, there = old[old_start[edge] : old_start[edge] + edge_size[edge]], new_start[edge]
        for v in range(here.size):
            new[there + v] = here[v]


@kernel(FAST)
def _weighted(row, stride, weight):
    total = 0.0
    for c in range(weight.size):
        total += row[c * stride] * weight[c]
    return total


@kernel()
def slot_message(layout, bp, line, edge, slot):
    """Return what a factor would send to one slot of one of its variables now, not scaled, and the entries read.

    In the run's arithmetic; -1 (linear) where the sum might lose something.
    """
    factor = layout.edge_factor[edge]
    first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
    inner = last - 1 if edge != last - 1 else last - 2
    floor, offset, outer, capacity, inner_offset = bp.table_min[factor], 0, 1, 1, 0
    for other in range(first, last):
        variable = layout.edge_variable[other]
        n = bp.domain_size[variable]
        capacity *= bp.edge_capacity[other]
        if other == inner:
            inner_offset = offset
        if other != edge:
            weight = bp.incoming[offset : offset + n]
            bound, _, _ = gather_at(bp.calls[GATHER], (layout, bp, variable, other, weight))
            if bound < 0.0:
                return -1.0 if bp.arithmetic == LINEAR else -np.inf, 0
            floor *= bound
            outer *= n if other != inner else 1
        offset += n
    in_logs = bp.table_in_logs[factor]
    if bp.arithmetic == LINEAR and bp.table_has_zero[factor] and floor < SAFE:
        return -1.0, 0
    table = table_view(bp.table_address[factor], capacity)
    n = bp.domain_size[layout.edge_variable[inner]]
    weight = bp.incoming[inner_offset : inner_offset + n]
    total = -np.inf if in_logs else 0.0
    for index in range(outer):
        rest, at, stride, step, position = index, 0, 1, 1, offset
        factor_weight = 0.0 if bp.arithmetic == LOG else 1.0
        for other in range(last - 1, first - 1, -1):
            size = bp.domain_size[layout.edge_variable[other]]
            position -= size
            if other == edge:
                at += stride * slot
            elif other == inner:
                step = stride
            else:
                x = rest % size
                rest //= size
                at += stride * x
                if bp.arithmetic == LOG:
                    factor_weight += bp.incoming[position + x]
                else:
                    factor_weight *= bp.incoming[position + x]
            stride *= bp.edge_capacity[other]
        if in_logs:
            for c in range(n):
                line[c] = table[at + c * step]
            total = np.logaddexp(total, factor_weight + log_sum(line[:n], weight))
        elif bp.arithmetic == LOG:
            for c in range(n):
                line[c] = exp(weight[c])
            total += exp(factor_weight) * _weighted(table[at:], step, line[:n])
        else:
            total += factor_weight * _weighted(table[at:], step, weight)
    if bp.arithmetic == LOG and not in_logs:
        total = log(total)
    return total, outer * n
