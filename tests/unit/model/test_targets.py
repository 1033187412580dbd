"""Targets by name, handle and index, and what cannot be one."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.model.evidence import read_targets


@pytest.fixture
def graph():
    made = abp.FactorGraph()
    made.add_variable("a", ["x", "y"])
    made.add_variables(3, 2)
    made.add_factors([[0, 1], [1, 2], [2, 3]], table=[[0.5, 0.5], [0.2, 0.8]])
    return made


def test_targets_are_read_in_any_way_and_sorted(graph):
    variables = graph.variables
    assert read_targets(None, variables) is None
    for given in (["x3", "a", 0], (variables[3], 0), np.array([3, 0]), iter([0, "x3"])):
        assert read_targets(given, variables).tolist() == [0, 3]
    assert read_targets("a", variables).tolist() == read_targets(0, variables).tolist() == [0]


def test_errors_name_the_culprit(graph):
    with pytest.raises(abp.UnknownVariableError, match="targets: .*nobody"):
        abp.infer(graph, targets=["a", "nobody"])
    with pytest.raises(abp.OptionError, match="at least one"):
        abp.infer(graph, targets=[])
    with pytest.raises(abp.OptionError, match=r"targets: expected variables.*2\.5"):
        abp.infer(graph, targets=2.5)
    with pytest.raises(abp.OptionError, match="targets. cannot be combined"):
        abp.infer(graph, targets=["a"], factor_marginals=True)


def test_others_have_no_marginal(graph):
    result = abp.infer(graph, "exact", targets=["x1"])
    assert "x1" in result.marginals
    assert "a" not in result.marginals
    with pytest.raises(abp.UnknownVariableError, match="'a' is not one of the `targets`"):
        result.marginals["a"]
    assert result.marginals.get("a") is None
    assert len(result.marginals.concatenated()) == 2
    assert result.distance(result) == 0.0
