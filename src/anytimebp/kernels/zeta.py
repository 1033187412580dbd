"""Sums over the states that have all bits of a state, and differences that undo them; both in place.

    sum_above:         y(s)  =  sum of x(t) over all t that have the bits of s
    difference_above:  the inverse

Lengths are powers of two.
"""

from anytimebp.kernels.jit import FAST, kernel

WIDE = 32  # as in `walsh.py`
EIGHT = 8


@kernel(FAST)
def _add_four(x, h):
    q = h // 4
    for s in range(0, x.size, h):
        a, b, c, d = x[s : s + q], x[s + q : s + 2 * q], x[s + 2 * q : s + 3 * q], x[s + 3 * q : s + h]
        for j in range(q):
            p, t = c[j] + d[j], b[j] + d[j]
            a[j], b[j], c[j] = a[j] + b[j] + p, t, p


@kernel(FAST)
def _add_two(x, h):
    q = h // 2
    for s in range(0, x.size, h):
        a, b = x[s : s + q], x[s + q : s + h]
        for j in range(q):
            a[j] += b[j]


@kernel(FAST)
def _add_eights(x):
    for s in range(0, x.size, EIGHT):
        a7, a3, a5, a1 = x[s + 7], x[s + 3] + x[s + 7], x[s + 5], x[s + 1] + x[s + 5]
        a6, a2, a4, a0 = x[s + 6], x[s + 2] + x[s + 6], x[s + 4], x[s] + x[s + 4]
        a0, a1, a4, a5 = a0 + a2, a1 + a3, a4 + a6, a5 + a7
        x[s], x[s + 1], x[s + 2], x[s + 3] = a0 + a1, a1, a2 + a3, a3
        x[s + 4], x[s + 5], x[s + 6] = a4 + a5, a5, a6 + a7


@kernel()
def sum_above(x):
    """Turn numbers to sums."""
    h = x.size
    while h >= WIDE:
        _add_four(x, h)
        h //= 4
    if h > EIGHT:
        _add_two(x, h)
        h //= 2
    if h == EIGHT:
        _add_eights(x)
        return
    while h > 1:
        _add_two(x, h)
        h //= 2


@kernel(FAST)
def _subtract_four(x, h):
    q = h // 4
    for s in range(0, x.size, h):
        a, b, c, d = x[s : s + q], x[s + q : s + 2 * q], x[s + 2 * q : s + 3 * q], x[s + 3 * q : s + h]
        for j in range(q):
            p, t = c[j] - d[j], b[j] - d[j]
            a[j], b[j], c[j] = (a[j] - b[j]) - p, t, p


@kernel(FAST)
def _subtract_two(x, h):
    q = h // 2
    for s in range(0, x.size, h):
        a, b = x[s : s + q], x[s + q : s + h]
        for j in range(q):
            a[j] -= b[j]


@kernel(FAST)
def _subtract_eights(x):
    for s in range(0, x.size, EIGHT):
        a7, a3, a5, a1 = x[s + 7], x[s + 3] - x[s + 7], x[s + 5], x[s + 1] - x[s + 5]
        a6, a2, a4, a0 = x[s + 6], x[s + 2] - x[s + 6], x[s + 4], x[s] - x[s + 4]
        a0, a1, a4, a5 = a0 - a2, a1 - a3, a4 - a6, a5 - a7
        x[s], x[s + 1], x[s + 2], x[s + 3] = a0 - a1, a1, a2 - a3, a3
        x[s + 4], x[s + 5], x[s + 6] = a4 - a5, a5, a6 - a7


@kernel()
def difference_above(x):
    """Turn sums to numbers."""
    h = x.size
    while h >= WIDE:
        _subtract_four(x, h)
        h //= 4
    if h > EIGHT:
        _subtract_two(x, h)
        h //= 2
    if h == EIGHT:
        _subtract_eights(x)
        return
    while h > 1:
        _subtract_two(x, h)
        h //= 2
