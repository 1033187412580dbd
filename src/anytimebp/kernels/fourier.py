"""The Fourier transform of real numbers, of a length that is a power of two and at least 8.

The numbers at even and at odd places are the real and imaginary parts z of half as many; Z is their transform by the
algorithm of Stockham, four parts at a time; with h the half of the length and w = exp(-2 pi i / (2 h)),

    X(k)  =  (Z(k) + conj Z(h - k)) / 2  -  i w^k (Z(k) - conj Z(h - k)) / 2,    k = 0 .. h

Real and imaginary parts are arrays of their own, so that the compiler makes vectors of all loops. It does so of loops
that read backwards only if these indices are unsigned: others might be negative for all it knows. `turn` has the
cosines of 2 pi k / (2 h) for k < 2 h, and then the sines of -2 pi k / (2 h). Behind these, with m = h / 4, are the
cosines again for k = 2 p, 4 p and 6 p, each for all p < m, and the sines, side by side as the first pass reads them.
"""

import numpy as np

from anytimebp.kernels.jit import FAST, kernel


@kernel(inline=True)
def turn_size(length):
    """Return how many numbers `turn` has for a transform of a length; none for none."""
    return 2 * length + 6 * (length // 8)


@kernel(FAST)
def _first_pass(xr, xi, yr, yi, turn):
    """Make the first pass, in which neighbours turn by different angles."""
    m = xr.size // 4
    first = turn[16 * m :]
    cos1, cos2, cos3 = first[:m], first[m : 2 * m], first[2 * m : 3 * m]
    sin1, sin2, sin3 = first[3 * m : 4 * m], first[4 * m : 5 * m], first[5 * m : 6 * m]
    ar, br, cr, dr = xr[:m], xr[m : 2 * m], xr[2 * m : 3 * m], xr[3 * m :]
    ai, bi, ci, di = xi[:m], xi[m : 2 * m], xi[2 * m : 3 * m], xi[3 * m :]
    for p in range(m):
        w1r, w1i, w2r, w2i, w3r, w3i = cos1[p], sin1[p], cos2[p], sin2[p], cos3[p], sin3[p]
        sr, si, tr, ti = ar[p] + cr[p], ai[p] + ci[p], ar[p] - cr[p], ai[p] - ci[p]
        ur, ui, vr, vi = br[p] + dr[p], bi[p] + di[p], bi[p] - di[p], dr[p] - br[p]
        yr[4 * p], yi[4 * p] = sr + ur, si + ui
        er, ei = tr + vr, ti + vi
        yr[4 * p + 1], yi[4 * p + 1] = er * w1r - ei * w1i, er * w1i + ei * w1r
        er, ei = sr - ur, si - ui
        yr[4 * p + 2], yi[4 * p + 2] = er * w2r - ei * w2i, er * w2i + ei * w2r
        er, ei = tr - vr, ti - vi
        yr[4 * p + 3], yi[4 * p + 3] = er * w3r - ei * w3i, er * w3i + ei * w3r


@kernel(FAST)
def _pass(xr, xi, yr, yi, cos, sin, m, s):
    """Make a pass over 4 m blocks of s numbers, of which those of a block turn by the same angle."""
    step = 2 * (xr.size // (4 * m))
    for p in range(m):
        w1r, w1i, w2r, w2i = cos[p * step], sin[p * step], cos[2 * p * step], sin[2 * p * step]
        w3r, w3i = cos[3 * p * step], sin[3 * p * step]
        a, b, c, d, o = s * p, s * (p + m), s * (p + 2 * m), s * (p + 3 * m), 4 * s * p
        ar, br, cr, dr = xr[a : a + s], xr[b : b + s], xr[c : c + s], xr[d : d + s]
        ai, bi, ci, di = xi[a : a + s], xi[b : b + s], xi[c : c + s], xi[d : d + s]
        y0r, y1r, y2r, y3r = yr[o : o + s], yr[o + s : o + 2 * s], yr[o + 2 * s : o + 3 * s], yr[o + 3 * s : o + 4 * s]
        y0i, y1i, y2i, y3i = yi[o : o + s], yi[o + s : o + 2 * s], yi[o + 2 * s : o + 3 * s], yi[o + 3 * s : o + 4 * s]
        for q in range(s):
            sr, si, tr, ti = ar[q] + cr[q], ai[q] + ci[q], ar[q] - cr[q], ai[q] - ci[q]
            ur, ui, vr, vi = br[q] + dr[q], bi[q] + di[q], bi[q] - di[q], dr[q] - br[q]
            y0r[q], y0i[q] = sr + ur, si + ui
            er, ei = tr + vr, ti + vi
            y1r[q], y1i[q] = er * w1r - ei * w1i, er * w1i + ei * w1r
            er, ei = sr - ur, si - ui
            y2r[q], y2i[q] = er * w2r - ei * w2i, er * w2i + ei * w2r
            er, ei = tr - vr, ti - vi
            y3r[q], y3i[q] = er * w3r - ei * w3i, er * w3i + ei * w3r


@kernel(FAST)
def _last_pairs(xr, xi, yr, yi):
    """Make the last pass, of two blocks, where the length is no power of four."""
    s = xr.size // 2
    for q in range(s):
        yr[q], yr[q + s] = xr[q] + xr[q + s], xr[q] - xr[q + s]
        yi[q], yi[q + s] = xi[q] + xi[q + s], xi[q] - xi[q + s]


@kernel()
def _transform(xr, xi, yr, yi, turn):
    """Transform x, complex, of a length of at least 4; return whether the result is in y, and not in x."""
    cos, sin = turn[: 2 * xr.size], turn[2 * xr.size : 4 * xr.size]
    _first_pass(xr, xi, yr, yi, turn)
    left, s, in_y = xr.size // 4, 4, True
    while left >= 4:  # noqa: PLR2004
        if in_y:
            _pass(yr, yi, xr, xi, cos, sin, left // 4, s)
        else:
            _pass(xr, xi, yr, yi, cos, sin, left // 4, s)
        left, s, in_y = left // 4, 4 * s, not in_y
    if left == 2:  # noqa: PLR2004
        if in_y:
            _last_pairs(yr, yi, xr, xi)
        else:
            _last_pairs(xr, xi, yr, yi)
        in_y = not in_y
    return in_y


@kernel(FAST)
def _untangle(zr, zi, cos, sin, real, imaginary):
    h = zr.size
    real[0], imaginary[0], real[h], imaginary[h] = zr[0] + zi[0], 0.0, zr[0] - zi[0], 0.0
    for k in range(1, h):
        b = np.uint64(h - k)
        sr, si = 0.5 * (zr[k] + zr[b]), 0.5 * (zi[k] - zi[b])
        dr, di = 0.5 * (zr[k] - zr[b]), 0.5 * (zi[k] + zi[b])
        real[k] = sr + cos[k] * di + sin[k] * dr
        imaginary[k] = si + sin[k] * di - cos[k] * dr


@kernel(FAST)
def _tangle(real, imaginary, cos, sin, zr, zi):
    """Undo `_untangle`."""
    h = zr.size
    for k in range(h):
        b = np.uint64(h - k)
        sr, si = 0.5 * (real[k] + real[b]), 0.5 * (imaginary[k] - imaginary[b])
        dr, di = 0.5 * (real[k] - real[b]), 0.5 * (imaginary[k] + imaginary[b])
        zr[k] = sr - cos[k] * di + sin[k] * dr
        zi[k] = si + cos[k] * dr + sin[k] * di


@kernel(FAST)
def _split(x, even, odd):
    for k in range(x.size // 2):
        even[k], odd[k] = x[2 * k], x[2 * k + 1]
    for k in range(x.size // 2, even.size):
        even[k] = odd[k] = 0.0
    if x.size % 2:
        even[x.size // 2] = x[x.size - 1]


@kernel(FAST)
def _join(even, odd, scale, x):
    for k in range(x.size // 2):
        x[2 * k], x[2 * k + 1] = scale * even[k], scale * odd[k]


@kernel()
def to_spectrum(x, turn, room, spectrum):
    """Transform real numbers.

    Args:
        x: At most 2 h of them, followed by zeros; read.
        turn: See above.
        room: (4 h,) overwritten.
        spectrum: (2 h + 2,) overwritten: real parts, then imaginary ones.
    """
    h = room.size // 4
    cos, sin = turn[: 2 * h], turn[2 * h : 4 * h]
    xr, xi, yr, yi = room[:h], room[h : 2 * h], room[2 * h : 3 * h], room[3 * h : 4 * h]
    _split(x, xr, xi)
    if _transform(xr, xi, yr, yi, turn):
        _untangle(yr, yi, cos, sin, spectrum[: h + 1], spectrum[h + 1 :])
    else:
        _untangle(xr, xi, cos, sin, spectrum[: h + 1], spectrum[h + 1 :])


@kernel()
def from_spectrum(spectrum, turn, room, x):
    """Fill x, (2 h,), with the numbers that have a spectrum; the inverse is the transform with both parts swapped."""
    h = room.size // 4
    cos, sin = turn[: 2 * h], turn[2 * h : 4 * h]
    xr, xi, yr, yi = room[:h], room[h : 2 * h], room[2 * h : 3 * h], room[3 * h : 4 * h]
    _tangle(spectrum[: h + 1], spectrum[h + 1 :], cos, sin, xr, xi)
    if _transform(xi, xr, yi, yr, turn):
        _join(yr, yi, 1.0 / h, x)
    else:
        _join(xr, xi, 1.0 / h, x)
