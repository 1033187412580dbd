"""Factor graphs to and from networkx."""

import networkx as nx
import numpy as np
import pytest

import anytimebp as abp
from anytimebp.model.kinds.dense import DenseSource
from anytimebp.model.kinds.listed import ListedSource
from anytimebp.model.kinds.rule import RuleSource
from oracle.models import random_loopy, random_tree


def every_kind():
    graph = abp.FactorGraph()
    graph.add_variable("weather", ["sun", "rain"])
    graph.add_variable("ground", 3)
    graph.add_variables(3, 2)
    graph.add_factor(["weather"], log_table=[0.0, -np.inf])
    graph.add_factor(["ground", "weather"], table=np.arange(1.0, 7.0).reshape(3, 2))
    graph.add_factors([[2, 3], [4, 3]], log_table=[[0.0, 1.0], [2.0, 3.0]])
    graph.add_factors([[2, 0], [3, 0]], table=np.arange(1.0, 9.0).reshape(2, 2, 2))
    graph.add_factor(["x2", "ground"], entries=([[1, 2], [0, 0]], [0.5, 1.5]), default=-2.0)
    graph.add_factors([[3, 1], [4, 1]], rule=lambda a, b: 0.1 * a * b)
    return graph


def same(one, other):
    """Tell whether two graphs state the same things in the same way."""
    assert [(v.name, v.labels, type(v.labels)) for v in one.variables] == [
        (v.name, v.labels, type(v.labels)) for v in other.variables
    ]
    assert one.n_factors == other.n_factors
    for k in range(one.n_factors):
        assert one.factor_scope(k) == other.factor_scope(k)
        (a, i), (b, j) = one.locate(k), other.locate(k)
        assert type(a.source) is type(b.source)
        if isinstance(a.source, DenseSource):
            assert a.source.is_log == b.source.is_log
            assert np.shares_memory(a.source.values[a.member(i)], b.source.values[b.member(j)])
        elif isinstance(a.source, ListedSource):
            assert a.source.default == b.source.default
            assert np.array_equal(a.source.indices, b.source.indices)
            assert np.array_equal(a.source.log_scores, b.source.log_scores)
        elif isinstance(a.source, RuleSource):
            assert a.source.rule is b.source.rule
            assert a.source.propose is b.source.propose
        assert np.array_equal(one.factor_log_table(k), other.factor_log_table(k))
    return True


def test_variables_and_factors_are_the_two_sides():
    graph = every_kind()
    found = abp.to_networkx(graph)
    assert type(found) is nx.Graph
    assert list(found.nodes) == ["weather", "ground", "x2", "x3", "x4", *(("factor", k) for k in range(9))]
    assert nx.bipartite.is_bipartite_node_set(found, [n for n, side in found.nodes(data="bipartite") if side == 0])
    assert found.nodes["weather"] == {"kind": "variable", "bipartite": 0, "labels": ("sun", "rain")}
    assert found.nodes["ground"]["labels"] == range(3)
    factor = found.nodes["factor", 1]
    assert (factor["kind"], factor["bipartite"], factor["scope"]) == ("factor", 1, ("ground", "weather"))
    assert set(found["factor", 1]) == {"ground", "weather"}
    assert np.array_equal(factor["table"], np.arange(1.0, 7.0).reshape(3, 2))
    assert "log_table" not in factor
    assert found.nodes["factor", 6]["default"] == -2.0
    assert found.nodes["factor", 6]["entries"][0].tolist() == [[1, 2], [0, 0]]
    assert found.nodes["factor", 7]["rule"] is found.nodes["factor", 8]["rule"]
    assert nx.number_of_edges(found) == 1 + 8 * 2


def test_tables_are_the_graphs_own_and_cannot_be_written():
    table = np.arange(4.0).reshape(2, 2)
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2]], log_table=table)
    found = abp.to_networkx(graph)
    assert found.nodes["factor", 0]["log_table"] is found.nodes["factor", 1]["log_table"]
    assert np.shares_memory(found.nodes["factor", 0]["log_table"], table)
    with pytest.raises(ValueError, match="read-only"):
        found.nodes["factor", 0]["log_table"][0, 0] = 5.0
    table[0, 0] = 1.0  # the user's own array stays writable


