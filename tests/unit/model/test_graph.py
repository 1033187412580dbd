"""The stated model."""

import pickle

import numpy as np
import pytest

import anytimebp as abp
from oracle.models import grid, random_loopy


def test_labels_of_any_hashable_kind():
    graph = abp.FactorGraph()
    labels = ["sun", 3, (1, 2), None, frozenset({"a"}), 2.5]
    graph.add_variable("mixed", labels)
    graph.add_factor(["mixed"], log_table=np.arange(6.0))
    for k, label in enumerate(labels):
        result = abp.infer(graph, "bp", evidence={"mixed": label})
        assert result.marginals["mixed"].tolist() == [float(k == j) for j in range(6)]
        assert result.top("mixed") == [(label, 1.0)]


@pytest.mark.parametrize("count", [5, np.int64(5), np.uint8(5), np.array(5)])
def test_a_count_of_states_is_any_whole_number(count):
    assert abp.FactorGraph().add_variable("a", count).labels == range(5)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.array(5.0), "a count or a list of labels, got 5.0"),
        (np.array("abc"), "a count or a list of labels, got 'abc'"),
        (True, "a count or a list of labels, got .*True"),
        (np.True_, "a count or a list of labels, got .*True"),
        (5.0, "a count or a list of labels, got 5.0"),
        ("5", "a count or a list of labels, got '5'"),
        (None, "a count or a list of labels, got None"),
        (0, "at least one state, got the count 0"),
        (np.array(-1), "at least one state, got the count -1"),
        (10**13, "more than the 1,099,511,627,776 that can be counted"),
        (["s", "s"], "has the label 's' twice"),
        ([1, True], "has the label True twice"),
        ([["s"], ["t"]], "must be hashable"),
        (np.eye(2), "must be hashable"),
        ([], "empty list of labels"),
    ],
)
def test_what_is_no_universe_is_refused(states, message):
    graph = abp.FactorGraph()
    with pytest.raises(abp.ModelError, match=f"variable 'a' .*{message}"):
        graph.add_variable("a", states)
    assert len(graph.variables) == 0


def test_a_huge_count_costs_nothing():
    assert abp.FactorGraph().add_variable("a", 10**12).n_states == 10**12


def test_numpy_scalars_are_labels():
    graph = abp.FactorGraph()
    graph.add_variable("a", np.array(["u", "v"]))
    graph.add_variable("b", np.int64(3))
    result = abp.infer(graph, "bp", evidence={"a": np.str_("v"), "b": np.int32(2)})
    assert result.marginals["a"].tolist() == [0.0, 1.0]
    assert result.marginals["b"].tolist() == [0.0, 0.0, 1.0]


def test_variables_are_in_order_and_named():
    graph = abp.FactorGraph()
    graph.add_variable("first", 2)
    assert graph.add_variables(3, ["a", "b"]) == range(1, 4)
    last = graph.add_variable("last", 5)
    assert [v.name for v in graph.variables] == ["first", "x1", "x2", "x3", "last"]
    assert graph.variables[-1] == last
    assert graph.variables[1].labels == ("a", "b")
    assert len(graph.variables[1:3]) == 2
    assert graph.variables["x2"].index == 2
    assert repr(graph.variables) == "<5 variables: first, x1, x2, x3, last>"
    assert "x2" in graph.variables
    assert "x4" not in graph.variables
    assert last in graph.variables
    with pytest.raises(IndexError):
        graph.variables[5]


def test_tables_are_not_copied_and_not_written():
    table = np.random.default_rng(0).normal(size=(3, 3))
    before = table.copy()
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    graph.add_factor([0, 1], log_table=table)
    graph.add_factor([1, 2], table=np.exp(table))
    graph.add_factor([2, 0], log_table=table.astype(np.float32)[:, ::-1])
    assert np.shares_memory(graph.blocks[0].source.values, table)
    table.flags.writeable = False
    abp.infer(graph, "bp")
    assert (table == before).all()


def test_tied_tables_are_stored_once():
    graph = abp.FactorGraph()
    graph.add_variables(1000, 4)
    scopes = np.stack([np.arange(999), np.arange(1, 1000)], axis=1)
    assert graph.add_factors(scopes, log_table=np.eye(4)) == range(999)
    assert graph.summary().table_bytes == 4 * 4 * 8
    assert len(graph.blocks) == 1


