"""What runs, evidence and rules warn of, where the warning points to, and what needs none."""

import dataclasses
import warnings
from itertools import combinations

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.caveats import warn_of_end
from anytimebp.model import rule_labels
from oracle.models import grid

EQUAL = np.array([[0.0, -np.inf], [-np.inf, 0.0]])


def unsettled():
    """Return a model on which messages run off beyond all bounds within a sweep."""
    graph = abp.FactorGraph()
    graph.add_variables(12, 2)
    graph.add_factors(list(combinations(range(12), 2)), log_table=EQUAL)
    graph.add_factors([[0], [1]], log_table=[[0.0, -0.1], [-0.09, 0.0]])
    return graph


def caught_by(action, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        call()
    return [w for w in caught if issubclass(w.category, UserWarning)]


# Not converged


@pytest.mark.parametrize(
    "run",
    [
        lambda graph: abp.infer(graph, "bp"),
        lambda graph: abp.Inference(graph, "bp").run(),
        lambda graph: list(abp.Inference(graph, "bp")),
        lambda graph: abp.infer(graph, "bp", seconds=100.0, max_updates=10**9, max_work=10**12),
    ],
    ids=["infer", "run", "iterate", "budget"],
)
def test_what_does_not_settle_warns_once_at_the_line_of_the_caller(run):
    caught = caught_by("always", lambda: run(unsettled()))
    assert [w.category for w in caught] == [abp.NotConvergedWarning]
    assert caught[0].filename == __file__
    assert str(caught[0].message).startswith(
        "the marginals are not at a fixed point: belief propagation does not settle"
    )


def test_a_loop_shows_one_warning():
    graphs = [unsettled() for _ in range(3)]

    def loop():
        for graph in graphs:
            abp.infer(graph, "bp")

    def pull():
        for graph in graphs:
            for _ in abp.Inference(graph, "bp"):
                pass

    assert len(caught_by("default", loop)) == 1
    assert len(caught_by("default", pull)) == 1


@pytest.mark.parametrize("method", abp.METHODS)
@pytest.mark.parametrize("budget", [{"seconds": 0.0}, {"max_updates": 3}, {"max_work": 30}], ids=str)
def test_a_budget_that_ends_a_run_warns_where_the_estimated_error_is_large_and_nowhere_else(method, budget):
    graph = grid(3, 3, 1.0, 0.3, seed=0)
    results = []
    caught = caught_by("always", lambda: results.append(abp.infer(graph, method, rng=0, **budget)))
    assert results[0].stop_reason.name in {"OUT_OF_TIME", "OUT_OF_UPDATES", "OUT_OF_WORK"}
    is_large = not callable(results[0].outside) and results[0].estimated_error > 0.5
    assert [w.category for w in caught] == [abp.UncertainResultWarning] * is_large


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive", "auto"])
def test_a_run_without_any_message_warns_that_its_marginals_may_be_far_off(method):
    with pytest.warns(abp.UncertainResultWarning, match=r"may be far off.*more than 0\.5"):
        assert abp.infer(grid(12, 30, 1.0, 0.3, seed=0), method, max_work=1).estimated_error > 0.5


def test_a_budget_that_leaves_a_fair_estimate_needs_no_warning():
    graph = grid(6, 10, 1.0, 0.3, seed=0)
    results = []
    assert not caught_by("always", lambda: results.append(abp.infer(graph, "bp", max_updates=3 * graph.n_factors)))
    assert (results[0].consistent, results[0].estimated_error < 0.5) == (False, True)


# Uncertain


def out_of_memory(states=30, memory=20_000):
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 2, (states, states))
    graph = abp.FactorGraph()
    graph.add_variables(4, states)
    graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], rule=lambda a, b: scores[a, b])
    return abp.infer(graph, "adaptive", max_memory=memory)


def test_an_answer_that_knows_next_to_nothing_warns():
    with pytest.warns(abp.UncertainResultWarning, match="little more than a guess.*estimated_error") as caught:
        result = out_of_memory()
    assert [w.filename for w in caught] == [__file__]
    assert result.consistent
    assert result.estimated_error > 0.5


