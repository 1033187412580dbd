"""Elimination orders and trees of cliques against the elimination game, played slowly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.exact import order as order_module
from anytimebp.exact.order import _arrays, find_order
from anytimebp.exact.tree import MOST_ENTRIES, TooWide, Tree, plan
from anytimebp.kernels.elimination import (
    FILL,
    MIN_FILL,
    MIN_WEIGHT,
    ORDERED,
    STEPS,
    WEIGHTED_FILL,
    greedy_order,
    least_clique,
)
from anytimebp.kernels.jit import UNCOMPILED
from anytimebp.layout.graph_layout import compiled_graph
from oracle.models import grid, random_loopy

seeds = st.integers(0, 10**9)


def neighbours(graph, sizes):
    """Return, by variable of more than one state, those that share a factor with it."""
    found = {v: set() for v in range(len(sizes)) if sizes[v] > 1}
    for f in range(graph.n_factors):
        scope = [graph.variables.index_of(name) for name in graph.factor_scope(f)]
        free = [v for v in scope if sizes[v] > 1]
        for v in free:
            found[v] |= set(free) - {v}
    return found


def play(graph, sizes, order):
    """Eliminate in order; return the cliques, and the edges that each elimination has added."""
    linked, cliques, added = neighbours(graph, sizes), [], []
    for v in order:
        clique = {v} | linked[v]
        cliques.append(clique)
        pairs = {(a, b) for a in linked[v] for b in linked[v] if a < b and b not in linked[a]}
        added.append(pairs)
        for a, b in pairs:
            linked[a].add(b)
            linked[b].add(a)
        for u in linked.pop(v):
            linked[u].discard(v)
    return cliques, added


def entries(sizes, cliques):
    return sum(float(np.prod([sizes[v] for v in clique], dtype=float)) for clique in cliques)


@given(seed=seeds, n_observed=st.integers(0, 3))
def test_an_order_has_every_free_variable_and_the_cost_that_it_says(seed, n_observed):
    graph = random_loopy(seed, n_variables=9, n_factors=14, max_arity=4, max_states=5)
    compiled = compiled_graph(graph)
    sizes = compiled.universe_sizes.copy()
    sizes[:n_observed] = 1
    order = find_order(compiled, sizes, MOST_ENTRIES, 1e9)
    assert sorted(order.variables) == [v for v in range(len(sizes)) if sizes[v] > 1]
    cliques, _ = play(graph, sizes, order.variables.tolist())
    assert order.entries == pytest.approx(entries(sizes, cliques))


@pytest.mark.parametrize("rule", [MIN_FILL, MIN_WEIGHT, WEIGHTED_FILL])
@given(seed=seeds)
def test_each_rule_takes_the_variable_of_the_least_score(rule, seed):
    graph = random_loopy(seed, n_variables=8, n_factors=12, max_arity=3, max_states=4)
    compiled = compiled_graph(graph)
    sizes = compiled.universe_sizes
    arrays = _arrays(len(sizes), 2000)
    status, n, _ = greedy_order(compiled.arrays, np.log(sizes), rule, 0.0, 1e300, 2**60, arrays)
    assert status == ORDERED
    found, linked = arrays.order[:n].tolist(), sizes.tolist()
    for k, v in enumerate(found):  # the slow twin goes on from the same eliminations: equals may be taken in any order
        _, added = play(graph, linked, found[:k])
        assert v in _least(graph, linked, rule, found[:k], added)
    assert arrays.state[FILL] == 2 * sum(len(pairs) for pairs in play(graph, linked, found)[1])


def _least(graph, sizes, rule, gone, added):
    """Return the variables of the least score after some eliminations."""
    linked = neighbours(graph, sizes)
    for pairs in added:
        for a, b in pairs:
            linked[a].add(b)
            linked[b].add(a)
    for v in gone:
        for u in linked.pop(v):
            if u in linked:
                linked[u].discard(v)
    scores = {}
    for v, around in linked.items():
        missing = [(a, b) for a in around for b in around if a < b and b not in linked[a]]
        log_weight = float(np.log([sizes[u] for u in (*around, v)]).sum())
        weighted = 2 * sum(sizes[a] * sizes[b] for a, b in missing) if rule == WEIGHTED_FILL else len(missing)
        scores[v] = log_weight if rule == MIN_WEIGHT else weighted + log_weight / 4096
    best = min(scores.values())
    return {v for v, score in scores.items() if score < best + 1e-9 * max(1.0, best)}


@given(seed=seeds, n_observed=st.integers(0, 3))
def test_a_tree_has_the_cliques_of_its_order(seed, n_observed):
    graph = random_loopy(seed, n_variables=9, n_factors=14, max_arity=4, max_states=5)
    compiled = compiled_graph(graph)
    sizes = compiled.universe_sizes.copy()
    sizes[:n_observed] = 1
    tree = plan(compiled, sizes)
    assert isinstance(tree, Tree)
    arrays = tree.arrays
    variables = arrays.variable[: tree.n].tolist()
    cliques, _ = play(graph, sizes, variables)
    for i, clique in enumerate(cliques):
        members = arrays.scope[arrays.scope_start[i] : arrays.scope_start[i + 1]].tolist()
        assert members == sorted(members)
        assert members[0] == i
        assert {variables[k] for k in members} == clique
        assert arrays.parent[i] == (members[1] if len(members) > 1 else -1)
        shape = [int(sizes[variables[k]]) for k in members]
        assert arrays.table_start[i + 1] - arrays.table_start[i] == np.prod(shape)
        assert arrays.message_start[i + 1] - arrays.message_start[i] == np.prod(shape[1:])
        for f in arrays.factor[arrays.factor_start[i] : arrays.factor_start[i + 1]].tolist():
            scope = compiled.arrays.edge_variable[list(compiled.edges(f))].tolist()
            assert {v for v in scope if sizes[v] > 1} <= clique
            assert variables[i] in scope
    assert tree.entries == entries(sizes, cliques)
    n_factors = len(compiled.arrays.factor_edge_start) - 1
    assert sorted(arrays.factor.tolist()) == list(range(n_factors))


def log_entries(sizes, clique):
    return float(np.log([sizes[v] for v in clique]).sum())


@given(seed=seeds, n_observed=st.integers(0, 3))
def test_no_order_has_smaller_cliques_than_the_bound(seed, n_observed):
    graph = random_loopy(seed, n_variables=9, n_factors=16, max_arity=3, max_states=5)
    compiled = compiled_graph(graph)
    sizes = compiled.universe_sizes.copy()
    sizes[:n_observed] = 1
    bound, is_known = least_clique(compiled.arrays, np.log(sizes), np.inf, _arrays(len(sizes), 2000))
    assert is_known
    free, rng = [v for v in range(len(sizes)) if sizes[v] > 1], np.random.default_rng(seed)
    best = find_order(compiled, sizes, MOST_ENTRIES, 1e9).variables.tolist()
    for order in (best, *(rng.permutation(free).tolist() for _ in range(5))):
        cliques, _ = play(graph, sizes, order)
        assert bound <= max((log_entries(sizes, clique) for clique in cliques), default=0.0) + 1e-9


def test_the_bound_is_tight_on_complete_graphs_and_stops_where_it_is_enough():
    graph = abp.FactorGraph()
    graph.add_variables(12, 3)
    graph.add_factors([[i, j] for i in range(12) for j in range(i)], log_table=np.zeros((3, 3)))
    compiled = compiled_graph(graph)
    log_size, arrays = np.log(compiled.universe_sizes), _arrays(12, 2000)
    assert least_clique(compiled.arrays, log_size, np.inf, arrays)[0] == pytest.approx(12 * np.log(3.0))
    assert not least_clique(compiled.arrays, log_size, np.inf, _arrays(12, 20))[1]
    assert find_order(compiled, compiled.universe_sizes, 1e5, 1e9).variables is None
    assert find_order(compiled, compiled.universe_sizes, 1e5, 1e9).steps == 0


def test_an_order_stays_with_the_layout_and_is_the_same_each_time():
    compiled = compiled_graph(grid(6, 3, 1.0, 1.0, 0))
    first = find_order(compiled, compiled.universe_sizes, MOST_ENTRIES, 1e9)
    assert find_order(compiled, compiled.universe_sizes, MOST_ENTRIES, 1e9) is first
    again = compiled_graph(grid(6, 3, 1.0, 1.0, 0))
    assert np.array_equal(find_order(again, again.universe_sizes, MOST_ENTRIES, 1e9).variables, first.variables)


def test_orders_for_other_evidence_come_and_go_but_that_without_stays(monkeypatch):
    monkeypatch.setattr(order_module, "KEPT", 3)
    compiled = compiled_graph(grid(3, 3, 1.0, 1.0, 0))
    first = find_order(compiled, compiled.universe_sizes, MOST_ENTRIES, 1e9)
    for observed in range(6):
        sizes = compiled.universe_sizes.copy()
        sizes[observed] = 1
        find_order(compiled, sizes, MOST_ENTRIES, 1e9)
        assert len(compiled.orders) <= 3
    assert find_order(compiled, compiled.universe_sizes, MOST_ENTRIES, 1e9) is first
    assert sizes.tobytes() in compiled.orders


def searches(monkeypatch):
    """Return a list that grows by the steps of each search for an order."""
    taken = []

    def watched(*given):
        found = greedy_order(*given)
        taken.append(int(given[-1].state[STEPS]))
        return found

    monkeypatch.setattr(order_module, "greedy_order", watched)
    return taken


def test_a_chordal_graph_is_searched_once(monkeypatch):
    taken, graph = searches(monkeypatch), abp.FactorGraph()
    types, relations = graph.add_variables(4, 12), graph.add_variables(6, 9)
    pairs = [(i, j) for i in types for j in types if i < j]
    scopes = [(i, j, k) for (i, j), k in zip(pairs, relations, strict=True)]
    graph.add_factors(scopes, log_table=np.zeros((12, 12, 9)))
    compiled = compiled_graph(graph)
    order = find_order(compiled, compiled.universe_sizes, MOST_ENTRIES, 1e9)
    assert len(taken) == 1
    assert order.entries == pytest.approx(6 * 12 * 12 * 9 + 12**4 + 12**3 + 12**2 + 12)


@given(seed=seeds, states=st.integers(2, 30))
def test_searches_cost_no_more_than_the_cliques_of_the_first_and_one_more(seed, states):
    graph = random_loopy(seed, n_variables=9, n_factors=14, max_arity=3, max_states=states)
    compiled = compiled_graph(graph)
    with pytest.MonkeyPatch.context() as patch:
        taken = searches(patch)
        order = find_order(compiled, compiled.universe_sizes, MOST_ENTRIES, 1e9)
    each = order_module.SEARCH_COST + 9 * order_module.VARIABLE_COST
    assert sum(taken[:-1]) + (len(taken) - 1) * each <= order_module.SHARE * first_entries(compiled)
    assert order.entries <= first_entries(compiled)


def first_entries(compiled):
    """Return the entries of all cliques by the first order that is found."""
    arrays = _arrays(len(compiled.universe_sizes), 2000)
    return greedy_order(compiled.arrays, np.log(compiled.universe_sizes), MIN_FILL, 0.0, 1e300, 2**60, arrays)[2]


def test_searches_without_a_gain_end(monkeypatch):
    taken = searches(monkeypatch)
    compiled = compiled_graph(grid(5, 8, 1.0, 1.0, 0))
    find_order(compiled, compiled.universe_sizes, MOST_ENTRIES, 1e9)
    assert 6 <= len(taken) < 20


def test_a_grid_is_eliminated_about_as_well_as_row_by_row():
    compiled = compiled_graph(grid(8, 2, 1.0, 1.0, 0))
    tree = plan(compiled, compiled.universe_sizes)
    assert tree.entries <= 64 * 2**9


def test_limits_end_the_search():
    compiled = compiled_graph(grid(8 if UNCOMPILED else 12, 10, 1.0, 1.0, 0))
    found = plan(compiled, compiled.universe_sizes, most_entries=1e6)
    assert isinstance(found, TooWide)
    assert found.entries > 1e6
    assert isinstance(plan(compiled, compiled.universe_sizes, most_steps=50), TooWide)
    assert isinstance(plan(compiled, compiled.universe_sizes, most_entries=1e18), Tree)


def test_a_clique_that_no_array_holds_is_too_wide():
    graph = abp.FactorGraph()
    graph.add_variables(80, 2)
    graph.add_factors([[i, j] for i in range(80) for j in range(i)], log_table=np.zeros((2, 2)))
    compiled = compiled_graph(graph)
    assert isinstance(plan(compiled, compiled.universe_sizes), TooWide)
