"""Cliques of leaves: sums over their tables, whichever axis the leaf has, and answers that rest on them."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.kernels.clique_axes import DIM, STRIDE, merge_axes
from anytimebp.kernels.leaf_cliques import _sum_down, _sum_up
from oracle.enumeration import exact
from oracle.examples import examples
from oracle.leafy_models import leafy_graph

SHAPES = [(2, 3, 5), (7, 4, 6), (3, 70, 2), (6, 9, 66), (1, 5, 4)]


def walked(table, order):
    """Return the axes along which a table is walked in this order, and how many there are."""
    axes = np.zeros((3, table.ndim), dtype=np.int64)
    for k, axis in enumerate(order):
        axes[DIM, k], axes[STRIDE, k] = table.shape[axis], table.strides[axis] // table.itemsize
    return axes, merge_axes(axes, 1, table.ndim)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_sums_up_and_down_are_those_of_the_weighted_table(shape, order):
    rng = np.random.default_rng(0)
    table = rng.random(shape)
    turned = table.transpose(order)
    weight, ratio = rng.random(turned.shape[0]), rng.random(turned.shape[1:])
    message, sums = np.full(ratio.size, np.nan), np.full(len(weight), np.nan)
    axes, n = walked(table, order)
    _sum_up(table.ravel(), axes, n, weight, message)
    np.testing.assert_allclose(message, np.einsum("i,ijk->jk", weight, turned).ravel(), rtol=1e-13)
    axes, n = walked(table, order)
    _sum_down(table.ravel(), axes, n, ratio.ravel(), sums)
    np.testing.assert_allclose(sums, np.einsum("ijk,jk->i", turned, ratio), rtol=1e-13)


@pytest.mark.parametrize("n_own", [1, 3, 70])
def test_a_leaf_whose_neighbours_are_observed_has_one_axis(n_own):
    table, weight = np.random.default_rng(1).random((2, n_own))
    axes, message, sums = np.array([[n_own], [1], [0]]), np.empty(1), np.empty(n_own)
    _sum_up(table, axes, 1, weight, message)
    assert message[0] == pytest.approx(table @ weight, rel=1e-13)
    _sum_down(table, axes, 1, np.array([0.5]), sums)
    np.testing.assert_allclose(sums, 0.5 * table, rtol=1e-15)


@pytest.mark.parametrize("order", [*permutations(range(4))])
@pytest.mark.parametrize("observed", [None, 1, 2])
def test_a_leaf_may_have_any_axis_of_its_factor(order, observed):
    sizes, rng = (5, 3, 2, 4), np.random.default_rng(0)
    graph = abp.FactorGraph()
    for v, n in enumerate(sizes):
        graph.add_variable(f"v{v}", n)
    graph.add_factor([order[0]], log_table=rng.normal(size=sizes[order[0]]))
    table = np.where(rng.random([sizes[v] for v in order]) < 0.2, -np.inf, rng.normal(size=[sizes[v] for v in order]))
    graph.add_factor(list(order), log_table=table)
    for pair in ([1, 2], [2, 3], [1, 3]):  # but for v0, all are in a loop
        graph.add_factor(pair, log_table=rng.normal(size=[sizes[v] for v in pair]))
    seen = {} if observed is None else {observed: 1}
    scores = {v: np.where(np.arange(sizes[v]) == state, 0.0, -np.inf) for v, state in seen.items()}
    marginals, log_z = exact(graph, scores)
    found = abp.infer(graph, "exact", evidence=seen)
    assert found.log_z == pytest.approx(log_z, abs=1e-11)
    for v in range(4):
        np.testing.assert_allclose(found.marginals[v], marginals[v], atol=1e-13)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6), kinds=st.sampled_from(["zeros", "tied", "all"]), observed=st.booleans())
def test_leaves_without_tables_have_the_marginals_of_leaves_with_tables(seed, kinds, observed):
    graph, evidence = leafy_graph(seed, kinds, observed=observed)
    try:
        whole = abp.infer(graph, "exact", evidence=evidence, factor_marginals=True)
    except abp.InconsistentModelError:
        with pytest.raises(abp.InconsistentModelError):
            abp.infer(graph, "exact", evidence=evidence)
        return
    found = abp.infer(graph, "exact", evidence=evidence)
    np.testing.assert_allclose(found.marginals.concatenated(), whole.marginals.concatenated(), atol=1e-12)
    assert found.log_z == pytest.approx(whole.log_z, abs=1e-10)
    assert found.work <= whole.work
