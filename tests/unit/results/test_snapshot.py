"""What a result offers."""

import pickle

import numpy as np
import pandas as pd
import pytest

import anytimebp as abp
from oracle.models import grid


def pair():
    graph = abp.FactorGraph()
    graph.add_variable("a", 2)
    graph.add_variable("b", ["x", "y", "z"])
    graph.add_factor(["a"], table=[3.0, 1.0])
    graph.add_factor(["a", "b"], table=[[8.0, 1.0, 1.0], [2.0, 4.0, 4.0]])
    return graph


@pytest.fixture
def result():
    graph = abp.FactorGraph()
    weather = graph.add_variable("weather", ["sun", "<rain>"])
    ground = graph.add_variable("ground", 3)
    graph.add_factor([weather], table=[3.0, 1.0])
    graph.add_factor([weather, ground], table=[[8.0, 1.0, 1.0], [2.0, 4.0, 4.0]])
    return abp.infer(graph, "adaptive", factor_marginals=True)


def test_marginals_are_a_mapping_by_name(result):
    assert list(result.marginals) == ["weather", "ground"]
    assert np.allclose(result.marginals["weather"], [0.75, 0.25])
    assert np.allclose(result.marginals["ground"], [0.65, 0.175, 0.175])
    assert dict(result.marginals).keys() == {"weather", "ground"}
    assert result.log_z == pytest.approx(np.log(40))


def test_top_is_best_first_with_labels_and_ties_by_order(result):
    assert result.top("weather", 5) == [("sun", pytest.approx(0.75)), ("<rain>", pytest.approx(0.25))]
    assert [label for label, _ in result.top("ground", 3)] == [0, 1, 2]
    assert result.top("ground") == [(0, pytest.approx(0.65))]
    assert result.top("ground", 0) == []
    with pytest.raises(abp.OptionError, match="count must be a whole number, got 1.5"):
        result.top("ground", 1.5)


def test_probability_by_label(result):
    assert result.probability("weather", "sun") == pytest.approx(0.75)
    assert result.probability("ground", 2) == pytest.approx(0.175)
    with pytest.raises(abp.UnknownStateError, match="no state 'snow'"):
        result.probability("weather", "snow")


def test_factor_marginals_by_index(result):
    assert list(result.factor_marginals) == [0, 1]
    assert np.allclose(result.factor_marginals[0], [0.75, 0.25])
    assert np.allclose(result.factor_marginals[1], np.array([[24, 3, 3], [2, 4, 4]]) / 40)
    with pytest.raises(KeyError):
        result.factor_marginals[2]


def test_factor_marginals_respect_evidence():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_factor([0, 1], table=np.arange(1.0, 10.0).reshape(3, 3))
    belief = abp.infer(graph, evidence={"x0": {0, 2}}, factor_marginals=True).factor_marginals[0]
    expected = np.array([[1, 2, 3], [0, 0, 0], [7, 8, 9]]) / 30
    assert np.allclose(belief, expected)
    assert not abp.infer(graph).factor_marginals


def test_factor_marginals_that_were_not_asked_for_say_so():
    graph, asked = pair(), r"not asked for: pass `factor_marginals=True`"
    result = abp.infer(graph, "bp")
    for snapshot in (result, result.current, pickle.loads(pickle.dumps(result)), next(abp.Inference(graph))):
        with pytest.raises(abp.OptionError, match=asked):
            snapshot.factor_marginals[0]
        with pytest.raises(abp.OptionError, match=asked):
            list(snapshot.factor_marginals)
        assert "not asked for" in repr(snapshot.factor_marginals)


@pytest.mark.parametrize("method", abp.METHODS)
def test_before_the_first_message_factor_marginals_come_from_unary_scores(method):
    graph = pair()
    evidence = {"b": {"x", "z"}}
    result = abp.Inference(graph, method, evidence=evidence, factor_marginals=True).run(max_updates=0)
    assert result.updates == 0
    expected = np.array([[24.0, 0.0, 3.0], [2.0, 0.0, 4.0]])
    if result.domain_sizes.sum() < 4:  # the first state of each
        expected *= expected == expected.max()
    assert np.allclose(result.factor_marginals[1], expected / expected.sum())


def test_to_pandas(result):
    frame = result.to_pandas()
    assert frame["variable"].tolist() == ["weather"] * 2 + ["ground"] * 3
    assert frame["state"].tolist() == ["sun", "<rain>", 0, 1, 2]
    assert frame.groupby("variable")["probability"].sum().tolist() == pytest.approx([1.0, 1.0])
    trace = result.trace.to_pandas()
    assert isinstance(trace, pd.DataFrame)
    assert len(trace) == len(result.trace)
    assert trace["updates"].iloc[-1] == result.updates


def test_html_is_escaped_and_small(result):
    view = result._repr_html_()
    assert "&lt;rain&gt;" in view
    assert "<rain>" not in view
    assert len(abp.infer(grid(20, 4, 1.0, 0.2, seed=0), "bp")._repr_html_()) < 5000


def test_repr_says_how_it_ended(result):
    assert repr(result).startswith("<Result of 'adaptive': CONVERGED, 2 variables, 5 of 5 states, consistent")
    assert repr(result.current).startswith("<Snapshot of 'adaptive': 2 variables, 5 of 5 states, consistent")
    assert "2 variables" in repr(result)


def test_stop_reasons_say_what_to_try():
    assert "seconds" in str(abp.StopReason.OUT_OF_TIME)
    assert all(len(str(reason)) > 20 for reason in abp.StopReason)
