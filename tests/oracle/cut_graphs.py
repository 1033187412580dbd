"""Graphs to be cut into parts, and what must hold of the answers."""

import numpy as np
import pytest

import anytimebp as abp


def random_graph(seed, *, zeros=False, wide=False):
    """Pairs and triples with weak scores, where BP has one fixed point; a hub that every cut goes through."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 20))
    graph = abp.FactorGraph()
    for size in rng.integers(2, 4, n).tolist():
        graph.add_variable(f"v{len(graph.variables)}", size)
    sizes = [len(variable.labels) for variable in graph.variables]
    for index, size in enumerate(sizes):
        graph.add_factor([index], log_table=rng.normal(0, 900 if wide and index == 1 else 1, size))
    scopes = [[int(a), int(b)] for a, b in rng.permuted(np.tile(np.arange(n), (n, 1)), axis=1)[:, :2]]
    scopes += [rng.permutation(n)[:3].tolist() for _ in range(3)]
    scopes += [[0, other] for other in range(1, n)] if seed % 2 else []
    for scope in scopes:
        table = rng.normal(0, 0.3, [sizes[index] for index in scope])
        if zeros and rng.random() < 0.3:
            table[(0,) * len(scope)] = -np.inf
        graph.add_factor(scope, log_table=table)
    return graph


def agree(one, other):
    assert one.stop_reason is other.stop_reason is abp.StopReason.CONVERGED
    np.testing.assert_allclose(one.marginals.concatenated(), other.marginals.concatenated(), atol=1e-7)
    assert one.log_z == pytest.approx(other.log_z, abs=1e-7)
