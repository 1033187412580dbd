"""`targets` change what is read and how much is done, and no marginal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from oracle.networks import random_network
from oracle.random_models import random_plan

seeds = st.integers(0, 10**9)


@given(
    seed=seeds,
    zeros=st.sampled_from([0.0, 0.4]),
    observed=st.integers(0, 4),
    targets=st.integers(1, 4),
    method=st.sampled_from(["exact", "auto"]),
)
def test_marginals_of_targets_on_networks_are_those_without_targets(seed, zeros, observed, targets, method):
    graph, _, witness = random_network(seed, n=9, zeros=zeros)
    order = np.random.default_rng(seed).permutation(9).tolist()
    evidence = {i: witness[i] for i in order[:observed]}
    wanted = order[-targets:]
    whole = abp.infer(graph, "exact", evidence=evidence)
    result = abp.infer(graph, method, evidence=evidence, targets=wanted)
    assert result.exact
    assert list(result.marginals) == [f"v{i}" for i in sorted(wanted)]
    for i in wanted:
        assert np.abs(result.marginals[i] - whole.marginals[i]).max() < 1e-10
    assert np.isnan(result.log_z) or result.log_z == pytest.approx(whole.log_z, abs=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(seed=seeds)
def test_marginals_of_targets_on_models_of_all_kinds_are_those_without_targets(seed):
    plan = random_plan(seed)
    if not plan.can_be_enumerated:
        return
    graph = plan.graph()
    try:
        whole = abp.infer(graph, "exact", evidence=plan.given)
    except abp.InconsistentModelError:
        return
    n = len(graph.variables)
    wanted = np.random.default_rng(seed).choice(n, size=min(n, 2), replace=False).tolist()
    result = abp.infer(graph, "exact", evidence=plan.given, targets=wanted)
    for i in wanted:
        assert np.abs(result.marginals[i] - whole.marginals[i]).max() < 1e-9
    assert np.isnan(result.log_z) or result.log_z == pytest.approx(whole.log_z, abs=1e-9, rel=1e-12)


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(seed=seeds, method=st.sampled_from(["bp", "residual", "adaptive", "dynamic"]))
def test_other_methods_read_the_targets_alone(seed, method):
    graph, _, _ = random_network(seed, n=6)
    whole, result = abp.infer(graph, method), abp.infer(graph, method, targets=["v3", 1])
    assert list(result.marginals) == ["v1", "v3"]
    assert np.array_equal(result.marginals["v3"], whole.marginals["v3"])
    assert (result.log_z, result.work) == (whole.log_z, whole.work)
