"""Beliefs of the leaves that rounds of `adaptive` sum out, in linear arithmetic."""

from anytimebp.kernels.active import gather_weights, leaf_span, locate_rows, row_weights
from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG_TABLE, OK, VARIABLE_VANISHED
from anytimebp.kernels.jit import FAST, borrow, kernel, table_view

IN_LOGS = False


@kernel(FAST)
def _add_line(source, first, stride, weight, kind, shift, sums):
    """Add entries along a leaf's axis to `sums`, times a weight."""
    n = sums.size
    if kind == LOG_TABLE:
        row = source[first:]
        for v in range(n):
            sums[v] += weight * exp(row[v * stride] - shift)
    elif stride == 1:  # vectorised
        row = source[first : first + n]
        for v in range(n):
            sums[v] += weight * row[v]
    else:
        row = source[first:]
        for v in range(n):
            sums[v] += weight * row[v * stride]


@kernel()
def read_summed(layout, bp, sources, active, scratch, belief):
    """Fill the beliefs of the leaves that are summed out, over their universes.

    Args:
        layout: Topology.
        bp: Messages over the domains.
        sources: A Sources.
        active: An Active.
        scratch: A Scratch.
        belief: Of all states of all variables; overwritten where the variable is a leaf.

    Returns:
        Status, and the leaf whose belief vanished or -1.
    """
    layout, bp, sources, active = borrow(layout), borrow(bp), borrow(sources), borrow(active)
    scratch = borrow(scratch)
    for factor in range(sources.leaf.size):
        leaf = sources.leaf[factor]
        if leaf < 0:
            continue
        start, end = leaf_span(sources, active, factor)
        prior, sums = active.leaf_weight[start:end], belief[start:end]
        if not gather_weights(layout, bp, factor, IN_LOGS, scratch.offsets):
            return VARIABLE_VANISHED, leaf
        rows = locate_rows(layout, sources, active, factor, -1, scratch.row_base)
        row_weights(layout, bp, factor, -1, IN_LOGS, scratch.offsets, scratch.row_weight)
        kind, shift, stride = sources.kind[factor], sources.shift[factor], sources.leaf_stride[factor]
        source = table_view(sources.address[factor], sources.size[factor])
        sums[:] = 0.0
        for r in range(rows):
            _add_line(source, scratch.row_base[r], stride, scratch.row_weight[r], kind, shift, sums)
        total = 0.0
        for v in range(sums.size):
            sums[v] *= prior[v]
            total += sums[v]
        if not total > 0.0:
            return VARIABLE_VANISHED, leaf
        for v in range(sums.size):
            sums[v] /= total
    return OK, -1
