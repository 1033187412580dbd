"""How far messages of a run are from a fixed point, by the slow twin: one pass over all of them, on its domains."""

import numpy as np

from anytimebp.inference.one_by_one import OneByOne
from oracle.slow_bp import dynamic_range
from oracle.slow_growth import domains_of, restricted, take_messages

GONE = 1e-16
"""Part of the largest belief under which the numbers of a message are left out.

A run takes states of 1e-30 that fall for settled, which moves those of 1e-16 by 1e-14 at the most."""


def twin_of(graph, inference, scores=None):
    """Return the slow twin of a run, with its messages at the last consistent state; `scores` is soft evidence."""
    run = inference._run.method
    run = getattr(run, "now", run)  # what `adaptive` ends with
    if isinstance(run, OneByOne):
        slow = restricted(graph, domains_of(run), scores)
        take_messages(slow, run)
        return slow
    assert getattr(run, "complete", lambda: True)()
    layout, arrays, domains = run.workspace.layout, run.workspace.arrays, run.workspace.domains
    slow = restricted(graph, [domains.states_of(i) for i in range(len(graph.variables))], scores)
    for factor, scope in enumerate(slow.scopes):
        if len(scope) == 1:
            slow.message.update(slow.updated(factor))
    for edge, i in enumerate(layout.edge_variable.tolist()):
        factor = run.workspace.compiled.graph_factor(int(layout.edge_factor[edge]))
        values = arrays.message[arrays.edge_slot_start[edge] :][: slow.sizes[i]]
        with np.errstate(divide="ignore"):
            slow.message[factor, i] = values.copy() if arrays.arithmetic == 1 else np.log(values)
    return slow


def largest_move(slow):
    """Return by how much a pass would move the messages at the most, in nats, where there is any belief."""
    return max((move for factor in range(len(slow.scopes)) for move in moves(slow, factor)), default=0.0)


def moves(slow, factor):
    """Return by how much an update would move a factor's messages, where there is any belief."""
    found = []
    for (_, variable), new in slow.updated(factor).items():
        old, others = slow.message[factor, variable], slow.to_factor(variable, factor)
        counts = has_belief(others + new) | has_belief(others + old)
        found.append(dynamic_range(new[counts], old[counts]))
    return found


def has_belief(log_belief):
    return log_belief >= log_belief.max() + np.log(GONE)
