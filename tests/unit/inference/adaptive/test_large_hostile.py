"""Rounds on compact tables where something is against them: wide ranges, hard zeros, structures, poor proposals."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.adaptive import adaptive_run, rough_look


@pytest.fixture(autouse=True)
def always_large(monkeypatch):
    """Make every run of adaptive one of compact tables."""
    monkeypatch.setattr(adaptive_run.AdaptiveRun, "_begin_with", lambda run: run._large())


def test_a_range_that_needs_logs_starts_over_on_the_domains():
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(3, 10)
    graph.add_factors([[0], [1], [2]], log_table=rng.normal(0.0, 8.0, (3, 10)))
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=lambda a, b: -100.0 * np.abs(a - b))
    result = abp.infer(graph, "adaptive")
    assert result.arithmetic == "log"
    assert result.distance(abp.infer(graph, "bp")) < 1e-9


@pytest.mark.parametrize("as_rule", [False, True])
def test_scores_that_turn_out_far_above_the_first_ones_do_not_wipe_them_out(as_rule):
    own = np.where(np.arange(6) < 3, 0.0, -1000.0)
    table = np.zeros((6, 6))
    table[3:, 3:] = 2000.0
    graph = abp.FactorGraph()
    graph.add_variables(2, 6)
    graph.add_factors([[0], [1]], log_table=own)
    graph.add_factor([0, 1], **({"rule": lambda a, b: table[a, b]} if as_rule else {"log_table": table}))
    result = abp.infer(graph, "adaptive")
    np.testing.assert_allclose(result.marginals["x0"], np.full(6, 1.0 / 6.0), atol=1e-9)


@pytest.mark.parametrize("arity", [3, 27])
def test_a_structure_with_an_undecided_variable_needs_no_table(arity):
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(arity, 3)
    graph.add_variable("large", 200)
    graph.add_factors([[i] for i in range(arity)], log_table=rng.normal(0.0, 1.0, (arity, 3)))
    graph.add_factor(list(range(arity + 1)), structure=abp.AtMostOne(1))
    first = next(abp.Inference(graph, "adaptive"))
    assert first.unexplored_mass == 1.0
    assert abp.infer(graph, "adaptive").distance(abp.infer(graph, "bp")) < 1e-9


@pytest.mark.parametrize("proposed", [[], [3]])
def test_a_run_ends_when_nothing_else_is_proposed(proposed):
    graph = abp.FactorGraph()
    graph.add_variables(3, 100)
    graph.add_factor([0], log_table=np.random.default_rng(0).normal(0.0, 3.0, 100))
    distance = lambda a, b: -0.5 * np.abs(a - b)  # noqa: E731
    propose = lambda _, k: np.array(proposed, dtype=np.int64)[:k]  # noqa: E731
    graph.add_factors([[0, 1], [1, 2]], rule=distance, propose=propose)
    result = abp.infer(graph, "adaptive", seconds=60.0)
    assert result.stop_reason is abp.StopReason.OUT_OF_CANDIDATES
    assert result.consistent
    assert (result.unexplored_mass > 0.9) == (proposed == [3])


def equal_but_for_most():
    """Return a graph whose first domains have little in common: most belief is where both exclude everything."""
    own = np.full((2, 500), -6.0)
    own[:, [0, 3]] = -30.0
    own[:, 1] = -4.5
    own[0, 0] = own[1, 3] = 0.0
    graph = abp.FactorGraph()
    graph.add_variables(2, 500)
    graph.add_factors([[0], [1]], log_table=own)
    graph.add_factor([0, 1], structure=abp.Equality())
    return graph


def test_what_hard_zeros_shut_out_is_not_called_explored():
    graph = equal_but_for_most()
    inference = abp.Inference(graph, "adaptive")
    first, second = next(inference), next(inference)
    assert first.unexplored_mass == second.unexplored_mass == 1.0
    assert first.estimated_error == np.inf
    assert second.estimated_error > 0.5
    assert abp.infer(graph, "adaptive", target_error=1e-3).distance(abp.infer(graph, "bp")) < 1e-3


def test_domains_that_exclude_each_other_grow_and_what_had_settled_before_is_the_answer():
    """The domains of x1 and x2, which x0 tells, exclude each other."""
    graph = abp.FactorGraph()
    graph.add_variables(3, 300)
    graph.add_factor([0], log_table=np.r_[0.0, -1.0, -2.0, np.full(297, -30.0)])
    near = lambda a, b: np.where(np.abs(a - b) <= 2, 0.0, -9.0)  # noqa: E731
    graph.add_factors([[0, 1], [0, 2]], rule=near)
    graph.add_factor([1, 2], rule=lambda a, b: np.where(np.abs(a - b) >= 100, 0.0, -np.inf))
    inference = abp.Inference(graph, "adaptive")
    assert next(inference).consistent
    result = inference.run(max_updates=1)
    assert result.consistent
    assert inference._run.figures.settled_rounds == 1
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.distance(abp.infer(graph, "bp")) < 1e-7


@pytest.mark.parametrize("much", [0, 2**20])
def test_a_variable_all_of_whose_states_the_first_domains_exclude_gets_some_all_the_same(much, monkeypatch):
    """The likely states of x0 go with no state of x1, of which nothing else is known."""
    monkeypatch.setattr(rough_look, "MUCH", much)
    graph = abp.FactorGraph()
    graph.add_variables(3, 200)
    graph.add_factor([0], log_table=np.r_[np.zeros(5), np.full(195, -20.0)])
    graph.add_factor([0, 1], rule=lambda a, b: np.where((a >= 100) & (a + b > 150), 0.01 * b, -np.inf))
    graph.add_factor([1, 2], rule=lambda a, b: -0.1 * np.abs(a - b))
    inference = abp.Inference(graph, "adaptive", tolerance=1e-10)
    assert all(np.isfinite(snapshot.marginals.concatenated()).all() for snapshot in inference)
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.distance(abp.infer(graph, "bp", tolerance=1e-10)) < 1e-8


@pytest.mark.filterwarnings("ignore::anytimebp.UncertainResultWarning")
def test_proposals_of_impossible_states_alone_are_no_proposals():
    graph = abp.FactorGraph()
    graph.add_variables(2, 100)
    graph.add_factor([0], log_table=np.random.default_rng(0).normal(0.0, 3.0, 100))
    graph.add_factor([1], log_table=np.r_[np.full(50, -np.inf), np.zeros(50)])
    graph.add_factor([0, 1], rule=lambda a, b: -0.5 * np.abs(a - b), propose=lambda *_: np.arange(10))
    for snapshot in abp.Inference(graph, "adaptive"):
        assert snapshot.marginals["x1"][:50].max() == 0.0
        assert snapshot.marginals["x1"].sum() == pytest.approx(1.0)


@pytest.mark.compiled  # NumPy takes most of the time, in both passes
def test_a_constant_added_to_a_rule_changes_nothing():
    """Rough sums, of many states, are compared with those of other factors."""
    rng = np.random.default_rng(0)
    n, own = 30_000, np.full(30_000, -40.0)
    own[rng.choice(n, 60, replace=False)] = rng.normal(0.0, 1.0, 60)
    positions = rng.normal(0.0, 1.2, (n, 6))
    found = []
    for constant in (0.0, -1e9):
        graph = abp.FactorGraph()
        graph.add_variables(2, n)
        graph.add_factor([0], log_table=own)
        graph.add_factor([0, 1], rule=lambda a, b, c=constant: c + positions[a[:, 0]] @ positions[b[0]].T)
        inference = abp.Inference(graph, "adaptive", max_memory=700_000_000)
        found.append([next(inference).domain_sizes.tolist() for _ in range(3)])
    assert found[0] == found[1]


@pytest.mark.filterwarnings("error")
def test_impossible_states_and_proposals_go_together():
    own = np.random.default_rng(0).normal(0.0, 3.0, 100)
    own[:50] = -np.inf
    graph = abp.FactorGraph()
    graph.add_variables(2, 100)
    graph.add_factor([0], log_table=own)
    graph.add_factor([0, 1], rule=lambda a, b: -0.1 * np.abs(a - b), propose=lambda *_: np.arange(10))
    with pytest.warns(abp.UncertainResultWarning):  # the likely partners are not among what is proposed
        result = abp.infer(graph, "adaptive", seconds=60.0)
    assert result.marginals["x0"][:50].max() == 0.0
    assert abp.infer(abp.FactorGraph(), "adaptive").stop_reason is abp.StopReason.CONVERGED
