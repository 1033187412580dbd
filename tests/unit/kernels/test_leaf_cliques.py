"""Sums over a leaf's table, whichever axis its own variable has, and in whatever order the others are walked."""

from itertools import permutations

import numpy as np
import pytest

from anytimebp.kernels.clique_axes import DIM, STRIDE, merge_axes
from anytimebp.kernels.leaf_cliques import _sum_down, _sum_up

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
