"""Runs that are stopped before their domains admit a joint state: they answer with unary scores, and say so."""

import numpy as np
import pytest

import anytimebp as abp

INF = np.inf


def different(n_variables=5, states=2, unary=None):
    """Return a graph whose first and third variable must differ."""
    graph = abp.FactorGraph()
    graph.add_variables(n_variables, states)
    if unary is not None:
        graph.add_factors(np.arange(n_variables)[:, np.newaxis], log_table=np.array(unary, dtype=float))
    graph.add_factor([0, 2], log_table=np.where(np.eye(states) > 0, -INF, 0.0))
    return graph


def is_unary(snapshot, unary):
    """Tell whether a snapshot says no more than unary scores, and does not pretend to."""
    belief = np.exp(unary) / np.exp(unary).sum()
    close = all(np.allclose(marginal, belief) for marginal in snapshot.marginals.values())
    return close and not snapshot.consistent and snapshot.estimated_error == INF and np.isnan(snapshot.log_z)


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("method", ["dynamic", "fixed"])
def test_memory_that_ends_growth_too_early_leaves_unary_scores(method):
    inference = abp.Inference(different(), method, max_memory=900, factor_marginals=True)
    assert list(inference) == []
    result = inference.run()
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert is_unary(result, np.zeros(2))
    np.testing.assert_allclose(result.factor_marginals[0], [[0.0, 0.5], [0.5, 0.0]])


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("rng", range(8))
def test_random_growth_that_memory_ends_is_never_certain_of_the_impossible(rng):
    result = abp.infer(different(), "random", max_memory=900, rng=rng, factor_marginals=True)
    joint = result.factor_marginals[0]
    assert joint.sum() == pytest.approx(1.0)
    assert joint[0, 0] == joint[1, 1] == 0.0
    if not result.consistent:
        assert is_unary(result, np.zeros(2))


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
def test_adaptive_that_memory_ends_too_early_leaves_unary_scores():
    unary, pair, only = -0.5 * np.arange(60.0), np.zeros((60, 60)), np.full((60, 1), -INF)
    pair[:-1, -1], only[-1] = -INF, 0.0  # the last states of both alone are possible
    graph = abp.FactorGraph()
    graph.add_variables(2, 60)
    graph.add_variable("x2", 1)
    graph.add_factors([[0], [1]], log_table=np.array([unary, unary]))
    graph.add_factor([0, 1], log_table=pair)
    graph.add_factor([1, 2], log_table=only)
    with pytest.warns(abp.UncertainResultWarning, match="little more than a guess"):
        smaller = abp.infer(graph, "adaptive", max_memory=20_000, factor_marginals=True)
    assert smaller.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert smaller.estimated_error > 0.5
    result = abp.infer(graph, "adaptive", max_memory=26_000, factor_marginals=True)
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert "domains that grow" in result.trace[-1].choice
    assert not result.consistent
    assert result.estimated_error == INF
    np.testing.assert_allclose(result.marginals["x1"], np.exp(unary) / np.exp(unary).sum())
    np.testing.assert_array_equal(result.factor_marginals[3], np.exp(only))


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("method", ["dynamic", "fixed", "random", "truncated"])
@pytest.mark.parametrize("updates", [0, 1, 2])
def test_runs_stopped_before_every_factor_was_heard_answer_with_unary_scores(method, updates):
    unary = np.array([0.5, 0.0, 0.0, 0.0])
    graph = different(5, 4, unary=np.tile(unary, (5, 1)))
    graph.add_factors([[0, 1], [1, 3], [3, 4]], log_table=np.zeros((4, 4)))
    try:
        result = abp.infer(graph, method, max_updates=updates, rng=0)
    except abp.InconsistentModelError as error:
        assert "fraction" in str(error)  # noqa: PT017
        return
    assert result.consistent or is_unary(result, unary)


def test_a_truncated_run_whose_part_admits_nothing_says_so():
    with pytest.raises(abp.InconsistentModelError, match="`fraction` allows"):
        abp.infer(different(3, 4), "truncated")


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("method", ["dynamic", "truncated"])
def test_without_hard_zeros_runs_stopped_early_answer_with_their_current_state(method):
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factors([[0, 1], [1, 2]], log_table=-np.eye(4))
    result = abp.infer(graph, method, max_updates=1)
    assert result.domain_sizes.tolist() == [1, 1, 1]
