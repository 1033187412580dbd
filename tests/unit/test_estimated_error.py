"""Estimated errors: always a number, small at the end, calibrated, and good enough to stop at."""

import math

import pytest

import anytimebp as abp
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
        with pytest.warns(abp.NotConvergedWarning):
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
