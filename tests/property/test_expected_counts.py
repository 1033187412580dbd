"""Sums of factor marginals, of which few are in memory at a time, are the sums of single ones."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.results import expected_counts

SIZES = [3, 3, 3, 3, 4, 4]
PAIRS = [[0, 1], [1, 2], [2, 3], [3, 0], [2, 0]]
TRIPLES = [[0, 1, 4], [1, 3, 5], [3, 2, 4]]


def made(rng, spread=1.0):
    graph = abp.FactorGraph()
    for k, size in enumerate(SIZES):
        graph.add_variable(f"v{k}", size)
    ranges = [
        graph.add_factors([[0], [2], [3]], log_table=rng.normal(0, 1, (3, 3))),
        graph.add_factors(PAIRS, log_table=rng.normal(0, spread, (3, 3))),
        graph.add_factors(TRIPLES, log_table=rng.normal(0, spread, (3, 3, 4))),
        graph.add_factors(PAIRS[:3], log_table=rng.normal(0, spread, (3, 3, 3))),
        graph.add_factors(PAIRS[1:3], rule=lambda a, b: 0.2 * a * b),
    ]
    return graph, ranges


def slow(result, factors, features=None):
    """Sum marginal by marginal."""
    every = np.stack([result.factor_marginals[k] for k in factors])
    return every.sum(axis=0) if features is None else np.tensordot(features.T, every, axes=1)


@pytest.fixture(params=[1, 2**20], ids=["one at a time", "all at once"])
def at_once(request, monkeypatch):
    monkeypatch.setattr(expected_counts, "AT_ONCE", request.param)


EVIDENCE = [None, {"v0": 1}, {"v1": {0, 2}, "v4": {1, 2, 3}}]


@pytest.mark.parametrize("method", ["exact", "bp", "adaptive", "dynamic"])
@pytest.mark.parametrize("evidence", EVIDENCE, ids=["none", "one state", "some states"])
def test_sums_are_those_of_single_marginals(method, evidence, at_once):
    rng = np.random.default_rng(3)
    graph, ranges = made(rng)
    result = abp.infer(graph, method, evidence=evidence, factor_marginals=True)
    pairs = range(ranges[1].start, ranges[1].stop)
    for factors in (*ranges, pairs[::2], pairs[::-2], range(ranges[3].start, ranges[4].stop)):
        np.testing.assert_allclose(result.expected_log_table(factors), slow(result, factors), atol=1e-13)
        features = rng.normal(0, 1, (len(factors), 2))
        found = result.expected_log_table(factors, features)
        assert found.shape == (2, *result.factor_marginals[factors[0]].shape)
        np.testing.assert_allclose(found, slow(result, factors, features), atol=1e-13)


def test_sparse_features_count_as_dense_ones():
    sparse = pytest.importorskip("scipy.sparse")
    graph, ranges = made(np.random.default_rng(4))
    result = abp.infer(graph, "bp", factor_marginals=True)
    features = np.array([[0.0, 2.0], [0.0, 0.0], [-1.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    kinds = [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.coo_array, sparse.dok_matrix, list]
    for kind in kinds:
        found = result.expected_log_table(ranges[1], kind(features))
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, slow(result, ranges[1], features), atol=1e-13)
    for wrong in ("five", np.full((5, 2), None), np.zeros(5)):
        with pytest.raises(abp.OptionError, match="expected_log_table: features"):
            result.expected_log_table(ranges[1], wrong)


def test_numbers_too_small_for_linear_sums_are_summed_in_logs():
    graph, rng = abp.FactorGraph(), np.random.default_rng(5)
    graph.add_variables(4, 3)
    unary = np.array([[0.0, -900.0, -900.0], [-900.0, 0.0, -900.0], [0.0, 0.0, -900.0], [0.0, 1.0, 0.0]])
    graph.add_factors([[0], [1], [2], [3]], log_table=unary)
    table = rng.normal(0, 1, (3, 3))
    table[0, 1] = -800.0
    tied = graph.add_factors([[0, 1], [1, 2], [2, 3]], log_table=table)
    result = abp.infer(graph, "bp", factor_marginals=True)
    np.testing.assert_allclose(result.expected_log_table(tied), slow(result, tied), atol=1e-12)
    assert result.expected_log_table(tied).sum() == pytest.approx(3)


def test_answers_on_some_states_have_counts_of_these_alone(at_once):
    graph, rng = abp.FactorGraph(), np.random.default_rng(6)
    graph.add_variables(12, 8)
    graph.add_factors(np.arange(12)[:, np.newaxis], log_table=rng.normal(0, 5, (12, 8)))
    tied = graph.add_factors([[k, (k + 1) % 12] for k in range(12)], log_table=rng.normal(0, 0.3, (8, 8)))
    inference = abp.Inference(graph, "dynamic", factor_marginals=True)
    inference.run(max_updates=100)
    result = inference.run(max_updates=120)
    assert result.domain_sizes.min() < 8
    np.testing.assert_allclose(result.expected_log_table(tied), slow(result, tied), atol=1e-13)


def test_features_of_another_length_are_refused():
    graph, ranges = made(np.random.default_rng(0))
    result = abp.infer(graph, factor_marginals=True)
    with pytest.raises(abp.OptionError, match="row for each of 5 factors"):
        result.expected_log_table(ranges[1], np.ones((4, 2)))
