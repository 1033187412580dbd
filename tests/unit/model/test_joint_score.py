"""The log score of a joint state, beside an enumeration of all of them."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.joint_score import joint_log_score
from oracle.enumeration import joint_log_scores


def graph_of_all_kinds():
    """Return a graph with tied, stacked and single tables, as potentials and as logs, a rule and a structure."""
    rng, graph = np.random.default_rng(0), abp.FactorGraph()
    graph.add_variables(4, 3)
    potentials, logs = rng.random((2, 3, 3)), rng.normal(size=(2, 3, 3))
    potentials[0, 1, 2], logs[1, 0, 0] = 0.0, -np.inf
    graph.add_factors([[0, 1], [1, 2]], table=potentials)
    graph.add_factors([[2, 3], [3, 0]], log_table=logs)
    graph.add_factors([[0, 2], [3, 1]], log_table=rng.normal(size=(3, 3)))
    graph.add_factors([[0], [1], [2]], table=rng.random((3, 3)))
    graph.add_factor([3], log_table=rng.normal(size=3))
    graph.add_factor([2, 0], table=potentials[0])
    graph.add_factor([1, 3], rule=lambda a, b: -0.5 * abs(a - b))
    graph.add_factor([1, 2], structure=abp.Equality(0.7, -0.3))
    return graph


def test_scores_are_those_of_an_enumeration():
    graph = graph_of_all_kinds()
    joint = joint_log_scores(graph)
    evidence = {1: {0, 2}, 3: np.array([0.5, -np.inf, -1.0])}
    known = read_evidence_mapping(evidence, graph.variables)
    for states in np.ndindex(joint.shape):
        wanted, at = joint[states], np.array(states)
        assert joint_log_score(graph.blocks, graph.variables, {}, at) == pytest.approx(wanted, abs=1e-12)
        wanted += evidence[3][states[3]] if states[1] != 1 else -np.inf
        assert joint_log_score(graph.blocks, graph.variables, known, at) == pytest.approx(wanted, abs=1e-12)
