"""Parts with messages of their own, which swap what they say about shared variables: the fixed point of one run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.inference import Inference
from anytimebp.parallel.exchange import Limits
from anytimebp.parallel.on_ray import Whole
from anytimebp.parallel.part_workers import LocalWorkers
from anytimebp.parallel.splitting import evidence_of, split
from oracle.cut_graphs import agree, random_graph
from oracle.examples import examples
from oracle.models import spin_glass

NO_LIMITS = Limits()


def in_parts(graph, home, *, evidence=None, tolerance=1e-10, workers=2, limits=NO_LIMITS, **options):
    options = Inference(graph, "bp", evidence=evidence, tolerance=tolerance, **options).options
    cut = split(graph, home)
    parts = [(part, evidence_of(options.observed, cut, number)) for number, part in enumerate(cut.parts)]
    held = LocalWorkers(parts.__getitem__, len(parts), options, workers)
    try:
        return Whole(graph, cut, held, options).result(limits)
    finally:
        held.close()


def _homes(graph, seed, parts):
    return np.random.default_rng(seed).integers(0, parts, len(graph.variables))


@given(st.integers(0, 2**20), st.integers(1, 6), st.sampled_from(["", "zeros", "wide"]))
@settings(max_examples=examples(30), deadline=None)
def test_parts_cut_at_random_end_at_the_fixed_point_of_one_run(seed, parts, trait):
    graph = random_graph(seed, **({trait: True} if trait else {}))
    evidence = None
    if seed % 3 == 0:
        evidence = {"v2": 0, "v3": {0, 1}, "v4": np.linspace(0.0, 1.5, len(graph.variables[4].labels))}
    alone = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-10)
    swapped = in_parts(graph, _homes(graph, seed, parts), evidence=evidence)
    agree(alone, swapped)
    np.testing.assert_array_equal(swapped.domain_sizes, alone.domain_sizes)


@given(st.integers(0, 2**20))
@settings(max_examples=10, deadline=None)
def test_what_settled_in_parts_is_a_fixed_point_of_the_whole_to_the_tolerance(seed):
    graph, tolerance = random_graph(seed), 1e-3
    exact = abp.infer(graph, "bp", tolerance=1e-12)
    swapped = in_parts(graph, _homes(graph, seed, 3), tolerance=tolerance)
    assert swapped.consistent
    assert swapped.max_residual <= tolerance
    assert swapped.distance(exact) < 10 * tolerance


@pytest.mark.parametrize("workers", [1, 3])
def test_threads_that_answer_in_turn_can_be_repeated(workers):
    graph = random_graph(11)
    one, other = (in_parts(graph, _homes(graph, 1, 4), workers=workers) for _ in range(2))
    np.testing.assert_array_equal(one.marginals.concatenated(), other.marginals.concatenated())
    assert (one.log_z, one.work, one.updates) == (other.log_z, other.work, other.updates)


def test_a_budget_ends_the_run_and_what_is_known_is_not_called_consistent():
    graph = random_graph(4)
    result = in_parts(graph, _homes(graph, 4, 3), limits=Limits(max_updates=1))
    assert result.stop_reason is abp.StopReason.OUT_OF_UPDATES
    assert not result.consistent
    assert np.isfinite(result.marginals.concatenated()).all()


def test_an_impossible_model_is_reported_from_parts():
    graph = abp.FactorGraph()
    graph.add_variables(12, 2)
    graph.add_factors([[i, (i + 1) % 12] for i in range(12)], table=np.eye(2))
    graph.add_factor([0, 6], table=1 - np.eye(2))
    graph.add_factors([[0], [6]], table=[1.0, 0.0])
    with pytest.raises(abp.InconsistentModelError, match="no joint state is possible"):
        in_parts(graph, np.arange(12) // 4)


@pytest.mark.compiled
@pytest.mark.parametrize("seed", [3, 4])
def test_a_model_on_which_bp_does_not_settle_is_not_called_converged(seed):
    graph = spin_glass(seed=seed)
    home = np.arange(len(graph.variables)) * 3 // len(graph.variables)
    with pytest.warns(abp.NotConvergedWarning):
        result = in_parts(graph, home, tolerance=1e-8)
    assert result.stop_reason is abp.StopReason.NOT_CONVERGED
    assert not result.consistent
    assert np.isfinite(result.marginals.concatenated()).all()


@pytest.mark.parametrize("name", ["alarm", "pathfinder", "ObjectDetection_11", "279_ASP", "pdb1rh4"])
def test_real_models_in_parts_have_the_marginals_of_bp(models_folder, name):
    graph = abp.read_model(models_folder / f"{name}.uai")
    evidence = abp.read_evidence(models_folder / f"{name}.uai.evid", graph)
    home = np.arange(len(graph.variables)) * 4 // len(graph.variables)
    agree(abp.infer(graph, "bp", evidence=evidence), in_parts(graph, home, evidence=evidence, tolerance=1e-8))