def truncated(fraction):
    return abp.infer(grid(3, 10, 0.1, 0.1, seed=0), "truncated", fraction=fraction)


def test_few_states_of_a_flat_model_warn_and_all_of_them_do_not():
    with pytest.warns(abp.UncertainResultWarning):
        assert truncated(0.1).estimated_error > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truncated(1.0)


@pytest.mark.parametrize(
    ("figures", "warns"),
    [
        ({"error": 0.6}, True),
        ({"error": np.inf}, True),
        ({"outside": 0.95}, True),
        ({"error": 0.4, "outside": 0.8}, False),
        ({"error": 0.6, "consistent": False}, False),
        ({"error": lambda: 1 / 0}, False),
        ({"max_residual": 20.0}, True),
        ({"max_residual": np.inf}, True),
        ({"max_residual": 10.0}, False),
    ],
)
def test_figures_that_are_known_decide(figures, warns):
    graph = grid(3, 3, 1.0, 0.3, seed=0)
    known = abp.infer(graph, "bp")
    result = dataclasses.replace(known, stop_reason=abp.StopReason.TARGET_REACHED, **figures)
    caught = caught_by("always", lambda: warn_of_end(graph, result))
    assert [w.category for w in caught] == [abp.UncertainResultWarning] * warns


def test_a_target_that_is_reached_while_messages_move_by_nats_warns():
    graph = grid(3, 3, 1.0, 0.3, seed=0)
    result = abp.infer(graph, "bp", target_error=0.1)
    assert result.stop_reason is abp.StopReason.TARGET_REACHED
    moving = dataclasses.replace(result, max_residual=100.0)
    with pytest.warns(abp.UncertainResultWarning, match="messages still move by many nats"):
        warn_of_end(graph, moving)


# Evidence


@pytest.mark.parametrize("scores", [[0.25, 0.75, 0.0], [0.0, 1.0, 0.0], np.array([0.333333, 0.333333, 0.333334])])
def test_evidence_that_looks_like_probabilities_warns(scores):
    graph = grid(2, 3, 1.0, 0.3, seed=0)
    with pytest.warns(abp.ModelWarning, match=r"evidence: variable 'x1'.*sum to 1.*np.log\(p\)") as caught:
        abp.Inference(graph, evidence={"x1": scores})
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("scores", [[0.0, 0.0, 0.0], [1 / 3] * 3, [-1.0, 1.0, 1.0], [0.2, 0.7, 0.2], [-0.2, -0.7, 0.0]])
def test_other_evidence_does_not(scores):
    graph = grid(2, 3, 1.0, 0.3, seed=0)
    abp.Inference(graph, evidence={"x1": scores, "x2": np.log([0.2, 0.7, 0.1]), "x0": np.array(2)})


# Rules


RAIN = "rain"
LABELS = np.array(["sun", "rain"])


def with_default(sky, ground, wet="rain"):
    return np.where(sky == wet, -1.0, 0.0) + 0.0 * ground


def by_label(labels):
    return lambda sky, ground: -1.0 * (labels[sky] == "rain") + 0.0 * ground


def weather():
    graph = abp.FactorGraph()
    graph.add_variable("sky", ["sun", "rain"])
    graph.add_variable("ground", 3)
    graph.add_variable("grass", ["dry", "wet", "rain"])
    return graph


