"""Estimated errors: always a number, small at the end, calibrated, and good enough to stop at."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.budget import Target
from anytimebp.inference.control.estimated_error import LARGEST, BeliefHistory, SweepError, moved_by
from anytimebp.layout.graph_layout import compiled_graph
from oracle.calibration import SMALL, check_targets, ratios
from oracle.models import grid


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("method", abp.METHODS)
def test_it_is_a_number_on_every_snapshot_and_small_at_the_end(method, kind):
    if method in {"random", "fixed", "dynamic"} and kind in {"hub", "peaked"}:
        graph = grid(2, 3, 2.0, 0.5, seed=0)  # hundreds of rounds elsewhere
    else:
        graph = SMALL[kind](1)
    errors = [snapshot.estimated_error for snapshot in abp.Inference(graph, method, rng=0)]
    assert all(error >= 0.0 for error in errors)
    if method != "truncated":
        assert errors[-1] <= 1e-6


def test_before_the_first_sweep_anything_is_possible():
    for method in abp.METHODS:
        result = abp.infer(grid(3, 4, 1.0, 0.5, seed=0), method, max_updates=0, rng=0)
        assert result.estimated_error == math.inf


def test_snapshots_carry_it_when_asked_for_later():
    at_once = [s.estimated_error for s in abp.Inference(grid(3, 5, 3.0, 0.5, 0), "bp")]
    later = [s.estimated_error for s in list(abp.Inference(grid(3, 5, 3.0, 0.5, 0), "bp"))]
    assert later == at_once
    assert len(set(at_once)) > 2


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["bp", "residual", "dynamic"])
def test_most_estimates_are_near_the_truth_or_above_it(method):
    found = ratios(method)
    assert len(found) > 100
    assert (found > 0.2).mean() >= 0.9
    assert (found < 1 / 3).mean() <= 0.05


@pytest.mark.compiled
@pytest.mark.parametrize("target", [1e-2, 1e-4])
@pytest.mark.parametrize("method", ["bp", "residual", "dynamic", "adaptive"])
def test_a_target_stops_early_with_an_error_of_about_that(method, target):
    check_targets(method, target, least=7)


def test_a_target_that_is_reached_can_be_tightened():
    graph = grid(3, 5, 3.0, 0.5, seed=0)
    inference = abp.Inference(graph, "adaptive")
    loose = inference.run(target_error=1e-1)
    tight = inference.run(target_error=1e-6)
    assert loose.stop_reason is tight.stop_reason is abp.StopReason.TARGET_REACHED
    assert tight.updates > loose.updates
    assert inference.run().stop_reason is abp.StopReason.CONVERGED


def test_messages_that_move_by_nats_may_turn_a_belief_round():
    def error(nats):
        history, start = BeliefHistory(START), START
        trend = partial(history.trend, (), 3.0, BELIEF)
        return SweepError(
            compiled_graph(pair(2)).arrays.edge_variable, np.array([nats, 0.0]), BELIEF, start, trend, 1e-8
        )()

    assert 0.1 < error(9.0) < np.sqrt(2.0)
    assert 0.0 < error(1e-6) < 1e-9


START, BELIEF = np.array([0, 2, 4]), np.array([1.0 - 1e-4, 1e-4, 0.5, 0.5])


@pytest.mark.parametrize("nats", [1e-9, 0.1, 5.0, 30.0, 800.0])
def test_what_messages_can_do_to_a_belief_is_what_pushing_its_odds_does(nats):
    belief = np.array([0.7, 0.3, 1.0, 0.0, 0.4, 0.4, 0.2, 1.0, 1.0 - 1e-30, 1e-30])
    start = np.array([0, 2, 4, 7, 8, 10])
    turned, is_certain = moved_by(belief, start, np.full(5, nats))
    for variable, (first, end) in enumerate(pairwise(start)):
        mine = sorted((log_of(value) for value in belief[first:end]), reverse=True)
        if len(mine) == 1:
            assert turned[variable] == 0.0
            continue
        odds = math.log(sum(math.exp(value - mine[1]) for value in mine[1:])) + mine[1] - mine[0]
        moves = [abs(logistic(odds + push) - logistic(odds)) for push in (-nats, nats)]
        assert turned[variable] == pytest.approx(LARGEST * max(moves), rel=1e-6, abs=1e-15)
        assert is_certain[variable] == (odds < -8.0)


def log_of(value):
    return math.log(max(value, 1e-300))


def logistic(x):
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else math.exp(x)


def cycle(scores, scale):
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    for scope, table in zip(([0], [1], [2], [0, 1], [1, 2], [2, 0]), scores, strict=True):
        graph.add_factor(scope, log_table=scale * np.array(table))
    return graph


PEAKED = (
    [27.7, 661.2],
    [-110.2, -390.4],
    [-1061.9, -603.1],
    [[357.0, 1484.3], [-110.6, -1581.9]],
    [[-651.2, 923.1], [66.7, 899.2]],
    [[0.5, -180.6], [-1159.4, -261.9]],
)


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_a_belief_that_rounds_to_one_does_not_hide_what_messages_still_move(method, scale):
    graph = cycle(PEAKED, scale)
    end = abp.infer(graph, "bp")
    for snapshot in abp.Inference(graph, method):
        assert snapshot.estimated_error >= snapshot.distance(end) / 3
    assert abp.infer(graph, method, target_error=0.01).distance(end) < 0.01


@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_is_stopped_within_a_sweep_never_says_zero(seed):
    graph, reference = chain_with_a_loop(seed)
    run = abp.Inference(graph, "bp")
    seen = 0
    for _ in range(60):
        result = run.run(max_updates=1)
        if run.stop_reason:
            break
        seen += math.isfinite(result.estimated_error)
        assert result.estimated_error > 0.05 * result.distance(reference)
        assert result.estimated_error > 0.0
    assert seen > 20


def chain_with_a_loop(seed, states=5, length=8):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(length, states)
    graph.add_factors(np.arange(length)[:, None], log_table=rng.normal(0, 1, (length, states)))
    scopes = [[i, i + 1] for i in range(length - 1)] + [[0, 1]]
    graph.add_factors(scopes, log_table=rng.normal(0, 2, (length, states, states)))
    return graph, abp.infer(graph, "bp", tolerance=1e-11)


@pytest.mark.compiled  # it takes many updates until a run is given up
@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
@pytest.mark.parametrize("method", ["dynamic", "fixed"])
def test_full_domains_that_never_settled_are_not_without_error(method):
    rng = np.random.default_rng(48)
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    for _ in range(4):
        scope = rng.choice(4, 3, replace=False)
        graph.add_factor(scope.tolist(), table=np.exp(rng.normal(0, 1, (2, 2, 2))) * (rng.random((2, 2, 2)) > 0.35))
    result = abp.infer(graph, method, rng=0)
    if not result.consistent:
        assert result.estimated_error > 0.1
    result = abp.infer(graph, method, target_error=1e-3)
    assert result.stop_reason is not abp.StopReason.TARGET_REACHED


class Looked:
    """A run, as far as a target looks at it, and a snapshot of it."""

    states, can_be_judged, n_states = 1, True, 2

    def __init__(self, rounds, error, *, consistent=False):
        self.rounds, self.estimated_error, self.consistent = rounds, error, consistent
        self.domain_sizes = np.array([2])


def test_a_state_that_has_not_settled_must_be_under_the_target_twice_in_a_row():
    target = Target(0.01)
    looks = [Looked(k, error) for k, error in enumerate((0.001, 0.02, 0.005, 0.004))]
    assert [target.is_worth_a_look(look) and target.is_reached(look, look) for look in looks] == [False] * 3 + [True]
    settled = Looked(0, 0.001, consistent=True)
    assert Target(0.01).is_reached(settled, settled)


@pytest.mark.compiled
def test_a_state_that_is_answered_has_the_error_that_was_estimated_for_it():
    graph = grid(5, 60, 3.0, 3.0, seed=3)
    end = abp.infer(graph, "adaptive")
    result = abp.infer(graph, "adaptive", target_error=1e-4)
    assert result.stop_reason is abp.StopReason.TARGET_REACHED
    assert result.estimated_error <= 1e-4
    assert result.distance(end) < 3e-4


def test_first_domains_beyond_the_memory_are_not_begun():
    graph = abp.FactorGraph()
    graph.add_variables(3, 1000)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=lambda a, b: -(((a - b) / 1000) ** 2))
    run = abp.Inference(graph, "adaptive", max_memory=2_000_000)
    run.run(max_updates=1)
    assert run._run.figures.choice.startswith("domains that grow in batches")


def pair(states):
    graph = abp.FactorGraph()
    graph.add_variables(2, states)
    graph.add_factor([0, 1], log_table=np.zeros((states, states)))
    return graph
