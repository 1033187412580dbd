"""Estimated errors: always a number, small at the end, calibrated, and good enough to stop at."""

import math

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.engine.estimated_error import SweepError
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
    layout = compiled_graph(pair(2)).arrays
    belief = np.array([1.0 - 1e-4, 1e-4, 0.5, 0.5])
    error = SweepError(layout, np.array([9.0, 0.0]), belief, np.array([0, 2, 4]), 0.8)
    assert 0.1 < error() < np.sqrt(2.0)
    assert SweepError(layout, np.array([1e-6, 0.0]), belief, np.array([0, 2, 4]), 0.8)() < 1e-9


@pytest.mark.compiled
def test_a_state_that_is_answered_has_the_error_that_was_estimated_for_it():
    graph = grid(5, 60, 3.0, 3.0, seed=3)
    end = abp.infer(graph)
    result = abp.infer(graph, target_error=1e-4)
    assert result.stop_reason is abp.StopReason.TARGET_REACHED
    assert result.estimated_error <= 1e-4
    assert result.distance(end) < 3e-4


def test_first_domains_beyond_the_memory_are_not_begun():
    graph = abp.FactorGraph()
    graph.add_variables(3, 1000)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=lambda a, b: -(((a - b) / 1000) ** 2))
    run = abp.Inference(graph, max_memory=2_000_000)
    run.run(max_updates=1)
    assert run._run.choice.startswith("domains that grow in batches")


def pair(states):
    graph = abp.FactorGraph()
    graph.add_variables(2, states)
    graph.add_factor([0, 1], log_table=np.zeros((states, states)))
    return graph
