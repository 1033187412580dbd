"""What a user can write in an hour: flooding BP in NumPy, all messages at once, matmul over the stacked tables."""

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


def _edges_of(variable, n_variables):
    """Return the edges of each variable, (variables, largest degree), filled up with the last row."""
    edges = [np.flatnonzero(variable == k) for k in range(n_variables)]
    table = np.full((n_variables, max(map(len, edges))), len(variable))
    for row, found in zip(table, edges, strict=True):
        row[: len(found)] = found
    return table
