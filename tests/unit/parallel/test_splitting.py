"""Graphs cut into graphs."""

import itertools

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.errors import ModelError
from anytimebp.parallel.boundary import Border, Boundary
from anytimebp.parallel.splitting import homes, split
from oracle.cut_graphs import random_graph


def _score(graph, states):
    return sum(
        graph.factor_log_table(k)[tuple(states[name] for name in graph.factor_scope(k))] for k in range(graph.n_factors)
    )


def _every_kind():
    rng, graph = np.random.default_rng(0), abp.FactorGraph()
    for name in "abcdef":
        graph.add_variable(name, 4)
    graph.add_factors([[i] for i in range(6)], log_table=rng.normal(size=(6, 4)))
    graph.add_factors([[0, 1], [1, 2], [2, 3]], log_table=rng.normal(size=(4, 4)))
    graph.add_factors([[3, 4], [4, 5]], table=rng.random((2, 4, 4)))
    graph.add_factor(["a", "f"], rule=lambda a, f: -0.5 * np.abs(a - f))
    graph.add_factor(["b", "e"], entries=(np.array([[0, 1], [2, 2]]), np.array([1.0, 2.0])), default=0.0)
    graph.add_factors([[0, 2, 4], [1, 3, 5]], structure=abp.Xor())
    graph.add_factor(["c", "f"], structure=abp.Difference(rng.normal(size=7)))
    return graph


@pytest.mark.parametrize("seed", range(4))
def test_scores_of_parts_add_up_to_those_of_the_whole(seed):
    rng, graph = np.random.default_rng(seed), _every_kind()
    cut = split(graph, rng.integers(0, 3, 6))
    for _ in range(20):
        states = {variable.name: int(rng.integers(4)) for variable in graph.variables}
        assert sum(_score(part.graph, states) for part in cut.parts) == pytest.approx(_score(graph, states))
    assert sum(part.graph.n_factors for part in cut.parts) == graph.n_factors


def test_shared_variables_are_those_of_several_parts_and_tied_tables_stay_tied():
    graph = _every_kind()
    cut = split(graph, np.array([0, 0, 0, 1, 1, 1]))
    held = [{variable.name for variable in part.graph.variables} for part in cut.parts]
    shared = [{part.graph.variables[index].name for index in part.shared} for part in cut.parts]
    assert shared[0] == shared[1] == held[0] & held[1]
    assert [part.graph.blocks[1].source.n_members for part in cut.parts] == [1, 2]


def test_parts_without_variables_are_left_out():
    assert len(split(random_graph(0), np.full(len(random_graph(0).variables), 7)).parts) == 1
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    assert len(split(graph, homes(graph, 8)).parts) <= 3


def test_what_others_say_is_the_product_of_their_messages():
    rng = np.random.default_rng(0)
    keys = [["a", "b"], ["b", "c"], ["a", "b", "c"]]
    sizes = {"a": 2, "b": 3, "c": 2}
    boundary = Boundary([Border(own, np.array([sizes[key] for key in own]), 5, 2) for own in keys])
    said = [{key: rng.normal(size=sizes[key]) for key in own} for own in keys]
    said[0]["b"][1] = -np.inf
    said[2]["b"][2] = -np.inf
    for part, own in enumerate(keys):
        boundary.take(part, np.concatenate([said[part][key] for key in own]))
    for part, own in enumerate(keys):
        others = [
            sum((said[other][key] for other in range(3) if other != part and key in keys[other]), np.zeros(sizes[key]))
            for key in own
        ]
        np.testing.assert_allclose(boundary.outside(part), np.concatenate(others))
    total = {key: sum(one[key] for one in said if key in one) for key in sizes}
    holders = {key: sum(key in own for own in keys) for key in sizes}
    expected = sum((1 - holders[key]) * np.log(np.exp(total[key]).sum()) for key in sizes)
    assert boundary.log_z(1.5) == pytest.approx(1.5 + expected)


def test_what_others_say_does_not_drift_with_many_answers():
    rng = np.random.default_rng(1)
    keys = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["hub"], ["hub", "a"], ["hub", "c"]]
    borders = [Border(own, np.full(len(own), 4), 9, 2) for own in keys]
    boundary, said = Boundary(borders), {}
    for _ in range(500):
        part = int(rng.integers(len(keys)))
        said[part] = np.where(rng.random(4 * len(keys[part])) < 0.2, -np.inf, rng.normal(0, 300, 4 * len(keys[part])))
        boundary.take(part, said[part])
        fresh = Boundary(borders)
        for other, message in said.items():
            fresh.take(other, message)
        for other in range(len(keys)):
            np.testing.assert_allclose(boundary.outside(other), fresh.outside(other), atol=1e-10)
    beside = [{5, 1}, {0, 2, 6}, {1, 3, 6}, {2}, {5, 6}, {0, 4, 6}, {4, 5, 1, 2}]
    assert [set(own.tolist()) for own in boundary.beside] == [own | {k} for k, own in enumerate(beside)]


def test_parts_that_disagree_on_a_universe_are_named():
    borders = [Border(["a"], np.array([2]), 3, 2), Border(["a"], np.array([3]), 3, 2)]
    with pytest.raises(ModelError, match="parts 0 and 1 share variable 'a', but give it 2 and 3 states"):
        Boundary(borders)


def test_moves_are_ranges_of_log_ratios():
    borders = [Border(["a", "b"], np.array([2, 3]), 3, 2), Border(["a", "b"], np.array([2, 3]), 3, 2)]
    boundary = Boundary(borders)
    before = boundary.outside(0)
    boundary.take(1, np.array([1.0, 1.0, 0.0, 0.5, -0.25]))
    assert boundary.moved(0, before) == pytest.approx(0.75)
    boundary.take(1, np.array([1.0, 1.0, -np.inf, 0.5, 0.0]))
    assert boundary.moved(0, before) == np.inf
    assert list(itertools.islice(boundary.outside(0), 2)) == [1.0, 1.0]
