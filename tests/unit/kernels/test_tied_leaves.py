"""Leaves of tied tables, summed out and told for many factors at once: the same numbers as for one after the other."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import new_task, steps
from anytimebp.kernels.tied_leaves import block_size, cut_block, sum_tied_down, sum_tied_up
from anytimebp.tables import leaves

SIZES = [(1, 4, 4), (3, 5, 7), (12, 13, 5), (4, 97, 9), (29, 29, 50)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("n_factors", [1, 2, 5])
def test_sums_are_products_of_matrices(sizes, n_factors):
    rng = np.random.default_rng(sum(sizes))
    table, gathered = rng.random(sizes), rng.random((n_factors, sum(sizes)))
    n, m, n_leaf = sizes
    first, second, leaf = np.split(gathered, [n, n + m], axis=1)
    smaller = np.empty((n_factors, n, m))
    address = smaller.ctypes.data + 8 * n * m * np.arange(n_factors)
    factors = np.arange(n_factors)[::-1].copy()
    sum_tied_up(table.ravel(), gathered[::-1].ravel(), address, factors, n_leaf)
    assert np.allclose(smaller, np.einsum("abr,fr->fab", table, leaf), rtol=1e-13)
    block = np.full(int(block_size(n, m, n_leaf)), np.nan)
    cut = getattr(cut_block, "py_func", cut_block)  # a kernel returns arrays to other kernels only
    own, told, scratch = cut(block, n_factors, sum(sizes), n_leaf)
    own[:] = gathered.ravel()
    sum_tied_down(table.ravel(), own, n_factors, n, m, told, scratch)
    right = np.einsum("abr,fa,fb->fr", table, first, second)
    assert np.allclose(told.reshape(n_factors, n_leaf), right, rtol=1e-13)


def relations(*, tied, seed=0, zeros=0.0):
    """Return a graph of 9 variables of 5 states and 72 relations of 6 kinds."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(9, 5)
    pairs = [(a, b) for a in range(9) for b in range(9) if a != b]
    graph.add_variables(len(pairs), 6)
    graph.add_factors(np.arange(9)[:, np.newaxis], log_table=rng.normal(size=(9, 5)))
    graph.add_factors(9 + np.arange(len(pairs))[:, np.newaxis], log_table=rng.normal(size=(len(pairs), 6)))
    table = 0.5 * rng.normal(size=(5, 5, 6))
    table[rng.random(table.shape) < zeros] = -np.inf
    scores = table if tied else np.array(np.broadcast_to(table, (len(pairs), 5, 5, 6)))
    graph.add_factors([[a, b, 9 + k] for k, (a, b) in enumerate(pairs)], log_table=scores)
    return graph


def answer(graph, monkeypatch, *, limit=None, **given):
    """Run BP on the core, however small; return all marginals, log Z, and whether tables were passed together."""
    with monkeypatch.context() as patch:
        patch.setattr(leaves, "OVERHEAD", -np.inf)
        if limit is not None:
            patch.setattr("anytimebp.tables.leaves.SLICE_COST", limit)
        run = AllStates(new_task(graph, abp.Inference(graph, "bp", tolerance=1e-11, **given)._options))
        for _ in steps(run, run._task.figures):
            pass
        found = run.read(settled=False)
        return found.marginals.concatenated(), found.log_z, len(run.leaves.arrays.block)


@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("evidence", [None, {"x1": 2}, {"x3": {0, 1}, "x20": 4}])
def test_tied_tables_give_what_tables_of_their_own_give(zeros, evidence, monkeypatch):
    tied, log_z, n_block = answer(relations(tied=True, zeros=zeros), monkeypatch, evidence=evidence)
    own, right, none = answer(relations(tied=False, zeros=zeros), monkeypatch, evidence=evidence)
    assert (n_block > 0, none) == (True, 0)
    assert np.abs(tied - own).max() < 1e-9
    assert log_z == pytest.approx(right, abs=1e-8)


@pytest.mark.parametrize("limit", [1, 5_000])
def test_numbers_do_not_depend_on_how_many_factors_are_passed_in_a_slice(limit, monkeypatch):
    many, _, _ = answer(relations(tied=True), monkeypatch)
    few, _, _ = answer(relations(tied=True), monkeypatch, limit=limit)
    assert np.array_equal(many, few)


def test_numbers_do_not_depend_on_how_many_factors_are_together():
    rng = np.random.default_rng(0)
    table, gathered = rng.random(6 * 7 * 11), rng.random((5, 24))
    smaller, alone = np.empty((2, 5, 42))
    for out, parts in ((smaller, [range(5)]), (alone, [range(1), range(1, 3), range(3, 5)])):
        address = out.ctypes.data + 8 * 42 * np.arange(5)
        for part in parts:
            sum_tied_up(table, gathered[part].ravel(), address, np.array(part), 11)
    assert np.array_equal(smaller, alone)


def test_without_memory_for_it_factors_are_passed_one_by_one(monkeypatch):
    graph = relations(tied=True)
    limit = graph.summary().full_bp_bytes + 8 * 72 * 25  # smaller tables, and nothing else
    many, _, n_block = answer(graph, monkeypatch)
    few, _, none = answer(relations(tied=True), monkeypatch, max_memory=limit)
    assert (n_block > 0, none) == (True, 0)
    assert np.abs(many - few).max() < 1e-9
