"""Rules: compiled ones, proposals, errors that name factor and states, what a failed run leaves, counted work."""

import copy
import pickle
import warnings
from collections import Counter

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.adaptive import active_model
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.paper.asked import AskedFactors

njit = pytest.importorskip("numba").njit
compiled_only = pytest.mark.compiled


@njit
def apart(a, b):
    if a > b:  # of scalars only
        return -0.3 * (a - b)
    return -0.2 * (b - a)


@njit
def by_arrays(a, b):
    return -0.1 * a.shape[0] * b.shape[1]  # scalars have no shape


@njit
def failing(a, b):
    if a == 2 and b == 1:
        raise ValueError("two and one")  # noqa: EM101, TRY003
    return 0.0


@njit
def undefined(a, b):
    return np.nan if a == 2 and b == 1 else 0.0


@njit
def text(a, b):
    return "text"


@njit
def of_five(a, b, c, d, e):
    return 0.1 * a - 0.2 * b * c + 0.3 * d - e


def chain(rule, n=6, n_variables=4, **options):
    """Return a ring of variables with likely first states, and one rule for all pairs."""
    graph = abp.FactorGraph()
    graph.add_variables(n_variables, n)
    graph.add_factors([[i] for i in range(n_variables)], log_table=-1.0 * np.arange(n))
    graph.add_factors([[i, (i + 1) % n_variables] for i in range(n_variables)], rule=rule, **options)
    return graph


# ---------------------------------------------------------------- rules that Numba compiles
@compiled_only
@pytest.mark.parametrize("method", abp.METHODS)
def test_a_compiled_rule_of_scalars_gives_what_its_table_gives(method):
    a, b = np.ix_(range(6), range(6))
    table = np.where(a > b, -0.3 * (a - b), -0.2 * (b - a))
    stated = chain(apart)
    tabled = chain(lambda a, b: table[a, b])
    ours, expected = abp.infer(stated, method, rng=0), abp.infer(tabled, method, rng=0)
    assert ours.distance(expected) < 1e-12
    assert ours.work == expected.work


@compiled_only
def test_compiled_rules_have_any_arity():
    graph = abp.FactorGraph()
    graph.add_variables(5, 3)
    graph.add_factor([0, 1, 2, 3, 4], rule=of_five)
    graph.add_factor([2], rule=njit(lambda a: -1.0 * a))
    expected = of_five.py_func(*np.ix_(*[range(3)] * 5))
    np.testing.assert_allclose(graph.factor_log_table(0), expected, rtol=1e-15)
    np.testing.assert_array_equal(graph.factor_log_table(1), [0.0, -1.0, -2.0])


@compiled_only
def test_a_compiled_rule_that_takes_no_scalars_gets_arrays():
    np.testing.assert_allclose(chain(by_arrays).factor_log_table(4), np.full((6, 6), -3.6))


