"""`exact` on graphs of structures without loops: lists and transforms instead of tables."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference import new_method


def test_few_of_many_states_cost_their_pairs_in_exact():
    rng, n = np.random.default_rng(5), 65_536
    states = [np.sort(rng.choice(n, 50, replace=False)) for _ in range(3)]
    states[2][:25] = states[0][:25] ^ states[1][:25]
    graph, scores = abp.FactorGraph(), rng.normal(size=(3, n))
    graph.add_variables(3, n)
    graph.add_factors([[0], [1], [2]], log_table=scores)
    graph.add_factor([0, 1, 2], structure=abp.Xor())
    result = abp.infer(graph, "exact", evidence={k: set(own.tolist()) for k, own in enumerate(states)})
    assert result.exact
    assert (result.method, result.estimated_error) == ("exact", 0.0)
    assert result.work <= 2 * 2_650
    expected, total = np.zeros((3, n)), 0.0
    for a in states[0]:
        for b in states[1]:
            if a ^ b in states[2]:
                weight = np.exp(scores[0, a] + scores[1, b] + scores[2, a ^ b])
                total += weight
                for k, state in enumerate((a, b, a ^ b)):
                    expected[k, state] += weight
    assert result.log_z == pytest.approx(np.log(total), abs=1e-9)
    for k in range(3):
        np.testing.assert_allclose(result.marginals[f"x{k}"], expected[k] / total, atol=1e-12)


def forest(seed):
    """Return a tree of structures over 16 states."""
    rng, graph = np.random.default_rng(seed), abp.FactorGraph()
    kinds = [abp.Xor(), abp.And(), abp.Or(), abp.ModularSum([1, 1, -1], 3), abp.FieldCheck(16, [3, 1, 7])]
    graph.add_variables(1 + 2 * 5, 16)
    graph.add_factors(np.arange(11)[:, np.newaxis], log_table=rng.normal(0.0, rng.choice([1.0, 30.0]), (11, 16)))
    for k in range(5):
        scope = [int(rng.integers(2 * k + 1)), 2 * k + 1, 2 * k + 2]
        graph.add_factor(rng.permutation(scope).tolist(), structure=kinds[int(rng.integers(5))])
    return graph


@pytest.mark.parametrize("seed", range(12))
def test_a_forest_of_structures_has_the_answers_of_a_junction_tree(monkeypatch, seed):
    graph, evidence = forest(seed), {0: set(range(12)), 3: np.linspace(0.0, 2.0, 16)}
    options = {"targets": ["x2", "x5"]} if seed % 3 == 0 else {"factor_marginals": seed % 3 == 1}
    found = abp.infer(graph, "exact", evidence=evidence, **options)
    monkeypatch.setattr(new_method, "forest_run", lambda _: None)
    wanted = abp.infer(graph, "exact", evidence=evidence, **options)
    assert "belief propagation" in found.choice
    assert (found.exact, found.estimated_error, found.method) == (True, 0.0, "exact")
    assert found.log_z == pytest.approx(wanted.log_z, abs=1e-9)
    np.testing.assert_allclose(found.marginals.concatenated(), wanted.marginals.concatenated(), rtol=1e-9, atol=1e-200)
    assert list(found.marginals) == list(wanted.marginals)
    if options.get("factor_marginals"):
        for factor in range(11, 16):
            np.testing.assert_allclose(found.factor_marginals[factor], wanted.factor_marginals[factor], atol=1e-12)


def test_a_loop_of_structures_has_a_junction_tree():
    graph = forest(1)
    graph.add_factor([0, 9, 10], structure=abp.Xor())
    result = abp.infer(graph, "exact")
    assert result.exact
    assert "belief propagation" not in result.choice


def test_a_forest_without_a_joint_state_is_refused():
    graph = abp.FactorGraph()
    graph.add_variables(3, 16)
    graph.add_factor([0, 1, 2], structure=abp.Xor())
    with pytest.raises(abp.InconsistentModelError):
        abp.infer(graph, "exact", evidence={0: set(range(8)), 1: set(range(8)), 2: set(range(8, 16))})
