"""Bad input is refused at the call that brings it, with an error that names the culprit."""

import numpy as np
import pytest

import anytimebp as abp


@pytest.fixture
def graph():
    graph = abp.FactorGraph()
    graph.add_variable("weather", ["sun", "rain"])
    graph.add_variable("ground", 3)
    return graph


BAD_FACTORS = {
    "a NaN": ({"log_table": [[0, 1, np.nan], [0, 0, 0]]}, r"factor 0 \(weather, ground\) holds nan at \(0, 2\)"),
    "plus infinity": ({"log_table": [[0, 1, np.inf], [0, 0, 0]]}, "holds inf"),
    "a negative potential": ({"table": [[1, 1, 1], [1, -2, 1]]}, r"holds -2.0 at \(1, 1\)"),
    "an infinite potential": ({"table": [[1, 1, np.inf], [1, 2, 1]]}, "holds inf"),
    "a NaN potential": ({"table": [[1, 1, np.nan], [1, 2, 1]]}, "holds nan"),
    "a wrong shape": ({"log_table": np.zeros((3, 2))}, r"must have shape \(2, 3\).*got \(3, 2\)"),
    "text": ({"log_table": [["a", "b", "c"], ["a", "b", "c"]]}, "must hold real numbers"),
    "a ragged list": ({"log_table": [[1, 2, 3], [1]]}, "not an array of numbers"),
    "complex numbers": ({"log_table": np.zeros((2, 3), dtype=complex)}, "must hold real numbers"),
    "no scores": ({}, "needs exactly one of .*; got none"),
    "two ways": ({"table": np.ones((2, 3)), "log_table": np.ones((2, 3))}, "got log_table and table"),
    "no function": ({"rule": 3}, "must be a function"),
    "no pair": ({"entries": 3}, "must be a pair"),
    "an entry outside": ({"entries": ([[0, 3]], [0.0])}, r"entry 0 .* is at states \(0, 3\), outside"),
    "an entry twice": ({"entries": ([[0, 1], [0, 1]], [0.0, 0.0])}, r"\(0, 1\) more than once"),
    "too few values": ({"entries": ([[0, 1], [0, 2]], [0.0])}, r"shape \(1, 2\)"),
    "fractions as indices": ({"entries": ([[0.0, 1.0]], [0.0])}, "whole numbers"),
    "a NaN entry": ({"entries": ([[0, 1]], [np.nan])}, "contain nan"),
    "a NaN default": ({"entries": ([[0, 1]], [0.0]), "default": np.nan}, "contain nan"),
}


@pytest.mark.parametrize("case", BAD_FACTORS)
def test_bad_factor(graph, case):
    arguments, message = BAD_FACTORS[case]
    with pytest.raises(abp.ModelError, match=message):
        graph.add_factor(["weather", "ground"], **arguments)
    assert graph.n_factors == 0


@pytest.mark.parametrize(
    "scores",
    [
        {"log_table": np.full((2, 3), -np.inf)},
        {"table": np.zeros((2, 3))},
        {"entries": ([[0, 1]], [-np.inf])},
        {"entries": (np.empty((0, 2), int), [])},
    ],
)
def test_an_all_zero_factor_is_inconsistent_at_once(graph, scores):
    with pytest.raises(abp.InconsistentModelError, match=r"factor 0 \(weather, ground\) is zero everywhere"):
        graph.add_factor(["weather", "ground"], **scores)


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        (["wether", "ground"], "no variable named 'wether'; did you mean 'weather'"),
        (["weather", "weather"], "variable 'weather' is in the scope twice"),
        (["weather", 1, "ground"], "variable 'ground' is in the scope twice"),
        ([0, 7], "index from 0 to 1, got 7"),
        ([0, True], "got True"),
        ([], "must have 1 to 30 variables, got 0"),
        ("weather", "must be a list of variables"),
        (None, "must be a list of variables"),
    ],
)
def test_bad_scope(graph, scope, message):
    with pytest.raises(abp.ModelError, match=message):
        graph.add_factor(scope, log_table=np.zeros((2, 3)))


def test_a_handle_of_another_graph_is_refused(graph):
    other = abp.FactorGraph().add_variable("stranger", 2)
    with pytest.raises(abp.ModelError, match="'stranger' .* belongs to another graph"):
        graph.add_factor([other], log_table=[0, 0])


@pytest.mark.parametrize(
    ("name", "states", "message"),
    [
        ("weather", 2, "a variable named 'weather' already"),
        ("", 2, "non-empty string"),
        (3, 2, "non-empty string"),
        ("new", 0, "at least one state, got the count 0"),
        ("new", -1, "at least one state"),
        ("new", [], "empty list"),
        ("new", ["a", "b", "a"], "label 'a' twice"),
        ("new", [[1], [2]], "must be hashable"),
        ("new", [float("nan"), 1], "NaN"),
        ("new", "abc", "a count or a list of labels"),
        ("new", 2.5, "a count or a list of labels"),
        ("new", True, "a count or a list of labels"),
        ("new", None, "a count or a list of labels"),
    ],
)
def test_bad_variable(graph, name, states, message):
    with pytest.raises(abp.ModelError, match=message):
        graph.add_variable(name, states)
    assert len(graph.variables) == 2


