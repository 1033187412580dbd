"""Rounds where only tables over the domains are kept: they end at BP's marginals, and say what they know before."""

from itertools import pairwise

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.adaptive import adaptive_run
from anytimebp.inference.adaptive.first_domains import DRAWN
from anytimebp.inference.adaptive.large_rounds import LargeRounds
from anytimebp.model.source import FactorSource
from unit.kernels.test_structures import KINDS, twins


@pytest.fixture
def always_large(monkeypatch):
    """Make every run of adaptive one of compact tables."""
    monkeypatch.setattr(adaptive_run.AdaptiveRun, "_begin_with", lambda run: run._large())


@pytest.mark.usefixtures("always_large")
@pytest.mark.parametrize("kind", KINDS)
def test_compact_runs_end_at_the_marginals_of_bp(kind):
    graph, dense = twins(3, [kind], unary=4.0)
    found = abp.infer(graph, "adaptive", tolerance=1e-11)
    expected = abp.infer(dense, "bp", tolerance=1e-11)
    assert found.stop_reason is abp.StopReason.CONVERGED
    for name in expected.marginals:
        np.testing.assert_allclose(found.marginals[name], expected.marginals[name], atol=1e-9)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-7)


@pytest.mark.usefixtures("always_large")
def test_marginals_that_are_read_late_do_not_depend_on_what_became_of_the_tables():
    graph = abp.FactorGraph()
    rng = np.random.default_rng(0)
    graph.add_variables(4, 60)
    graph.add_factors([[i] for i in range(4)], log_table=rng.normal(0.0, 4.0, (4, 60)))
    scores = rng.normal(size=(3, 60, 60))
    for k in range(3):  # a chain: a forest, whose leaves are sent to when somebody reads
        graph.add_factor([k, k + 1], rule=lambda a, b, k=k: scores[k][a, b])
    found = abp.infer(graph, "adaptive", tolerance=1e-11)
    _ = [np.full(3600, 7.0) for _ in range(2000)]  # where tables may have been
    expected = abp.infer(graph, "bp", tolerance=1e-11)
    np.testing.assert_allclose(found.marginals.concatenated(), expected.marginals.concatenated(), atol=1e-9)


def grid_of_rules(n, unary, rng, propose=None):
    """Return a loop of four variables with a smooth rule on each side."""
    graph = abp.FactorGraph()
    graph.add_variables(4, n)
    graph.add_factors([[0], [1], [2], [3]], log_table=rng.normal(0.0, unary, (4, n)))
    shift = rng.integers(0, n, 4)
    for k, pair in enumerate([[0, 1], [1, 2], [2, 3], [3, 0]]):
        rule = lambda a, b, k=k: -0.3 * np.minimum(np.abs(a - (b + shift[k]) % n), 20.0)  # noqa: E731
        graph.add_factor(pair, rule=rule, propose=propose)
    return graph


@pytest.mark.usefixtures("always_large")
@pytest.mark.parametrize("unary", [0.0, 1.0, 8.0])
def test_no_entry_on_the_domains_is_asked_for_twice(unary):
    graph = grid_of_rules(12, unary, np.random.default_rng(0))
    inference = abp.Inference(graph, "adaptive")
    last = [*inference][-1]
    assert last.work_parts["growth"] == 4 * 12 * 12


@pytest.mark.usefixtures("always_large")
def test_snapshots_are_consistent_on_growing_domains_and_say_what_is_left():
    rng = np.random.default_rng(1)
    graph = grid_of_rules(40, 6.0, rng)
    expected = abp.infer(graph, "bp", tolerance=1e-10)
    snapshots = list(abp.Inference(graph, "adaptive", tolerance=1e-10))
    assert len(snapshots) > 2
    for before, after in pairwise(snapshots):
        assert (after.domain_sizes >= before.domain_sizes).all()
        assert after.work >= before.work
    for snapshot in snapshots:
        assert snapshot.consistent
        assert all(np.isclose(marginal.sum(), 1.0) for marginal in snapshot.marginals.values())
        off = max(0.5 * np.abs(snapshot.marginals[k] - expected.marginals[k]).sum() for k in expected.marginals)
        assert off <= 10.0 * snapshot.unexplored_mass + 1e-2
    assert snapshots[-1].distance(expected) < 1e-9


@pytest.mark.usefixtures("always_large")
def test_variables_without_any_information_wait_and_are_answered_with_what_their_neighbours_say():
    """A chain from a known place: x1 is within a step of it, x2 within a step of x1; nobody else knows anything."""
    n = 400
    graph = abp.FactorGraph()
    graph.add_variables(3, n)
    step = lambda a, b: np.where(np.abs(a - b) <= 3, 0.0, -8.0)  # noqa: E731
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=step)
    inference = abp.Inference(graph, "adaptive", evidence={"x0": 200})
    first = next(inference)
    assert first.unexplored_mass == 1.0
    assert first.log_z == pytest.approx(np.log(n) * 2, abs=1e-9)  # as if the factors of x1 and x2 said nothing
    assert abs(int(first.marginals["x1"].argmax()) - 200) <= 3
    result = inference.run()
    assert result.distance(abp.infer(graph, "bp", evidence={"x0": 200})) < 1e-6


