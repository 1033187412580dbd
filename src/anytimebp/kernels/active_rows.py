"""Joint active states of a factor: where they lie in its table, what they weigh, and which of them count."""

from anytimebp.kernels.jit import kernel


@kernel()
def locate_rows(layout, sources, active, factor, skipped, row_base):
    """Fill `row_base` with where joint active states lie in a factor's source, but for one edge; return how many."""
    row_base[0], rows = 0, 1
    for edge in range(layout.factor_edge_start[factor + 1] - 1, layout.factor_edge_start[factor] - 1, -1):
        if edge == skipped:
            continue
        start, stride = active.start[layout.edge_variable[edge]], sources.edge_stride[edge]
        n = active.start[layout.edge_variable[edge] + 1] - start
        for d in range(n - 1, -1, -1):
            base = active.state[start + d] * stride
            for r in range(rows):
                row_base[d * rows + r] = row_base[r] + base
        rows *= n
    return rows


@kernel()
def weigh_rows(layout, bp, factor, skipped, in_logs, offsets, row_weight):
    """Fill `row_weight` with the product of the weights of joint active states, but for one edge; return how many."""
    first = layout.factor_edge_start[factor]
    row_weight[0], rows = 0.0 if in_logs else 1.0, 1
    for edge in range(layout.factor_edge_start[factor + 1] - 1, first - 1, -1):
        n = bp.domain_size[layout.edge_variable[edge]]
        if edge == skipped or n == 1:
            continue
        for d in range(n - 1, -1, -1):
            weight = bp.incoming[offsets[edge - first] + d]
            for r in range(rows):
                row_weight[d * rows + r] = row_weight[r] + weight if in_logs else row_weight[r] * weight
        rows *= n
    return rows


@kernel()
def keep_heavy(left_out, row_base, row_weight):
    """Keep the joint states that have most of the weight, in order; return how many.

    Args:
        left_out: Part of the whole weight that the others may have together.
        row_base: Where joint states lie; overwritten.
        row_weight: What they weigh; overwritten.
    """
    total, kept = 0.0, 0
    for r in range(row_weight.size):
        total += row_weight[r]
    least = left_out * total / row_weight.size
    for r in range(row_weight.size):  # nothing branches on what is hard to foresee
        row_base[kept], row_weight[kept] = row_base[r], row_weight[r]
        kept += 1 if row_weight[r] >= least else 0
    return kept
