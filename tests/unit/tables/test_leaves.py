"""Cores of graphs with leaves: when there is one, what it costs, and what reading later must not change."""

import pickle
import threading

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import new_task, steps
from anytimebp.tables import leaves
from anytimebp.tables.carry_over import Start

NOTHING = np.empty(0, dtype=np.int64)


@pytest.fixture
def always(monkeypatch):
    """Make a core wherever anything hangs on one."""
    monkeypatch.setattr(leaves, "OVERHEAD", -np.inf)


def extraction(n=4, types=3, relations=5, *, tied=False, seed=0, **given):
    """A type per entity, a relation per ordered pair: the relations are leaves."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, types)
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    graph.add_variables(len(pairs), relations)
    graph.add_factors([[i] for i in range(n)], log_table=rng.normal(size=(n, types)))
    graph.add_factors([[n + k] for k in range(len(pairs))], log_table=rng.normal(size=(len(pairs), relations)))
    scores = 0.5 * rng.normal(size=(types, types, relations) if tied else (len(pairs), types, types, relations))
    given = given or {"log_table": scores}
    graph.add_factors([[a, b, n + k] for k, (a, b) in enumerate(pairs)], **given)
    return graph


def run(graph, method="bp", start=None, evidence=None, **options):
    task = new_task(graph, abp.Inference(graph, method, evidence=evidence, **options)._options)
    made = AllStates(task, start=start)
    for _ in steps(made, task.figures):
        pass
    assert task.figures.ending is abp.StopReason.CONVERGED
    return made, made.read(settled=False)


def whole(graph, monkeypatch, **options):
    """Return the answer without a core."""
    with monkeypatch.context() as patch:
        patch.setattr(leaves, "OVERHEAD", np.inf)
        return abp.infer(graph, options.pop("method", "bp"), **options)


def gap(one, other):
    return np.abs(one.marginals.concatenated() - other.marginals.concatenated()).max()


def test_a_sweep_over_the_core_reads_a_table_without_its_leaves(always):
    made, found = run(extraction())
    core, n_factors = made.leaves.core, 12
    assert len(core.edges) == 2 * n_factors
    read, rest = divmod(int(found.work) - n_factors * 45, 9)
    assert rest == 0
    assert n_factors <= read <= found.updates - n_factors  # what would be sent again is not read for


def test_small_graphs_and_graphs_of_few_leaves_have_no_core():
    assert run(extraction())[0].leaves is None
    assert run(extraction(8, 12, 8))[0].leaves is not None
    grid = abp.FactorGraph()
    grid.add_variables(10_001, 3)
    position = np.arange(10_000).reshape(100, 100)
    pairs = np.stack([position[:, :-1].ravel(), position[:, 1:].ravel()], axis=1).tolist()
    pairs += np.stack([position[:-1].ravel(), position[1:].ravel()], axis=1).tolist()
    rng = np.random.default_rng(0)
    grid.add_factors([*pairs, (0, 10_000)], log_table=0.1 * rng.normal(size=(3, 3)))
    made = AllStates(new_task(grid, abp.Inference(grid, "bp")._options))
    for _ in made.begin():
        pass
    assert made.leaves is None


def test_shared_tables_stay_shared_where_leaves_would_save_little(always):
    assert run(extraction(relations=3, tied=True))[0].leaves is None
    assert len(run(extraction(relations=4, tied=True))[0].leaves.arrays.table_address.nonzero()[0]) == 12


@pytest.mark.parametrize("limit", ["max_memory", "free memory"])
def test_tables_without_leaves_are_made_within_the_memory(always, limit, monkeypatch):
    graph = extraction()
    options = {"max_memory": graph.summary().full_bp_bytes + 4 * 72} if limit == "max_memory" else {}
    if not options:
        monkeypatch.setattr(leaves, "MOST_BYTES", 4 * 72)
        monkeypatch.setattr(leaves, "available_memory", lambda: 0)
    made, found = run(graph, **options)
    assert len(made.leaves.arrays.table_address.nonzero()[0]) == 4
    assert gap(found, whole(extraction(), monkeypatch)) < 1e-9


def test_reading_later_needs_logs_where_linear_sums_would_lose_something(always, monkeypatch):
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(5, 3)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=rng.normal(size=(3, 3, 3)))
    for i in (0, 3, 4):
        graph.add_factor([i], log_table=[0.0, -1.0, -460.0])
    gate = np.array([[0.0, -np.inf, 0.0], [0.3, 0.0, -np.inf], [-np.inf, 0.0, 1.0]])
    graph.add_factors([[0, 3], [3, 4]], log_table=gate)
    made, found = run(graph)
    assert found.arithmetic == "linear"
    assert not made.complete()
    monkeypatch.setattr("anytimebp.inference.all_states.first_arithmetic", lambda *_: 1)
    right = whole(graph, monkeypatch)
    assert right.arithmetic == "log"
    assert gap(found, right) < 1e-9
    for i in range(5):
        one, other = found.marginals[i], right.marginals[i]
        assert np.allclose(np.log(one), np.log(other), rtol=1e-9)


def test_an_impossible_tree_is_named(always):
    graph = extraction()
    tree = graph.add_variables(2, 2)
    never = [[-np.inf, 0.0], [0.0, -np.inf]]
    graph.add_factor([0, tree[0]], log_table=np.zeros((3, 2)))
    graph.add_factor([tree[0], tree[1]], log_table=never)
    graph.add_factor([tree[0]], log_table=[0.0, -np.inf])
    graph.add_factor([tree[1]], log_table=[0.0, -np.inf])
    with pytest.raises(abp.InconsistentModelError, match=f"x{tree[0]}"):
        abp.infer(graph, "bp")


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_a_run_from_the_messages_of_another_one_ends_where_it_would(always, method):
    def hung():
        graph = extraction()
        graph.add_variables(6, 3)
        rng = np.random.default_rng(2)
        pairs = [[0, 16], [16, 17], [17, 18], [1, 19], [19, 20]]
        graph.add_factors(pairs, log_table=rng.normal(size=(5, 3, 3)))
        graph.add_factor([4, 21], log_table=rng.normal(size=(5, 3)))
        return graph

    before, _ = run(hung(), method, tolerance=1e-11)
    assert before.complete()
    again, _ = run(hung(), method, tolerance=1e-11, start=Start(before.workspace, NOTHING, {}))
    assert again.leaves.disturbed(NOTHING).tolist() == []
    for evidence in ({"x18": 0}, {"x0": 1}, {"x7": 2}, {"x21": {0, 1}}):
        start = Start(before.workspace, NOTHING, {})
        warm, found = run(hung(), method, tolerance=1e-11, evidence=evidence, start=start)
        _, cold = run(hung(), method, tolerance=1e-11, evidence=evidence)
        assert gap(found, cold) < 1e-9
        assert found.log_z == pytest.approx(cold.log_z, abs=1e-9)
        assert warm.complete()


def test_snapshots_that_were_not_read_travel_with_their_numbers(always):
    graph = extraction()
    first, second = abp.infer(graph, "bp"), abp.infer(graph, "bp")
    assert gap(pickle.loads(pickle.dumps(first)), second) == 0.0


def test_threads_may_read_the_same_snapshot(always):
    graph = extraction(6, 6, 6)
    right = abp.infer(graph, "bp").marginals.concatenated()
    for _ in range(5):
        result, found = abp.infer(graph, "bp"), []
        threads = [threading.Thread(target=lambda: found.append(result.marginals.concatenated())) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all((one == right).all() for one in found)


def test_a_table_that_the_user_changes_after_the_run_does_not_change_the_answer(always):
    table = np.exp(0.5 * np.random.default_rng(0).normal(size=(3, 3, 5)))
    right = abp.infer(extraction(table=table.copy()), "bp")
    expected = right.marginals.concatenated()
    result = abp.infer(extraction(table=table), "bp")
    table[:] = 1.0
    assert (result.marginals.concatenated() == expected).all()


def test_reading_is_outside_of_time_and_work(always):
    inference = abp.Inference(extraction(), "bp")
    result = inference.run()
    before = dict(result.work_parts), inference._run.seconds
    result.marginals.read()
    assert (dict(result.work_parts), inference._run.seconds) == before


def test_a_core_that_only_lost_a_lone_state_answers_as_the_whole_graph(always, monkeypatch):
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    graph.add_variable("lone", 1)
    rng = np.random.default_rng(0)
    graph.add_factors([[0, 1], [1, 2]], log_table=rng.normal(size=(2, 3, 3)))
    graph.add_factor([2, 3, 0], log_table=rng.normal(size=(3, 1, 3)))
    made, found = run(graph)
    assert len(made.leaves.order) == 0
    assert len(made.leaves.core.edges) == 6
    right = whole(graph, monkeypatch)
    assert gap(found, right) < 1e-9
    assert found.log_z == pytest.approx(right.log_z, abs=1e-9)
    assert type(found.log_z) is float


def test_an_observed_variable_cuts_the_graph(always):
    graph = abp.FactorGraph()
    graph.add_variables(4, 3)
    rng = np.random.default_rng(0)
    graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], log_table=rng.normal(size=(4, 3, 3)))
    made, found = run(graph, evidence={"x1": 2})
    assert made.leaves.core is None
    assert found.estimated_error == 0.0
    assert found.updates == 4


def ring_with_leaf(n=4, **given):
    """Return a ring of variables of three states; its last factor has a leaf of five, given in some way."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(n, 3)
    graph.add_factors([[k] for k in range(n)], log_table=rng.normal(size=(n, 3)))
    graph.add_factors([[k, k + 1] for k in range(n - 1)], log_table=0.5 * rng.normal(size=(n - 1, 3, 3)))
    leaf = graph.add_variable("leaf", 5)
    graph.add_factor([leaf], log_table=rng.normal(size=5))
    graph.add_factor([n - 1, 0, leaf], **given)
    return graph


