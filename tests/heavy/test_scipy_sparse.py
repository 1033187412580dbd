"""Entries of two variables as scipy.sparse matrices and arrays."""

import numpy as np
import pytest
from scipy import sparse

import anytimebp as abp

pytestmark = pytest.mark.heavy

SCORES = np.array([[0.5, 0.0, -1.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0]])


def graph_of(matrix, scope=(0, 1), **how):
    graph = abp.FactorGraph()
    graph.add_variable("a", 3)
    graph.add_variables(2, 4, names=["b", "c"])
    graph.add_factor(list(scope), entries=matrix, **how)
    return graph


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("ending", ["_matrix", "_array"])
@pytest.mark.parametrize("default", [-np.inf, -2.0])
def test_what_a_matrix_stores_are_log_scores(kind, ending, default):
    matrix = getattr(sparse, kind + ending)(SCORES)
    stored = np.asarray(matrix.tocoo().todense()) != 0
    found = graph_of(matrix, default=default).factor_log_table(0)
    assert (found[stored] == SCORES[stored]).all()
    if kind in {"csr", "csc", "coo", "lil", "dok"}:
        assert (found[~stored] == default).all()
    assert (matrix.toarray() == SCORES).all()  # as it was


def test_zeros_that_are_stored_are_log_scores_of_zero():
    matrix = sparse.coo_matrix(([0.0, 1.0], ([0, 2], [1, 3])), shape=(3, 4))
    table = graph_of(matrix).factor_log_table(0)
    assert (table[0, 1], table[2, 3]) == (0.0, 1.0)
    assert (table > -np.inf).sum() == 2


def test_what_is_stored_twice_is_added_up():
    matrix = sparse.coo_array(([0.25, 1.0, 0.5], ([0, 2, 0], [1, 3, 1])), shape=(3, 4))
    assert graph_of(matrix).factor_log_table(0)[0, 1] == 0.75
    assert matrix.nnz == 3  # as it was


def test_nothing_stored():
    assert (graph_of(sparse.csr_array((3, 4)), default=-1.0).factor_log_table(0) == -1.0).all()
    with pytest.raises(abp.InconsistentModelError, match=r"factor 0 \(a, b\) is zero everywhere"):
        graph_of(sparse.csr_array((3, 4)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, bool])
def test_numbers_of_other_kinds_are_read(dtype):
    matrix = sparse.csr_matrix(np.eye(3, 4, dtype=dtype))
    assert graph_of(matrix).factor_log_table(0)[1, 1] == 1.0


@pytest.mark.parametrize(
    ("matrix", "scope", "said"),
    [
        (sparse.csr_matrix(SCORES.T), (0, 1), r"factor 0 \(a, b\) must have shape \(3, 4\).*got \(4, 3\)"),
        (sparse.csr_matrix(SCORES), (1, 0), r"factor 0 \(b, a\) must have shape \(4, 3\).*got \(3, 4\)"),
        (sparse.csr_matrix(SCORES), (0, 1, 2), r"factor 0 \(a, b, c\) has 3 variables; a scipy.sparse matrix gives"),
        (sparse.csr_matrix(SCORES), (0,), r"factor 0 \(a\) has 1 variables?; a scipy.sparse matrix gives"),
        (sparse.csr_matrix(SCORES * 1j), (0, 1), r"factor 0 \(a, b\) must hold real numbers, got dtype complex128"),
        (sparse.csr_matrix(SCORES * np.nan), (0, 1), r"factor 0 \(a, b\) contain nan"),
    ],
)
def test_matrices_that_do_not_fit_are_refused_by_name(matrix, scope, said):
    with pytest.raises(abp.ModelError, match=said):
        graph_of(matrix, scope)


def test_a_large_matrix_stays_a_list():
    rng = np.random.default_rng(0)
    n = 20_000
    matrix = sparse.random_array((n, n), density=5 / n, rng=rng, format="csr")
    graph = abp.FactorGraph()
    graph.add_variables(2, n)
    graph.add_factor([0], log_table=rng.normal(size=n))
    graph.add_factor([0, 1], entries=matrix, default=-5.0)
    result = abp.infer(graph, "bp", max_memory=100_000_000)
    coo = matrix.tocoo()
    weight = np.exp(graph.factor_log_table(0))
    expected = np.full(n, np.exp(-5.0) * weight.sum())
    np.add.at(expected, coo.col, (np.exp(coo.data) - np.exp(-5.0)) * weight[coo.row])
    np.testing.assert_allclose(result.marginals["x1"], expected / expected.sum(), rtol=1e-10)
