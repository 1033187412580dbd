"""Sums over the rows of blocks of log scores: what a factor sends to states that are asked about in passing."""

from anytimebp.kernels.jit import kernel
from anytimebp.kernels.log_sums import log_sum


@kernel()
def log_sum_rows(block, log_weight, sums):
    """Fill sums[r] with log sum exp of row r of a block plus the weights.

    Args:
        block: (rows, columns) log scores, read.
        log_weight: (columns,) read.
        sums: (rows,) overwritten.
    """
    for r in range(sums.size):
        sums[r] = log_sum(block[r], log_weight)
