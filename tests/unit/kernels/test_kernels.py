"""Every kernel against a slow, obvious twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.schedule.residual import HeapArrays
from anytimebp.kernels import arithmetic, residual, through_table
from anytimebp.kernels.leaves import elimination_order
from anytimebp.layout.graph_layout import CompiledGraph
from oracle.models import random_loopy
from oracle.slow_bp import SlowBP, load_messages


@given(st.floats(-800.0, 690.0))
def test_exp_is_right_to_the_last_bits(x):
    expected = np.exp(x) if x > -708 else 0.0
    assert arithmetic.exp(x) == pytest.approx(expected, rel=1e-15, abs=0.0)


def test_exp_at_the_edges():
    assert [arithmetic.exp(x) for x in (-np.inf, 0.0, -0.0, -1e-300)] == [0.0, 1.0, 1.0, 1.0]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30))
def test_add_exactly_loses_nothing_when_taken_back(values):
    high, low = 1e-3, 0.0
    for x in values:
        high, low = arithmetic.add_exactly(high, low, x)
    for x in values:
        high, low = arithmetic.add_exactly(high, low, -x)
    assert high + low == pytest.approx(1e-3, rel=1e-12)


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 9), n=st.integers(1, 20))
def test_matrix_passes(seed, rows, n):
    rng = np.random.default_rng(seed)
    matrix, row, column = rng.random((rows, n)), rng.random(rows), rng.random(n)
    matrix[rng.random((rows, n)) < 0.3] = 0.0
    row[rng.random(rows) < 0.2] = 0.0
    dots, sums, none = np.empty(rows), np.empty(n), np.empty(0, dtype=np.int64)
    through_table.matrix_linear(matrix.ravel(), none, n, n, row, column, dots, sums)
    assert np.allclose(dots, matrix @ column, rtol=1e-13)
    assert np.allclose(sums, row @ matrix, rtol=1e-13)


@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]), arity=st.integers(2, 5))
def test_a_sweep_equals_the_slow_twins(seed, zeros, arity):
    graph = random_loopy(seed, scale=2.0, zeros=zeros, max_arity=arity)
    slow = SlowBP(graph)
    inference = abp.Inference(graph, "bp")
    next(inference)
    for f, scope in enumerate(slow.scopes):
        if len(scope) == 1:
            slow.message.update(slow.updated(f))
    if inference._run.method.leaves is not None:  # a forest, maybe after a variable of one state has cut it
        return
    for f in sorted(range(len(slow.scopes)), key=lambda f: (max(slow.scopes[f]), min(slow.scopes[f]))):
        if len(slow.scopes[f]) > 1:
            slow.message.update(slow.updated(f))
    fast = SlowBP(graph)
    load_messages(fast, inference._run.method)
    for key, message in slow.message.items():
        ours = fast.message[key]
        assert ((message == -np.inf) == (ours == -np.inf)).all()
        finite = message > -np.inf
        assert np.allclose(message[finite], ours[finite], atol=1e-11)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
def test_the_heap_keeps_the_order_of_a_sort(seed, n):
    rng = np.random.default_rng(seed)
    heap = HeapArrays(np.arange(n), np.arange(n), np.zeros(n), np.empty(0), np.zeros(2, dtype=np.int64))
    for _ in range(60):
        item = int(rng.integers(n))
        heap.priority[item] = rng.choice([0.0, 1.0, 2.0, np.inf, rng.random()])
        residual.sift(heap, item)
        assert (heap.place[heap.item] == np.arange(n)).all()
        assert heap.item[0] == min(range(n), key=lambda k: (-heap.priority[k], k))


@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), loops=st.booleans())
def test_elimination_order_is_leaves_first_and_complete_on_forests_only(seed, n, loops):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, 2)
    pairs = [(int(rng.integers(i)), i) for i in range(1, n) if rng.random() < 0.8]
    if loops and len(pairs) > 1:
        pairs.append(pairs[0][::-1])
    pairs = [pairs[k] for k in rng.permutation(len(pairs))]
    for pair in pairs:
        graph.add_factor(pair, log_table=np.zeros((2, 2)))
    layout = CompiledGraph(graph).arrays
    order, way = np.empty(len(pairs), dtype=np.int64), np.empty(2 * len(pairs), dtype=np.int64)
    scratch = (np.zeros(size, dtype=np.int64) for size in (n, n, len(pairs)))
    ordered, _, _ = elimination_order(layout, np.full(n, 2), order, *scratch, way)
    assert (ordered == len(pairs)) == graph.summary().is_forest
    for place, f in enumerate(order[:ordered]):
        later = {v for g in order[place + 1 : ordered] for v in pairs[g]}
        assert len(later & set(pairs[f])) <= 1
