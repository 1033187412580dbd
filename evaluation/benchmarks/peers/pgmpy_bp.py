"""What pgmpy calls belief propagation, neither of which is loopy BP: a junction tree, and messages on a tree.

The junction tree is exact and needs a table per clique. Messages are found by recursion, which has no end on a loop.
"""

from itertools import combinations

import numpy as np
import peer
from pgmpy.factors.discrete import DiscreteFactor
from pgmpy.inference import BeliefPropagation, BeliefPropagationWithMessagePassing
from pgmpy.models import DiscreteMarkovNetwork, FactorGraph

LARGEST = 1e100


def junction_tree(unary, scopes, tables, _sweeps):
    """State a Markov network; a run builds its junction tree, calibrates it and reads marginals off the cliques."""
    network = DiscreteMarkovNetwork()
    network.add_nodes_from(_names(range(len(unary))))
    for scope in scopes.tolist():
        network.add_edges_from(combinations(_names(scope), 2))
    network.add_factors(*_factors(unary, scopes, tables))

    def run():
        tree = BeliefPropagation(network)
        tree.calibrate()
        found = {}
        for clique, belief in tree.get_clique_beliefs().items():
            for name in set(clique) - found.keys():
                weight = belief.marginalize([other for other in clique if other != name], inplace=False).values
                found[name] = weight / weight.sum()
        return [found[name] for name in _names(range(len(unary)))]

    return run


def messages(unary, scopes, tables, _sweeps):
    """State a factor graph; its check is left out, as that takes hundreds of times as long as the run."""
    factors = _factors(unary, scopes, tables)
    graph = FactorGraph()
    names = _names(range(len(unary)))
    graph.add_nodes_from(names)
    graph.add_factors(*factors)
    graph.add_edges_from((name, factor) for factor in factors for name in factor.variables)

    def run():
        found = BeliefPropagationWithMessagePassing(graph, check_model=False).query(names)
        return [found[name].values for name in names]

    return run


def _names(variables):
    return [f"x{v}" for v in variables]


def _factors(unary, scopes, tables):
    """Return all factors, scaled up: a tree counts as calibrated where potentials differ by less than 1e-8."""
    scores = [*unary, *tables]
    scale = np.log(LARGEST) / len(scores)
    named = [*([v] for v in range(len(unary))), *scopes.tolist()]
    return [
        DiscreteFactor(_names(scope), table.shape, np.exp(table - table.max() + scale))
        for scope, table in zip(named, scores, strict=True)
    ]


if __name__ == "__main__":
    peer.main({"junction tree": junction_tree, "messages": messages})
