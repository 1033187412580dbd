"""The orders of sweeps, beside twins that sort and search."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.schedule.sweeps import parents_first, there_and_back
from anytimebp.layout.graph_layout import CompiledGraph
from oracle.examples import examples


def random_scopes(rng):
    """Return the scopes of factors whose last variables are children: of a network, or of what only looks like one."""
    n = int(rng.integers(3, 9))
    position, scopes = rng.permutation(n), []
    for k in range(1, n):
        n_parents = int(rng.integers(0, min(k, 3) + 1))
        parents = rng.choice(position[:k], n_parents, replace=False).tolist()
        if parents:
            scopes.append([*parents, int(position[k])])
    if rng.random() < 0.3:  # a cycle, perhaps, or a child of two factors
        scopes.append(rng.choice(n, 2, replace=False).tolist())
    return n, scopes or [[0, 1]]


def graph_of(n, scopes, rng):
    graph = abp.FactorGraph()
    graph.add_variables(n, 3)
    for variable in range(n):
        if all(scope[-1] != variable for scope in scopes):
            graph.add_factor([variable], table=rng.dirichlet(np.ones(3)))
    for scope in scopes:
        graph.add_factor(scope, table=rng.dirichlet(np.ones(3), [3] * (len(scope) - 1)))
    return graph


def is_network(n, scopes):
    """Tell whether the children differ, and none is its own ancestor."""
    parents = {scope[-1]: scope[:-1] for scope in scopes}
    known = set(range(n)) - set(parents)
    for _ in range(n):
        known |= {child for child, own in parents.items() if set(own) <= known}
    return len(parents) == len(scopes) and len(known) == n


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(100), deadline=None)
def test_parents_come_before_their_children(seed):
    rng = np.random.default_rng(seed)
    n, scopes = random_scopes(rng)
    layout = CompiledGraph(graph_of(n, scopes, rng)).arrays
    rank = parents_first(layout, None)
    in_order = all(max(scope) == scope[-1] for scope in scopes)
    assert (rank is not None) == (is_network(n, scopes) and not in_order)
    if rank is None:
        return
    assert sorted(rank.tolist()) == list(range(n))
    assert all(rank[scope[:-1]].max() < rank[scope[-1]] for scope in scopes)
    some = np.arange(0, n, 2)
    np.testing.assert_array_equal(parents_first(layout, some), rank[some])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(50), deadline=None)
def test_sweeps_go_by_ranks_and_back(seed):
    rng = np.random.default_rng(seed)
    n, scopes = random_scopes(rng)
    layout = CompiledGraph(graph_of(n, scopes, rng)).arrays
    rank = rng.permutation(2 * n)[:n]
    ranked = [rank[layout.edge_variable[begin:end]] for begin, end in pairwise(layout.factor_edge_start)]
    there, back = there_and_back(layout, rank).tolist()
    assert there == sorted(range(len(ranked)), key=lambda factor: (max(ranked[factor]), min(ranked[factor])))
    assert back == there[::-1]


def test_one_sweep_is_enough_for_a_network_without_evidence_whatever_its_numbers():
    rng = np.random.default_rng(3)
    order = rng.permutation(40)
    scopes = [[*order[[k - 1, max(0, k - int(rng.integers(2, 9)))]].tolist(), int(order[k])] for k in range(2, 40)]
    graph = graph_of(40, scopes, rng)
    expected = abp.infer(graph, "bp", tolerance=1e-12).marginals.concatenated()
    first = next(iter(abp.Inference(graph, "adaptive"))).marginals.concatenated()
    np.testing.assert_allclose(first, expected, atol=1e-12)
