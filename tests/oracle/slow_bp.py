"""Belief propagation as the textbook writes it: dictionaries of log messages, every sum by hand."""

import numpy as np


def log_sum(values, axis):
    peak = values.max(axis=axis, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.squeeze(np.log(np.exp(values - peak).sum(axis=axis, keepdims=True)) + peak, axis=axis)


class SlowBP:
    """Messages of all factors, unary ones included, to their variables."""

    def __init__(self, graph):
        self.scopes = [[graph.variables.index_of(n) for n in graph.factor_scope(f)] for f in range(graph.n_factors)]
        self.tables = [graph.factor_log_table(f) for f in range(graph.n_factors)]
        self.sizes = [v.n_states for v in graph.variables]
        self.message = {(f, i): np.zeros(self.sizes[i]) for f, scope in enumerate(self.scopes) for i in scope}

    def to_factor(self, variable, factor):
        total = np.zeros(self.sizes[variable])
        for (f, i), message in self.message.items():
            if i == variable and f != factor:
                total = total + message
        return total

    def updated(self, factor):
        """Return the messages that a factor would send now."""
        scope = self.scopes[factor]
        total = self.tables[factor]
        incoming = [self.to_factor(i, factor) for i in scope]
        sent = {}
        for axis, i in enumerate(scope):
            terms = total
            for other, weight in enumerate(incoming):
                if other != axis:
                    terms = terms + weight.reshape([-1 if k == other else 1 for k in range(len(scope))])
            out = log_sum(terms, tuple(k for k in range(len(scope)) if k != axis)) if len(scope) > 1 else terms
            sent[factor, i] = out - out.max()
        return sent

    def sweep(self):
        """Update every factor in turn; return the largest residual."""
        largest = 0.0
        for factor in range(len(self.scopes)):
            for key, new in self.updated(factor).items():
                largest = max(largest, dynamic_range(new, self.message[key]))
                self.message[key] = new
        return largest

    def run(self, tolerance=1e-11, sweeps=300):
        """Sweep until nothing moves; return whether that came about."""
        return any(self.sweep() <= tolerance for _ in range(sweeps))

    def residual(self):
        """Return by how much a full pass would move the messages at the most."""
        return max(
            (
                dynamic_range(new, self.message[key])
                for f in range(len(self.scopes))
                for key, new in self.updated(f).items()
            ),
            default=0.0,
        )

    def marginals(self):
        beliefs = [self.to_factor(i, None) for i in range(len(self.sizes))]
        weights = [np.exp(b - b.max()) for b in beliefs]
        return [w / w.sum() for w in weights]


def dynamic_range(new, old):
    """Return the range of log(new / old); zero over zero is no change."""
    possible = (new > -np.inf) | (old > -np.inf)
    with np.errstate(invalid="ignore"):
        change = (new - old)[possible]
    return float(change.max() - change.min()) if np.isfinite(change).all() else np.inf


def load_messages(slow, run):
    """Put the messages of a run on a graph without evidence into the slow twin."""
    assert getattr(run, "complete", lambda: True)()
    layout, arrays = run.workspace.layout, run.workspace.arrays
    for f, scope in enumerate(slow.scopes):
        if len(scope) == 1:
            slow.message.update(slow.updated(f))
    for edge, i in enumerate(layout.edge_variable):
        factor = run.workspace.compiled.graph_factor(int(layout.edge_factor[edge]))
        start = arrays.edge_slot_start[edge]
        values = arrays.message[start : start + slow.sizes[i]]
        with np.errstate(divide="ignore"):
            slow.message[factor, int(i)] = values.copy() if arrays.arithmetic == 1 else np.log(values)
