"""Exact answers by going through every joint state."""

import numpy as np


def joint_log_scores(graph):
    """Return the log score of every joint state as one dense array, an axis per variable."""
    sizes = [v.n_states for v in graph.variables]
    joint = np.zeros(sizes)
    for f in range(graph.n_factors):
        scope = [graph.variables.index_of(name) for name in graph.factor_scope(f)]
        table = graph.factor_log_table(f)
        order = np.argsort(scope)
        shape = [1] * len(sizes)
        for axis in scope:
            shape[axis] = sizes[axis]
        joint = joint + table.transpose(order).reshape(shape)
    return joint


def exact(graph, allowed=None):
    """Return exact marginals (a list of arrays) and log Z; `allowed` maps variable index to log scores."""
    joint = joint_log_scores(graph)
    for index, scores in (allowed or {}).items():
        joint = joint + np.asarray(scores).reshape([-1 if k == index else 1 for k in range(joint.ndim)])
    peak = joint.max()
    weight = np.exp(joint - peak)
    total = weight.sum()
    axes = range(joint.ndim)
    marginals = [weight.sum(axis=tuple(a for a in axes if a != i)) / total for i in axes]
    return marginals, peak + np.log(total)
