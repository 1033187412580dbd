"""The search for the best joint state on likely states, where tables over all states do not fit into memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference import best_state
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.tables.log_tables import log_table_bytes
from oracle.enumeration import joint_log_scores
from oracle.examples import examples
from oracle.models import random_loopy

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")


@pytest.fixture
def never_fits(monkeypatch):
    monkeypatch.setattr(best_state, "_fits", lambda *_: False)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]))
def test_the_score_is_that_of_the_state_and_no_single_variable_can_raise_it(seed, zeros):
    graph = random_loopy(seed, zeros=zeros)
    joint = joint_log_scores(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_state, "_fits", lambda *_: False)
        try:
            result = abp.infer_map(graph, "bp")
        except abp.InconsistentModelError:
            assert joint.max() == -np.inf
            return
    assert result.choice
    assert result.upper_bound == np.inf
    assert not result.exact
    states = tuple(result.assignment.values())
    assert result.log_score == pytest.approx(joint[states], abs=1e-9)
    if result.log_score > -np.inf:
        assert result.stop_reason is abp.StopReason.NO_BETTER_STATE
        for axis in range(joint.ndim):
            line = joint[tuple(slice(None) if k == axis else s for k, s in enumerate(states))]
            assert line.max() <= result.log_score + 1e-8


def test_small_models_are_mostly_solved(never_fits):
    found = []
    for seed in range(30):
        graph = random_loopy(seed)
        found.append(abp.infer_map(graph, "bp").log_score >= joint_log_scores(graph).max() - 1e-9)
    assert np.mean(found) > 0.9


@pytest.mark.compiled
def test_rules_over_large_universes_are_searched_on_likely_states():
    rng, n = np.random.default_rng(0), 6_000
    place, graph = rng.random((n, 2)), abp.FactorGraph()
    graph.add_variables(3, n)
    scores = 3.0 * rng.normal(0, 1, (3, n))
    graph.add_factors([[0], [1], [2]], log_table=scores)
    for pair in ([0, 1], [1, 2]):
        graph.add_factor(pair, rule=lambda a, b: -20.0 * np.abs(place[a, 0] - place[b, 1]))
    result = abp.infer_map(graph, max_memory=20_000_000)
    assert result.choice
    best = scores[1].copy()  # a chain: both neighbours are maximised out
    for part in np.array_split(np.arange(n), 200):
        best[part] += (scores[0] - 20.0 * np.abs(place[:, 0] - place[part, 1][:, None])).max(axis=1)
        best[part] += (scores[2] - 20.0 * np.abs(place[part, 0][:, None] - place[:, 1])).max(axis=1)
    assert result.log_score == pytest.approx(best.max(), abs=1e-9)


@pytest.mark.compiled
def test_structures_over_large_universes_are_obeyed():
    rng, n = np.random.default_rng(1), 65_536
    graph, truth = abp.FactorGraph(), rng.integers(0, n, 3)
    graph.add_variables(6, n)
    scores = rng.normal(0, 1, (5, n))
    for k, state in zip((0, 1, 2), truth.tolist(), strict=True):
        scores[k, state] += 15.0
    total = int(np.bitwise_xor.reduce(truth))
    scores[4, total] += 15.0
    graph.add_factors([[k] for k in range(5)], log_table=scores)
    graph.add_factor([0, 1, 3], structure=abp.Xor())
    graph.add_factor([3, 2, 4], structure=abp.Xor())
    graph.add_factor([4, 5], structure=abp.Deterministic(lambda a: (a * 5 + 1) % n))
    result = abp.infer_map(graph)
    assert result.choice
    first = int(truth[0] ^ truth[1])
    assert list(result.assignment.values()) == [*truth.tolist(), first, total, (total * 5 + 1) % n]


def test_evidence_restricts_the_search(never_fits):
    graph = random_loopy(5)
    names = graph.variables.names()
    n = [variable.n_states for variable in graph.variables]
    some = {names[0]: n[0] - 1, names[1]: set(range(max(1, n[1] - 1)))}
    result = abp.infer_map(graph, "bp", evidence=some)
    assert result.assignment[names[0]] == n[0] - 1
    assert result.assignment[names[1]] in some[names[1]]


def test_without_time_there_is_an_answer(never_fits):
    result = abp.infer_map(random_loopy(3), "bp", seconds=0.0)
    assert result.stop_reason is abp.StopReason.OUT_OF_TIME
    assert result.log_score < np.inf


def test_bytes_of_tables_count_shared_ones_once():
    graph = abp.FactorGraph()
    graph.add_variables(4, 5)
    graph.add_factors([[0, 1], [1, 2], [2, 3]], log_table=np.zeros((5, 5)))
    compiled = compiled_graph(graph)
    assert log_table_bytes(compiled, compiled.universe_sizes) == 8 * 25 + 24 * 6 * 5
    assert log_table_bytes(compiled, np.array([5, 5, 5, 2])) == 8 * (25 + 10) + 24 * (5 * 5 + 2)
