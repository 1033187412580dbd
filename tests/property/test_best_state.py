"""The most probable joint state, beside an enumeration of all of them."""

import signal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from oracle.enumeration import joint_log_scores
from oracle.examples import examples
from oracle.models import random_tree


def any_graph(seed, zeros, *, whole_numbers):
    """Return a small graph with loops, of factors of up to four variables and of several kinds."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    sizes = rng.integers(1, 4, 5).tolist()
    for i, n in enumerate(sizes):
        graph.add_variable(f"x{i}", n)
    for arity in (1, 2, 2, 2, 3, 4):
        scope = rng.permutation(5)[:arity].tolist()
        shape = [sizes[i] for i in scope]
        table = rng.integers(-2, 3, shape).astype(float) if whole_numbers else rng.normal(0, 2, shape)
        table[rng.random(shape) < zeros] = -np.inf
        table.flat[rng.integers(table.size)] = 0.5
        kind = rng.integers(3)
        if kind == 0:
            graph.add_factor(scope, log_table=table)
        elif kind == 1:
            graph.add_factor(scope, table=np.exp(table))
        else:
            graph.add_factor(scope, rule=lambda *s, table=table: table[s])
    if sizes[0] == sizes[1]:
        graph.add_factor([0, 1], structure=abp.Equality(0.5, -0.5))
    return graph


def any_evidence(seed, graph):
    """Return a state, a set and scores that are observed, and the same as log scores per variable."""
    rng = np.random.default_rng(seed + 1)
    n = [variable.n_states for variable in graph.variables]
    scores = rng.normal(0, 1, n[2])
    given = {"x0": 0, "x1": set(range(max(1, n[1] - 1))), "x2": scores}
    as_scores = {0: np.where(np.arange(n[0]) == 0, 0.0, -np.inf), 2: scores}
    as_scores[1] = np.where(np.arange(n[1]) < max(1, n[1] - 1), 0.0, -np.inf)
    return given, as_scores


def enumerated(graph, as_scores):
    joint = joint_log_scores(graph)
    for index, scores in as_scores.items():
        joint = joint + np.asarray(scores).reshape([-1 if k == index else 1 for k in range(joint.ndim)])
    return joint


def check(result, joint):
    best = joint.max()
    states = tuple(result.assignment.values())  # labels are states
    assert result.log_score == pytest.approx(joint[states], abs=1e-9)
    assert result.upper_bound >= best - 1e-9
    if result.exact:
        assert result.log_score == pytest.approx(best, abs=1e-9)
    scores = [moment.log_score for moment in result.trace]
    bounds = [moment.upper_bound for moment in result.trace]
    assert scores == sorted(scores)
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(bounds))


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    zeros=st.sampled_from([0.0, 0.3]),
    whole_numbers=st.booleans(),
    observes=st.booleans(),
    method=st.sampled_from(["exact", "bp"]),
)
def test_the_state_is_the_best_of_all_joint_states(seed, zeros, whole_numbers, observes, method):
    graph = any_graph(seed, zeros, whole_numbers=whole_numbers)
    given, as_scores = any_evidence(seed, graph) if observes else ({}, {})
    joint = enumerated(graph, as_scores)
    try:
        result = abp.infer_map(graph, method, evidence=given)
    except abp.InconsistentModelError:
        assert joint.max() == -np.inf
        return
    if method == "exact":
        assert result.exact
        assert result.stop_reason is abp.StopReason.OPTIMAL
        for i, (name, found) in enumerate(result.max_marginals.items()):
            axes = tuple(a for a in range(joint.ndim) if a != i)
            assert np.allclose(found, np.exp(joint.max(axis=axes) - joint.max()), atol=1e-9), name
    if result.log_score == -np.inf:
        assert result.stop_reason is abp.StopReason.NO_POSSIBLE_STATE
    check(result, joint)


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]))
def test_messages_find_the_best_state_of_a_tree(seed, zeros):
    graph = random_tree(seed, zeros=zeros, n_factors=4, max_states=3, max_arity=3)
    joint = joint_log_scores(graph)
    result = abp.infer_map(graph, "bp")
    check(result, joint)
    assert result.log_score == pytest.approx(joint.max(), abs=1e-8)


def test_scores_a_thousand_nats_apart_are_compared():
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    rng = np.random.default_rng(0)
    for scope in ([0, 1], [1, 2], [2, 0]):
        graph.add_factor(scope, log_table=rng.normal(0, 2000, (3, 3)))
    joint = joint_log_scores(graph)
    for method in ("exact", "bp"):
        check(abp.infer_map(graph, method), joint)
    assert abp.infer_map(graph).log_score == pytest.approx(joint.max())


def test_a_search_without_time_answers_and_a_callback_ends_one():
    graph = any_graph(3, 0.0, whole_numbers=False)
    result = abp.infer_map(graph, "bp", seconds=0.0)
    assert result.stop_reason is abp.StopReason.OUT_OF_TIME
    check(result, joint_log_scores(graph))
    assert abp.infer_map(graph, "bp", callback=lambda _: True).stop_reason is abp.StopReason.CALLBACK


def test_bad_options_are_named():
    graph = abp.FactorGraph()
    with pytest.raises(abp.OptionError, match="method must be one of 'auto', 'exact', 'bp'"):
        abp.infer_map(graph, "dynamic")
    assert abp.infer_map(graph).assignment == {}


def test_ctrl_c_ends_a_search_with_what_there_is():
    graph, is_first = any_graph(3, 0.0, whole_numbers=False), True

    def press(_):
        nonlocal is_first
        if is_first:
            is_first = False
            signal.raise_signal(signal.SIGINT)

    result = abp.infer_map(graph, "bp", callback=press)
    assert result.stop_reason is abp.StopReason.INTERRUPTED
    check(result, joint_log_scores(graph))
