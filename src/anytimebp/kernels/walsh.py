"""The transform of Walsh and Hadamard, in place: its own inverse, but for a factor of the length."""

from anytimebp.kernels.jit import FAST, kernel

EIGHT = 8
WIDE = 32  # lengths from here on are halved twice in a pass, which reads and writes half as often


@kernel(FAST)
def _four_parts(x, h):
    """Transform the two highest bits of each block of h numbers."""
    q = h // 4
    for s in range(0, x.size, h):
        a, b, c, d = x[s : s + q], x[s + q : s + 2 * q], x[s + 2 * q : s + 3 * q], x[s + 3 * q : s + h]
        for j in range(q):
            p, r, t, u = a[j] + c[j], a[j] - c[j], b[j] + d[j], b[j] - d[j]
            a[j], b[j], c[j], d[j] = p + t, p - t, r + u, r - u


@kernel(FAST)
def _two_parts(x, h):
    """Transform the highest bit of each block of h numbers."""
    q = h // 2
    for s in range(0, x.size, h):
        a, b = x[s : s + q], x[s + q : s + h]
        for j in range(q):
            p = a[j]
            a[j], b[j] = p + b[j], p - b[j]


@kernel(FAST)
def _eights(x):
    """Transform each eight numbers, all in registers."""
    for s in range(0, x.size, EIGHT):
        a0, a1, a2, a3 = x[s], x[s + 1], x[s + 2], x[s + 3]
        a4, a5, a6, a7 = x[s + 4], x[s + 5], x[s + 6], x[s + 7]
        b0, b1, b2, b3 = a0 + a4, a1 + a5, a2 + a6, a3 + a7
        b4, b5, b6, b7 = a0 - a4, a1 - a5, a2 - a6, a3 - a7
        c0, c1, c2, c3 = b0 + b2, b1 + b3, b0 - b2, b1 - b3
        c4, c5, c6, c7 = b4 + b6, b5 + b7, b4 - b6, b5 - b7
        x[s], x[s + 1], x[s + 2], x[s + 3] = c0 + c1, c0 - c1, c2 + c3, c2 - c3
        x[s + 4], x[s + 5], x[s + 6], x[s + 7] = c4 + c5, c4 - c5, c6 + c7, c6 - c7


@kernel()
def walsh(x):
    """Transform x, whose length is a power of two."""
    h = x.size
    while h >= WIDE:
        _four_parts(x, h)
        h //= 4
    if h > EIGHT:
        _two_parts(x, h)
        h //= 2
    if h == EIGHT:
        _eights(x)
        return
    while h > 1:
        _two_parts(x, h)
        h //= 2
