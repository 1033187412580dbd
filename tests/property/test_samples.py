"""Random joint states, beside the probabilities of all of them."""

import numpy as np
import pytest

import anytimebp as abp
from oracle.enumeration import joint_log_scores

MOST = 60.0  # chi-square of 17 degrees of freedom is above this once in a million times


def made(scopes, seed=0):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variable("a", ["p", "q"])
    graph.add_variable("b", 3)
    graph.add_variable("c", 3)
    for scope in scopes:
        table = rng.normal(0, 1, [[2, 3, 3][i] for i in scope])
        table.flat[0] = -np.inf
        graph.add_factor(scope, log_table=table)
    return graph


def chi_square(states, joint):
    expected = np.exp(joint - joint.max())
    expected *= len(states) / expected.sum()
    counts = np.zeros(joint.shape)
    np.add.at(counts, tuple(states.T), 1.0)
    assert not counts[expected == 0.0].any()
    return float(((counts - expected)[expected > 0.0] ** 2 / expected[expected > 0.0]).sum())


@pytest.mark.parametrize(
    ("scopes", "method", "n"),
    [
        ([[0, 1], [1, 2]], "auto", 4000),
        ([[0, 1], [1, 2], [2, 0], [1]], "exact", 4000),
        ([[0, 1, 2], [0, 2]], "exact", 4000),
        ([[0, 1], [1, 2]], "bp", 300),
    ],
)
def test_joint_states_come_as_often_as_they_should(scopes, method, n):
    graph = made(scopes)
    samples = abp.sample(graph, n, rng=1, method=method)
    assert len(samples) == n
    assert samples.exact == (method != "bp")
    assert chi_square(samples.states, joint_log_scores(graph)) < MOST
    again = abp.sample(graph, 5, rng=1, method=method)
    assert np.array_equal(again.states, samples.states[:5])
    assert samples["a"][:3] == [["p", "q"][state] for state in samples.states[:3, 0]]


@pytest.mark.parametrize("method", ["exact", "bp"])
def test_evidence_holds(method):
    graph, scores = made([[0, 1], [1, 2], [2, 0]]), np.array([0.0, 1.0, -0.5])
    samples = abp.sample(graph, 400 if method == "exact" else 60, 2, {"b": {1, 2}, "c": scores}, method=method)
    joint = joint_log_scores(graph) + scores
    joint[:, 0] = -np.inf
    assert chi_square(samples.states, joint) < MOST


def test_scores_a_thousand_nats_apart_draw_the_likely_states():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    for scope in ([0, 1], [1, 2], [2, 0]):
        graph.add_factor(scope, log_table=[[0.0, -2000.0], [-2000.0, 0.0]])
    states = abp.sample(graph, 200, rng=0, method="exact").states
    assert (states == states[:, :1]).all()
    assert 50 < states[:, 0].sum() < 150


def test_bad_input_is_named():
    graph = made([[0, 1]])
    with pytest.raises(abp.OptionError, match="n must be"):
        abp.sample(graph, -1)
    with pytest.raises(abp.OptionError, match="method must be"):
        abp.sample(graph, 1, method="gibbs")
    for n in (10**13, 2**70):
        with pytest.raises(abp.MemoryLimitError, match="samples of 3 variables need"):
            abp.sample(graph, n)
    graph.add_factor([0, 1], table=np.array([[1.0, 0, 0], [0, 0, 0]]))
    with pytest.raises(abp.InconsistentModelError):
        abp.sample(graph, 1)
