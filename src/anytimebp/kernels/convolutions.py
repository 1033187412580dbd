"""Convolutions over a group: of XOR, or of the whole numbers modulo n. `groups.py` makes messages of them.

    c(x)  =  sum over y of a(y) * b(x - y)

The transform of a convolution (Walsh-Hadamard for XOR, Fourier modulo n) is the product of the transforms. Its rounding
errors are absolute. Let u be half the precision of a double, m the logarithm of the length to base 2, g = 1, or 5 for
Fourier, and |.| the Euclidean norm. Transforming a makes an error of at most u g m times the norm; so does b. After the
way back, the error of their product is a sum over all places, divided by the length, so by Cauchy and Schwarz it is
bounded by both norms, and so are the roundings of the product. The way back adds an error in proportion to its result:

    error of c(x)  <=  u * g * (m + 2) * (2 * |a| * |b|  +  |c|)

With more weights, |a| |b| is for each the product of its norm, the smallest norm of the others, and the sums of the
rest, which bound their transforms. If transforms are longer than n, sums beyond n are folded back: with k lines, the
bound is the root of k times as large, since k copies of b side by side have that many times its norm.

A sum that is less than BOUND times its error has lost digits. If many sums have, the PEAKS largest weights of both, a'
and b', are separated, and most of the error goes with them. Sums that then have lost digits are made by `pair_sums.py`:

    c  =  a' * b  +  (a - a') * b'  +  (a - a') * (b - b'),    the last by a transform, the others term by term
"""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp, smaller
from anytimebp.kernels.codes import CERTAIN, LINEAR, LOG, SAFE
from anytimebp.kernels.fourier import from_spectrum, to_spectrum
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, index_view, kernel
from anytimebp.kernels.pair_sums import (
    XOR,
    count_positive,
    direct_sum,
    fill_tails,
    put_in_order,
    spread_log_pairs,
    spread_pairs,
    sum_again,
)
from anytimebp.kernels.walsh import walsh

BOUND = 1e10  # how many times its error a number must be
ROUNDING = 1.2e-16
FOURIER_ERROR = 5.0
PEAKS = 64  # weights that are taken apart
FEW = 8  # sums without their digits that are made of all pairs, before it is worth putting weights in order
LIFT, FAINT_SQUARES = 2.0**500, 1e-200  # what numbers are multiplied by where their squares may be no doubles
MANY = 256  # sums without their digits, from which on that is done: they cost as much as PEAKS, twice, and a transform
PAIR_COST = 3  # pairs of states take as long as so many steps of transforms
THREE = 3
LISTS = 5  # times n words that listing the weights of a pair takes


@kernel()
def copy_to(given, target):
    """Copy numbers; of a slice that is assigned to, Numba would make another copy in between."""
    for v in range(target.size):
        target[v] = given[v]


@kernel()
def fill_weights(arithmetic, given, element, weight, log_weight):
    """Give every element the weight of its state; return their sum and Euclidean norm, and how many there are."""
    is_listed, n = element.size > 0, 0
    if arithmetic == LOG:
        if is_listed:
            log_weight[:] = -np.inf
        for s in range(given.size):
            log_weight[element[s] if is_listed else s] = given[s]
        for v in range(weight.size):
            weight[v] = exp(log_weight[v])
            n += log_weight[v] > -np.inf
    else:
        if is_listed:
            weight[:] = 0.0
            for s in range(given.size):
                weight[element[s]] = given[s]
        else:
            copy_to(given, weight)
        n = count_positive(weight, 0.0)
    total, squares = norms_of(weight)
    return total, math.sqrt(squares), n


@kernel(FAST)
def norms_of(weight):
    """Return the sum of weights, and the sum of their squares."""
    total, squares = 0.0, 0.0
    for v in range(weight.size):
        total += weight[v]
        squares += weight[v] * weight[v]
    return total, squares


@kernel()
def norm_of(weight):
    """Return the Euclidean norm, also where squares are too small for doubles."""
    squares = norms_of(weight)[1]
    if squares > FAINT_SQUARES:
        return math.sqrt(squares)
    squares = 0.0
    for v in range(weight.size):
        squares += (LIFT * weight[v]) * (LIFT * weight[v])
    return math.sqrt(squares) / LIFT


