import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.kernels.codes import CORE, CUT, DOWN, MAX, SUM, UP
from anytimebp.kernels.leaf_tables import sum_axis, sum_axis_by_logs
from anytimebp.kernels.leaves import CORE_EDGES, LINKED, ORDERED, peel_slice
from anytimebp.layout.graph_layout import CompiledGraph
from oracle.leafy_models import leafy_graph


def slow_ways(scopes, sizes):
    """Return the way of every (factor, variable) pair, by taking off one leaf or factor after the other."""
    left = {f: {v for v in scope if sizes[v] > 1} for f, scope in enumerate(scopes)}
    ways = {(f, v): CUT for f, scope in enumerate(scopes) for v in scope if sizes[v] == 1}

    def is_open(f, v):
        return any(v in variables for g, variables in left.items() if g != f)

    while True:
        done = [f for f, variables in left.items() if sum(is_open(f, v) for v in variables) <= 1]
        if not done:
            break
        f = done[0]
        ways |= {(f, v): UP if is_open(f, v) else DOWN for v in left[f]}
        del left[f]
    return ways | {(f, v): CORE if is_open(f, v) else DOWN for f, variables in left.items() for v in variables}


def peeled(layout, sizes, limit=2**62):
    """Return order, ways, and the factors of trees, edges of the core, variables without edges, and slices."""
    n_factors, n_variables, n_edges = len(layout.factor_edge_start) - 1, len(sizes), len(layout.edge_variable)
    scratch = [np.zeros(n, dtype=np.int64) for n in (n_variables, n_variables, n_factors)]
    order, way = np.empty(n_factors, dtype=np.int64), np.empty(n_edges, dtype=np.int64)
    state, slices = np.zeros(5, dtype=np.int64), 1
    while not peel_slice(layout, sizes, order, *scratch, way, state, limit):
        slices += 1
    counts = int(state[ORDERED]), int(state[CORE_EDGES]), n_variables - int(state[LINKED])
    return order, way, *counts, slices


@given(seed=st.integers(0, 10**6), limit=st.integers(1, 9))
def test_trees_are_peeled_in_slices_as_at_once(seed, limit):
    graph, _ = leafy_graph(seed, "tables", observed=False)
    compiled = CompiledGraph(graph)
    order, way, ordered, *counts, _ = peeled(compiled.arrays, compiled.universe_sizes)
    in_slices = peeled(compiled.arrays, compiled.universe_sizes, limit)
    steps = 3 * len(way) + len(order) + ordered
    assert (in_slices[0][:ordered] == order[:ordered]).all()
    assert (in_slices[1] == way).all()
    assert in_slices[2:5] == (ordered, *counts)
    assert steps // limit <= in_slices[5] <= steps // limit + 1


@given(seed=st.integers(0, 10**6))
def test_what_hangs_on_the_core_is_found(seed):
    graph, _ = leafy_graph(seed, "tables", observed=False)
    compiled = CompiledGraph(graph)
    layout, sizes = compiled.arrays, compiled.universe_sizes
    n_factors, n_variables = len(layout.factor_edge_start) - 1, len(sizes)
    order, way, ordered, n_core, n_lone, _ = peeled(layout, sizes)
    assert n_core == (way == CORE).sum()
    assert n_lone == n_variables - len(set(layout.edge_variable.tolist()))
    scopes = [scope.tolist() for scope in np.split(layout.edge_variable, layout.factor_edge_start[1:-1])]
    right = slow_ways(scopes, sizes)
    pairs = list(zip(layout.edge_factor.tolist(), layout.edge_variable.tolist(), strict=True))
    in_core = {f for (f, _), kind in right.items() if kind == CORE}
    assert set(order[:ordered].tolist()) == set(range(n_factors)) - in_core
    for edge, pair in enumerate(pairs):  # which of a tree's factors is its root is a matter of order
        if pair[0] in in_core or right[pair] == CUT:
            assert way[edge] == right[pair]
    position = {f: k for k, f in enumerate(order[:ordered].tolist())}
    for edge, (f, v) in enumerate(pairs):
        if f in in_core or way[edge] == CUT:
            continue
        others = [g for g, w in pairs if w == v and g != f]
        is_left = any(g in in_core or position[g] > position[f] for g in others)
        assert way[edge] == (UP if is_left else DOWN)
        assert sum(way[e] == UP for e, (g, _) in enumerate(pairs) if g == f) <= 1


@pytest.mark.parametrize("how", ["linear", "by logs", "by logs, from logs"])
@pytest.mark.parametrize("semiring", [SUM, MAX])
@pytest.mark.parametrize("shape", [(1, 2, 1), (7, 3, 1), (8, 5, 1), (3, 4, 5), (1, 2, 9)])
def test_an_axis_is_summed_out_as_numpy_does(how, semiring, shape):
    rng = np.random.default_rng(0)
    table, weight = rng.random(shape) * (rng.random(shape) < 0.8), rng.random(shape[1]) * (rng.random(shape[1]) < 0.8)
    terms = table * weight[:, np.newaxis]
    right = terms.max(axis=1) if semiring == MAX else terms.sum(axis=1)
    out = np.full((shape[0], shape[2]), np.nan)
    if how == "linear":
        sum_axis(semiring, table.reshape(-1), *shape, weight, out.reshape(-1))
    else:
        in_logs, line = how.endswith("from logs"), np.empty(9)
        with np.errstate(divide="ignore"):
            table, weight = np.log(table) if in_logs else table, np.log(weight)
        sum_axis_by_logs(semiring, in_logs, table.reshape(-1), *shape, weight, line, out.reshape(-1))
        out = np.exp(out)
    assert np.allclose(out, right, rtol=1e-13, atol=0.0)


@pytest.mark.compiled
def test_a_graph_of_a_million_variables_is_peeled_by_one_call():
    n = 1_000_000
    graph = abp.FactorGraph()
    graph.add_variables(n, 2)
    parents = np.random.default_rng(0).integers(0, np.arange(1, n))
    graph.add_factors(np.stack([parents, np.arange(1, n)], axis=1), log_table=np.zeros((2, 2)))
    layout = CompiledGraph(graph).arrays
    _, way, *counts, _ = peeled(layout, np.full(n, 2))
    assert counts == [n - 1, 0, 0]
    assert (np.bincount(layout.edge_factor, way == UP) <= 1).all()


@pytest.mark.parametrize("n", [3, 63, 64, 101])
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_short_and_long_rows_are_summed_alike(n, rows):
    rng = np.random.default_rng(n + rows)
    table, weight, out = rng.random((rows, n)), rng.random(n), np.empty(rows)
    sum_axis(SUM, table.ravel(), rows, n, 1, weight, out)
    np.testing.assert_allclose(out, table @ weight, rtol=1e-13)
