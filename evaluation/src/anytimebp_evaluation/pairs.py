"""Models of pairs as plain arrays: messages and residuals by the formulas of the paper, computed anew by NumPy.

The library keeps bounds of residuals, which tell what to update next. The figures that are compared with the paper's
come from here: the residual of a factor is the largest range, over its variables, of log(message / message that it
would send now). A message that was never sent is uniform, and a state that has just joined has the messages that its
factors sent as it joined, so that every residual is finite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp import FactorGraph, Inference
from anytimebp.kernels.codes import LOG
from anytimebp_evaluation.families import FloatArray, IndexArray

PAIR = 2  # variables


class PairModel(NamedTuple):
    """A model whose factors are over one variable or two, all variables with the same states.

    Attributes:
        unary: (variables, states) log scores.
        scopes: (pairs, 2) variables.
        weights: (pairs, states, states) tables, not in logs, the largest number of each 1.
    """

    unary: FloatArray
    scopes: IndexArray
    weights: FloatArray

    @classmethod
    def of(cls, graph: FactorGraph) -> PairModel:
        """Return the tables of a graph."""
        sizes = [variable.n_states for variable in graph.variables]
        unary, scopes, weights = np.zeros((len(sizes), sizes[0])), [], []
        for factor in range(graph.n_factors):
            scope = [graph.variables.index_of(name) for name in graph.factor_scope(factor)]
            table = graph.factor_log_table(factor)
            if len(scope) == PAIR:
                scopes.append(scope)
                weights.append(np.exp(table - table.max()))
            else:
                unary[scope[0]] += table
        return cls(unary, np.array(scopes, dtype=np.int64), np.array(weights))

    def sent(
        self, pair: int, incoming: tuple[FloatArray, FloatArray], domains: list[IndexArray] | None
    ) -> list[FloatArray]:
        """Return the log messages, largest 0, that a factor sends to its variables.

        Args:
            pair: The factor.
            incoming: Log messages of its two variables, over their domains.
            domains: Active states of the two, in the order of the messages; None for all states in order.
        """
        weights = self.weights[pair]
        if domains is not None:
            weights = weights[np.ix_(*domains)]
        first, second = (np.exp(message - message.max()) for message in incoming)
        out = [np.log(np.maximum(weights @ second, 1e-300)), np.log(np.maximum(first @ weights, 1e-300))]
        return [message - message.max() for message in out]


def dynamic_range(new: FloatArray, old: FloatArray) -> float:
    """Return the range of log(new / old), of messages in logs."""
    change = new - old
    return float(change.max() - change.min())


def printed_residual(model: PairModel, inference: Inference) -> float:
    """Return the mean residual over factors of the state that a run is in."""
    method = inference._run.method  # noqa: SLF001  (messages are not public)
    workspace = getattr(method, "workspace", None)
    if workspace is None:
        return float("nan")
    arrays, layout = workspace.arrays, workspace.layout
    domains = [workspace.domains.states_of(i)[: arrays.domain_size[i]] for i in range(len(model.unary))]
    message: dict[tuple[int, int], FloatArray] = {}
    total = [model.unary[i, domain] for i, domain in enumerate(domains)]
    for edge, variable in enumerate(layout.edge_variable.tolist()):
        start = arrays.edge_slot_start[edge]
        values = arrays.message[start : start + len(domains[variable])]
        sent = values if arrays.arithmetic == LOG else np.log(np.maximum(values, 1e-300))
        message[int(layout.edge_factor[edge]), variable] = sent
        total[variable] = total[variable] + sent
    residuals = []
    for pair, (a, b) in enumerate(model.scopes.tolist()):
        old = message[pair, a], message[pair, b]
        new = model.sent(pair, (total[a] - old[0], total[b] - old[1]), [domains[a], domains[b]])
        residuals.append(max(map(dynamic_range, new, old)))
    return float(np.mean(residuals))