@kernel(FAST)
def _triple_products(part, stride, scale, n):
    a, b, c = part[:n], part[stride : stride + n], part[2 * stride : 2 * stride + n]
    p, q, r = scale[1] * scale[2], scale[0] * scale[2], scale[0] * scale[1]
    for v in range(n):
        x, y, z = a[v], b[v], c[v]
        a[v], b[v], c[v] = p * (y * z), q * (x * z), r * (x * y)


@kernel(FAST)
def _complex_triple_products(part, stride, scale, h):
    ar, br, cr = part[:h], part[stride : stride + h], part[2 * stride : 2 * stride + h]
    ai, bi, ci = part[h : 2 * h], part[stride + h : stride + 2 * h], part[2 * stride + h : 2 * stride + 2 * h]
    p, q, r = scale[1] * scale[2], scale[0] * scale[2], scale[0] * scale[1]
    for v in range(h):
        xr, xi, yr, yi, zr, zi = ar[v], ai[v], br[v], bi[v], cr[v], ci[v]
        ar[v], ai[v] = p * (yr * zr - yi * zi), p * (yr * zi + yi * zr)
        br[v], bi[v] = q * (xr * zr - xi * zi), q * (xr * zi + xi * zr)
        cr[v], ci[v] = r * (xr * yr - xi * yi), r * (xr * yi + xi * yr)


@kernel()
def _products(part, stride, scale, arity, n, before):
    """Replace each spectrum by the product of all others, times their scales; `before` is scratch."""
    for v in range(n):
        so_far = 1.0
        for k in range(arity):
            before[k] = so_far
            so_far *= part[k * stride + v] * scale[k]
        so_far = 1.0
        for k in range(arity - 1, -1, -1):
            own = part[k * stride + v] * scale[k]
            part[k * stride + v] = before[k] * so_far
            so_far *= own


@kernel()
def _complex_products(part, stride, scale, arity, h, before):
    """Do as `_products`, with imaginary parts behind the h real ones."""
    for v in range(h):
        real, imaginary = 1.0, 0.0
        for k in range(arity):
            before[2 * k], before[2 * k + 1] = real, imaginary
            a, b = part[k * stride + v] * scale[k], part[k * stride + h + v] * scale[k]
            real, imaginary = real * a - imaginary * b, real * b + imaginary * a
        real, imaginary = 1.0, 0.0
        for k in range(arity - 1, -1, -1):
            a, b = part[k * stride + v] * scale[k], part[k * stride + h + v] * scale[k]
            c, d = before[2 * k], before[2 * k + 1]
            part[k * stride + v] = c * real - d * imaginary
            part[k * stride + h + v] = c * imaginary + d * real
            real, imaginary = real * a - imaginary * b, real * b + imaginary * a


@kernel()
def forward(group, weight, turn, temp, spectrum):
    if group == XOR:
        copy_to(weight, spectrum)
        walsh(spectrum)
    else:
        to_spectrum(weight, turn, temp, spectrum)


@kernel()
def back(group, n, spectrum, turn, temp, line):
    """Fill the first n numbers of a line with those that have a spectrum; modulo n if they are more."""
    if group == XOR:
        copy_to(spectrum, line[:n])
        walsh(line[:n])
        by = 1.0 / n
        for v in range(n):
            line[v] *= by
        return
    from_spectrum(spectrum, turn, temp, line)
    for begin in range(n, line.size, n):
        for v in range(min(n, line.size - begin)):
            line[v] += line[begin + v]


@kernel()
def multiply_all(group, part, stride, scale, arity, before):
    n = stride if group == XOR else stride // 2
    if arity == THREE and group == XOR:
        _triple_products(part, stride, scale, n)
    elif arity == THREE:
        _complex_triple_products(part, stride, scale, n)
    elif group == XOR:
        _products(part, stride, scale, arity, n, before)
    else:
        _complex_products(part, stride, scale, arity, n, before)


@kernel()
def least_sum(group, n, line, norms):
    """Return the least number with all digits of the n sums in a line; `norms` is what heads the file but for |c|."""
    stages, lines = math.log2(line.size) + 2.0, (line.size + n - 1) // n
    norm = math.sqrt(lines) * (norms + norm_of(line[:n]))
    return BOUND * ROUNDING * stages * norm * (1.0 if group == XOR else FOURIER_ERROR)


