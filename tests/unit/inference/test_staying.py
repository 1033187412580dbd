import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.kept_exact import Evidence
from anytimebp.inference.staying import LATE, PAYS, SOON, Staying
from oracle.examples import examples
from oracle.models import grid, random_loopy, random_tree

ADDED = "calibrated under"


@pytest.fixture(autouse=True)
def _small_cliques_are_calibrated(monkeypatch):
    monkeypatch.setattr("anytimebp.inference.kept.AT_ONCE", -1)


def draw(graph, rng, count, without=()):
    """Return observed states of some variables."""
    free = [v for v in range(len(graph.variables)) if v not in without]
    chosen = rng.choice(free, min(count, len(free)), replace=False).tolist()
    return {v: int(rng.integers(graph.variables.size(v))) for v in chosen}


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.2]), is_tree=st.booleans(), n_fixed=st.integers(0, 2))
def test_queries_with_observations_that_stay_equal_exact_runs_from_nothing(seed, zeros, is_tree, n_fixed):
    graph, rng = (random_tree if is_tree else random_loopy)(seed, zeros=zeros), np.random.default_rng(seed)
    session = abp.Session(graph)
    for _ in range(2):
        fixed = draw(graph, rng, n_fixed)
        for _ in range(6):
            evidence = fixed | draw(graph, rng, int(rng.integers(3)), fixed)
            try:
                cold = abp.infer(graph, "exact", evidence=evidence)
            except abp.InconsistentModelError:
                with pytest.raises(abp.InconsistentModelError):
                    session.query(evidence)
                continue
            warm = session.query(evidence)
            np.testing.assert_allclose(warm.marginals.concatenated(), cold.marginals.concatenated(), atol=1e-9)
            assert warm.log_z == pytest.approx(cold.log_z, abs=1e-8)
            assert warm.exact
            if rng.random() < 0.5:
                continue
            target = int(rng.integers(len(graph.variables)))
            one = session.query(evidence, [target])
            np.testing.assert_allclose(one.marginals[target], cold.marginals[target], atol=1e-9)
            assert list(one.marginals) == [graph.variables.name(target)]


def test_a_result_says_how_many_observations_were_added():
    session = abp.Session(random_loopy(3))
    for state in (0, 1, 0, 1):
        found = session.query({"v0": 0, "v1": state})
    assert found.choice == "a kept junction tree: calibrated under 1 observations, to which 1 were added"


def test_other_tables_and_unary_scores_are_noticed():
    graph, rng = grid(3, 4, 1.0, 0.5, 0), np.random.default_rng(0)
    session, pair = abp.Session(graph), graph.n_factors - 1
    for change in (
        lambda: session.set_unary("x2", rng.normal(size=4)),
        lambda: session.set_log_table(pair, rng.normal(size=(4, 4))),
    ):
        for state in (0, 1, 0, 1, 0):
            before = session.query({"x0": 0, "x1": state})
        assert ADDED in before.choice
        change()
        after = session.query({"x0": 0, "x1": 0})
        assert not np.allclose(after.marginals.concatenated(), before.marginals.concatenated())
        again = session.query({"x0": 0, "x1": 0})
        np.testing.assert_allclose(after.marginals.concatenated(), again.marginals.concatenated(), atol=1e-12)


def test_observations_too_unlikely_for_linear_numbers_are_answered_all_the_same():
    graph = abp.FactorGraph()
    graph.add_variables(8, 2)
    graph.add_factors([[i] for i in range(8)], log_table=np.tile([0.0, -100.0], (8, 1)))
    graph.add_factors([[i, i + 1] for i in range(7)], log_table=np.tile([[0.0, 0.5], [0.3, 0.0]], (7, 1, 1)))
    session, seen = abp.Session(graph), {f"x{i}": 1 for i in range(6)}
    for _ in range(SOON + 1):
        session.query({"x7": 0})
    found, expected = session.query(seen | {"x7": 0}), abp.infer(graph, "exact", evidence=seen | {"x7": 0})
    assert ADDED not in found.choice
    np.testing.assert_allclose(found.marginals.concatenated(), expected.marginals.concatenated(), atol=1e-12)
    assert found.log_z == pytest.approx(expected.log_z)


def noted(staying, *queries):
    """Return what a tree is wanted for after some queries, which make one wherever they can."""
    found = []
    for seen in queries:
        evidence = Evidence([*seen], [*seen.values()])
        staying.note(evidence)
        staying.added(evidence)
        wanted = staying.wanted()
        if wanted is not None:
            staying.take(StandIn(), wanted)
        found.append(wanted)
    return found


class StandIn:
    def position_of(self, variable, state):  # noqa: ARG002
        return state


def test_observations_that_stay_for_two_queries_get_a_tree():
    assert noted(Staying(), {1: 0, 2: 5}, {1: 0, 2: 6}, {1: 0, 2: 7}) == [None, {1: 0}, None]


def test_trees_that_do_not_pay_are_made_less_and_less_often():
    queries = [{1: k // 3, 2: k} for k in range(600)]  # what stays for three queries pays nothing
    made = [wanted for wanted in noted(Staying(), *queries) if wanted is not None]
    assert len(made) < 2 * np.log2(LATE) + 600 / LATE + 2


def test_a_tree_of_use_is_replaced_once_more_observations_have_stayed_for_long():
    first = noted(staying := Staying(), {1: 0}, {1: 0})
    assert first == [None, {1: 0}]
    later = noted(staying, *[{1: 0, 2: 3} for _ in range(PAYS + 1)])
    assert [wanted for wanted in later if wanted is not None] == [{1: 0, 2: 3}]
