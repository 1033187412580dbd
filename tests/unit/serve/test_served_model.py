"""Searches and neighbourhoods of large models, of which only what is visible is sent."""

import json

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.serve.limits import Limits
from anytimebp.serve.served_model import FIRST_RING, ServedModel
from served import serving

COUNT = 100_000


def chain(count):
    graph = abp.FactorGraph()
    graph.add_variables(count, 3)
    steps = np.arange(count - 1)
    graph.add_factors(np.stack([steps, steps + 1], axis=1), log_table=np.eye(3))
    return graph


@pytest.mark.compiled
def test_a_model_of_100_000_variables_sends_what_is_visible_only():
    with serving(chain(COUNT), limits=Limits(seconds=60.0, max_memory=2**31)) as served:
        show = list(range(500, 560))
        assert served.events({"session": "d", "show": show, "changes": 10})[-1][0] == "result"
        status, _, body = served.ask(
            "POST", "/stream", {"session": "d", "evidence": {"x500": 2}, "show": show, "changes": 10}
        )
        assert (status, len(body) < 100_000) == (200, True)
        data = json.loads(body.decode().rstrip().split("\n")[-1].removeprefix("data: "))
        assert [each["index"] for each in data["shown"]] == show
        assert [each["name"] for each in data["changes"]["largest"][:1]] == ["x500"]
        for path in ("/model/neighbourhood?variable=x70000", "/model/variables?search=99&limit=30", "/model"):
            assert len(served.ask("GET", path)[2]) < 20_000
        assert served.get("/model/variables?search=x99999")["variables"][0]["index"] == 99_999
        assert len(served.post("/look", {"session": "d", "show": show})["shown"]) == 60
        assert served.ask("GET", "/export?session=d")[2].count(b"\n") == 3 * COUNT + 1


def test_a_hub_shows_some_of_its_neighbours():
    graph = abp.FactorGraph()
    graph.add_variables(3_000, 2)
    leaves = np.arange(1, 3_000)
    graph.add_factors(np.stack([0 * leaves, leaves], axis=1), log_table=np.eye(2))
    found = ServedModel(graph, "hub").neighbourhood(0, 60)
    assert len(found["variables"]) == 1 + FIRST_RING
    assert found["variables"][0]["n_factors"] == 2_999
    assert found["is_cut"]
    assert len(ServedModel(graph, "hub").neighbourhood(7, 60)["variables"]) == 60


def test_a_factor_of_many_variables_is_one_factor():
    graph = abp.FactorGraph()
    graph.add_variables(50, 2)
    graph.add_factor(range(50), structure=abp.AtMostOne())
    found = ServedModel(graph, "one").neighbourhood(0, 10)
    assert [(len(each["variables"]), each["arity"]) for each in found["factors"]] == [(10, 50)]
    assert ServedModel(chain(3), "chain").neighbourhood(1, 1)["factors"] == []


def test_labels_of_a_huge_universe_are_found():
    graph = abp.FactorGraph()
    graph.add_variable("many", 2**40)
    graph.add_factor(["many"], rule=lambda states: -1e-9 * states)
    found, rest = ServedModel(graph, "huge").states(0, "123456789", 0, 5)
    assert ([each["state"] for each in found], rest) == ([123456789], 500_000)


def test_every_search_result_comes_once():
    graph = abp.FactorGraph()
    for name in ("a", "ba", "Ab", "c", "AAA"):
        graph.add_variable(name, 2)
    model, after, names = ServedModel(graph, "five"), 0, []
    while after is not None:
        found, after = model.found("a", after, 2)
        names += [each["name"] for each in found]
    assert names == ["a", "ba", "Ab", "AAA"]
