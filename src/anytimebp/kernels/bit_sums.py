"""Sums over pairs of states by the AND of their bits, with all their digits: nothing is ever subtracted.

    conjunction:  c(z)  =  sum of a(x) * b(y) over all x, y with x AND y = z
    agreement:    c(x)  =  sum over y of a(y) * b(x AND y)

Cut at the highest bit into halves 0 and 1, each is three sums of half the length, where a transform has two:

    conjunction:  c0 = (a0 + a1, b0) + (a0, b1),    c1 = (a1, b1)
    agreement:    c0 = (a0 + a1, b0),               c1 = (a0, b0) + (a1, b1)

So n states take about n to the power of 1.58. The halves are cut again down to SMALL states, depth first: `digit` says
which of the three sums is made at each depth.
"""

import numpy as np

from anytimebp.kernels.codes import LOG
from anytimebp.kernels.either_arithmetic import add, times
from anytimebp.kernels.jit import kernel

CONJUNCTION, AGREEMENT = 0, 1
SMALL = 4
HALVES = 3  # sums of half the length


@kernel()
def _small_sums(arithmetic, what, a, b, c):
    c[:] = -np.inf if arithmetic == LOG else 0.0
    for x in range(a.size):
        for y in range(a.size):
            if what == CONJUNCTION:
                c[x & y] = add(arithmetic, c[x & y], times(arithmetic, a[x], b[y]))
            else:
                c[x] = add(arithmetic, c[x], times(arithmetic, a[y], b[x & y]))


@kernel()
def _cut(arithmetic, what, digit, a, b, half_a, half_b):
    """Fill the halves that one of the three sums is about."""
    h = half_a.size
    if digit == 0:
        for v in range(h):
            half_a[v] = add(arithmetic, a[v], a[h + v])
    else:
        begin = h if digit == 2 else 0  # noqa: PLR2004
        for v in range(h):
            half_a[v] = a[begin + v]
    first = digit == 0 or (what == AGREEMENT and digit == 1)
    begin = 0 if first else h
    for v in range(h):
        half_b[v] = b[begin + v]


@kernel()
def _add_half(arithmetic, what, digit, part, c):
    """Add one of the three sums to the half that it belongs to; the first of each half replaces what is there."""
    h = part.size
    begin = 0 if digit == 0 or (digit == 1 and what == CONJUNCTION) else h
    is_first = digit in (0, 2 if what == CONJUNCTION else 1)
    for v in range(h):
        c[begin + v] = part[v] if is_first else add(arithmetic, c[begin + v], part[v])


@kernel()
def sum_pairs(arithmetic, what, a, b, c, room, digit):
    """Fill c.

    Args:
        arithmetic: LINEAR or LOG.
        what: CONJUNCTION or AGREEMENT.
        a: (n,) weights, read; n is a power of two.
        b: (n,) weights, read.
        c: (n,) overwritten.
        room: (3 n,) overwritten.
        digit: (64,) overwritten.
    """
    if a.size <= SMALL:
        _small_sums(arithmetic, what, a, b, c)
        return
    depth, n, begin = 0, a.size, 0
    digit[0] = 0
    while True:
        h = n // 2  # halves of depth d lie in the room behind those of the depths before
        half_a, half_b = room[begin : begin + h], room[begin + h : begin + 2 * h]
        half_c, end = room[begin + 2 * h : begin + 3 * h], begin + 3 * h
        up = begin - 3 * n
        own_a, own_b, own_c = (
            (a, b, c) if depth == 0 else (room[up : up + n], room[up + n : up + 2 * n], room[up + 2 * n : begin])
        )
        if digit[depth] == HALVES:
            if depth == 0:
                return
            depth, begin, n = depth - 1, up, 2 * n
            up_h = n // 2
            part = room[begin + 2 * up_h : begin + 3 * up_h]
            top = begin - 3 * n
            target = c if depth == 0 else room[top + 2 * n : begin]
            _add_half(arithmetic, what, digit[depth], part, target)
            digit[depth] += 1
            continue
        _cut(arithmetic, what, digit[depth], own_a, own_b, half_a, half_b)
        if h <= SMALL:
            _small_sums(arithmetic, what, half_a, half_b, half_c)
            _add_half(arithmetic, what, digit[depth], half_c, own_c)
            digit[depth] += 1
        else:
            depth, begin, n = depth + 1, end, h
            digit[depth] = 0