@compiled_only
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            failing,
            r"the rule of factor 0 \(x0, x1\) raised ValueError: two and one; .*states 0 to 2 of 'x0' and 0, 1",
        ),
        (undefined, r"returned nan at states \(2, 1\)"),
        (text, "must return real numbers"),
        (of_five, "raised TypeError"),
        (njit(lambda a, b: a / b), "raised ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_a_compiled_rule_is_told_as_for_any(rule, message):
    graph = abp.FactorGraph()
    graph.add_variable("x0", 3)
    graph.add_variable("x1", 2)
    graph.add_factor([0, 1], rule=rule)
    with pytest.raises(abp.RuleError, match=message):
        abp.infer(graph)


@compiled_only
@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_graphs_with_compiled_rules_are_copied_and_pickled(twin):
    graph = chain(apart, propose=near)
    abp.infer(graph)
    other = twin(graph)
    np.testing.assert_array_equal(other.factor_log_table(4), graph.factor_log_table(4))
    assert other.blocks[-1].source.propose is near


@compiled_only
def test_a_compiled_rule_is_compiled_before_the_clock_starts():
    rule = njit(lambda a, b: -0.25 * abs(a - b))
    inference = abp.Inference(chain(rule), "bp")
    assert not rule.signatures
    assert inference.run().seconds < 0.2
    assert len(rule.signatures) == 1


# ---------------------------------------------------------------- proposals
def near(states, k):
    """Propose the same states for the other variable."""
    given = next(part for part in states if part is not None)
    return given[:k]


def source_of(propose, rule=lambda a, b: -abs(a - b)):
    graph = abp.FactorGraph()
    graph.add_variable("a", 10)
    graph.add_variable("b", 5)
    graph.add_factor(["a", "b"], rule=rule, propose=propose)
    return graph.blocks[0].source


def test_propose_sees_likely_states_and_none_where_partners_are_wanted():
    seen = []

    def propose(states, k):
        seen.append((states, k))
        return [4, 2, 2, 0, 3]

    source = source_of(propose)
    likely = [np.array([7, 1]), np.array([3])]
    assert source.partners(likely, 1, 3).tolist() == [0, 2, 4]
    assert source.partners(likely, 0, 9).tolist() == [0, 2, 3, 4]
    (states, k), (others, _) = seen
    assert k == 3
    assert states[0].tolist() == [7, 1]
    assert states[1] is None
    assert others[0] is None
    assert not states[0].flags.writeable


@pytest.mark.parametrize("nothing", [[], (), np.empty(0), np.empty(0, dtype=np.int64)])
def test_nothing_may_be_proposed(nothing):
    found = source_of(lambda states, k: nothing).partners([np.arange(2)] * 2, 1, 4)
    assert found.dtype == np.int64
    assert found.tolist() == []
    assert source_of(None).partners([np.arange(2)] * 2, 1, 4).tolist() == []


@pytest.mark.parametrize(
    ("propose", "problem"),
    [
        (lambda states, k: 1 / 0, "raised ZeroDivisionError"),
        (lambda states: [0], "raised TypeError"),
        (lambda states, k: None, "returned None"),
        (lambda states, k: [0.0, 1.0], r"returned float64 of shape \(2,\)"),
        (lambda states, k: [True], "returned bool"),
        (lambda states, k: [[0, 1]], r"returned int64 of shape \(1, 2\)"),
        (lambda states, k: 3, r"returned int64 of shape \(\)"),
        (lambda states, k: [[0], [1, 2]], "returned something that is not an array"),
        (lambda states, k: [0, 5], "returned state 5"),
        (lambda states, k: [-1], "returned state -1"),
        (lambda states, k: np.array([2**63], dtype=np.uint64), "returned state 9223372036854775808"),
    ],
)
def test_what_is_wrong_with_a_proposal_is_told(propose, problem):
    with pytest.raises(abp.RuleError, match=rf"propose of factor 0 \(a, b\) {problem}.* 1-d array .* from 0 to 4"):
        source_of(propose).partners([np.arange(10), np.empty(0, dtype=np.int64)], 1, 3)


def test_propose_goes_with_a_rule_and_is_a_function():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    for add in (
        lambda **given: graph.add_factor([0, 1], **given),
        lambda **given: graph.add_factors([[0, 1]], **given),
    ):
        with pytest.raises(abp.ModelError, match=r"factor 0 \(x0, x1\): `propose` can only be combined with a rule"):
            add(log_table=np.zeros((3, 3)), propose=near)
        with pytest.raises(abp.ModelError, match=r"propose of factor 0 \(x0, x1\) must be a function"):
            add(rule=np.minimum, propose=[1, 2])
    assert graph.n_factors == 0
    assert graph.add_factors([[0, 1], [1, 0]], rule=np.minimum, propose=near) == range(2)


def test_a_proposal_for_one_of_many_factors_names_it():
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factors([[0, 1], [1, 2]], rule=np.minimum, propose=lambda states, k: ["a"])
    block, offset = graph.locate(1)
    with pytest.raises(abp.RuleError, match=r"propose of factor 1 \(x1, x2\) returned <U1 .* given states 1 of 'x2'"):
        block.partners(offset, [np.arange(2), np.array([1])], 0, 2, graph.variables)


def test_a_bad_proposal_in_a_run_on_large_universes_names_the_very_factor():
    graph = chain(lambda a, b: -abs(a - b), propose=lambda states, k: near(states, k) + (0 if states[0] is None else 9))
    with pytest.raises(abp.RuleError, match=r"propose of factor 7 \(x3, x0\) returned state 9; .* of 'x3'"):
        begun(graph, "large").run()


# ---------------------------------------------------------------- errors
def fussy(unwanted, n_states=8):
    """Return a graph whose third pair, of many added at once, is asked for states that its rule refuses."""
    graph = abp.FactorGraph()
    for name in "abcd":
        graph.add_variable(name, n_states)
    graph.add_factors([[i] for i in range(4)], log_table=-1.0 * np.arange(n_states))

    def rule(a, b):
        return np.where((a == 5) & (b == 6), unwanted, -0.1 * abs(a - b))

    graph.add_factors([[0, 1], [1, 2], [2, 3]], rule=rule)
    return graph


@pytest.mark.parametrize("method", ["random", "dynamic", "fixed", "truncated"])
def test_errors_name_the_very_factor_of_many_added_at_once(method):
    # of c only the states are left that are refused together with d = 6
    evidence = {"a": 0, "b": 1, "c": {5, 2}, "d": {6, 3}}
    with pytest.raises(abp.RuleError) as caught:
        abp.infer(fussy(np.nan), method, evidence=evidence, rng=0, fraction=1.0)
    assert "the rule of factor 6 (c, d) returned nan at states (5, 6)" in str(caught.value)
    assert "of 'c' and" in str(caught.value)


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_errors_on_all_states_name_the_very_factor(method):
    with pytest.raises(
        abp.RuleError, match=r"factor 6 \(c, d\) returned inf .*asked for states 2, 5 of 'c' and 0 to 7 of"
    ):
        abp.infer(fussy(np.inf), method, evidence={"a": 0, "b": 1, "c": {5, 2}})


def test_long_lists_of_states_are_cut_short():
    graph = abp.FactorGraph()
    graph.add_variables(2, 40, names=["a", "b"])
    graph.add_factor(["a", "b"], rule=lambda a, b: np.zeros(7))
    evidence = {"a": {3}, "b": set(range(0, 40, 3))}
    with pytest.raises(abp.RuleError, match=r"states 3 of 'a' and 0, 3, 6, \.\.\. \(14 states\) of 'b'$"):
        abp.infer(graph, "bp", evidence=evidence)


def test_errors_of_unary_rules_name_the_very_factor():
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factors([[0], [1], [2]], rule=lambda a: np.where(a == 3, np.nan, 0.0))
    for method in abp.METHODS:
        with pytest.raises(
            abp.RuleError, match=r"factor 1 \(x1\) returned nan at states \(3,\).*asked for states 2, 3 of 'x1'"
        ):
            abp.infer(graph, method, evidence={0: 1, 1: {2, 3}})
    with pytest.raises(abp.RuleError, match=r"factor 2 \(x2\)"):
        graph.factor_log_table(2)


# ---------------------------------------------------------------- what a failed run leaves behind
class Failing:
    """A rule that fails from some call on."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self, *states):
        self.left -= 1
        if self.left < 0:
            raise OSError
        return -0.3 * np.abs(sum(states) - 4)


def staged(rule):
    """Return a graph with pairs and a factor of three."""
    graph = chain(rule, n=8)
    graph.add_factor([0, 1, 2], rule=rule)
    return graph


def same_marginals(one, other):
    return all(np.array_equal(one.marginals[i], other.marginals[i]) for i in range(4))


def begun(graph, method, **options):
    """Return an inference; one of `adaptive` that goes through rounds on domains, or keeps tables over these alone."""
    inference = abp.Inference(graph, "adaptive" if method == "large" else method, rng=0, **options)
    if method in {"adaptive", "large"}:
        inference._run.start(lambda task: AdaptiveRun(task, at_any_cost=method == "adaptive"))
    return inference


@pytest.fixture(autouse=True)
def large_unless_at_any_cost(request, monkeypatch):
    """Have `adaptive` keep tables over the domains alone, in tests of the method "large"."""
    if "large" in request.node.name:
        monkeypatch.setattr(AdaptiveRun, "_begin_with", lambda run: run._large())


@pytest.mark.parametrize("method", ["dynamic", "adaptive", "large", "fixed", "random"])
def test_the_last_consistent_snapshot_comes_with_the_error(method):
    with_snapshot = 0
    for calls in range(4, 60, 4):
        inference, seen = begun(staged(Failing(calls)), method), []
        try:
            seen.extend(s for s in inference if s.consistent)
        except abp.RuleError as error:
            found = error.snapshot
        else:
            break
        assert (found is None) == (not seen)
        if found is None:
            continue
        with_snapshot += 1
        assert found.consistent
        assert found.updates == seen[-1].updates
        assert same_marginals(found, seen[-1])
        assert all(m.sum() == pytest.approx(1.0) for m in found.marginals.values())
        with pytest.raises(abp.RuleError) as again:
            inference.run()
        assert again.value.snapshot is found
    assert with_snapshot > 2


@pytest.mark.parametrize("method", ["dynamic", "adaptive"])
def test_the_snapshot_of_a_failed_run_is_that_of_a_run_stopped_just_before(method):
    for calls in (32, 40) if method == "dynamic" else (12, 20):
        with pytest.raises(abp.RuleError) as caught:
            begun(staged(Failing(calls)), method).run()
        found = caught.value.snapshot
        stopped = begun(staged(Failing(10**6)), method).run(
            callback=lambda snapshot, at=(found.updates, found.work): (snapshot.updates, snapshot.work) == at
        )
        assert stopped.stop_reason is abp.StopReason.CALLBACK
        assert stopped.consistent
        assert same_marginals(found, stopped)
        sent = pickle.loads(pickle.dumps(caught.value))  # to another process, say, where nothing can be asked
        assert (str(sent), sent.snapshot) == (str(caught.value), None)


def test_a_snapshot_that_cannot_be_read_does_not_hide_the_error(monkeypatch):
    inference = abp.Inference(staged(Failing(40)), "dynamic")
    next(inference)
    monkeypatch.setattr(type(inference._run.method), "read", lambda *_, **__: 1 / 0)
    with pytest.raises(abp.RuleError, match="raised OSError") as caught:
        inference.run()
    assert caught.value.snapshot is None


def test_a_policy_that_fails_leaves_the_last_consistent_snapshot():
    class Failing(abp.DynamicGrowth):
        calls = 0

        def scores(self, view, variable):
            self.calls += 1
            return super().scores(view, variable) * (1.0 if self.calls < 12 else np.nan)

    with pytest.raises(abp.OptionError) as caught:
        abp.infer(chain(lambda a, b: -0.3 * abs(a - b)), policy=Failing())
    assert caught.value.snapshot.consistent


# ---------------------------------------------------------------- work
class Counting:
    """A rule that counts its scores, and how often each joint state was asked for and by whom."""

    def __init__(self, slope=0.3):
        self.slope = slope
        self.asked = 0
        self.filling = False
        self.filled = Counter()

    def __call__(self, *states):
        block = np.broadcast_arrays(*states)
        self.asked += block[0].size
        if self.filling:
            self.filled.update(zip(*[part.ravel().tolist() for part in block], strict=True))
        return -self.slope * np.abs(sum(states) - 4)


def messages_aside(work_parts):
    return sum(work_parts.values()) - work_parts["messages"]


@pytest.mark.parametrize("evidence", [{}, {1: {0, 2, 3}, 2: 1}])
@pytest.mark.parametrize("method", [*abp.METHODS, "large"])
def test_every_score_of_a_rule_is_counted(method, evidence):
    rule, unary = Counting(), Counting()
    graph = staged(rule)
    graph.add_factor([1], rule=unary)
    inference = begun(graph, method, evidence=evidence)
    done = False
    while not done:  # also where a run is stopped half way
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", abp.NotConvergedWarning)
            result = inference.run(max_work=200)
        done = inference.stop_reason is not None
        parts = inference._run.figures.work_parts
        assert rule.asked + unary.asked <= messages_aside(parts)
    if method in {"bp", "residual"}:
        assert rule.asked + unary.asked == messages_aside(result.work_parts)


def test_every_score_is_counted_in_the_rounds_of_adaptive():
    rule = Counting()
    inference = begun(staged(rule), "adaptive")
    for snapshot in inference:
        assert rule.asked <= messages_aside(inference._run.figures.work_parts), snapshot


def mark_filling(monkeypatch, owner, name, rules):
    """Have rules know when they are asked for sub-tables, by a generator."""
    inside = getattr(owner, name)

    def fill(*arguments):
        for rule in rules:
            rule.filling = True
        try:
            return iter([*inside(*arguments)])
        finally:
            for rule in rules:
                rule.filling = False

    monkeypatch.setattr(owner, name, fill)


def apart_rules(n=9):
    """Return a peaked ring in which each factor has a rule of its own that counts, and these."""
    rng = np.random.default_rng(0)
    rules = [Counting(0.02) for _ in range(6)]
    graph = abp.FactorGraph()
    graph.add_variables(4, n)
    graph.add_factors([[i] for i in range(4)], log_table=rng.permuted(np.tile(-4.0 * np.arange(n), (4, 1)), axis=1))
    for rule, scope in zip(rules, ([0, 1], [1, 2], [2, 3], [3, 0], [0, 1, 2], [3, 1, 0, 2]), strict=True):
        graph.add_factor(scope, rule=rule)
    return graph, rules


@pytest.mark.parametrize("method", ["dynamic", "fixed", "random"])
def test_growing_domains_ask_for_no_entry_of_a_table_twice(method, monkeypatch):
    graph, rules = apart_rules(5)
    mark_filling(monkeypatch, AskedFactors, "_put_table", rules)
    result = abp.infer(graph, method, rng=0)
    assert result.domain_sizes.tolist() == [5] * 4
    for rule, arity in zip(rules, [2, 2, 2, 2, 3, 4], strict=True):
        assert len(rule.filled) == 5**arity
        assert set(rule.filled.values()) == {1}


@pytest.mark.parametrize("method", ["large", "adaptive"])
def test_rounds_ask_for_no_entry_of_a_table_twice(method, monkeypatch):
    graph, rules = apart_rules(5)
    of_tables = active_model.ask_table

    def ask(*arguments):
        """Mark what is asked for from here; nothing else is asked for meanwhile."""
        for rule in rules:
            rule.filling = True
        scores = yield from of_tables(*arguments)
        for rule in rules:
            rule.filling = False
        return scores

    monkeypatch.setattr(active_model, "ask_table", ask)
    begun(graph, method).run()
    for rule, arity in zip(rules, [2, 2, 2, 2, 3, 4], strict=True):
        assert len(rule.filled) == 5**arity or method == "adaptive"
        assert set(rule.filled.values()) == {1}
