"""Every kernel against a slow, obvious twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.schedule.residual import HeapArrays
from anytimebp.inference.schedule.sweeps import Movement
from anytimebp.kernels import active, active_readout, arithmetic, lazy, residual, through_table
from anytimebp.kernels.codes import LINEAR, SCALED
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.tables.workspace import Workspace
from oracle.models import random_loopy
from oracle.slow_bp import SlowBP, load_messages
from unit.kernels.test_peeling import peeled


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


@given(seed=st.integers(0, 10**6), arity=st.integers(2, 4), degree=st.sampled_from([0, 3, 20]), data=st.data())
def test_a_factor_with_one_variable_of_several_states_sends_a_line_of_its_table(seed, arity, degree, data):
    rng, only = np.random.default_rng(seed), data.draw(st.integers(0, arity - 1))
    n = int(rng.integers(2, 6))
    graph = abp.FactorGraph()
    scope = [graph.add_variables(1, n if axis == only else 1)[0] for axis in range(arity)]
    others = graph.add_variables(degree, n)
    line, prior = rng.random(n) + 0.05, rng.random(n) + 0.05
    graph.add_factor(scope, table=line.reshape([n if axis == only else 1 for axis in range(arity)]))
    graph.add_factor([scope[only]], table=prior)
    tables = rng.random((degree, n, n)) + 0.05
    if degree:
        graph.add_factors([[scope[only], other] for other in others], table=tables)
    compiled = CompiledGraph(graph)
    workspace = Workspace(compiled, full_domains(compiled, {}), LINEAR)
    for _ in workspace.prepare():
        pass
    bp, layout, received = workspace.arrays, workspace.layout, prior / prior.max()
    movement = Movement(np.zeros(len(graph.variables)), np.full(len(layout.edge_variable), -np.inf))
    for order in ([0], [*range(1, degree + 1), 0]):  # the second time the others have said something
        lazy.lazy_slice(layout, bp, movement, np.array(order), 0, -np.inf, 10**6, 10**9, 0.0)
        sent = bp.message[bp.edge_slot_start[only] :][:n]
        assert sent == pytest.approx(line / line.max(), rel=1e-14)
        total = line @ received / line.max()  # the layout's own table is divided by its largest number
        log_total = np.log(bp.factor_total[0]) + workspace.tables.log_scale[0] - np.log(line.max())
        assert log_total == pytest.approx(np.log(total), abs=1e-12)
        scale = line.max() / np.exp(workspace.tables.log_scale[0])
        for edge in range(arity):
            assert bp.edge_scale[edge] == pytest.approx(scale if edge == only else bp.factor_total[0], rel=1e-13)
        received = prior * np.prod(tables.sum(axis=2) / tables.sum(axis=2).max(axis=1, keepdims=True), axis=0)
        received /= received.max()


@given(seed=st.integers(0, 10**6), n=st.integers(0, 23), length=st.integers(1, 60), stride=st.sampled_from([1, 3]))
def test_lines_are_summed_and_added_as_matrices_are(seed, n, length, stride):
    rng = np.random.default_rng(seed)
    source, weight = rng.random(length * stride + 500), rng.random(length)
    position = rng.integers(0, 500, n)
    lines = np.array([source[k : k + length * stride : stride] for k in position]).reshape(n, length)
    found = np.empty(n)
    active._sum_lines(source, position, stride, weight, found)
    assert np.allclose(found, lines @ weight, rtol=1e-13)
    sums, shares = np.ones(length), rng.random(n)
    active_readout._add_lines(source, 3, position - 3, 0.5, shares, stride, SCALED, 0.0, sums)
    assert np.allclose(sums, 1.0 + 0.5 * shares @ lines, rtol=1e-13)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
def test_the_heap_keeps_the_order_of_a_sort(seed, n):
    rng = np.random.default_rng(seed)
    heap = HeapArrays(np.arange(n), np.arange(n), np.zeros(n), np.empty(0), np.zeros(2, dtype=np.int64))
    for _ in range(60):
        item = int(rng.integers(n))
        heap.priority[item] = rng.choice([0.0, 1.0, 2.0, np.inf, rng.random()])
        residual.sift(heap, item)
        assert (heap.position[heap.item] == np.arange(n)).all()
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
    order, _, ordered, *_ = peeled(layout, np.full(n, 2))
    assert (ordered == len(pairs)) == graph.summary().is_forest
    for position, f in enumerate(order[:ordered]):
        later = {v for g in order[position + 1 : ordered] for v in pairs[g]}
        assert len(later & set(pairs[f])) <= 1
