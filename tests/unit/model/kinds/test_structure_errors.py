"""What structures and lists do not take: the error names the factor and says what was expected."""

import numpy as np
import pytest

import anytimebp as abp

pytestmark = pytest.mark.compiled  # the model, not kernels: one pass is enough

NAN, INF = np.nan, np.inf


def broken(*_):
    raise RuntimeError("no such thing")  # noqa: EM101, TRY003


EQUALITIES = [
    ([0, 2], abp.Equality(), "universes of one size; got (3, 2)"),
    ([0], abp.Equality(), "needs two variables or more"),
    ([0, 1], abp.Equality([1.0, 2.0]), "must be one log score or 3, one per state; got (2,)"),
    ([0, 1], abp.Equality(np.zeros((3, 3))), "one log score or 3"),
    ([0, 1], abp.Equality("much"), "must be log scores, got 'much'"),
    ([0, 1], abp.Equality(NAN), "`same` of Equality holds nan"),
    ([0, 1], abp.Equality([0.0, INF, 0.0]), "`same` of Equality holds inf"),
    ([0, 1], abp.Equality(1e13), "holds 10000000000000.0; log scores are between"),
    ([0, 1], abp.Equality(0.0, default=INF), "contain inf"),
    ([0, 1], abp.Equality(0.0, default=NAN), "contain nan"),
    ([0, 1], abp.Equality(0.0, default="x"), "must be a log score, got 'x'"),
    ([0, 1], abp.Equality(0.0, default=None), "must be a log score, got None"),
    ([0, 1], abp.Equality(0.0, default=[1.0, 2.0]), "must be a log score"),
    ([0, 1], abp.Equality(-INF), "zero everywhere"),
]
FUNCTIONS = [
    ([0], abp.Deterministic(lambda: 0), "needs two variables or more"),
    ([0, 1], abp.Deterministic(lambda a: a + 1), "returned 3 at (2,), not 0 to 2"),
    ([0, 1], abp.Deterministic(lambda a: a - 1), "returned -1 at (0,)"),
    ([0, 1], abp.Deterministic(lambda a: a / 1.0), "must return state indices, it returned float64"),
    ([0, 1], abp.Deterministic(lambda a: np.where(a > 0, "p", "q")), "must return state indices"),
    ([0, 1], abp.Deterministic(lambda a: None), "must return state indices, it returned object"),
    ([0, 1], abp.Deterministic(lambda a, b: a), "raised TypeError"),
    ([0, 1], abp.Deterministic(broken), "raised RuntimeError: no such thing"),
    ([0, 1], abp.Deterministic(lambda a: 1 if a else 0), "np.where rather than if"),
    ([0, 1], abp.Deterministic(lambda a: np.arange(5)), "raised ValueError"),
    ([0, 1], abp.Deterministic(7), "raised TypeError"),
    ([0, 1], abp.Deterministic(lambda a: a, score=NAN), "`score` of Deterministic holds nan"),
    ([0, 1], abp.Deterministic(lambda a: a, score="x"), "`score` of Deterministic must be log scores, got 'x'"),
    ([0, 1], abp.Deterministic(lambda a: a, score=[1.0, 2.0, 3.0]), "must be one log score"),
    ([0, 1], abp.Deterministic(lambda a: a, score=None), "`score` of Deterministic must be log scores, got None"),
    ([0, 1], abp.Deterministic(lambda a: a, default=INF), "contain inf"),
    ([0, 1], abp.Deterministic(lambda a: a, default="x"), "must be a log score"),
    ([0, 1], abp.Deterministic(lambda a: a, score=-INF), "zero everywhere"),
    ([3, 4, 5, 0], abp.Deterministic(lambda *_: 0), "1,000,000,000 joint states, more than 100,000,000"),
]
DIFFERENCES = [
    ([0], abp.Difference([0.0]), "takes two variables"),
    ([0, 1, 2], abp.Difference([0.0]), "takes two variables and a row of log scores; got 3"),
    ([0, 1], abp.Difference([]), "a row of log scores"),
    ([0, 1], abp.Difference(0.0), "a row of log scores"),
    ([0, 1], abp.Difference([[0.0]]), "a row of log scores"),
    ([0, 1], abp.Difference("near"), "must be log scores, got 'near'"),
    ([0, 1], abp.Difference([[0.0], [1.0, 2.0]]), "must be log scores"),
    ([0, 1], abp.Difference([0.0, NAN, 0.0]), "kernel of Difference holds nan"),
    ([0, 1], abp.Difference([0.0, INF, 0.0]), "kernel of Difference holds inf"),
    ([0, 1], abp.Difference([0.0, 1.0]), "2 differences has no centre; set `first`"),
    ([0, 1], abp.Difference([0.0], first=0.0), "`first` of Difference must be a whole number, got 0.0"),
    ([0, 1], abp.Difference([0.0], first=True), "must be a whole number, got True"),
    ([0, 1], abp.Difference([0.0], default=NAN), "`default` of Difference holds nan"),
    ([0, 1], abp.Difference([0.0], default="x"), "`default` of Difference must be log scores"),
    ([0, 1], abp.Difference([0.0], default=[0.0, 1.0]), "`default` of Difference must be one log score"),
    ([0, 1], abp.Difference([0.0, 1.0], first=9), "zero everywhere"),
    ([0, 1], abp.Difference([-INF]), "zero everywhere"),
]
EXCLUSIONS = [
    ([0], abp.AtMostOne(), "takes two variables or more"),
    ([0, 2], abp.AtMostOne(2), "states [2, 2] of AtMostOne are outside the universes (3, 2)"),
    ([0, 1], abp.AtMostOne(-1), "outside the universes"),
    ([0, 1], abp.AtMostOne([0, 1, 2]), "a state index, or one for each variable"),
    ([0, 1], abp.AtMostOne(1.0), "a state index"),
    ([0, 1], abp.AtMostOne(state=True), "a state index"),
    ([0, 1], abp.AtMostOne("on"), "a state index"),
    ([0, 1], abp.AtMostOne(None), "a state index"),
    ([0, 1], abp.AtMostOne([[0, 1]]), "a state index"),
    ([0, 1], abp.AtMostOne([[0], [0, 1]]), "a state index"),
    ([0, 1], abp.AtMostOne(2**70), "a state index"),
    ([6, 7], abp.AtMostOne(0), "no joint state is possible"),
]
TRANSFORMS = [
    ([0, 2], abp.Xor(), "Xor needs two variables or more, with universes of one size; got (3, 2)"),
    ([0], abp.Xor(), "needs two variables or more"),
    ([0, 1], abp.Xor(), "universes must be powers of two; got 3 states"),
    ([0, 1], abp.And(), "And works on the bits of states"),
    ([3, 4, 5], abp.Or(), "must be powers of two; got 1000 states"),
    ([0, 1], abp.ModularSum([1]), "signs of ModularSum must be 2 whole numbers, one for each variable; got [1]"),
    ([0, 1], abp.ModularSum([1, 2]), "must be 1 or -1; got [1, 2]"),
    ([0, 1], abp.ModularSum([1.0, -1.0]), "must be 2 whole numbers"),
    ([0, 1], abp.ModularSum([[1], [1, 2]]), "must be 2 whole numbers"),
    ([0, 1], abp.ModularSum([1, -1], 0.5), "the constant of ModularSum must be a whole number, got 0.5"),
    ([0, 2], abp.ModularSum([1, -1]), "universes of one size"),
    ([0, 1], abp.FieldCheck(4, [1, 1]), "GF(4) needs universes of 4 states, got 3"),
    ([0, 1], abp.FieldCheck(3.0, [1, 1]), "must be a whole number, its order; got 3.0"),
    ([3, 4], abp.FieldCheck(1000, [1, 1]), "takes fields of prime order, or of 2, 4, 8, ... 65,536 elements; got 1000"),
    ([0, 1], abp.FieldCheck(3, [1, 0]), "the coefficient 0 of FieldCheck has no inverse in GF(3)"),
    ([0, 1], abp.FieldCheck(3, [3, 1]), "the coefficient 3 of FieldCheck has no inverse"),
    ([0, 1], abp.FieldCheck(3, [1, 1, 1]), "coefficients of FieldCheck must be 2 whole numbers"),
    ([8, 9], abp.FieldCheck(4, [1, 3], polynomial=5), "must be irreducible, of degree 2; got 5"),
    ([8, 9], abp.FieldCheck(4, [1, 3], polynomial=11), "must be irreducible, of degree 2; got 11"),
]
COUNTS = [
    ([0, 1], abp.Cardinality([0.0, 1.0]), "a log score for each count from 0 to their number"),
    ([0], abp.Cardinality([0.0, 1.0]), "takes two variables or more"),
    ([0, 1], abp.Cardinality([0.0, NAN, 0.0]), "scores of Cardinality holds nan"),
    ([0, 1], abp.Cardinality([0.0, 0.0, 0.0], 3), "states [3, 3] of Cardinality are outside the universes (3, 3)"),
    ([0, 1], abp.Cardinality([-INF, -INF, -INF]), "zero everywhere"),
    ([6, 7], abp.Cardinality([0.0, 0.0, -INF], 0), "zero everywhere"),
    ([0, 2], abp.NoisyOr([0.5]), "of two states each; got universes (3, 2)"),
    ([2, 10], abp.NoisyOr([0.5, 0.5]), "takes 1 probabilities, one for each variable but the last"),
    ([2, 10], abp.NoisyOr([1.5]), "must be between 0 and 1; got [1.5, 0.0]"),
    ([2, 10], abp.NoisyOr([0.5], leak=NAN), "must be between 0 and 1"),
    ([2, 10], abp.NoisyOr("often"), "takes 1 probabilities"),
    ([0, 1], abp.LowRank([np.ones((3, 2))]), "got shapes [(3, 2)] for universes (3, 3)"),
    ([0, 1], abp.LowRank([np.ones((3, 2)), np.ones((3, 1))]), "of shape (states, r) with one r for all"),
    ([0, 1], abp.LowRank([np.ones((3, 2)), -np.ones((3, 2))]), "must be finite and not negative"),
    ([0, 1], abp.LowRank([np.ones((3, 2)), np.zeros((3, 2))]), "zero everywhere"),
    ([0, 1], abp.LowRank(7), "takes two variables or more"),
]
NONE = [
    ([0, 1], abp.Equality, "must be such as Equality() or AtMostOne()"),
    ([0, 1], "Equality", "must be such as Equality() or AtMostOne(), got 'Equality'"),
    ([0, 1], np.zeros((3, 3)), "must be such as Equality()"),
]


