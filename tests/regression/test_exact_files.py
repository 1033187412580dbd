"""Real models whose exact marginals and log Z others have computed: `exact` agrees to the digits of the files."""

import math

import numpy as np
import pytest

import anytimebp as abp
from oracle.models import worst
from oracle.uai import read_evidence, read_marginals, read_model

pytestmark = pytest.mark.compiled

SIX_DIGITS, TWELVE_DIGITS = 6e-7, 6e-13
CASES = {
    "CSP_12.uai": SIX_DIGITS,
    "Promedus_11.uai": SIX_DIGITS,
    "Segmentation_11.uai": SIX_DIGITS,
    "alarm.uai": TWELVE_DIGITS,
    "alarm.uai.ev1": TWELVE_DIGITS,
    "mildew.uai": TWELVE_DIGITS,
    "mildew.uai.ev1": TWELVE_DIGITS,
    "pathfinder.uai": TWELVE_DIGITS,
    "pathfinder.uai.ev1": TWELVE_DIGITS,
    "pdb1fna.uai": TWELVE_DIGITS,
    "pdb1k51.uai": TWELVE_DIGITS,
    "pdb1mof.uai": TWELVE_DIGITS,
    "pdb1rh4.uai": TWELVE_DIGITS,
}


def load(folder, case):
    graph = read_model(folder / f"{case.split('.uai')[0]}.uai")
    return graph, read_evidence(folder / f"{case}.evid")


@pytest.mark.parametrize(("case", "digits"), CASES.items())
def test_agrees_with_the_files(models_folder, case, digits):
    graph, evidence = load(models_folder, case)
    result = abp.infer(graph, "exact", evidence=evidence)
    assert result.exact
    assert worst(result, read_marginals(models_folder / f"{case}.MAR")) < digits
    log10_z = (models_folder / f"{case}.PR").read_text().split()[-1]
    half_a_digit = 0.51 * 10.0 ** -len(log10_z.partition(".")[2])
    assert result.log_z / math.log(10.0) == pytest.approx(float(log10_z), abs=half_a_digit)


@pytest.mark.parametrize("case", ["alarm.uai", "alarm.uai.ev1", "pathfinder.uai", "pathfinder.uai.ev1"])
def test_the_default_is_exact_where_that_takes_milliseconds(models_folder, case):
    graph, evidence = load(models_folder, case)
    result = abp.infer(graph, evidence=evidence)
    assert result.method == "exact"
    assert worst(result, read_marginals(models_folder / f"{case}.MAR")) < TWELVE_DIGITS


def test_a_model_that_is_too_wide_says_so(models_folder):
    graph, evidence = load(models_folder, "ObjectDetection_24.uai")
    result = abp.infer(graph, evidence=evidence)
    assert result.method == "adaptive"
    assert not result.exact
    assert "exact inference would need cliques of more than" in result.choice
    assert np.isfinite(result.estimated_error)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "case", ["pdb1fna.uai", "pdb1k51.uai", "pdb1mof.uai", "pdb1rh4.uai", "CSP_12.uai", "Promedus_11.uai"]
)
def test_models_cut_to_likely_states_have_lower_bounds_that_rise(models_folder, case):
    graph, evidence = load(models_folder, case)
    whole = abp.infer(graph, "exact", evidence=evidence)
    found = list(abp.Inference(graph, "exact", evidence=evidence, max_memory=6_000_000))
    bounds = [snapshot.log_z for snapshot in found]
    assert np.all(np.diff(bounds) >= -1e-9)
    assert max(bounds) <= whole.log_z + 1e-9
    if case.startswith("pdb"):
        assert worst(found[-1], read_marginals(models_folder / f"{case}.MAR")) < 1e-3