def test_tables_can_be_left_out():
    found = abp.to_networkx(every_kind(), tables=False)
    assert set(found.nodes["factor", 6]) == {"kind", "bipartite", "scope"}
    with pytest.raises(abp.ModelError, match=r"node \('factor', 0\) has no scores"):
        abp.from_networkx(found)


def test_the_round_trip_is_exact_and_keeps_tied_factors_tied():
    graph = every_kind()
    back = abp.from_networkx(abp.to_networkx(graph))
    assert same(graph, back)
    assert [len(b.scopes) for b in back.blocks if b.source.n_members == 1] == [1, 1, 2, 1, 1, 1, 2]
    assert same(graph, abp.from_networkx(abp.to_networkx(graph).to_directed(as_view=True)))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("make", [random_tree, random_loopy])
def test_the_round_trip_of_random_graphs(make, seed):
    graph = make(seed)
    assert same(graph, abp.from_networkx(abp.to_networkx(graph)))


def structured():
    graph = abp.FactorGraph()
    graph.add_variables(4, 3)
    graph.add_factors([[0, 1], [1, 2]], structure=abp.Difference([0.5, -np.inf], first=1, default=-1.0))
    graph.add_factor([2, 0, 1], structure=abp.AtMostOne([2, 0, 1]))
    graph.add_factor([2, 3], structure=abp.Equality(2.0, default=0.0))
    graph.add_factor([0, 3], structure=abp.Deterministic(lambda a: a // 2))
    graph.add_factor([0, 2], rule=lambda a, b: -1.0 * abs(a - b), propose=lambda states, k: np.arange(k) % 3)
    return graph


def test_the_round_trip_keeps_structures():
    graph = structured()
    found = abp.to_networkx(graph)
    assert isinstance(found.nodes["factor", 0]["structure"], abp.Difference)
    assert found.nodes["factor", 0]["structure"] is found.nodes["factor", 1]["structure"]
    assert isinstance(found.nodes["factor", 2]["structure"], abp.AtMostOne)
    back = abp.from_networkx(found)
    assert same(graph, back)
    assert len(back.blocks) == len(graph.blocks)


@pytest.mark.parametrize(
    "structure",
    [
        abp.Equality(1.0),
        abp.AtMostOne(0),
        abp.Difference([1.0, 2.0, 1.0]),
        abp.Difference([1.0, 1.0, 1.0], first=-1),
    ],
    ids=repr,
)
def test_a_symmetric_structure_needs_no_order(structure):
    graph = nx.Graph()
    graph.add_nodes_from(["a", "b"], states=3)
    graph.add_edge("a", "b", structure=structure)
    table = abp.from_networkx(graph).factor_log_table(0)
    assert (table == table.T).all()


@pytest.mark.parametrize(
    "structure",
    [
        abp.Deterministic(lambda a: a),
        abp.AtMostOne([0, 1]),
        abp.Difference([1.0, 2.0, 3.0]),
        abp.Difference([1.0, 1.0], first=0),
    ],
    ids=["function", "at most one of two states", "lopsided kernel", "kernel that begins at 0"],
)
def test_any_other_structure_needs_an_order(structure):
    graph = nx.Graph()
    graph.add_nodes_from(["a", "b"], states=3)
    graph.add_edge("a", "b", structure=structure)
    with pytest.raises(abp.ModelError, match=r"edge \('a', 'b'\).*not clear which of its ends"):
        abp.from_networkx(graph)
    graph.edges["a", "b"]["scope"] = ("b", "a")
    assert abp.from_networkx(graph).factor_scope(0) == ("b", "a")


@pytest.mark.parametrize(
    "structure", [abp.Equality, "Equality", abp.Difference([["x"]]), abp.Difference([[1.0], [2.0, 3.0]])]
)
def test_a_bad_structure_names_the_edge(structure):
    graph = nx.Graph()
    graph.add_nodes_from(["a", "b"], states=3)
    graph.add_edge("a", "b", structure=structure, scope=("a", "b"))
    with pytest.raises(abp.ModelError, match=r"edge \('a', 'b'\)"):
        abp.from_networkx(graph)


def test_a_graph_without_factors():
    graph = abp.FactorGraph()
    graph.add_variables(3, ["a", "b"])
    assert same(graph, abp.from_networkx(abp.to_networkx(graph)))
    assert len(abp.from_networkx(nx.Graph()).variables) == 0


# -------------------------------------------------------------------- pairwise models
def test_nodes_are_variables_and_edges_are_factors():
    g = nx.Graph()
    g.add_node("a", states=2, table=[1.0, 3.0])
    g.add_node("b", labels=["x", "y", "z"])
    g.add_node(7, states=["u", "v"], log_table=[0.0, 1.0])
    g.add_edge("a", "b", table=np.arange(1.0, 7.0).reshape(2, 3))
    g.add_edge("a", 7, log_table=[[0.0, 2.0], [2.0, 1.0]])
    graph = abp.from_networkx(g)
    assert [(v.name, tuple(v.labels)) for v in graph.variables] == [
        ("a", (0, 1)),
        ("b", ("x", "y", "z")),
        ("7", ("u", "v")),
    ]
    assert [graph.factor_scope(k) for k in range(4)] == [("a",), ("7",), ("a", "b"), ("a", "7")]
    joint = np.einsum("a,c,ab,ac->abc", [1, 3], np.exp([0, 1]), np.arange(1, 7).reshape(2, 3), np.exp([[0, 2], [2, 1]]))
    assert np.allclose(abp.infer(graph).marginals["b"], joint.sum((0, 2)) / joint.sum())


@pytest.mark.parametrize("transposed", [False, True])
def test_axes_of_different_length_tell_the_order(transposed):
    table = np.arange(1.0, 7.0).reshape(2, 3)
    g = nx.Graph()
    g.add_node("a", states=2)
    g.add_node("b", states=3)
    g.add_edge("a", "b", table=table.T if transposed else table)
    graph = abp.from_networkx(g)
    assert graph.factor_scope(0) == (("b", "a") if transposed else ("a", "b"))
    assert np.allclose(abp.infer(graph).marginals["a"], table.sum(1) / 21)


ASKEW = np.array([[1.0, 2.0], [30.0, 4.0]])


def pair(kind=nx.Graph, **edge):
    g = kind()
    g.add_node("a", states=2)
    g.add_node("b", states=2)
    g.add_edge("b", "a", **edge)
    return g


def test_an_undirected_edge_whose_order_cannot_be_told_is_refused():
    with pytest.raises(abp.ModelError, match=r"edge \('a', 'b'\).*not directed.*scope=\('a', 'b'\).*DiGraph"):
        abp.from_networkx(pair(table=ASKEW))
    with pytest.raises(abp.ModelError, match="not clear which of its ends"):
        abp.from_networkx(pair(rule=lambda a, b: a - b))
    with pytest.raises(abp.ModelError, match="not clear which of its ends"):
        abp.from_networkx(pair(entries=([[0, 1]], [0.0])))


@pytest.mark.parametrize("scope", [("a", "b"), ["b", "a"]])
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_the_scope_of_an_edge_orders_its_axes(kind, scope):
    graph = abp.from_networkx(pair(kind, table=ASKEW, scope=scope))
    assert graph.factor_scope(0) == tuple(scope)
    assert np.allclose(abp.infer(graph).marginals[scope[0]], ASKEW.sum(1) / 37)


def test_a_directed_edge_goes_from_the_first_axis_to_the_second():
    graph = abp.from_networkx(pair(nx.DiGraph, table=ASKEW))
    assert graph.factor_scope(0) == ("b", "a")
    wrong = nx.DiGraph()
    wrong.add_node("a", states=2)
    wrong.add_node("b", states=3)
    wrong.add_edge("a", "b", table=np.ones((3, 2)))
    with pytest.raises(abp.ModelError, match=r"edge \('a', 'b'\).*axes in another order"):
        abp.from_networkx(wrong)


def test_parallel_edges_are_factors_each():
    g = nx.MultiGraph()
    g.add_nodes_from("ab", states=2)
    g.add_edge("a", "b", table=np.eye(2) + 1)
    g.add_edge("b", "a", key="more", table=ASKEW, scope=("a", "b"))
    graph = abp.from_networkx(g)
    assert [graph.factor_scope(k) for k in range(graph.n_factors)] == [("a", "b"), ("a", "b")]
    assert np.allclose(np.exp(graph.factor_log_table(0)), np.eye(2) + 1)
    assert np.allclose(np.exp(graph.factor_log_table(1)), ASKEW)


def test_one_table_on_all_edges_is_stored_once():
    g = nx.grid_2d_graph(4, 5)
    nx.set_node_attributes(g, 2, "states")
    nx.set_edge_attributes(g, [[1, 2], [2, 1]], "table")
    graph = abp.from_networkx(g)
    assert [v.name for v in graph.variables][:2] == ["(0, 0)", "(0, 1)"]
    assert [(len(block.scopes), block.source.n_members) for block in graph.blocks] == [(31, 1)]


def test_one_wrong_table_on_several_edges_is_not_taken_for_a_stack():
    g = nx.path_graph(3, nx.DiGraph)
    nx.set_node_attributes(g, 2, "states")
    nx.set_edge_attributes(g, np.ones((2, 2, 2)), "table")
    with pytest.raises(abp.ModelError, match=r"edge \(0, 1\).*must have shape \(2, 2\).*got \(2, 2, 2\)"):
        abp.from_networkx(g)


# -------------------------------------------------------------------- what is refused
def edited(change):
    found = abp.to_networkx(every_kind())
    change(found)
    return found


def plain(*nodes, **edge):
    g = nx.Graph()
    g.add_nodes_from(nodes)
    if edge:
        g.add_edge(nodes[0][0], nodes[-1][0], **edge)
    return g


A, B = ("a", {"states": 2}), ("b", {"states": 2})
REFUSED = {
    "no graph": ([1, 2], "takes a networkx graph, got list"),
    "no states": (plain(("a", {})), "node 'a' needs the attribute states .* neither"),
    "both": (plain(("a", {"states": 2, "labels": ["x", "y"]})), "node 'a' .* both"),
    "one name": (plain(A, (1, {"states": 2}), ("1", {"states": 2})), "nodes 1 and '1' would both become .*'1'"),
    "no table": (plain(A, B, weight=3.0), r"edge \('a', 'b'\) has no scores"),
    "two tables": (plain(A, B, table=np.ones((2, 2)), log_table=np.ones((2, 2))), r"edge \('a', 'b'\).*exactly one"),
    "shape": (plain(A, B, table=np.ones((2, 3))), r"edge \('a', 'b'\).*must have shape \(2, 2\)"),
    "nan": (plain(A, B, table=[[1.0, np.nan], [np.nan, 1.0]]), r"edge \('a', 'b'\).*nan"),
    "text": (plain(A, B, table="table"), r"edge \('a', 'b'\).*real numbers"),
    "loop": (plain(A, table=np.ones((2, 2))), r"edge \('a', 'a'\).*'a' is in the scope twice"),
    "unary shape": (plain(("a", {"states": 2, "table": [1.0]})), r"node 'a'.*must have shape \(2,\)"),
    "scope": (plain(A, B, ("c", {"states": 2}), table=ASKEW, scope=("a", "b")), "must be its two ends"),
    "scope of others": (plain(A, B, table=ASKEW, scope=("a", "z")), "'z', which is not a variable"),
    "unhashable scope": (plain(A, B, table=ASKEW, scope=("a", [])), r"\[\], which is not a variable"),
    "text scope": (plain(A, B, table=ASKEW, scope="ab"), "needs the attribute scope.*got 'ab'"),
    "edge gone": (edited(lambda g: g.remove_edge(("factor", 1), "ground")), r"\('factor', 1\).*edges lead to"),
    "edge more": (edited(lambda g: g.add_edge(("factor", 0), ("factor", 1))), r"\('factor', 0\).*edges lead to"),
    "no scope": (edited(lambda g: g.nodes["factor", 1].pop("scope")), r"\('factor', 1\).*needs the attribute scope"),
    "no kind": (edited(lambda g: g.add_node("new", states=2)), "node 'new' must have kind"),
    "two places": (edited(lambda g: g.add_node("x2", table=[1.0, 2.0])), "node 'x2': .* only they have scores"),
    "on an edge": (edited(lambda g: g.add_edge(("factor", 0), "weather", table=[1.0])), "not edges"),
    "variable gone": (edited(lambda g: g.remove_node("ground")), "'ground', which is not a variable"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_missing_or_ambiguous_is_refused_by_name(case):
    g, said = REFUSED[case]
    with pytest.raises(abp.ModelError, match=said):
        abp.from_networkx(g)