@pytest.mark.parametrize(
    ("scopes", "table", "message"),
    [
        ([[0, 1], [1, 5]], np.zeros((3, 3)), "row 1 of the scopes"),
        ([[1, 2], [2, 2]], np.zeros((3, 3)), "row 1 .* has a variable twice"),
        ([[1, 2], [2, 0]], np.zeros((3, 3)), "row 1 has"),
        ([[1, 2]], np.zeros((2, 3)), r"shape \(3, 3\) \(shared\)"),
        ([1, 2], np.zeros((3, 3)), r"shape \(factors, arity\)"),
        ([[1.5, 2.0]], np.zeros((3, 3)), r"shape \(factors, arity\)"),
        ([[1, 2], [2, 3]], np.stack([np.zeros((3, 3)), np.full((3, 3), np.nan)]), r"factor 1 \(x2, x3\) holds nan"),
    ],
)
def test_bad_bulk(graph, scopes, table, message):
    graph.add_variables(2, 3)
    with pytest.raises(abp.ModelError, match=message):
        graph.add_factors(scopes, log_table=table)


def test_bulk_names_that_are_taken(graph):
    graph.add_variable("x4", 2)
    with pytest.raises(abp.ModelError, match="automatic name 'x4' already"):
        graph.add_variables(2, 2)
    graph.add_variables(2, 2, names=["a", "b"])
    with pytest.raises(abp.ModelError, match="'a' already"):
        graph.add_variable("a", 2)
    with pytest.raises(abp.ModelError, match="'c' is given twice"):
        graph.add_variables(2, 2, names=["c", "c"])
    with pytest.raises(abp.ModelError, match="expected 3 names"):
        graph.add_variables(3, 2, names=["c", "d"])
    with pytest.raises(abp.ModelError, match="whole number"):
        graph.add_variables(-1, 2)


def test_an_automatic_name_cannot_be_given_again():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    with pytest.raises(abp.ModelError, match="'x1' already"):
        graph.add_variable("x1", 2)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"wether": "sun"}, "evidence: there is no variable named 'wether'; did you mean 'weather'"),
        ({"weather": "snow"}, "evidence: variable 'weather' has no state 'snow'; its states are 'sun', 'rain'"),
        ({"ground": 3}, "variable 'ground' has the states 0 to 2, not 3"),
        ({"ground": 1.0}, "not 1.0"),
        ({"ground": True}, "not True"),
        ({"ground": set()}, "set of allowed states is empty"),
        ({"ground": {1, 9}}, "not 9"),
        ({"ground": [0.0, 1.0]}, r"log scores must have shape \(3,\), got \(2,\)"),
        ({"ground": [0.0, np.nan, 0.0]}, "log score of state 1 is nan"),
        ({"ground": [0.0, np.inf, 0.0]}, "log score of state 1 is inf"),
        ({"ground": ["a", "b", "c"]}, "expected a label, a set of allowed labels"),
        ({"ground": np.array([True, False, True])}, "expected a label, a set of allowed labels"),
        ({"ground": 1, 1: 2}, "'ground' is given twice"),
    ],
)
def test_bad_evidence(graph, evidence, message):
    with pytest.raises(abp.EvidenceError, match=message):
        abp.infer(graph, evidence=evidence)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "gibbs"},
        {"tolerance": 0},
        {"tolerance": float("nan")},
        {"tolerance": "small"},
        {"damping": 1.0},
        {"damping": -0.1},
        {"schedule": "zigzag"},
        {"record": "all"},
        {"rng": "seed"},
        {"rng": -3},
        {"max_memory": -1},
        {"seconds": -1},
        {"seconds": float("nan")},
        {"max_updates": "many"},
        {"max_updates": 2.5},
        {"callback": 3},
        {"target_error": 0.0},
        {"target_error": float("nan")},
        {"grow": 0},
        {"grow": 1.5},
        {"fraction": 0.0},
        {"fraction": 1.1},
        {"policy": abp.FixedGrowth},
        {"policy": object()},
        {"policy": abp.FixedGrowth(), "method": "bp"},
        {"max_work": -1},
    ],
)
def test_bad_option_is_named(graph, options):
    with pytest.raises(abp.OptionError, match=next(iter(options))):
        abp.infer(graph, **options)


def test_evidence_must_be_a_mapping(graph):
    with pytest.raises(abp.EvidenceError, match="must be a mapping .* got list"):
        abp.infer(graph, evidence=["sun"])


def test_a_default_needs_entries(graph):
    with pytest.raises(abp.ModelError, match="default.* can only be combined with entries"):
        graph.add_factor(["weather", "ground"], table=np.ones((2, 3)), default=0.0)