def variables():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_variable("x2", 2)
    graph.add_variables(3, 1000)
    graph.add_variables(2, 1)
    graph.add_variables(2, 4)
    graph.add_variable("x10", 2)
    return graph


@pytest.mark.parametrize(
    ("scope", "structure", "said"), EQUALITIES + FUNCTIONS + DIFFERENCES + EXCLUSIONS + TRANSFORMS + COUNTS + NONE
)
def test_what_is_wrong_with_a_structure_names_the_factor(scope, structure, said):
    for how in ("add_factor", "add_factors"):
        graph = variables()
        graph.add_factor([0], table=[1.0, 1.0, 1.0])
        with pytest.raises((abp.ModelError, abp.InconsistentModelError)) as caught:
            getattr(graph, how)(scope if how == "add_factor" else [scope], structure=structure)
        names = ", ".join(f"x{k}" for k in scope)
        assert f"factor 1 ({names})" in str(caught.value)
        assert said in str(caught.value)
        assert graph.n_factors == 1


def test_a_structure_goes_with_nothing_else():
    with pytest.raises(abp.ModelError, match=r"factor 0 \(x0, x1\) needs exactly one of .*; got table and structure"):
        variables().add_factor([0, 1], table=np.ones((3, 3)), structure=abp.Equality())
    with pytest.raises(abp.ModelError, match=r"factor 0 \(x0, x1\): `default` can only be combined with entries"):
        variables().add_factor([0, 1], structure=abp.Equality(), default=0.0)