def given_scores():
    rng = np.random.default_rng(1)
    positions = np.argwhere(rng.random((3, 3, 5)) < 0.2)
    return {
        "a list": {"entries": (positions, rng.normal(size=len(positions))), "default": 0.1},
        "a structure": {"structure": abp.Deterministic(lambda a, b: (a + b) % 5)},
        "a rule": {"rule": lambda a, b, c: 0.3 * np.cos(a + 2.0 * b + c)},
    }


@pytest.mark.parametrize("kind", ["a list", "a structure", "a rule"])
@pytest.mark.parametrize("method", ["bp", "residual"])
def test_lists_and_structures_keep_the_message_of_their_leaf(always, kind, method, monkeypatch):
    monkeypatch.setattr("anytimebp.model.source.LIST_GAIN", 0.0)  # lists stay lists, however small
    graph = ring_with_leaf(**given_scores()[kind])
    tail = graph.add_variable("tail", 2)  # so that there is a core
    graph.add_factor([1, tail], log_table=np.random.default_rng(2).normal(size=(3, 2)))
    made, found = run(graph, method)
    in_core, summed_out = 4 in made.leaves.core.variables, made.leaves.arrays.table_address[3] != 0
    assert (in_core, summed_out) == (
        (False, True) if kind == "a rule" else (True, False)
    )  # rules are asked for a table
    assert gap(found, whole(graph, monkeypatch, method=method)) < 1e-8


@pytest.mark.parametrize("method", ["bp", "residual"])
@pytest.mark.parametrize("arithmetic", [0, 1])
def test_leaves_of_a_hub_in_the_core_are_summed_out(always, method, arithmetic, monkeypatch):
    monkeypatch.setattr("anytimebp.inference.all_states.first_arithmetic", lambda *_: arithmetic)
    n, rng = 20, np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(2 * n + 1, 3)
    graph.add_factors([[k] for k in range(2 * n + 1)], log_table=rng.normal(size=(2 * n + 1, 3)))
    graph.add_factors([[1 + k, 1 + (k + 1) % n] for k in range(n)], log_table=0.3 * rng.normal(size=(n, 3, 3)))
    scopes = [[0, 1 + k, 1 + n + k] for k in range(n)]
    graph.add_factors(scopes, log_table=0.3 * rng.normal(size=(n, 3, 3, 3)))
    made, found = run(graph, method)
    assert len(made.leaves.arrays.table_address.nonzero()[0]) == n
    assert made.leaves.core.arrays.variable_hub[0] == 0
    assert gap(found, whole(graph, monkeypatch, method=method)) < 1e-8
