"""Estimated errors of all stages of `adaptive`."""

import math

import pytest

import anytimebp as abp
from oracle.calibration import SMALL, check_targets, ratios

pytestmark = pytest.mark.usefixtures("every_stage")


@pytest.mark.parametrize("kind", SMALL)
def test_it_is_a_number_in_every_stage_and_small_at_the_end(kind):
    for seed in range(3):
        inference = abp.Inference(SMALL[kind](seed), "adaptive")
        errors = [snapshot.estimated_error for snapshot in inference]
        assert all(error >= 0.0 for error in errors)
        assert errors[-1] <= 1e-6
        known = [moment.estimated_error for moment in inference.run().trace]
        assert all(math.isnan(error) or error >= 0.0 for error in known)


@pytest.mark.compiled
def test_most_estimates_of_every_stage_are_near_the_truth_or_above_it():
    found = ratios("adaptive")
    assert len(found) > 60
    assert (found > 0.2).mean() >= 0.9
    assert (found < 1 / 3).mean() <= 0.05


@pytest.mark.compiled
@pytest.mark.parametrize("target", [1e-2, 1e-4])
def test_a_target_stops_every_stage_early_with_an_error_of_about_that(target):
    check_targets("adaptive", target, least=15)
