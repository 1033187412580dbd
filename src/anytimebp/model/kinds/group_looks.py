"""Convolutions of logs over a group, for looks at states outside the domains.

If there are too many weights to add up one by one, the results are estimates.
"""

from __future__ import annotations

import numpy as np

from anytimebp.model.source import FloatArray

MOST_PAIRS = 2**21  # that are added up one by one
NOISE = 1e-15  # part of the largest sum that a transform may be off by


def convolve_logs(a: FloatArray, b: FloatArray, *, is_xor: bool) -> FloatArray:
    """Return the logs of the sums over y of exp(a(y) + b(x - y)), for all x; -inf where none is possible."""
    own, other = np.flatnonzero(a > -np.inf), np.flatnonzero(b > -np.inf)
    if len(own) * len(other) > MOST_PAIRS:
        return _by_transforms(a, b, is_xor=is_xor)
    found = np.full(len(a), -np.inf)
    if not len(own) or not len(other):
        return found
    position = np.bitwise_xor.outer(own, other) if is_xor else np.add.outer(own, other) % len(a)
    order = np.argsort(position, axis=None, kind="stable")
    position, terms = position.reshape(-1)[order], np.add.outer(a[own], b[other]).reshape(-1)[order]
    first = np.flatnonzero(np.diff(position, prepend=-1))
    found[position[first]] = np.logaddexp.reduceat(terms, first)
    return found


def _by_transforms(a: FloatArray, b: FloatArray, *, is_xor: bool) -> FloatArray:
    """Do the same by transforms. Sums below the rounding error, 1e-15 of the largest, are raised to that error."""
    shift = a.max() + b.max()
    weights = np.exp(a - a.max()), np.exp(b - b.max())
    if is_xor:
        sums = walsh_rows(walsh_rows(weights[0]) * walsh_rows(weights[1])) / len(a)
    else:
        sums = np.fft.irfft(np.fft.rfft(weights[0]) * np.fft.rfft(weights[1]), len(a))
    found: FloatArray = np.log(np.maximum(sums, NOISE * weights[0].sum() * weights[1].sum())) + shift
    return found


def walsh_rows(x: FloatArray) -> FloatArray:
    """Return the Walsh-Hadamard transform."""
    size = x.size
    while size > 1:
        pairs = x.reshape(-1, 2, size // 2)
        x = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        size //= 2
    return x.reshape(-1)
