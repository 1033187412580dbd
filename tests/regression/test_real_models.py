"""Real models: converged runs agree with reference marginals of loopy BP, and others say that they did not converge."""

import numpy as np
import pytest
from oracle.models import worst
from oracle.uai import read_evidence, read_marginals, read_model

import anytimebp as abp

pytestmark = pytest.mark.compiled

CASES = [
    "279_ASP.uai",
    "CSP_12.uai",
    "ObjectDetection_11.uai",
    "ObjectDetection_24.uai",
    "alarm.uai",
    "alarm.uai.ev1",
    "mildew.uai",
    "pathfinder.uai",
    "pathfinder.uai.ev1",
    "pdb1fna.uai",
    "pdb1k51.uai",
    "pdb1mof.uai",
    "pdb1rh4.uai",
]


def load(folder, case):
    graph = read_model(folder / f"{case.split('.uai')[0]}.uai")
    return graph, read_evidence(folder / f"{case}.evid")


@pytest.mark.parametrize("method", ["bp", "residual"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_reference(models_folder, case, method):
    graph, evidence = load(models_folder, case)
    result = abp.infer(graph, method, evidence=evidence)
    reference = read_marginals(models_folder / f"{case}.LBP")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert worst(result, reference) < 1e-4


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_segmentation_ends_at_a_fixed_point(models_folder, method):
    graph, _ = load(models_folder, "Segmentation_11.uai")
    result = abp.infer(graph, method)
    assert result.stop_reason is abp.StopReason.CONVERGED


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_promedus_says_that_it_does_not_settle(models_folder, method):
    graph, evidence = load(models_folder, "Promedus_11.uai")
    with pytest.warns(abp.NotConvergedWarning):
        result = abp.infer(graph, method, evidence=evidence)
    assert result.stop_reason is abp.StopReason.NOT_CONVERGED
    assert not result.consistent
    assert all(np.isfinite(m).all() for m in result.marginals.values())
