"""The baseline: BP as a bare Numba loop with one purpose, no options, no trace and no checks.

Linear domain, every table read once an update (per row a dot and an axpy), factors in the model's order there and back
until the largest residual of a sweep is under the tolerance. It may assume what a library may not: that all variables
of a pairwise model have the same universe, that no product underflows, that there are no zeros and no hubs.
"""

import numba
import numpy as np

from anytimebp.kernels.arithmetic import exp

MAX_SWEEPS = 1_000  # a model that does not settle must not hang the benchmark
FLAGS = {"reassoc", "contract", "nsz", "arcp", "nnan"}  # nnan: without it, minima and maxima are not vectorised


def jit(function):
    """Compile a function of the loop."""
    return numba.njit(fastmath=FLAGS, error_model="numpy", cache=True)(function)


def pairwise(model, tolerance, exponentiate=np.exp):
    """Return marginals (variables, states) and the number of sweeps of a pairwise model.

    Args:
        model: `models.Arrays` with two variables a factor.
        tolerance: Largest residual, in nats, at which to stop.
        exponentiate: From log scores to a new array of potentials.
    """
    unary, scopes, tables = exponentiate(model.unary), model.scopes, exponentiate(model.tables)
    start, edges = _edges_by_variable(scopes, len(unary))
    message = np.ones((scopes.size, unary.shape[1]))
    sweeps = _pairwise_loop(unary, scopes.ravel(), tables, start, edges, message, tolerance)
    return _marginals(unary, start, edges, message), sweeps


def ternary(model, tolerance, exponentiate=np.exp):
    """Do as `pairwise` for three variables a factor; marginals come as (variables, most states), zeros behind."""
    sizes = np.array([len(scores) for scores in model.unary])
    unary = np.zeros((len(sizes), sizes.max()))
    for row, scores in zip(unary, model.unary, strict=True):
        row[: len(scores)] = np.exp(scores - scores.max())
    start, edges = _edges_by_variable(model.scopes, len(unary))
    message = np.ones((model.scopes.size, unary.shape[1]))
    tables = exponentiate(model.tables)
    sweeps = _ternary_loop(unary, sizes, model.scopes.ravel(), tables, start, edges, message, tolerance)
    return _marginals(unary, start, edges, message), sweeps


def quick_exp(scores):
    """Exponentiate an array with the library's vectorised exp; NumPy's is slow on processors without AVX-512."""
    potentials = np.empty_like(scores)  # not inside the loop: NumPy asks for large pages, Numba does not
    _exp_loop(scores.ravel(), potentials.ravel())
    return potentials


@numba.njit(fastmath={"contract"}, error_model="numpy")  # not cached: the cache would not notice another exp
def _exp_loop(scores, potentials):
    for k in range(scores.size):
        potentials[k] = exp(scores[k])


def _edges_by_variable(scopes, n_variables):
    """Return the edges (places in `scopes`) of each variable, one after the other, and where each begins."""
    variable = scopes.ravel()
    start = np.zeros(n_variables + 1, dtype=np.int64)
    np.cumsum(np.bincount(variable, minlength=n_variables), out=start[1:])
    return start, np.argsort(variable, kind="stable")


@jit
def _gather(unary, variable, start, edges, skipped, message, weight, offset, n):
    """Fill weight[offset:offset + n] with a variable's product of all but one message."""
    for v in range(n):
        weight[offset + v] = unary[variable, v]
    for place in range(start[variable], start[variable + 1]):
        edge = edges[place]
        if edge != skipped:
            for v in range(n):
                weight[offset + v] *= message[edge, v]


@jit
def _replace(message, edge, sums, offset, n):
    """Store a message, divided by its maximum; return its residual."""
    peak = 0.0
    for v in range(n):
        peak = max(peak, sums[offset + v])
    scale = 1.0 / peak
    high, low = 0.0, np.inf
    for v in range(n):
        new = sums[offset + v] * scale
        ratio = new / message[edge, v]
        high = max(high, ratio)
        low = min(low, ratio)
        message[edge, v] = new
    return np.log(high / low)


@jit
def _pairwise_loop(unary, edge_variable, tables, start, edges, message, tolerance):
    n_factors, n = tables.shape[0], tables.shape[1]
    weight, sums = np.empty(2 * n), np.empty(2 * n)
    sweeps, residual = 0, np.inf
    while residual > tolerance and sweeps < MAX_SWEEPS:
        residual = 0.0
        for position in range(n_factors):
            factor = position if sweeps % 2 == 0 else n_factors - 1 - position
            for edge in range(2 * factor, 2 * factor + 2):
                _gather(unary, edge_variable[edge], start, edges, edge, message, weight, (edge & 1) * n, n)
            _read_pairwise(tables, factor, weight, sums, n)
            for edge in range(2 * factor, 2 * factor + 2):
                residual = max(residual, _replace(message, edge, sums, (edge & 1) * n, n))
        sweeps += 1
    return sweeps


@jit
def _read_pairwise(tables, factor, weight, sums, n):
    """Read a table once; both outgoing messages, unscaled."""
    for c in range(n):
        sums[n + c] = 0.0
    for r in range(n):
        dot = 0.0
        row_weight = weight[r]
        for c in range(n):
            entry = tables[factor, r, c]
            dot += entry * weight[n + c]
            sums[n + c] += row_weight * entry
        sums[r] = dot


@jit
def _ternary_loop(unary, sizes, edge_variable, tables, start, edges, message, tolerance):
    n_factors, rows, columns = tables.shape[0], tables.shape[1], tables.shape[2]
    offsets = (0, rows, rows + columns)
    total = rows + columns + tables.shape[3]
    weight, sums = np.empty(total), np.empty(total)
    sweeps, residual = 0, np.inf
    while residual > tolerance and sweeps < MAX_SWEEPS:
        residual = 0.0
        for position in range(n_factors):
            factor = position if sweeps % 2 == 0 else n_factors - 1 - position
            for axis in range(3):
                edge = 3 * factor + axis
                variable = edge_variable[edge]
                _gather(unary, variable, start, edges, edge, message, weight, offsets[axis], sizes[variable])
            _read_ternary(tables, factor, weight, sums)
            for axis in range(3):
                edge = 3 * factor + axis
                residual = max(residual, _replace(message, edge, sums, offsets[axis], sizes[edge_variable[edge]]))
        sweeps += 1
    return sweeps


@jit
def _read_ternary(tables, factor, weight, sums):
    """Read a table once; all three outgoing messages, unscaled."""
    rows, columns, depth = tables.shape[1], tables.shape[2], tables.shape[3]
    last = rows + columns
    for k in range(rows, last + depth):
        sums[k] = 0.0
    for r in range(rows):
        row_sum = 0.0
        for c in range(columns):
            dot = 0.0
            both = weight[r] * weight[rows + c]
            for d in range(depth):
                entry = tables[factor, r, c, d]
                dot += entry * weight[last + d]
                sums[last + d] += both * entry
            row_sum += dot * weight[rows + c]
            sums[rows + c] += dot * weight[r]
        sums[r] = row_sum


@jit
def _marginals(unary, start, edges, message):
    belief = unary.copy()
    for variable in range(len(belief)):
        _gather(unary, variable, start, edges, -1, message, belief[variable], 0, belief.shape[1])
        belief[variable] /= belief[variable].sum()
    return belief
