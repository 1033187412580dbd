"""What threads do for each other: read parts of one matrix, and add up what they have found.

`through_table` calls the leader by its address, so that runs of one thread neither load nor compile any of this.
"""

from functools import cache

import numpy as np

from anytimebp.kernels.arithmetic import exp, log
from anytimebp.kernels.codes import LOG
from anytimebp.kernels.jit import FAST_WITHOUT_NAN, Callback, callback, kernel, table_view
from anytimebp.kernels.sharing import (
    ARITHMETIC,
    COLUMN_WEIGHT,
    COLUMNS,
    DOTS,
    MAILBOX_SIZE,
    MATRIX,
    PARTIAL,
    PARTS,
    ROW_WEIGHT,
    ROWS,
    STRIDE,
    SUMS,
    WIDEST,
    claim,
    finish,
    next_part,
    publish,
    wait_until_done,
)
from anytimebp.kernels.through_table import matrix_log, tall_matrix_linear


@kernel()
def _read_part(mailbox, part):
    """Read some rows of the matrix that the mailbox speaks of; leave their sums in its room for partial results."""
    n, stride, rows, widest = mailbox[COLUMNS], mailbox[STRIDE], mailbox[ROWS], mailbox[WIDEST]
    first, last = rows * part // PARTS, rows * (part + 1) // PARTS
    matrix = table_view(mailbox[MATRIX] + 8 * first * stride, (last - first) * stride)
    row_weight = table_view(mailbox[ROW_WEIGHT] + 8 * first, last - first)
    dots = table_view(mailbox[DOTS] + 8 * first, last - first)
    column_weight = table_view(mailbox[COLUMN_WEIGHT], n)
    sums = table_view(mailbox[PARTIAL] + 16 * part * widest, n)
    if mailbox[ARITHMETIC] == LOG:
        peak = table_view(mailbox[PARTIAL] + 16 * part * widest + 8 * widest, n)
        matrix_log(matrix, mailbox[:0], stride, n, row_weight, column_weight, dots, sums, peak)
    else:
        tall_matrix_linear(matrix, stride, n, row_weight, column_weight, dots, sums)


@kernel()
def help_slice(mailbox):
    """Read parts of matrices until the mailbox is closed."""
    part = next_part(mailbox)
    while part >= 0:
        _read_part(mailbox, part)
        finish(mailbox)
        part = next_part(mailbox)


@kernel(FAST_WITHOUT_NAN)
def _add_partial_sums(arithmetic, partial, widest, sums):
    """Add up the sums of all parts, always in the same order, whoever has read which."""
    for c in range(sums.size):
        sums[c] = partial[c]
    for part in range(1, PARTS):
        more = partial[2 * part * widest : 2 * part * widest + sums.size]
        if arithmetic == LOG:
            for c in range(sums.size):
                high, low = max(sums[c], more[c]), min(sums[c], more[c])
                if low > -np.inf:
                    high += log(1.0 + exp(low - high))
                sums[c] = high
        else:
            for c in range(sums.size):
                sums[c] += more[c]


def _lead(address):
    """Read the matrix that the mailbox at an address speaks of, with the help of whoever is there."""
    mailbox = table_view(address, MAILBOX_SIZE).view(np.int64)
    publish(mailbox)
    part = claim(mailbox)
    while part < PARTS:
        _read_part(mailbox, part)
        finish(mailbox)
        part = claim(mailbox)
    wait_until_done(mailbox)
    partial = table_view(mailbox[PARTIAL], 2 * PARTS * mailbox[WIDEST])
    _add_partial_sums(mailbox[ARITHMETIC], partial, mailbox[WIDEST], table_view(mailbox[SUMS], mailbox[COLUMNS]))


@cache
def leader() -> Callback:
    """Return what `through_table` calls where it finds a mailbox; compiled or loaded when it is first asked for."""
    return callback(_lead)
