"""Rows of unequal length, and sums of exponentials, against loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.scores import log_sum_exp, log_sum_exp_rows

lengths = st.lists(st.integers(0, 5), max_size=6)


@given(lengths)
def test_rows_start_where_those_before_them_end(given):
    assert row_starts(np.array(given, dtype=np.int64)).tolist() == [sum(given[:k]) for k in range(len(given) + 1)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=6))
def test_items_of_rows_follow_each_other(rows):
    first, counts = (np.array([row[k] for row in rows], dtype=np.int64) for k in range(2))
    assert row_items(first, counts).tolist() == [start + k for start, n in rows for k in range(n)]


@pytest.mark.parametrize("axes", [None, (0,), (1,), (0, 2), (0, 1, 2)])
def test_sums_of_exponentials_are_those_of_a_loop_however_large(axes):
    rng = np.random.default_rng(0)
    for shift in (0.0, 1e4, -1e4):
        scores = rng.normal(0.0, 3.0, (2, 3, 4))
        scores[rng.random(scores.shape) < 0.3] = -np.inf
        scores[1, :, :] = -np.inf
        gone = (0, 1, 2) if axes is None else axes
        slow = np.exp(scores).sum(axis=gone)
        expected = np.array([math.log(total) + shift if total else -np.inf for total in slow.reshape(-1)])
        found = log_sum_exp(scores + shift, axes)
        assert found.shape == slow.shape
        np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-12)


def test_the_sum_of_nothing_is_zero():
    assert log_sum_exp(np.empty(0)) == -np.inf


@given(
    st.lists(st.lists(st.sampled_from([-np.inf, -800.0, -1.5, 0.0, 2.0, 900.0]), min_size=1, max_size=4), max_size=5)
)
def test_sums_of_rows_are_those_of_each_row(rows):
    start = row_starts(np.array([len(row) for row in rows], dtype=np.int64))
    found = log_sum_exp_rows(np.array([value for row in rows for value in row], dtype=np.float64), start)
    np.testing.assert_allclose(found, [float(log_sum_exp(np.array(row))) for row in rows], rtol=1e-14)