def test_axes_in_another_order_are_hinted_at(graph):
    with pytest.raises(abp.ModelError, match="axes in another order"):
        graph.add_factor(["weather", "ground"], table=np.ones((3, 2)))


def test_a_graph_is_expected():
    with pytest.raises(abp.OptionError, match="expected a FactorGraph, got dict"):
        abp.infer({})


def test_evidence_that_excludes_everything_is_named(graph):
    graph.add_factor(["weather", "ground"], log_table=[[0, -np.inf, 0], [0, -np.inf, 0]])
    with pytest.raises(abp.InconsistentModelError, match=r"factor 0 \(weather, ground\) is zero on all"):
        abp.infer(graph, "bp", evidence={"ground": 1})
    with pytest.raises(abp.InconsistentModelError, match="every state has the log score -inf"):
        abp.infer(graph, "bp", evidence={"ground": [-np.inf] * 3})


def test_unary_factors_that_exclude_everything_are_named(graph):
    graph.add_factor(["weather"], log_table=[0, -np.inf])
    graph.add_factor(["weather"], log_table=[-np.inf, 0])
    with pytest.raises(abp.InconsistentModelError, match="variable 'weather' has no possible state"):
        abp.infer(graph)


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_messages_that_vanish_are_named(method, any_arithmetic):
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    same, other = np.array([[0, -np.inf], [-np.inf, 0]]), np.array([[-np.inf, 0], [0, -np.inf]])
    graph.add_factor([0], log_table=[0, -np.inf])
    graph.add_factor([0, 1], log_table=same)
    graph.add_factor([1, 2], log_table=same)
    graph.add_factor([2, 0], log_table=other)
    with pytest.raises(abp.InconsistentModelError, match="messages vanish, as"):
        abp.infer(graph, method)
    assert any_arithmetic


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda a, b: 1 / 0, r"rule of factor 0 \(weather, ground\) raised ZeroDivisionError"),
        (lambda a, b: np.zeros(7), "must return real numbers that broadcast to"),
        (lambda a, b: "text", "must return real numbers"),
        (lambda a, b: None, "it returned None"),
        (lambda a, b: 1.0 if a > 0 else 0.0, "whole arrays"),
        (lambda a, b: a + b * np.nan, r"returned nan at states \(0, 0\)"),
        (lambda a, b: np.where(b == 2, np.inf, 0.0) + a, r"returned inf at states \(0, 2\)"),
        (lambda a: a, "raised TypeError"),
    ],
)
def test_bad_rule(graph, rule, message):
    graph.add_factor(["weather", "ground"], rule=rule)
    with pytest.raises(abp.RuleError, match=message):
        abp.infer(graph)


def test_a_table_too_large_for_memory_is_refused_with_the_bytes():
    graph = abp.FactorGraph()
    graph.add_variables(2, 1_000_000)
    graph.add_factor([0, 1], rule=lambda a, b: a - b)
    with pytest.raises(abp.MemoryLimitError, match=r"10\.0 TB \(10,0.* bytes\).*factor 0 \(x0, x1\)"):
        abp.infer(graph, "bp")
    result = abp.infer(graph, "bp", evidence={0: 3, 1: 5})
    assert result.marginals["x1"][5] == 1.0


def test_max_memory_is_honoured_before_the_run(graph):
    graph.add_factor(["weather", "ground"], log_table=np.zeros((2, 3)))
    with pytest.raises(abp.MemoryLimitError, match="`max_memory` allows"):
        abp.infer(graph, "bp", max_memory=100)
    assert abp.infer(graph, "bp", max_memory=10_000).consistent


def test_unknown_names_in_results(graph):
    result = abp.infer(graph)
    with pytest.raises(abp.UnknownVariableError, match="no variable named 'sky'"):
        result.marginals["sky"]
    with pytest.raises(KeyError):
        result.marginals[9]
    assert result.marginals.get("sky") is None
    assert "sky" not in result.marginals
    assert 3.5 not in result.marginals


def test_one_base_class():
    for name in abp.__all__:
        thing = getattr(abp, name)
        if isinstance(thing, type) and issubclass(thing, Exception) and not issubclass(thing, Warning):
            assert issubclass(thing, abp.AnytimeBPError)


def test_conditions_are_no_log_scores():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    with pytest.raises(abp.ModelError, match="True and False; give them as `table`"):
        graph.add_factor([0, 1], log_table=np.eye(3) == 0)
    with pytest.raises(abp.ModelError, match="True and False"):
        graph.add_factors([[0], [1]], log_table=[True, False, True])
    graph.add_factor([0, 1], rule=lambda a, b: a != b)
    with pytest.raises(abp.RuleError, match="returned True or False.*np.where"):
        abp.infer(graph, "bp")
    fine = abp.FactorGraph()
    fine.add_variables(2, 3)
    fine.add_factor([0, 1], table=np.eye(3) == 0)
    assert abp.infer(fine, evidence={0: 0}).marginals[1].tolist() == [0.0, 0.5, 0.5]
