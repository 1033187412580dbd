"""What a user can write in an hour: flooding BP in NumPy, all messages at once, linear (matmul) or in logs."""

import numpy as np


def flooding(model, tolerance):
    """Return marginals (variables, states) and the number of sweeps of a pairwise model.

    Linear domain. Messages to the first variables of all factors come first, then those to the second ones, then a row
    of ones that stands for the neighbours which variables at the border do not have.
    """
    n, tables, unary = len(model.scopes), np.exp(model.tables), np.exp(model.unary)
    variable = model.scopes.T.ravel()
    incoming = _edges_of(variable, len(unary))
    message = np.ones((2 * n + 1, unary.shape[1]))
    residual, sweeps = np.inf, 0
    while residual > tolerance and sweeps < 1_000:
        weight = (unary * message[incoming].prod(axis=1))[variable] / message[:-1]
        new = np.concatenate([tables @ weight[n:, :, np.newaxis], weight[:n, np.newaxis] @ tables], axis=None)
        new = new.reshape(2 * n, -1)
        new /= new.max(axis=1, keepdims=True)
        ratio = new / message[:-1]
        residual = np.log((ratio.max(axis=1) / ratio.min(axis=1)).max())
        message[:-1] = new
        sweeps += 1
    belief = unary * message[incoming].prod(axis=1)
    return belief / belief.sum(axis=1, keepdims=True), sweeps


def log_flooding(model, tolerance, most_sweeps=1_000):
    """Do as `flooding` in logs, for tables with hard zeros and of any range: a batched log-sum-exp each way."""
    n, tables, unary = len(model.scopes), model.tables, model.unary
    variable = model.scopes.T.ravel()
    incoming = _edges_of(variable, len(unary))
    message = np.zeros((2 * n + 1, unary.shape[1]))
    residual, sweeps = np.inf, 0
    while residual > tolerance and sweeps < most_sweeps:
        total, zeros = _totals(unary, message[incoming])
        is_zero = message[:-1] == -np.inf
        weight = total[variable] - np.where(is_zero, 0.0, message[:-1])
        weight[zeros[variable] > is_zero] = -np.inf
        new = np.concatenate(
            [_log_sum(tables + weight[n:, np.newaxis], 2), _log_sum(tables + weight[:n, :, np.newaxis], 1)]
        )
        new -= new.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            change = np.where((new == -np.inf) & is_zero, 0.0, new - message[:-1])
        residual = (change.max(axis=1) - change.min(axis=1)).max()
        message[:-1] = new
        sweeps += 1
    total, zeros = _totals(unary, message[incoming])
    total[zeros > 0] = -np.inf
    belief = np.exp(total - total.max(axis=1, keepdims=True))
    return belief / belief.sum(axis=1, keepdims=True), sweeps


def _totals(unary, heard):
    """Return the sum of the finite logs that each state of each variable hears, and how many others there are."""
    is_zero = heard == -np.inf
    return unary + np.where(is_zero, 0.0, heard).sum(axis=1), is_zero.sum(axis=1)


def _log_sum(terms, axis):
    peak = terms.max(axis=axis, keepdims=True)
    peak[peak == -np.inf] = 0.0
    terms -= peak
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        return np.log(terms.sum(axis=axis)) + np.squeeze(peak, axis)


def _edges_of(variable, n_variables):
    """Return the edges of each variable, (variables, largest degree), filled up with the last row."""
    edges = [np.flatnonzero(variable == k) for k in range(n_variables)]
    table = np.full((n_variables, max(map(len, edges))), len(variable))
    for row, found in zip(table, edges, strict=True):
        row[: len(found)] = found
    return table
