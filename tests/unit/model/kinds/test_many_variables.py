"""Factors of more variables than a table has axes: the same marginals by every method that needs no table."""

import numpy as np
import pytest

import anytimebp as abp

INF = np.inf
N = 40
METHODS = ["bp", "residual", "adaptive", "auto"]


def graph_of(structure, n=N, seed=0):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, 2)
    scores = rng.normal(0.0, 1.0, (n, 2))
    graph.add_factors(np.arange(n)[:, np.newaxis], log_table=scores)
    graph.add_factor(range(n), structure=structure)
    return graph, np.exp(scores)


def count_marginals(weight, potential):
    """Return (n,) how likely each variable is on, by the distribution of the count of the others."""
    on = []
    for k in range(len(weight)):
        counts = np.ones(1)
        for off_on in np.delete(weight, k, axis=0):
            counts = np.convolve(counts, off_on)
        both = [weight[k, s] * counts @ potential[s : s + len(counts)] for s in (0, 1)]
        on.append(both[1] / sum(both))
    return np.array(on)


def found(result, n=N):
    return np.array([result.marginals[k][1] for k in range(n)])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["soft", "hard", "at most one"])
def test_counts_of_many_variables(method, kind):
    potential = np.exp(-0.1 * (np.arange(N + 1) - 12.0) ** 2)
    if kind == "hard":
        potential = (np.arange(N + 1) == 9).astype(float)
    if kind == "at most one":
        potential = (np.arange(N + 1) <= 1).astype(float)
    with np.errstate(divide="ignore"):
        structure = abp.AtMostOne() if kind == "at most one" else abp.Cardinality(np.log(potential))
    graph, weight = graph_of(structure)
    result = abp.infer(graph, method)
    np.testing.assert_allclose(found(result), count_marginals(weight, potential), atol=1e-9)


def test_a_noisy_or_of_many_causes():
    rng = np.random.default_rng(1)
    p, leak = rng.random(N - 1) * 0.1, 0.02
    graph, weight = graph_of(abp.NoisyOr(p, leak))
    prior = weight[:, 1] / weight.sum(axis=1)
    none = (1.0 - leak) * np.prod(1.0 - prior[:-1] * p)
    value = np.array([none, 1.0 - none]) * weight[-1]
    np.testing.assert_allclose(found(abp.infer(graph))[-1], value[1] / value.sum(), atol=1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize("structure", [abp.AtMostOne(), abp.NoisyOr(np.full(1499, 1e-3), 0.1), "count"])
def test_more_joint_states_than_doubles_run_in_logs(structure):
    n = 1500
    structure = abp.Cardinality(np.zeros(n + 1)) if structure == "count" else structure
    graph, _ = graph_of(structure, n)
    result = abp.infer(graph, "bp")
    assert result.arithmetic == "log"
    assert np.isfinite(result.log_z)
    assert all(np.isfinite(result.marginals[k]).all() for k in range(n))


def test_evidence_may_leave_few_variables():
    potential = np.arange(N + 1.0)
    with np.errstate(divide="ignore"):
        graph, weight = graph_of(abp.Cardinality(np.log(potential)))
    observed = {f"x{k}": k % 2 for k in range(N - 2)}
    for k in range(N - 2):
        weight[k] = [1.0 - k % 2, k % 2]
    for method in METHODS:
        result = abp.infer(graph, method, evidence=observed)
        np.testing.assert_allclose(found(result), count_marginals(weight, potential), atol=1e-9)


@pytest.mark.parametrize("method", ["exact", "dynamic", "fixed", "random", "truncated"])
def test_methods_that_make_tables_say_so(method):
    graph, _ = graph_of(abp.AtMostOne())
    with pytest.raises(abp.OptionError, match=r"x0, .* 10 more\) has 40 variables; no table"):
        abp.infer(graph, method)


def test_other_structures_and_tables_have_thirty_variables_at_most():
    graph = abp.FactorGraph()
    graph.add_variables(31, 2)
    with pytest.raises(abp.ModelError, match="Xor takes at most 30 variables, got 31"):
        graph.add_factor(range(31), structure=abp.Xor())
    with pytest.raises(abp.ModelError, match="1 to 30 variables, got 31"):
        graph.add_factor(range(31), rule=lambda *states: 0.0 * states[0])
    with pytest.raises(abp.ModelError, match="scopes must be"):
        graph.add_factors([range(31)], rule=lambda *states: 0.0 * states[0])


def test_files_and_summaries(tmp_path):
    graph, _ = graph_of(abp.Cardinality(np.arange(N + 1.0)))
    abp.write_model(graph, tmp_path / "a.npz")
    again = abp.read_model(tmp_path / "a.npz")
    assert abp.infer(again).log_z == abp.infer(graph).log_z
    with pytest.raises(abp.FormatError, match="is not a table"):
        abp.write_model(graph, tmp_path / "a.uai")
    with pytest.raises(abp.ModelError, match="no table of it can be made"):
        graph.factor_log_table(N)
    assert graph.summary().listed_joint_states == 2**N


def test_a_summary_of_a_great_many_variables_can_be_read():
    graph, _ = graph_of(abp.AtMostOne(), 20_000)
    assert "with about 10^6020 joint states" in str(graph.summary())
