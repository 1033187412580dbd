"""Tables over active states that may have to stay in logs, as some of their scores are too far apart."""

import numpy as np

from anytimebp.kernels.active_rows import locate_rows
from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import MAX_LINEAR_RANGE
from anytimebp.kernels.jit import borrow, kernel, table_view


@kernel()
def fill_wide(layout, sources, active, factor, row_base, in_logs, table, found):
    """Fill the table of one WIDE_TABLE over the domains, divided by its largest number.

    Args:
        layout: Topology.
        sources: A Sources.
        active: An Active.
        factor: The factor.
        row_base: Scratch.
        in_logs: Whether it may be left in logs.
        table: Overwritten.
        found: (4,) overwritten: the log of what it was divided by, that of the smallest number, how many
            zeros there are, and whether the range needs logs.
    """
    layout, sources, active = borrow(layout), borrow(sources), borrow(active)
    locate_rows(layout, sources, active, factor, -1, row_base)
    source = table_view(sources.address[factor], sources.size[factor])
    high, low, zeros = -np.inf, np.inf, 0
    for r in range(table.size):
        table[r] = source[row_base[r]]
        high = max(high, table[r])
        if table[r] > -np.inf:
            low = min(low, table[r])
        else:
            zeros += 1
    is_wide = high - low > MAX_LINEAR_RANGE
    found[0], found[1], found[2], found[3] = high, low - high, zeros, is_wide
    if high == -np.inf or (is_wide and not in_logs):
        return
    for r in range(table.size):
        table[r] = table[r] - high if is_wide else exp(table[r] - high)
