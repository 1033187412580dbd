"""Real models: converged runs agree with reference marginals of loopy BP, and others say that they did not converge."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.joint_score import joint_log_score
from oracle.models import worst
from oracle.slow_bp import SlowBP, load_messages
from oracle.slow_growth import domains_of, restricted, take_messages
from oracle.uai import read_evidence, read_marginals, read_model

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


@pytest.mark.parametrize("method", ["bp", "residual", "random", "fixed", "dynamic"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_reference(models_folder, case, method):
    graph, evidence = load(models_folder, case)
    result = abp.infer(graph, method, evidence=evidence, rng=0)
    reference = read_marginals(models_folder / f"{case}.LBP")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert worst(result, reference) < 1e-4


@pytest.mark.parametrize("method", ["random", "fixed", "dynamic"])
@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("Object", "pdb"))])
def test_grown_to_the_end_equals_bp(models_folder, case, method):
    graph, evidence = load(models_folder, case)
    reference = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-12)
    result = abp.infer(graph, method, evidence=evidence, rng=1)
    assert worst(result, [reference.marginals[i] for i in range(len(reference.marginals))]) < 1e-6


@pytest.mark.parametrize("method", ["random", "fixed", "dynamic"])
def test_grown_to_the_end_is_a_fixed_point_of_the_full_model(models_folder, method):
    graph = observed(*load(models_folder, "Segmentation_11.uai"))
    inference = abp.Inference(graph, method, rng=0)
    assert inference.run().stop_reason is abp.StopReason.CONVERGED
    slow = restricted(graph, domains_of(inference._run.method))
    take_messages(slow, inference._run.method)
    assert slow.residual() <= 1e-8


def observed(graph, evidence):
    """Return the same model with its evidence as unary factors, which the slow twin understands."""
    for index, state in evidence.items():
        scores = np.full(graph.variables[index].n_states, -np.inf)
        scores[state] = 0.0
        graph.add_factor([index], log_table=scores)
    return graph


@pytest.mark.parametrize("method", ["bp", "residual"])
@pytest.mark.parametrize("case", ["Segmentation_11.uai", "Promedus_11.uai"])
def test_models_with_several_fixed_points_end_at_one(models_folder, case, method):
    graph = observed(*load(models_folder, case))
    inference = abp.Inference(graph, method)
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    slow = SlowBP(graph)
    load_messages(slow, inference._run.method)
    assert slow.residual() <= 1e-8


def test_where_flooding_does_not_settle_a_short_run_says_so(models_folder):
    graph, evidence = load(models_folder, "Promedus_11.uai")
    result = abp.infer(graph, "bp", evidence=evidence, max_updates=2000)
    assert result.stop_reason is abp.StopReason.OUT_OF_UPDATES
    assert not result.consistent
    assert all(np.isfinite(m).all() for m in result.marginals.values())


@pytest.mark.parametrize("case", ["alarm.uai.ev1", "pathfinder.uai.ev1", "mildew.uai.ev1"])
def test_evidence_given_as_unary_factors_is_the_same(models_folder, case):
    graph, evidence = load(models_folder, case)
    restricted = abp.infer(graph, "bp", evidence=evidence)
    scored = abp.infer(observed(graph, evidence), "bp")
    assert restricted.consistent
    assert worst(scored, list(restricted.marginals.values())) < 1e-7
    assert scored.log_z == pytest.approx(restricted.log_z, abs=1e-6)
    assert restricted.work < scored.work


PROVEN = ["alarm", "pathfinder", "Segmentation_11", "ObjectDetection_11", "pdb1rh4"]


@pytest.mark.parametrize("name", PROVEN)
def test_the_best_joint_state_scores_at_least_as_much_as_the_likeliest_states(models_folder, name):
    path = models_folder / f"{name}.uai"
    graph = abp.read_model(path)
    observed = abp.read_evidence(path.with_name(f"{name}.uai.evid"), graph)
    found, marginals = abp.infer_map(graph, evidence=observed), abp.infer(graph, evidence=observed).marginals
    states = np.array([int(marginals[i].argmax()) for i in range(len(graph.variables))])
    known = read_evidence_mapping(observed, graph.variables)
    assert found.exact
    assert found.log_score >= joint_log_score(graph.blocks, graph.variables, known, states) - 1e-9


HARDER = [
    "279_ASP",
    "CSP_12",
    "ObjectDetection_24",
    "Promedus_11",
    "mildew",
    "pdb1fna",
    "pdb1i24",
    "pdb1k51",
    "pdb1mof",
]


@pytest.mark.parametrize("name", HARDER)
def test_a_search_reaches_the_score_of_the_likeliest_states(models_folder, name):
    path = models_folder / f"{name}.uai"
    graph = abp.read_model(path)
    observed = abp.read_evidence(path.with_name(f"{name}.uai.evid"), graph)
    marginals = abp.infer(graph, "bp", evidence=observed, tolerance=1e-3, max_updates=200 * graph.n_factors).marginals
    states = np.array([int(marginals[i].argmax()) for i in range(len(graph.variables))])
    known = read_evidence_mapping(observed, graph.variables)
    rounded = max(joint_log_score(graph.blocks, graph.variables, known, states), np.finfo(np.float64).min)
    found = abp.infer_map(graph, evidence=observed, callback=lambda moment: moment.log_score >= rounded)
    assert found.log_score >= rounded
    assert found.upper_bound >= found.log_score
