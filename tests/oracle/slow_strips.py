"""Strips as their definition says: BP on the model without the joint states that have two variables outside."""

import numpy as np

from oracle.slow_bp import SlowBP


def without_far_states(graph, domains):
    """Return the slow twin of a graph in which every joint state has at most one variable outside its domain."""
    slow = SlowBP(graph)
    for factor, scope in enumerate(slow.scopes):
        if len(scope) > 1:
            count = np.zeros(slow.tables[factor].shape, dtype=int)
            for axis, i in enumerate(scope):
                is_outside = ~np.isin(np.arange(slow.sizes[i]), domains[i])
                count += is_outside.reshape([-1 if k == axis else 1 for k in range(len(scope))])
            slow.tables[factor] = np.where(count <= 1, slow.tables[factor], -np.inf)
    for factor, scope in enumerate(slow.scopes):
        if len(scope) == 1:
            slow.message.update(slow.updated(factor))
    return slow


def total(slow, factor):
    """Return the sum of a factor's scores times the weights that its variables send, scaled to a maximum of 1."""
    scope, log_terms = slow.scopes[factor], slow.tables[factor]
    for axis, i in enumerate(scope):
        weight = slow.to_factor(i, factor)
        log_terms = log_terms + (weight - weight.max()).reshape([-1 if k == axis else 1 for k in range(len(scope))])
    return float(np.exp(log_terms).sum())


def take_strip_messages(slow, stage):
    """Put the messages of rounds on domains, over all states, into the slow twin; leaves get what is due."""
    layout, space, axes = stage.compiled.arrays, stage.workspace.space, stage.sources.axes
    for edge, left in enumerate(layout.edge_variable.tolist()):
        i, start = int(axes.variables[left]), space.edge_slot_start[edge]
        factor = stage.compiled.graph_factor(int(layout.edge_factor[edge]))
        slow.message[factor, i] = np.log(space.message[start : start + slow.sizes[i]])
    for f in np.flatnonzero(axes.leaf >= 0).tolist():
        key = stage.compiled.graph_factor(f), int(axes.leaf[f])
        slow.message[key] = slow.updated(key[0])[key]
