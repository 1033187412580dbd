"""Expected counts of factors are the derivatives of log Z by their log scores."""

import numpy as np
import pytest

import anytimebp as abp

STEP = 1e-4
CHAIN, LOOP = [[0, 1], [1, 2], [2, 3]], [[0, 1], [1, 2], [2, 3], [3, 0]]


def made(table, scopes, unary):
    graph = abp.FactorGraph()
    graph.add_variables(4, 3)
    graph.add_factor([1], log_table=unary)
    graph.add_factors(scopes, log_table=table)
    return graph


@pytest.mark.parametrize(("scopes", "method"), [(CHAIN, "exact"), (CHAIN, "bp"), (LOOP, "exact"), (LOOP, "bp")])
def test_tied_factors_have_the_derivative_of_their_table(scopes, method):
    rng = np.random.default_rng(len(scopes))
    table, unary = rng.normal(0, 0.7, (3, 3)), rng.normal(0, 1, 3)
    evidence = {0: {0, 2}}

    def log_z(table, unary):
        return abp.infer(made(table, scopes, unary), method, tolerance=1e-13, evidence=evidence).log_z

    graph = made(table, scopes, unary)
    result = abp.infer(graph, method, tolerance=1e-13, factor_marginals=True, evidence=evidence)
    found = result.expected_log_table(range(1, graph.n_factors))
    assert found.sum() == pytest.approx(len(scopes))
    for position in np.ndindex(3, 3):
        shift = np.zeros((3, 3))
        shift[position] = STEP
        slope = (log_z(table + shift, unary) - log_z(table - shift, unary)) / (2 * STEP)
        assert found[position] == pytest.approx(slope, abs=1e-6)
    shift = np.array([0.0, STEP, 0.0])
    slope = (log_z(table, unary + shift) - log_z(table, unary - shift)) / (2 * STEP)
    assert result.expected_log_table(0)[1] == pytest.approx(slope, abs=1e-6)


def test_what_cannot_be_summed_is_named():
    graph = made(np.zeros((3, 3)), CHAIN, np.zeros(3))
    result = abp.infer(graph, factor_marginals=True)
    with pytest.raises(abp.OptionError, match="one shape"):
        result.expected_log_table(range(2))
    with pytest.raises(abp.OptionError, match="empty"):
        result.expected_log_table(range(0))
    with pytest.raises(abp.OptionError, match="factor_marginals"):
        abp.infer(graph).expected_log_table(1)