def test_stacked_and_single_factors_are_the_same():
    stacked = grid(3, 4, 1.0, 0.5, seed=1)
    single = abp.FactorGraph()
    single.add_variables(9, 4)
    for f in range(stacked.n_factors):
        single.add_factor(stacked.factor_scope(f), log_table=stacked.factor_log_table(f))
    a, b = abp.infer(stacked, "bp"), abp.infer(single, "bp")
    assert all((a.marginals[n] == b.marginals[n]).all() for n in a.marginals)
    assert a.log_z == b.log_z


@pytest.mark.parametrize("way", ["log_table", "table", "rule", "entries"])
def test_bulk_factors_in_every_way(way):
    table = np.random.default_rng(3).normal(size=(3, 3))
    scores = {
        "log_table": table,
        "table": np.exp(table),
        "rule": lambda a, b: table[a, b],
        "entries": (np.argwhere(table < 9), table.ravel()),
    }
    scopes = [[0, 1], [1, 2], [2, 0]]
    bulk, single = abp.FactorGraph(), abp.FactorGraph()
    for graph in (bulk, single):
        graph.add_variables(3, 3)
    bulk.add_factors(scopes, **{way: scores[way]})
    for scope in scopes:
        single.add_factor(scope, log_table=table)
    a, b = abp.infer(bulk, "bp", tolerance=1e-11), abp.infer(single, "bp", tolerance=1e-11)
    assert all(np.allclose(a.marginals[n], b.marginals[n], atol=1e-10) for n in a.marginals)


def test_entries_have_a_default():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_factor([0, 1], entries=([[1, 2]], [2.0]), default=-1.0)
    expected = np.full((3, 3), -1.0)
    expected[1, 2] = 2.0
    assert (graph.factor_log_table(0) == expected).all()


def test_summary_and_repr():
    graph = grid(3, 4, 1.0, 0.5, seed=1)
    graph.add_variable("alone", 7)
    summary = graph.summary()
    assert summary.n_variables == 10
    assert summary.n_factors == 9 + 12
    assert (summary.universe_min, summary.universe_max) == (4, 7)
    assert summary.n_components == 2
    assert not summary.is_forest
    assert summary.table_entries == 9 * 4 + 12 * 16
    assert summary.full_bp_bytes > 12 * 16 * 8
    assert "with loops" in str(summary)
    assert repr(graph) == "<FactorGraph: 10 variables, universes 4 to 7, 21 factors>"
    assert repr(abp.FactorGraph()) == "<FactorGraph: 0 variables, 0 factors>"
    assert abp.FactorGraph().summary().n_components == 0


def test_a_double_edge_is_a_loop():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factors([[0, 1], [1, 0]], log_table=[[0.0, 1.0], [0.5, 0.0]])
    assert not graph.summary().is_forest
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    graph.add_factors([[0, 1], [2, 3]], log_table=[[0.0, 1.0], [0.5, 0.0]])
    assert graph.summary().is_forest
    assert graph.summary().n_components == 2


def test_inference_does_not_change_the_graph_and_the_layout_is_reused():
    graph = grid(3, 4, 1.0, 0.5, seed=1)
    before = pickle.dumps(graph)
    a = abp.infer(graph, "bp")
    layout = graph.compiled
    b = abp.infer(graph, "bp", evidence={"x3": 2})
    c = abp.infer(graph, "bp")
    assert graph.compiled is layout
    assert pickle.dumps(graph) == before
    assert all((a.marginals[n] == c.marginals[n]).all() for n in a.marginals)
    assert b.marginals["x3"][2] == 1.0
    graph.add_variable("more", 2)
    assert graph.compiled is None


def test_graphs_pickle():
    graph = random_loopy(4)
    lambdas = [b for b in graph.blocks if hasattr(b.source, "rule")]
    assert lambdas  # this one has rules that do not pickle
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(graph)
    graph = grid(3, 4, 1.0, 0.5, seed=1)
    graph.add_factor(["x0", "x8"], rule=np.minimum)
    twin = pickle.loads(pickle.dumps(graph))
    a, b = abp.infer(graph, "bp"), abp.infer(twin, "bp")
    assert all((a.marginals[n] == b.marginals[n]).all() for n in a.marginals)


@pytest.mark.compiled
def test_a_million_tied_factors_are_stated_without_an_object_each():
    graph = abp.FactorGraph()
    graph.add_variables(500_001, 2)
    scopes = np.stack([np.arange(500_000), np.arange(1, 500_001)], axis=1)
    graph.add_factors(np.concatenate([scopes, scopes[:, ::-1]]), log_table=[[0.1, 0.0], [0.0, 0.1]])
    assert graph.n_factors == 1_000_000
    assert graph.variables[-1].name == "x500000"
    assert len(graph.blocks) == 1