@pytest.mark.parametrize(
    "rule",
    [
        lambda sky, ground: np.where(sky == "rain", -1.0, 0.0) + 0.0 * ground,
        lambda sky, ground: np.where(("rain" != sky) & (ground == 1), -1.0, 0.0),  # noqa: SIM300
        lambda sky, ground: -1.0 * np.isin(sky, ["rain", "snow"]) + 0.0 * ground,
        lambda sky, ground: -1.0 * np.isin(sky, RAIN) + 0.0 * ground,
        lambda sky, ground: -1.0 * (sky == LABELS[1]) + 0.0 * ground + 0.0 * len("rain"),
        with_default,
    ],
    ids=["equal", "unequal", "isin", "global", "array", "default"],
)
def test_a_rule_that_compares_states_with_labels_warns(rule):
    graph = weather()
    message = r"the rule of factor 0 \(sky, ground\) compares states with 'rain'.*state 'rain' of variable 'sky' is 1"
    with pytest.warns(abp.ModelWarning, match=message) as caught:
        graph.add_factor(["sky", "ground"], rule=rule)
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(abp.ModelWarning, match="factors 0 to 1 compares states with 'rain'"):
        weather().add_factors([["sky", "ground"]] * 2, rule=rule)


def fails(sky, ground):
    msg = "rain"
    raise ValueError(msg)


@pytest.mark.parametrize(
    "rule",
    [
        lambda sky, ground: np.where(sky == 1, -1.0, 0.0) + 0.0 * ground,
        lambda sky, ground: -1.0 * (LABELS[sky] == "rain") + 0.0 * ground,
        by_label(LABELS),
        lambda sky, ground: {"rain": -1.0}["rain"] * sky + 0.0 * ground,
        fails,
        np.add,
    ],
    ids=["index", "lookup", "closure", "key", "fails", "ufunc"],
)
def test_a_rule_that_looks_labels_up_does_not(rule):
    weather().add_factor(["sky", "ground"], rule=rule)


def test_a_rule_without_labels_in_it_is_not_called_when_it_is_added():
    calls = []

    def rule(sky, ground):
        """Score what nobody named."""
        calls.append(sky)
        return 0.0 * (sky + ground)

    weather().add_factor(["sky", "ground"], rule=rule)
    assert not calls
    assert "Score what nobody named." in set(rule_labels._texts(rule))


# Variables that nothing is said of


def lonely():
    graph = abp.FactorGraph()
    graph.add_variables(6, 2)
    graph.add_variable("only", 1)
    graph.add_factor([0, 1], log_table=np.eye(2))
    return graph


def test_variables_without_factor_or_evidence_are_named_once_per_graph():
    graph = lonely()
    message = "4 of 7 variables have neither a factor nor evidence.*: 'x2', 'x3', 'x4', ..."
    with pytest.warns(abp.UnconnectedVariableWarning, match=message) as caught:
        abp.infer(graph, "bp")
    assert [w.filename for w in caught] == [__file__]
    assert not caught_by("always", lambda: abp.infer(graph, "bp"))


def test_evidence_and_unary_factors_say_something():
    graph = lonely()
    graph.add_factors([[2], [3]], log_table=[0.0, 1.0])
    assert not caught_by("always", lambda: abp.infer(graph, "bp", evidence={4: 0, 5: [0.0, -1.0]}))
    with pytest.warns(abp.UnconnectedVariableWarning, match="1 of 7 variables.*: 'x5'$"):
        abp.infer(graph, "bp", evidence={4: 0})


def test_a_warning_that_is_made_an_error_leaves_the_run_usable():
    inference = abp.Inference(lonely(), "bp")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(abp.UnconnectedVariableWarning):
            inference.run()
        assert inference.run().consistent


def test_one_warning_is_enough_for_a_rule_that_many_factors_share():
    graph = abp.FactorGraph()
    for name in "abcd":
        graph.add_variable(name, ["sun", "rain"])

    def add_all():
        for first, second in ("ab", "bc", "cd"):
            graph.add_factor([first, second], rule=lambda x, y: np.where(x == "rain", -1.0, 0.0) + 0.0 * y)

    assert len(caught_by("always", add_all)) == 1


@dataclasses.dataclass
class Penalty:
    """A rule that cannot be hashed, as dataclasses cannot."""

    size: float

    def __call__(self, sky, ground):
        return -self.size * (sky == ground)


def test_a_rule_need_not_be_hashable():
    graph = weather()
    graph.add_factor(["sky", "ground"], rule=Penalty(1.0))
    assert abp.infer(graph, "bp").stop_reason is abp.StopReason.CONVERGED