@kernel(FAST_WITHOUT_NAN)
def lowest(line):
    """Return the smallest number."""
    found = math.inf
    for v in range(line.size):
        found = smaller(found, line[v])
    return found


@kernel()
def _make_lists(arithmetic, a, log_a, lists, counts):
    """List the weights a in order in `lists`, with tails; return how many they are."""
    n = a.size
    value, log_value = lists[:n], lists[n : 2 * n]
    state = index_view(lists[2 * n : 3 * n].ctypes.data, n)
    count = put_in_order(arithmetic, a, log_a, value, log_value, state, counts)
    fill_tails(arithmetic, value, log_value, count, lists[3 * n : 4 * n], lists[4 * n : 5 * n])
    return count


@kernel()
def _largest(values):
    found = -np.inf
    for v in range(values.size):
        found = max(found, values[v])
    return found


@kernel()
def finish(group, arithmetic, a, log_a, b, log_b, scale, line, wanted, least, lists, counts):
    """Turn the sums of a line that are wanted to those of the run's arithmetic, and sum again those under `least`.

    Args:
        group: XOR or CYCLIC.
        arithmetic: LINEAR or LOG.
        a: (n,) weights; with their logs, read.
        log_a: (n,).
        b: (n,) the other weights.
        log_b: (n,).
        scale: Of the sums in the line, or its log; what is summed again has none.
        line: (n,) overwritten where `wanted`.
        wanted: Elements, or none if all are.
        least: See above, before scaling.
        lists: Scratch.
        counts: Scratch.
    """
    n, count, made, n_direct = a.size, 0, False, 0
    value, log_value, tail, bound = lists[:0], lists[:0], lists[:0], lists[:0]
    state, largest, log_largest = counts[:0], 0.0, 0.0
    total = wanted.size or n
    for s in range(total):
        x = wanted[s] if wanted.size else s
        if line[x] >= least:
            line[x] = math.log(line[x]) + scale if arithmetic == LOG else line[x] * scale
            continue
        if n_direct < FEW:
            n_direct += 1
            total_x = direct_sum(group, x, a, b)
            if arithmetic != LOG or total_x >= CERTAIN:
                line[x] = math.log(total_x) if arithmetic == LOG else total_x
                continue
        if not made:
            count, made = _make_lists(arithmetic, a, log_a, lists, counts), True
            value, log_value = lists[:count], lists[n : n + count]
            state = index_view(lists[2 * n : 3 * n].ctypes.data, count)
            tail, bound = lists[3 * n : 4 * n], lists[4 * n : 5 * n]
            largest, log_largest = _largest(b), (_largest(log_b) if arithmetic == LOG else 0.0)
        line[x] = sum_again(group, arithmetic, x, value, log_value, state, tail, bound, b, log_b, largest, log_largest)


@kernel()
def lacks_many(line, wanted, least):
    """Tell whether many sums of a line, or of those that are wanted, have not their digits."""
    count = 0
    for s in range(wanted.size or line.size):
        count += line[wanted[s] if wanted.size else s] < least
    return count > MANY


@kernel()
def _take_peaks(weight, rest, value, state, counts):
    """List the largest weights first, and copy all others to `rest`; return how many are taken."""
    found = min(PEAKS, put_in_order(LINEAR, weight, weight, value, value, state, counts))
    copy_to(weight, rest)
    for t in range(found):
        rest[state[t]] = 0.0
    return found


@kernel(FAST)
def _add_shifted(group, line, value, at, weight):
    """Add weights, shifted by a state and multiplied by a value."""
    n = weight.size
    if group == XOR:
        for v in range(n):
            line[v ^ at] += value * weight[v]
    else:
        for v in range(n - at):
            line[v + at] += value * weight[v]
        for v in range(n - at, n):
            line[v + at - n] += value * weight[v]


