"""Variables and factors by name."""

import copy
import pickle

import numpy as np
import pytest

import anytimebp as abp


def weather():
    graph = abp.FactorGraph()
    graph.add_variable("sky", ["sun", "rain"])
    graph.add_variable("ground", ["dry", "wet"])
    graph.add_variable("grass", ["dry", "wet"])
    return graph


def test_a_variable_is_found_by_name():
    graph = weather()
    handle = graph.variable("ground")
    assert (handle.index, handle.name, handle.labels) == (1, "ground", ("dry", "wet"))
    assert graph.variable(handle) == graph.variable(1) == handle
    with pytest.raises(abp.UnknownVariableError, match="no variable named 'gras'; did you mean 'grass'"):
        graph.variable("gras")


@pytest.mark.parametrize(
    "scopes",
    [
        [["sky", "ground"], ["sky", "grass"]],
        [("sky", 1), (0, "grass")],
        np.array([["sky", "ground"], ["sky", "grass"]]),
        np.array([["sky", "ground"], ["sky", "grass"]], dtype=object),
        [["sky", np.int64(1)], ["sky", np.str_("grass")]],
        "handles",
    ],
    ids=str,
)
def test_many_factors_are_added_by_names_and_handles(scopes):
    graph = weather()
    if isinstance(scopes, str):
        scopes = [[graph.variable("sky"), graph.variable("ground")], [graph.variable("sky"), graph.variable(2)]]
    assert graph.add_factors(scopes, log_table=np.eye(2)) == range(2)
    assert [graph.factor_scope(i) for i in range(2)] == [("sky", "ground"), ("sky", "grass")]


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        (
            [["sky", "ground"], ["sky", "gras"]],
            r"row 1 of the scopes, \['sky', 'gras'\]: .*'gras'; did you mean 'grass'",
        ),
        (np.array([["sky", "sea"]]), r"row 0 of the scopes, \['sky', 'sea'\]: there is no variable named 'sea'"),
        ([["sky", 7]], r"row 0 of the scopes, \['sky', 7\]: .*index from 0 to 2, got 7"),
        ([["sky", "sky"]], r"row 0 of the scopes, \['sky', 'sky'\], has a variable twice"),
        (["sky", "ground"], r"scopes must be variables .* of shape \(factors, arity\), got <U6 of shape \(2,\)"),
        ([["sky"], ["sky", "ground"]], "rows of different lengths"),
        ([[0.0, 1.0]], "scopes must be variables .*, got float64"),
    ],
)
def test_a_scope_that_is_wrong_is_named_by_its_row(scopes, message):
    with pytest.raises(abp.ModelError, match=message):
        weather().add_factors(scopes, log_table=np.eye(2))


def test_a_handle_of_another_graph_is_refused_in_rows():
    other = abp.FactorGraph().add_variable("sea", 2)
    with pytest.raises(abp.ModelError, match=r"row 0 of the scopes, \['sky', 'sea'\]: .*another graph"):
        weather().add_factors([["sky", other]], log_table=np.eye(2))


def test_a_factor_is_found_by_its_name():
    graph = weather()
    graph.add_factors([["sky", "ground"], ["sky", "grass"]], log_table=np.eye(2))
    assert graph.add_factor(["sky"], log_table=[0.0, -1.0], name="prior of sky") == 2
    assert graph.factor("prior of sky") == 2
    assert graph.factor_scope("prior of sky") == ("sky",)
    assert graph.factor_log_table("prior of sky").tolist() == [0.0, -1.0]
    for twin in (copy.copy(graph), pickle.loads(pickle.dumps(graph))):
        assert twin.factor("prior of sky") == 2
        twin.add_factor(["sky"], rule=lambda s: 0.0 * s, name="more")
    with pytest.raises(abp.UnknownFactorError, match="no factor named 'more'; known: 'prior of sky'"):
        graph.factor("more")


def test_the_marginal_of_a_factor_is_found_by_its_name():
    graph = weather()
    graph.add_factors([["sky", "ground"], ["sky", "grass"]], log_table=np.eye(2))
    graph.add_factor(["ground", "grass"], log_table=-np.eye(2), name="contrast")
    result = abp.infer(graph, "bp", factor_marginals=True)
    assert (result.factor_marginals["contrast"] == result.factor_marginals[2]).all()
    assert "contrast" in result.factor_marginals
    assert "else" not in result.factor_marginals
    again = pickle.loads(pickle.dumps(result))
    assert (again.factor_marginals["contrast"] == result.factor_marginals[2]).all()
    with pytest.raises(abp.UnknownFactorError, match="no factor named 'contrst'"):
        result.factor_marginals["contrst"]


def test_names_of_factors_are_unique_and_not_empty():
    graph = weather()
    graph.add_factor(["sky"], log_table=[0.0, -1.0], name="prior")
    with pytest.raises(abp.ModelError, match="factor 0 is named 'prior' already"):
        graph.add_factor(["grass"], log_table=[0.0, -1.0], name="prior")
    for name in ("", 3):
        with pytest.raises(abp.ModelError, match="name must be a non-empty string"):
            graph.add_factor(["grass"], log_table=[0.0, -1.0], name=name)
    assert graph.n_factors == 1
    with pytest.raises(abp.ModelError, match=r"factor 1 'odd' \(sky\) holds nan"):
        graph.add_factor(["sky"], log_table=[0.0, np.nan], name="odd")
    graph.add_factor(["sky"], log_table=[0.0, 1.0], name="odd")  # a name of what was refused is free
