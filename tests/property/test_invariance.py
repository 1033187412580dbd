"""What must not matter: names, orders, how unary scores are split, constants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from oracle.models import one_factor, random_loopy

seeds = st.integers(0, 10**9)


def rebuild(graph, variables, factors, rename=lambda name: name, shift=None):
    """Return the same model with variables and factors in another order, renamed, tables shifted."""
    twin = abp.FactorGraph()
    for i in variables:
        twin.add_variable(rename(graph.variables[i].name), graph.variables[i].n_states)
    for f in factors:
        table = graph.factor_log_table(f) + (0.0 if shift is None else shift[f])
        twin.add_factor([rename(name) for name in graph.factor_scope(f)], log_table=table)
    return twin


def assert_same(one, other, rename=lambda name: name, shift=0.0):
    for name, marginal in one.marginals.items():
        assert np.abs(marginal - other.marginals[rename(name)]).max() < 1e-9
    assert other.log_z == pytest.approx(one.log_z + shift, abs=1e-8)


@given(seed=seeds)
@pytest.mark.parametrize("method", ["bp", "residual"])
def test_order_and_names_do_not_matter(method, seed):
    rng = np.random.default_rng(seed)
    graph = random_loopy(seed, scale=0.3)
    variables, factors = rng.permutation(len(graph.variables)).tolist(), rng.permutation(graph.n_factors).tolist()
    twin = rebuild(graph, variables, factors, rename=lambda name: f"other {name}")
    a, b = abp.infer(graph, method, tolerance=1e-11), abp.infer(twin, method, tolerance=1e-11)
    assert_same(a, b, rename=lambda name: f"other {name}")


@given(seed=seeds, scale=st.sampled_from([1.0, 1000.0]))
def test_a_constant_added_to_a_table_shifts_log_z_only(seed, scale):
    rng = np.random.default_rng(seed)
    graph = random_loopy(seed, scale=0.3)
    shift = rng.normal(0, scale, graph.n_factors)
    twin = rebuild(graph, range(len(graph.variables)), range(graph.n_factors), shift=shift)
    assert_same(abp.infer(graph, "bp", tolerance=1e-11), abp.infer(twin, "bp", tolerance=1e-11), shift=shift.sum())


@given(seed=seeds)
def test_splitting_a_unary_factor_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    graph = random_loopy(seed, scale=0.3)
    twin = abp.FactorGraph()
    for v in graph.variables:
        twin.add_variable(v.name, v.n_states)
    for f in range(graph.n_factors):
        table, scope = graph.factor_log_table(f), graph.factor_scope(f)
        if len(scope) == 1:
            part = rng.normal(0, 1, table.shape)
            twin.add_factor(scope, log_table=part)
            table = table - part
        twin.add_factor(scope, log_table=table)
    assert_same(abp.infer(graph, "bp", tolerance=1e-11), abp.infer(twin, "bp", tolerance=1e-11))


@given(seed=seeds)
def test_the_ways_to_state_a_table_are_equal(seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(0, 1, (3, 4, 2))
    table[rng.random(table.shape) < 0.3] = -np.inf
    table[0, 0, 0] = 0.0
    ways = [
        {"log_table": table},
        {"table": np.exp(table)},
        {"rule": lambda a, b, c: table[a, b, c]},
        {"entries": (np.argwhere(table > -np.inf), table[table > -np.inf])},
    ]
    results = []
    for way in ways:
        graph = one_factor(table.shape, **way)
        graph.add_factor([2, 1], log_table=[[0.0, 1.0, 2.0, 0.5], [0.3, -1.0, 0.0, 0.0]])
        results.append(abp.infer(graph, "bp", tolerance=1e-11))
    for other in results[1:]:
        assert_same(results[0], other)