@kernel()
def sum_without_peaks(group, a, b, turn, temp, spectra, line, lists, counts):
    """Fill the first n numbers of a line with the sums of two weights, with peaks apart; return the least with digits.

    `lists` has room for the peaks of one weight, and for what is left of both.
    """
    n, value = a.size, lists[: a.size]
    state, rest, other = index_view(lists[2 * n : 3 * n].ctypes.data, n), lists[3 * n : 4 * n], lists[4 * n : 5 * n]
    _take_peaks(b, other, value, state, counts)
    _take_peaks(a, rest, value, state, counts)
    norms = 2.0 * norm_of(rest) * norm_of(other)
    _transform_pair(group, rest, other, turn, temp, spectra, line)
    least = max(SAFE, least_sum(group, n, line, norms))  # under that, products may have been rounded near zero
    for v in range(n):
        line[v] = max(0.0, line[v])
    for t in range(_take_peaks(a, rest, value, state, counts)):
        _add_shifted(group, line, value[t], state[t], b)
    for t in range(_take_peaks(b, other, value, state, counts)):
        _add_shifted(group, line, value[t], state[t], rest)
    return least


@kernel()
def _transform_pair(group, a, b, turn, temp, spectra, line):
    """Fill the first n numbers of a line with the sums of two weights, by transforms."""
    stride = spectra.size // 2
    forward(group, a, turn, temp, spectra[:stride])
    forward(group, b, turn, temp, spectra[stride:])
    h = stride // 2
    if group == XOR:
        for v in range(stride):
            spectra[v] *= spectra[stride + v]
    else:
        for v in range(h):
            x, y, p, q = spectra[v], spectra[h + v], spectra[stride + v], spectra[stride + h + v]
            spectra[v], spectra[h + v] = x * p - y * q, x * q + y * p
    back(group, a.size, spectra[:stride], turn, temp, line)


@kernel()
def _list_positive(arithmetic, weight, log_weight, value, state):
    count, nothing = 0, (-np.inf if arithmetic == LOG else 0.0)
    for v in range(weight.size):
        own = log_weight[v] if arithmetic == LOG else weight[v]
        if own > nothing:
            value[count], state[count] = own, v
            count += 1
    return count


@kernel()
def convolve(group, arithmetic, a, log_a, n_a, b, log_b, n_b, turn, temp, spectra, line, lists, counts):
    """Fill the first n numbers of a line with all sums of two weights, n_a and n_b of them positive; or their logs."""
    n, length = a.size, line.size
    if n_a * n_b <= length * math.log2(2.0 * length) / PAIR_COST:
        own, other = index_view(lists[n:].ctypes.data, n), index_view(lists[3 * n :].ctypes.data, n)
        _list_positive(arithmetic, a, log_a, lists[:n], own)
        _list_positive(arithmetic, b, log_b, lists[2 * n : 3 * n], other)
        values, others = lists[:n_a], lists[2 * n : 2 * n + n_b]
        if arithmetic == LOG:
            spread_log_pairs(group, n, values, own, others, other, lists[4 * n :], line[:n])
        else:
            spread_pairs(group, n, values, own, others, other, line[:n])
        return
    _transform_pair(group, a, b, turn, temp, spectra, line)
    least = least_sum(group, n, line, 2.0 * norm_of(a) * norm_of(b))
    if lacks_many(line[:n], counts[:0], least):
        least = sum_without_peaks(group, a, b, turn, temp, spectra, line, lists, counts)
        least = max(least, CERTAIN) if arithmetic == LOG else least
    scale = 0.0 if arithmetic == LOG else 1.0
    if n_a <= n_b:
        finish(group, arithmetic, a, log_a, b, log_b, scale, line[:n], counts[:0], least, lists, counts)
    else:
        finish(group, arithmetic, b, log_b, a, log_a, scale, line[:n], counts[:0], least, lists, counts)


@kernel()
def take(arithmetic, line, weight, log_weight):
    """Make weights of sums: of logs, divided by the largest, whose log is returned; return how many are positive."""
    count = 0
    if arithmetic != LOG:
        copy_to(line, weight)
        return 0.0, count_positive(weight, 0.0)
    peak = _largest(line)
    peak = peak if peak > -np.inf else 0.0
    for v in range(line.size):
        log_weight[v] = line[v] - peak
        weight[v] = exp(log_weight[v])
        count += log_weight[v] > -np.inf
    return peak, count
