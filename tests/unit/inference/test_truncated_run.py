"""`truncated` on structures whose tables over the chosen states would be large."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference import truncated_run
from anytimebp.inference.truncated_run import MOST_ENTRIES


def graph_of(n, *, has_loops, spread=3.0, seed=0):
    """Return five variables of n states with two XORs, and other factors that close loops."""
    rng, graph = np.random.default_rng(seed), abp.FactorGraph()
    graph.add_variables(5, n)
    graph.add_factors(np.arange(5)[:, np.newaxis], log_table=rng.normal(0.0, spread, (5, n)))
    graph.add_factors([[0, 1, 2], [2, 3, 4]], structure=abp.Xor())
    if has_loops:
        graph.add_factor([0, 3], structure=abp.Difference(np.linspace(0.0, -1.0, 5), default=-2.0))
        graph.add_factor([1, 4], log_table=rng.normal(0.0, 1.0, (n, n)))
    return graph


EVIDENCE = (
    {},
    {0: {1, 2, 3, 5, 7, 8}},
    {"x1": np.linspace(0.0, 1.5, 16)},
    {2: np.r_[np.full(8, -np.inf), np.zeros(8)]},
)


@pytest.mark.parametrize("has_loops", [True, False])
@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_answers_are_those_of_tables(has_loops, evidence, fraction, monkeypatch):
    graph = graph_of(16, has_loops=has_loops)
    given = {"evidence": evidence, "fraction": fraction, "factor_marginals": True, "tolerance": 1e-10}
    tables = abp.infer(graph, "truncated", **given)
    monkeypatch.setattr(truncated_run, "MOST_ENTRIES", 0)
    sums = abp.infer(graph, "truncated", **given)
    assert (sums.method, sums.stop_reason, sums.exact) == ("truncated", tables.stop_reason, False)
    assert sums.domain_sizes.tolist() == tables.domain_sizes.tolist()
    assert sums.distance(tables) < 1e-9
    assert sums.log_z == pytest.approx(tables.log_z, abs=1e-8)
    assert sums.unexplored_mass == pytest.approx(tables.unexplored_mass, abs=1e-6, nan_ok=True)
    assert sums.estimated_error == pytest.approx(tables.estimated_error, abs=1e-6)
    assert sums.factor_marginals[5] == pytest.approx(tables.factor_marginals[5], abs=1e-9)


def test_tables_that_would_be_large_are_not_made():
    n = 512
    graph = graph_of(n, has_loops=True)
    assert (n // 4) ** 3 > MOST_ENTRIES
    result = abp.infer(graph, "truncated", max_memory=2**23)  # of the 2 * 8 * 128^3 bytes that tables would take
    assert result.stop_reason.name == "CONVERGED"
    assert result.domain_sizes.tolist() == [n // 4] * 5
    chosen = {k: set(np.flatnonzero(result.marginals[k]).tolist()) for k in range(5)}
    assert result.distance(abp.infer(graph, "residual", evidence=chosen)) < 1e-7
    assert 0.0 < result.unexplored_mass < 1.0
    assert 0.0 < result.estimated_error < 1.0


def test_before_a_sweep_is_through_unary_scores_are_the_answer(monkeypatch):
    monkeypatch.setattr(truncated_run, "MOST_ENTRIES", 0)
    graph = graph_of(16, has_loops=True)
    with pytest.warns(abp.UncertainResultWarning):
        result = abp.infer(graph, "truncated", max_updates=1)
    assert not result.consistent
    assert result.unexplored_mass == 1.0
    assert sum(own.sum() for own in result.marginals.values()) == pytest.approx(5.0)


def test_an_error_of_memory_names_the_structure_and_what_needs_no_table():
    graph = graph_of(64, has_loops=False)
    with pytest.raises(abp.MemoryLimitError, match=r'factor 5 .*"adaptive" and "auto" need none'):
        abp.infer(graph, "truncated", max_memory=50_000)
