"""Pomegranate's FactorGraph, in double precision, for as many iterations as flooding needs.

Its own rule stops it early (the quantity it looks at turns negative), so the rule is switched off. PyTorch runs on all
cores and on one by turns, as threads that wait for each other lose more than they gain where a core is busy.
"""

from itertools import cycle

import peer
import torch
from pomegranate.distributions import Categorical, JointCategorical
from pomegranate.factor_graph import FactorGraph


def build(unary, scopes, tables, sweeps):
    """State the model; potentials are given as distributions, which changes no marginal."""
    marginals = [Categorical(torch.softmax(torch.tensor(row), dim=0)[None]) for row in unary]
    factors = [JointCategorical(torch.softmax(torch.tensor(t).ravel(), dim=0).reshape(t.shape)) for t in tables]
    edges = [(marginals[v], factor) for scope, factor in zip(scopes.tolist(), factors, strict=True) for v in scope]
    graph = FactorGraph(factors, marginals, edges, max_iter=sweeps)
    graph.tol = float("-inf")
    size = (1, len(unary))
    nothing_seen = torch.masked.MaskedTensor(torch.zeros(size, dtype=torch.int64), torch.zeros(size, dtype=torch.bool))

    threads = cycle([1, 1, torch.get_num_threads()])  # the first call is not timed

    def run():
        torch.set_num_threads(next(threads))
        return [row[0].numpy() for row in graph.predict_proba(nothing_seen)]

    return run


if __name__ == "__main__":
    peer.main({"bp": build})
