"""Variables of high degree: right, in time linear in the degree."""

import numpy as np
import pytest

import anytimebp as abp
from oracle.models import worst
from oracle.slow_bp import SlowBP


def star(degree, seed, scale=1.0):
    """Return a hub of three states with many leaves of two, and the exact log weights of the hub."""
    rng = np.random.default_rng(seed)
    tables = rng.normal(0, scale, (degree, 3, 2))
    graph = abp.FactorGraph()
    hub = graph.add_variable("hub", 3)
    leaves = graph.add_variables(degree, 2, names=[f"leaf{k}" for k in range(degree)])
    graph.add_factors(np.stack([np.full(degree, hub.index), np.array(leaves)], axis=1), log_table=tables)
    return graph, tables


@pytest.mark.compiled
@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
def test_a_star_of_degree_10_000_is_exact(scale):
    graph, tables = star(10_000, seed=3, scale=scale)
    log_weight = np.logaddexp(tables[:, :, 0], tables[:, :, 1]).sum(axis=0)
    peak = log_weight.max()
    expected = np.exp(log_weight - peak)
    result = abp.infer(graph, "bp")
    assert np.abs(result.marginals["hub"] - expected / expected.sum()).max() < 1e-9
    assert result.log_z == pytest.approx(peak + np.log(expected.sum()), rel=1e-12)
    posterior = np.exp(tables[77] - np.logaddexp(tables[77][:, :1], tables[77][:, 1:]))
    assert np.abs(result.marginals["leaf77"] - (expected / expected.sum()) @ posterior).max() < 1e-9


def wheel(degree, seed, scale, zeros=0.0):
    """Return a hub whose leaves are also tied to each other in a ring."""
    rng = np.random.default_rng(seed)
    graph, _ = star(degree, seed, scale)
    leaves = np.arange(1, degree + 1)
    ring = rng.normal(0, scale, (degree, 2, 2))
    ring[rng.random(ring.shape) < zeros] = -np.inf
    ring[:, 0, 0] = 0.0
    graph.add_factors(np.stack([leaves, np.roll(leaves, 1)], axis=1), log_table=ring)
    return graph


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_a_hub_with_loops_agrees_with_the_slow_twin(method, any_arithmetic):
    graph = wheel(40, seed=5, scale=0.3)
    slow = SlowBP(graph)
    assert slow.run()
    result = abp.infer(graph, method, tolerance=1e-11)
    assert result.arithmetic == any_arithmetic
    assert result.consistent
    assert worst(result, slow.marginals()) < 1e-9


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_a_hub_with_hard_zeros_agrees_with_the_slow_twin(method, any_arithmetic):
    rng = np.random.default_rng(8)
    graph = wheel(30, seed=6, scale=0.2, zeros=0.2)
    graph.add_factor(["hub"], log_table=[0.0, 0.3, -np.inf])
    gate = rng.normal(0, 0.2, (3, 2))
    gate[1, 1] = -np.inf
    graph.add_factor(["hub", "leaf3"], log_table=gate)
    slow = SlowBP(graph)
    assert slow.run()
    result = abp.infer(graph, method, tolerance=1e-11)
    assert any_arithmetic
    assert worst(result, slow.marginals()) < 1e-9
    assert result.marginals["hub"][2] == 0.0


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["bp", "residual"])
def test_a_loopy_hub_of_degree_10_000_settles(method):
    graph = wheel(10_000, seed=7, scale=0.1)
    result = abp.infer(graph, method)
    assert result.consistent
    other = abp.infer(graph, method, schedule="random", rng=1)
    assert (
        max(np.abs(a - b).max() for a, b in zip(result.marginals.values(), other.marginals.values(), strict=True))
        < 1e-6
    )


def test_arity_ten_on_two_states():
    rng = np.random.default_rng(1)
    graph = abp.FactorGraph()
    graph.add_variables(10, 2)
    table = rng.normal(0, 1, [2] * 10)
    graph.add_factor(list(range(10)), log_table=table)
    graph.add_factor([3], log_table=[0.0, 2.0])
    weight = np.exp(table) * np.exp([0.0, 2.0]).reshape([2 if k == 3 else 1 for k in range(10)])
    result = abp.infer(graph, "bp")
    for i in range(10):
        expected = weight.sum(axis=tuple(k for k in range(10) if k != i)) / weight.sum()
        assert np.abs(result.marginals[i] - expected).max() < 1e-12


def test_isolated_and_single_state_variables():
    graph = abp.FactorGraph()
    graph.add_variable("alone", 4)
    graph.add_variable("scored", 2)
    graph.add_variable("sure", ["only"])
    graph.add_factor(["scored"], table=[1.0, 3.0])
    graph.add_factor(["scored", "sure"], table=[[1.0], [2.0]])
    result = abp.infer(graph, "bp")
    assert result.marginals["alone"].tolist() == [0.25] * 4
    assert np.allclose(result.marginals["scored"], [1 / 7, 6 / 7])
    assert result.marginals["sure"].tolist() == [1.0]
    assert result.log_z == pytest.approx(np.log(4 * 7))


def test_an_empty_graph_has_an_answer():
    result = abp.infer(abp.FactorGraph(), "bp")
    assert len(result.marginals) == 0
    assert result.log_z == 0.0
    assert result.stop_reason is abp.StopReason.CONVERGED
