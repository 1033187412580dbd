"""Pairs of states that are unlikely each and likely together: estimates of what is outside the domains see them."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.look import outside_pairs

K = 300
MEMORY = 1_200_000  # bytes that a rule of so many pairs of states does not fit into


def pair(states, unary, **scores):
    graph = abp.FactorGraph()
    graph.add_variables(2, states)
    graph.add_factors([[0], [1]], log_table=np.array([unary, unary]))
    graph.add_factor([0, 1], **scores)
    return graph


def needle(x, y):
    return np.where((x == 7) & (y == 9), 100.0, 0.0)


def peak():
    unary = np.zeros(K)
    unary[0] = 40.0
    return unary


@pytest.mark.parametrize("kind", ["rule", "log_table"])
def test_target_error_is_not_reached_while_a_heavy_pair_is_outside(kind):
    scores = {"rule": needle} if kind == "rule" else {"log_table": needle(*np.ogrid[:K, :K])}
    inference = abp.Inference(pair(K, peak(), **scores), "dynamic")
    assert inference.run(max_updates=3).estimated_error > 1.0
    result = inference.run(target_error=1e-2)
    assert result.top("x0", 1)[0][0] == 7


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
def test_adaptive_under_a_memory_limit_says_that_a_heavy_pair_is_outside():
    result = abp.infer(pair(K, peak(), rule=needle), "adaptive", max_memory=MEMORY)
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert result.estimated_error > 1.0
    assert result.unexplored_mass > 0.9


@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_all_pairs_of_a_small_factor_are_counted_exactly(arity, zeros, monkeypatch):
    monkeypatch.setattr(outside_pairs, "BLOCK", 7)
    monkeypatch.setattr(outside_pairs, "NEGLIGIBLE", 0.0)
    rng = np.random.default_rng(arity)
    scores = rng.normal(0.0, 2.0, (6,) * arity)
    scores[rng.random(scores.shape) < zeros] = -np.inf
    graph = abp.FactorGraph()
    graph.add_variables(arity, 6)
    graph.add_factor(list(range(arity)), rule=lambda *states: scores[states])
    result = abp.infer(graph, "truncated", fraction=0.5)
    inside = [marginal > 0.0 for marginal in result.marginals.values()]
    joint = np.exp(scores)
    count = sum(
        np.logical_not(own).reshape([-1 if k == axis else 1 for k in range(arity)]) for axis, own in enumerate(inside)
    )
    count = np.broadcast_to(count, scores.shape)
    shares = []
    for axis, own in enumerate(inside):
        is_out = np.broadcast_to(
            np.logical_not(own).reshape([-1 if k == axis else 1 for k in range(arity)]), scores.shape
        )
        mass = joint[is_out & (count <= 2)].sum() / joint[count == 0].sum()
        shares.append(mass / (1.0 + mass))
    assert result.unexplored_mass == pytest.approx(max(shares))


def test_many_pairs_are_sampled_without_bias(monkeypatch):
    monkeypatch.setattr(outside_pairs, "MOST_PAIRS", 2500)
    rng = np.random.default_rng(0)
    unary, scores = rng.normal(0.0, 1.0, 200), rng.normal(0.0, 0.5, (200, 200))
    whole = abp.infer(pair(200, unary, log_table=scores), "truncated", fraction=0.1).unexplored_mass
    monkeypatch.setattr(outside_pairs, "MOST_PAIRS", 10**6)
    exact = abp.infer(pair(200, unary, log_table=scores), "truncated", fraction=0.1).unexplored_mass
    assert np.log(whole / (1 - whole)) == pytest.approx(np.log(exact / (1 - exact)), abs=0.2)


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
def test_looking_at_pairs_is_work_and_deterministic():
    asked = []

    def counted(x, y):
        asked.append(np.broadcast(x, y).size)
        return needle(x, y)

    one = abp.infer(pair(K, peak(), rule=counted), "adaptive", max_memory=MEMORY)
    assert one.current.work - one.current.work_parts["messages"] == sum(asked)
    again = abp.infer(pair(K, peak(), rule=needle), "adaptive", max_memory=MEMORY)
    assert again.estimated_error == one.estimated_error


@pytest.mark.parametrize("most", [1, 4096])
def test_a_heavy_pair_is_seen_among_many_factors_with_hard_zeros(most, monkeypatch):
    monkeypatch.setattr(outside_pairs, "MOST_FACTORS", most)
    graph = pair(3, np.array([0.0, 0.0, -60.0]), log_table=np.where(np.indices((3, 3)).sum(axis=0) == 4, 130.0, 0.0))
    zero = np.zeros((3, 3))
    zero[0, 1] = -np.inf
    first = graph.add_variables(12, 3)
    rows = np.array(first).reshape(6, 2)
    graph.add_factors(np.array(first)[:, None], log_table=np.array([0.0, -1.0, -30.0]))
    graph.add_factors(rows, log_table=zero)
    result = abp.infer(graph, "dynamic", target_error=1e-4)
    assert result.top("x0", 1)[0][0] == 2
