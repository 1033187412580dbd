"""Growing domains as the design writes them: restricted models, priorities by hand."""

import numpy as np

from oracle.slow_bp import SlowBP, log_sum


def domains_of(run, *, settled=True):
    """Return the domain of every variable, in slot order, as of the last consistent state or of now."""
    arrays, domains = run.growing.frozen(settled=settled), run.workspace.domains
    return [
        domains.slot_state[s:][:n].tolist() for s, n in zip(domains.slot_start[:-1], arrays.domain_size, strict=True)
    ]


def restricted(graph, domains, extra=None):
    """Return the slow twin of a graph whose variables have only some of their states.

    `extra` maps variables to log scores over their universes, as evidence does.
    """
    slow = SlowBP(graph)
    for factor, scope in enumerate(slow.scopes):
        slow.tables[factor] = slow.tables[factor][np.ix_(*[domains[i] for i in scope])]
    for variable, scores in (extra or {}).items():
        slow.scopes.append([variable])
        slow.tables.append(np.asarray(scores)[domains[variable]])
    slow.sizes = [len(domain) for domain in domains]
    slow.message = {(f, i): np.zeros(slow.sizes[i]) for f, scope in enumerate(slow.scopes) for i in scope}
    return slow


def take_messages(slow, run, *, settled=True):
    """Put the messages of a growing run into the slow twin of its restricted model."""
    arrays, layout = run.growing.frozen(settled=settled), run.workspace.layout
    for factor, scope in enumerate(slow.scopes):
        if len(scope) == 1:
            slow.message.update(slow.updated(factor))
    for edge, i in enumerate(layout.edge_variable.tolist()):
        factor = run.workspace.compiled.graph_factor(int(layout.edge_factor[edge]))
        start = arrays.edge_slot_start[edge]
        values = arrays.message[start : start + slow.sizes[i]]
        with np.errstate(divide="ignore"):
            slow.message[factor, i] = values.copy() if arrays.arithmetic == 1 else np.log(values)


def fixed_priorities(graph, *, raw=False):
    """Return the fixed priorities of every variable's states."""
    slow = SlowBP(graph)
    scores = [np.zeros(n) for n in slow.sizes]
    for scope, table in zip(slow.scopes, slow.tables, strict=True):
        for axis, i in enumerate(scope):
            others = tuple(k for k in range(len(scope)) if k != axis)
            scores[i] = scores[i] + (log_sum(table, others) if others else table)
    if raw:
        return scores
    return [s - log_sum(s, 0) for s in scores]


def dynamic_scores(graph, slow, domains, variable):
    """Return the estimated log belief ratios of all states of a variable, from the messages of the restricted twin."""
    whole = SlowBP(graph)
    total = np.zeros(whole.sizes[variable])
    for factor, scope in enumerate(whole.scopes):
        if variable not in scope:
            continue
        axis = scope.index(variable)
        table = whole.tables[factor][np.ix_(*[range(whole.sizes[i]) if i == variable else domains[i] for i in scope])]
        for other, i in enumerate(scope):
            if i != variable:
                shape = [-1 if k == other else 1 for k in range(len(scope))]
                table = table + slow.to_factor(i, factor).reshape(shape)
        others = tuple(k for k in range(len(scope)) if k != axis)
        total = total + (log_sum(table, others) if others else table)
    return total - log_sum(total[domains[variable]], 0)
