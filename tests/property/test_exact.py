"""`exact` equals enumeration: any kinds of factors, arities to 5, hard zeros, evidence of all kinds, wide ranges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from oracle.enumeration import exact, joint_log_scores
from oracle.models import random_loopy, random_tree, worst
from oracle.random_models import random_plan
from oracle.verdict import enumerated, rounding

seeds = st.integers(0, 10**9)


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(seed=seeds)
def test_models_of_all_kinds_equal_enumeration(seed):
    plan = random_plan(seed)
    if not plan.can_be_enumerated:
        return
    expected = enumerated(plan)
    try:
        result = abp.infer(plan.graph(), "exact", evidence=plan.given)
    except abp.InconsistentModelError:
        assert expected is None
        return
    marginals, log_z = expected
    assert worst(result, marginals) < max(1e-10, rounding(plan))  # enumeration adds up scores of millions
    assert result.log_z == pytest.approx(log_z, abs=1e-9, rel=1e-12)
    assert result.exact
    assert result.estimated_error == 0.0


@given(
    seed=seeds,
    scale=st.sampled_from([0.3, 5.0, 100.0, 700.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.4, 0.8]),
    arity=st.integers(2, 5),
)
def test_wide_ranges_and_zeros_equal_enumeration(seed, scale, zeros, arity):
    graph = random_loopy(seed, scale=scale, unary=scale, zeros=zeros, max_arity=arity)
    marginals, log_z = exact(graph)
    result = abp.infer(graph, "exact")
    assert worst(result, marginals) < 1e-10
    assert result.log_z == pytest.approx(log_z, abs=1e-9, rel=1e-12)


@given(seed=seeds, zeros=st.sampled_from([0.0, 0.5]), is_observed=st.booleans())
def test_marginals_of_factors_equal_enumeration(seed, zeros, is_observed):
    graph = random_loopy(seed, scale=2.0, zeros=zeros, max_arity=4)
    joint = joint_log_scores(graph)
    evidence = {}
    if is_observed:
        evidence = {
            0: {0, int(np.random.default_rng(seed).integers(joint.shape[0]))},
            1: np.arange(joint.shape[1]) * 1.5,
        }
        scores = np.full(joint.shape[0], -np.inf)
        scores[list(evidence[0])] = 0.0
        joint = joint + scores.reshape(-1, *[1] * (joint.ndim - 1))
        joint = joint + evidence[1].reshape(1, -1, *[1] * (joint.ndim - 2))
    if joint.max() == -np.inf:
        return
    weight = np.exp(joint - joint.max())
    weight /= weight.sum()
    result = abp.infer(graph, "exact", evidence=evidence, factor_marginals=True)
    for f in range(graph.n_factors):
        scope = [graph.variables.index_of(name) for name in graph.factor_scope(f)]
        expected = weight.sum(axis=tuple(k for k in range(weight.ndim) if k not in scope))
        expected = expected.transpose(np.argsort(np.argsort(scope)))
        assert np.abs(result.factor_marginals[f] - expected).max() < 1e-10


@given(seed=seeds, zeros=st.sampled_from([0.0, 0.5]), scale=st.sampled_from([1.0, 1000.0]))
def test_forests_have_the_answer_of_bp(seed, zeros, scale):
    graph = random_tree(seed, scale=scale, zeros=zeros)
    result, reference = abp.infer(graph, "exact"), abp.infer(graph, "bp")
    assert reference.exact
    assert result.distance(reference) < 1e-10
    assert result.log_z == pytest.approx(reference.log_z, abs=1e-9, rel=1e-12)


@given(seed=seeds)
def test_the_default_is_exact_on_small_graphs(seed):
    graph = random_loopy(seed, scale=3.0)
    marginals, log_z = exact(graph)
    result = abp.infer(graph)
    assert result.exact
    assert worst(result, marginals) < 1e-10
    assert result.log_z == pytest.approx(log_z, abs=1e-9)
