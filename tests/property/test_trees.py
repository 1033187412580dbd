"""On forests the answer is exact, whatever the arities, zeros and ranges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from oracle.enumeration import exact
from oracle.models import random_tree, worst

seeds = st.integers(0, 10**9)
METHODS = ["bp", "residual"]


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds, zeros=st.sampled_from([0.0, 0.3, 0.7]))
def test_marginals_and_log_z_equal_enumeration(method, seed, zeros):
    graph = random_tree(seed, zeros=zeros)
    marginals, log_z = exact(graph)
    result = abp.infer(graph, method)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert worst(result, marginals) < 1e-9
    assert result.log_z == pytest.approx(log_z, abs=1e-9)


@given(seed=seeds, zeros=st.sampled_from([0.0, 0.5]), scale=st.sampled_from([1.0, 30.0, 1000.0, 5000.0]))
def test_wide_ranges_are_exact_too(seed, zeros, scale):
    graph = random_tree(seed, scale=scale, zeros=zeros)
    marginals, log_z = exact(graph)
    result = abp.infer(graph, "bp")
    assert worst(result, marginals) < 1e-9
    assert result.log_z == pytest.approx(log_z, abs=1e-8, rel=1e-12)


def test_log_arithmetic_is_exact(any_arithmetic):
    for seed in range(10):
        graph = random_tree(seed, zeros=0.3)
        marginals, log_z = exact(graph)
        result = abp.infer(graph, "bp")
        assert result.arithmetic == any_arithmetic
        assert worst(result, marginals) < 1e-9
        assert result.log_z == pytest.approx(log_z, abs=1e-9)


@given(seed=seeds)
def test_one_pass_up_and_the_rest_when_it_is_read(seed):
    graph = random_tree(seed)
    result = abp.infer(graph, "bp")
    n_message_factors = sum(len(graph.factor_scope(f)) > 1 for f in range(graph.n_factors))
    assert result.updates == n_message_factors
    assert result.max_residual == 0.0


@given(seed=seeds)
def test_summary_tells_a_forest(seed):
    graph = random_tree(seed)
    assert graph.summary().is_forest


@given(seed=seeds, kind=st.sampled_from(["label", "set", "scores"]))
def test_evidence_equals_enumeration(seed, kind):
    rng = np.random.default_rng(seed)
    graph = random_tree(seed, zeros=0.2)
    index = int(rng.integers(len(graph.variables)))
    n = graph.variables[index].n_states
    if kind == "label":
        states = [int(rng.integers(n))]
        value = states[0]
    else:
        states = rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist()
        value = set(states)
    scores = np.full(n, -np.inf)
    scores[states] = 0.0
    if kind == "scores":
        scores[states] = rng.normal(0, 1, len(states))
        value = scores
    joint_is_possible = np.isfinite(exact_log_z(graph, index, scores))
    if not joint_is_possible:
        with pytest.raises(abp.InconsistentModelError):
            abp.infer(graph, "bp", evidence={f"v{index}": value})
        return
    marginals, log_z = exact(graph, {index: scores})
    result = abp.infer(graph, "bp", evidence={f"v{index}": value})
    assert worst(result, marginals) < 1e-9
    assert result.log_z == pytest.approx(log_z, abs=1e-9)


def exact_log_z(graph, index, scores):
    with np.errstate(invalid="ignore"):
        return exact(graph, {index: scores})[1]


@given(seed=seeds)
def test_factor_marginals_are_exact_on_trees(seed):
    graph = random_tree(seed, zeros=0.2, n_factors=5)
    result = abp.infer(graph, "bp", factor_marginals=True)
    for f in range(graph.n_factors):
        belief = result.factor_marginals[f]
        assert belief.sum() == pytest.approx(1.0)
        for axis, name in enumerate(graph.factor_scope(f)):
            others = tuple(k for k in range(belief.ndim) if k != axis)
            assert np.allclose(belief.sum(axis=others), result.marginals[name], atol=1e-9)
