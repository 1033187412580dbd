"""States that zeros exclude: those of a slow twin, none that is possible, and the same answers without them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.exact import possible
from anytimebp.exact.possible import possible_part
from anytimebp.exact.relevance import Part
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import read_evidence_mapping
from oracle.enumeration import exact
from oracle.models import random_loopy, worst
from oracle.random_models import random_plan
from oracle.verdict import enumerated, rounding

seeds = st.integers(0, 10**9)


@pytest.fixture
def always(monkeypatch):
    """Let every run look for impossible states, and leave them out."""
    monkeypatch.setattr(possible, "LEAST_ENTRIES", 0)
    monkeypatch.setattr(possible, "WORTH", 0.0)
    monkeypatch.setattr(possible, "SHARE", 2.0)


def slowly(graph, allowed):
    """Return the states of each variable that are left; one table entry at a time, until nothing changes."""
    left = [set(states) for states in allowed]
    blocks = [b for b in graph.blocks if b.source.tables is not None or b.scopes.shape[1] == 1]  # no rules, no lists
    factors = [(block.scopes[k].tolist(), block, k) for block in blocks for k in range(len(block.scopes))]
    while True:
        before = [set(states) for states in left]
        for scope, block, k in factors:
            scores = block.log_values(k, [np.arange(n) for n in block.source.shape], graph.variables)
            joint = [s for s in itertools.product(*(left[v] for v in scope)) if scores[s] > -np.inf]
            for axis, v in enumerate(scope):
                left[v] &= {states[axis] for states in joint}
        if left == before:
            return left


def quickly(graph, evidence):
    """Return the same by the kernel; None where nothing goes or nothing is left."""
    compiled = compiled_graph(graph)
    domains = full_domains(compiled, read_evidence_mapping(evidence, graph.variables))
    found = possible_part(compiled, domains, Part(compiled.arrays, domains.sizes))
    return found and [set(found.domains.states_of(v).tolist()) for v in range(len(domains.sizes))]


@given(seed=seeds, zeros=st.sampled_from([0.3, 0.6, 0.8]), n_observed=st.integers(0, 3), again=st.booleans())
def test_states_that_go_are_those_of_the_slow_twin(seed, zeros, n_observed, again):
    graph, rng = random_loopy(seed, zeros=zeros, max_arity=4), np.random.default_rng(seed)
    sizes = graph.variables.sizes().tolist()
    chosen = rng.choice(len(sizes), size=n_observed, replace=False).tolist()
    evidence = {v: {int(s) for s in rng.choice(sizes[v], size=int(rng.integers(1, sizes[v] + 1)))} for v in chosen}
    allowed = [evidence.get(v, range(n)) for v, n in enumerate(sizes)]
    expected = slowly(graph, allowed)
    if again:
        quickly(graph, {})  # what is known without evidence stays with the layout
    found = quickly(graph, evidence)
    if found is None:
        assert not all(expected) or expected == [set(states) for states in allowed]
    else:
        assert found == expected


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("always")
@given(seed=seeds)
def test_models_of_all_kinds_equal_enumeration_without_impossible_states(seed):
    plan = random_plan(seed)
    if not plan.can_be_enumerated:
        return
    expected = enumerated(plan)
    for method in ("exact", "auto"):
        try:
            result = abp.infer(plan.graph(), method, evidence=plan.given)
        except abp.InconsistentModelError:
            assert expected is None
            continue
        if result.method == "exact":
            marginals, log_z = expected
            assert worst(result, marginals) < max(1e-10, rounding(plan))
            assert result.log_z == pytest.approx(log_z, abs=1e-9, rel=1e-12)
            assert result.exact


@pytest.mark.usefixtures("always")
@given(seed=seeds, target=st.integers(0, 5))
def test_targets_and_factor_marginals_are_those_with_all_states(seed, target):
    graph = random_loopy(seed, zeros=0.7, max_arity=4)
    marginals, log_z = exact(graph)
    one = abp.infer(graph, "exact", targets=[target])
    np.testing.assert_allclose(one.marginals[target], marginals[target], atol=1e-10)
    result = abp.infer(graph, "exact", factor_marginals=True)
    assert result.log_z == pytest.approx(log_z, abs=1e-9)
    for block in graph.blocks:
        for k, scope in enumerate(block.scopes.tolist()):
            joint = result.factor_marginals[block.first + k]
            assert joint.shape == block.source.shape
            for axis, v in enumerate(scope):
                others = tuple(a for a in range(len(scope)) if a != axis)
                np.testing.assert_allclose(joint.sum(axis=others), marginals[v], atol=1e-10)


def test_the_search_ends_at_its_limit_and_says_nothing_wrong(monkeypatch):
    monkeypatch.setattr(possible, "MOST_ENTRIES", 1)
    for seed in range(20):
        graph = random_loopy(seed, zeros=0.7, max_arity=4)
        sizes = graph.variables.sizes().tolist()
        found, expected = quickly(graph, {}), slowly(graph, [range(n) for n in sizes])
        assert found is None or all(few <= many for few, many in zip(expected, found, strict=True))


def ring_of_copies(n, states):
    """Return variables that all link with all, of which zeros leave two states each."""
    graph = abp.FactorGraph()
    graph.add_variables(n, states)
    narrow = np.zeros((states, states))
    narrow[:2, :2] = [[1.0, 2.0], [3.0, 1.0]]
    graph.add_factors([[i, j] for i in range(n) for j in range(i)], table=narrow)
    return graph


def test_a_model_that_is_too_wide_but_for_its_zeros_is_exact():
    graph = ring_of_copies(12, 30)
    for method in ("exact", "auto"):
        result = abp.infer(graph, method)
        assert result.exact
        assert result.method == "exact"
        assert result.choice.startswith("a junction tree over the 24 of 360 states that zeros leave")
        assert result.domain_sizes.tolist() == [2] * 12
    small = abp.FactorGraph()
    small.add_variables(12, 2)
    small.add_factors([[i, j] for i in range(12) for j in range(i)], table=[[1.0, 2.0], [3.0, 1.0]])
    whole = abp.infer(small, "exact")
    assert result.log_z == pytest.approx(whole.log_z, abs=1e-10)
    np.testing.assert_allclose(result.marginals[3][:2], whole.marginals[3], atol=1e-12)
    assert not result.marginals[3][2:].any()


def test_small_models_are_not_searched(monkeypatch):
    monkeypatch.setattr(possible, "exclude_states", lambda *_: pytest.fail("it costs more than it saves"))
    assert abp.infer(ring_of_copies(3, 4), "exact").exact
