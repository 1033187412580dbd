"""Sweeps over a graph of many parts that no factor joins: each part has its own ending."""

import numpy as np

from anytimebp.kernels.codes import OK
from anytimebp.kernels.jit import kernel
from anytimebp.kernels.messages import sweep_slice


@kernel()
def sweep_parts(
    layout, bp, news, parts, order, factor_start, damping, tolerance, sweeps, moved, orders, endings, pending
):
    """Sweep over some parts of a graph, one after the other, until they have settled or made all sweeps.

    A part is swept over there and back, in the very order that a run on it alone has; while it is, what it reads stays
    in the processor's cache.

    Args:
        layout: Topology.
        bp: Messages.
        news: As for `sweep_slice`.
        parts: Numbers of the parts.
        order: (F,) the factors of all parts, part after part, in the order of a sweep.
        factor_start: (P + 1,) where those of a part start.
        damping: Part of the old message to keep.
        tolerance: Residual up to which a message does not move.
        sweeps: (P, sweeps, 3) zeros; for each, entries read, the largest residual, and the sum of residuals.
        moved: (V,) scratch.
        orders: (2 F,) scratch.
        endings: (P, 2) overwritten: the status, and sweeps made.
        pending: (P,) overwritten: a bound on what another sweep would move.
    """
    for index in range(parts.size):
        part = parts[index]
        first, n = factor_start[part], factor_start[part + 1] - factor_start[part]
        for k in range(n):
            orders[2 * first + k] = order[first + k]
            orders[2 * first + 2 * n - 1 - k] = order[first + k]
        own = orders[2 * first : 2 * first + 2 * n].reshape((2, n))
        status, position, stop, left = OK, 0, n * sweeps.shape[1], np.inf
        while status == OK and position < stop and left > tolerance:
            rows = sweeps[part, position // n :]
            status, _, position, left = sweep_slice(
                layout, bp, news, own, position, stop, 2**62, damping, tolerance, rows, moved
            )
        endings[part, 0], endings[part, 1], pending[part] = status, position // n, left
