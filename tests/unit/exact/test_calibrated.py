import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.exact.kept_tree import NOBODY
from anytimebp.inference.inference import Inference
from anytimebp.inference.method import new_task
from anytimebp.inference.staying import make_calibrated
from anytimebp.layout.graph_layout import compiled_graph
from oracle.enumeration import exact, joint_log_scores
from oracle.examples import examples
from oracle.models import random_loopy, random_tree


def calibrated(graph, held):
    """Return a tree that is calibrated under observed states, None where they are impossible."""
    making = make_calibrated(new_task(graph, Inference(graph, "exact").options), compiled_graph(graph), held)
    while True:
        try:
            next(making)
        except StopIteration as end:
            return end.value


def draw_states(graph, rng, count):
    """Return observed states of some variables."""
    chosen = rng.choice(len(graph.variables), min(count, len(graph.variables)), replace=False)
    return {int(v): int(rng.integers(graph.variables.size(int(v)))) for v in chosen}


def enumerated(graph, seen):
    """Return marginals and log Z under observed states, None where these are impossible."""
    scores = {v: np.where(np.arange(graph.variables.size(v)) == state, 0.0, -np.inf) for v, state in seen.items()}
    rows = tuple(seen.get(v, slice(None)) for v in range(len(graph.variables)))
    return None if np.max(joint_log_scores(graph)[rows]) == -np.inf else exact(graph, scores)


def ask(tree, added, wanted=NOBODY):
    """Return the marginals of all variables as a tree has them, over their domains; None where it has none."""
    positions = {v: tree.position_of(v, state) for v, state in added.items()}
    belief = np.full(int(tree.slot_start[-1]), np.nan)
    if -1 in positions.values() or not tree.answer(positions, wanted, belief)[0]:
        return None
    return belief


def over_universe(graph, tree, belief, v):
    own = slice(int(tree.slot_start[v]), int(tree.slot_start[v + 1]))
    if not len(tree.slot_state):
        return belief[own]
    found = np.zeros(graph.variables.size(v))
    found[tree.slot_state[own]] = belief[own]
    return found


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    zeros=st.sampled_from([0.0, 0.3]),
    is_tree=st.booleans(),
    counts=st.tuples(st.integers(0, 3), st.integers(0, 4)),
)
def test_observations_that_are_added_give_the_marginals_of_enumeration(seed, zeros, is_tree, counts):
    graph, rng = (random_tree if is_tree else random_loopy)(seed, zeros=zeros), np.random.default_rng(seed)
    held = draw_states(graph, rng, counts[0])
    tree = calibrated(graph, held)
    for _ in range(3):  # one query leaves nothing for the next one
        added = {v: state for v, state in draw_states(graph, rng, counts[1]).items() if v not in held}
        expected = enumerated(graph, held | added)
        found = None if tree is None else ask(tree, added)
        assert (found is None) == (expected is None)
        if found is None:
            continue
        (marginals, log_z), target = expected, int(rng.integers(len(graph.variables)))
        assert tree.log_z == pytest.approx(log_z, abs=1e-9)
        for v in range(len(graph.variables)):
            np.testing.assert_allclose(over_universe(graph, tree, found, v), marginals[v], atol=1e-10)
        alone = ask(tree, added, np.array([target]))
        np.testing.assert_allclose(over_universe(graph, tree, alone, target), marginals[target], atol=1e-10)
        assert tree.log_z == pytest.approx(log_z, abs=1e-9)


def test_what_does_not_depend_on_an_observation_is_not_touched():
    graph = abp.FactorGraph()
    graph.add_variables(40, 3)
    rng = np.random.default_rng(0)
    graph.add_factors([[i, i + 1] for i in range(39)], log_table=rng.normal(size=(39, 3, 3)))
    tree = calibrated(graph, {20: 1})  # which cuts the chain
    belief = np.empty(int(tree.slot_start[-1]))
    _, moved, work = tree.answer({0: 2}, NOBODY, belief)
    assert moved <= 20
    assert work <= tree.tree.entries  # twice those of half of the cliques
    expected = abp.infer(graph, "exact", evidence={"x20": 1, "x0": 2})
    for v in range(40):
        np.testing.assert_allclose(over_universe(graph, tree, belief, v), expected.marginals[v], atol=1e-12)
    _, moved, _ = tree.answer({0: 2}, np.array([2]), belief)
    assert moved <= 4  # up to the target alone


def test_a_parent_of_an_unobserved_child_is_not_moved_by_its_other_parent():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0], [1]], table=[[0.3, 0.7], [0.6, 0.4]])
    given_both = np.random.default_rng(0).dirichlet(np.ones(2), (2, 2))
    graph.add_factor([0, 1, 2], table=given_both)
    tree = calibrated(graph, {})
    belief = np.empty(6)
    tree.answer({0: 1}, NOBODY, belief)
    np.testing.assert_allclose(belief[2:4], [0.6, 0.4], atol=1e-12)
    np.testing.assert_allclose(belief[4:], given_both[1].T @ [0.6, 0.4], atol=1e-12)
