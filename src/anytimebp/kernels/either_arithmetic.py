"""Sums and products in linear arithmetic or in logs, as an argument says."""

import math

import numpy as np

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.codes import LOG
from anytimebp.kernels.jit import FAST, FAST_WITHOUT_NAN, kernel
from anytimebp.kernels.log_sums import log_sum
from anytimebp.kernels.to_factor import largest


@kernel(FAST_WITHOUT_NAN)
def sum_of(arithmetic, weight):
    """Return the sum of weights, or its log."""
    if arithmetic == LOG:
        peak = largest(weight)
        if peak == -np.inf:
            return -np.inf
        total = 0.0
        for v in range(weight.size):
            total += exp(weight[v] - peak)
        return peak + math.log(total)
    total = 0.0
    for v in range(weight.size):
        total += weight[v]
    return total


@kernel(FAST)
def dot(arithmetic, scores, weight):
    """Return the sum of scores times weights, or its log."""
    if arithmetic == LOG:
        return log_sum(scores, weight)
    total = 0.0
    for v in range(weight.size):
        total += scores[v] * weight[v]
    return total


@kernel(FAST_WITHOUT_NAN)
def best(arithmetic, scores, weight):
    """Return the largest of scores times weights, or its log."""
    if arithmetic == LOG:
        found = -np.inf
        for v in range(weight.size):
            found = max(found, scores[v] + weight[v])
        return found
    found = 0.0
    for v in range(weight.size):
        found = max(found, scores[v] * weight[v])
    return found


@kernel()
def log_add(a, b):
    high, low = max(a, b), min(a, b)
    return high + math.log1p(exp(low - high)) if low > -np.inf else high


@kernel(inline=True)
def add(arithmetic, a, b):
    return log_add(a, b) if arithmetic == LOG else a + b


@kernel(inline=True)
def times(arithmetic, a, b):
    return a + b if arithmetic == LOG else a * b