def test_a_structure_of_many_factors_names_them():
    with pytest.raises(abp.ModelError, match="factors 0 to 1: the states"):
        variables().add_factors([[0, 1], [1, 0]], structure=abp.AtMostOne(5))


def test_what_is_given_may_change_afterwards():
    """Arrays of structures are copied: they are short."""
    kernel, same, states = np.zeros(3), np.zeros(3), np.array([0, 1])
    graph = variables()
    graph.add_factor([0, 1], structure=abp.Difference(kernel))
    graph.add_factor([0, 1], structure=abp.Equality(same))
    graph.add_factor([0, 1], structure=abp.AtMostOne(states))
    before = [graph.factor_log_table(k) for k in range(3)]
    kernel[:], same[:], states[:] = 9.0, 9.0, 2
    assert all((graph.factor_log_table(k) == before[k]).all() for k in range(3))


# ---------------------------------------------------------------- lists
ENTRIES = [
    (([[0, 0], [0, 0]], [1.0, 2.0]), "lists the states (0, 0) more than once"),
    (([[0, 3]], [1.0]), "entry 0 of factor 0 (x0, x1) is at states (0, 3), outside the universes (3, 3)"),
    (([[0, -1]], [1.0]), "outside the universes"),
    (([[0.0, 1.0]], [1.0]), "must be whole numbers"),
    (([[0, 1, 2]], [1.0]), "must be whole numbers of shape (1, 2)"),
    (([[0, 1]], [1.0, 2.0]), "of shape (2, 2)"),
    (([[0, 1]], ["a"]), "must be a pair (indices, log_values), or a scipy.sparse matrix"),
    (([[0, 1]], [NAN]), "contain nan"),
    (([[0, 1]], [INF]), "contain inf"),
    (([[0, 1]], [-INF]), "zero everywhere"),
    (7, "must be a pair"),
    (([[0, 1]],), "must be a pair"),
]


@pytest.mark.parametrize(("entries", "said"), ENTRIES)
def test_what_is_wrong_with_entries_names_the_factor(entries, said):
    with pytest.raises((abp.ModelError, abp.InconsistentModelError)) as caught:
        variables().add_factor([0, 1], entries=entries)
    assert "factor 0 (x0, x1)" in str(caught.value)
    assert said in str(caught.value)