@pytest.mark.compiled  # thousands of states, so that memory runs short
def test_a_run_that_memory_stops_settles_and_says_so():
    graph = grid_of_rules(3000, 8.0, np.random.default_rng(2))
    limit = 12_000_000
    inference = abp.Inference(graph, "adaptive", max_memory=limit)
    result = inference.run()
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert result.consistent
    assert result.tolerance == 1e-8
    assert "grow in batches" in result.trace[-1].choice
    again = inference.run(seconds=1.0)
    assert again.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert again.distance(result) == 0.0
    assert result.unexplored_mass < 0.05


def test_proposed_candidates_are_all_that_is_looked_at():
    n, asked = 30_000, []

    def rule(a, b):
        asked.append(np.broadcast(a, b).size)
        return -0.5 * np.minimum(np.abs(a - b), 30.0)

    def propose(states, k):
        likely = next(one for one in states if one is not None)
        return np.unique(np.clip(np.add.outer(likely[:8], np.arange(-4, 5)), 0, n - 1))[:k]

    rng = np.random.default_rng(3)
    graph = abp.FactorGraph()
    graph.add_variables(3, n)
    unary = np.full((3, n), -14.0)
    for own, position in zip(unary, (1000, 1003, 1001), strict=True):
        own[position] = 2.0
        own[rng.integers(0, n, 20)] = 1.0
    graph.add_factors([[0], [1], [2]], log_table=unary)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=rule, propose=propose)
    result = abp.infer(graph, "adaptive", max_memory=100_000_000, target_error=1e-3)
    assert sum(asked) < 3 * n  # not even once over the universes
    assert [int(result.marginals[k].argmax()) for k in range(3)] == [1000, 1003, 1001]
    assert "propose" in result.trace[-1].choice


@pytest.mark.usefixtures("always_large")
def test_domains_that_admit_no_joint_state_grow_until_they_do():
    """The likely states of both variables exclude each other."""
    graph = abp.FactorGraph()
    graph.add_variables(2, 50)
    own = np.r_[np.zeros(5), np.full(45, -30.0)]
    graph.add_factors([[0], [1]], log_table=own)
    graph.add_factor([0, 1], rule=lambda a, b: np.where(a + b > 60, 0.0, -np.inf))
    result = abp.infer(graph, "adaptive")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.distance(abp.infer(graph, "bp")) < 1e-9


@pytest.mark.usefixtures("always_large")
def test_a_model_without_any_joint_state_is_called_inconsistent():
    graph = abp.FactorGraph()
    graph.add_variables(3, 40)
    graph.add_factor([0, 1], rule=lambda a, b: np.where(a < b, 0.0, -np.inf))
    graph.add_factor([1, 2], rule=lambda a, b: np.where(a + 20 * b < 0, 0.0, -np.inf))
    with pytest.raises(abp.InconsistentModelError, match="no joint state is possible"):
        abp.infer(graph, "adaptive")


@pytest.mark.compiled  # a hundred million entries
@pytest.mark.usefixtures("always_large")
def test_of_broad_unary_scores_a_few_states_are_drawn_for_all_variables():
    n, rng = 2000, np.random.default_rng(0)
    seen = rng.uniform(900.0, 1100.0, 4)
    graph = abp.FactorGraph()
    graph.add_variables(5, n)  # the last one has no scores, and waits
    graph.add_factors([[i] for i in range(4)], log_table=-0.5 * ((np.arange(n) - seen[:, None]) / 100.0) ** 2)
    for pair in ([0, 1], [1, 2], [2, 3], [3, 0], [3, 4]):
        graph.add_factor(pair, rule=lambda a, b: -0.5 * ((a - b) / 3.0) ** 2)
    inference = abp.Inference(graph, "adaptive", rng=0)
    first = next(iter(inference))
    assert first.domain_sizes.tolist() == [DRAWN] * 4 + [1]
    again = next(iter(abp.Inference(graph, "adaptive", rng=0)))
    assert again.marginals.concatenated().tolist() == first.marginals.concatenated().tolist()
    found = inference.run(max_work=10**8)
    assert (found.domain_sizes >= first.domain_sizes).all()
    near = sum(found.marginals[0][abs(np.arange(n) - seen.mean()) < 200.0])
    assert near > 0.99  # all are in one place: in the middle of where they were seen


def test_the_memory_of_domains_is_found_without_a_look_at_each_rule(monkeypatch):
    """A thousand rules are a thousand blocks: each look at all of them takes 20 ms, and domains need a dozen."""
    graph = grid_of_rules(40, 3.0, np.random.default_rng(0))
    needed, asked, found = LargeRounds._needed, [], []

    def watched(rounds, sizes):
        with monkeypatch.context() as patch:
            patch.setattr(FactorSource, "is_structured", lambda *_: asked.append(1))
            found.append(needed(rounds, sizes))
        return found[-1]

    monkeypatch.setattr(adaptive_run.AdaptiveRun, "_begin_with", lambda run: run._large())
    monkeypatch.setattr(LargeRounds, "_needed", watched)
    assert abp.infer(graph, "adaptive").consistent
    assert found
    assert asked == []
