import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import new_task, steps
from anytimebp.kernels.codes import MAX, OK
from anytimebp.kernels.readout import read_beliefs
from anytimebp.kernels.through_table import matrix_max
from oracle.examples import examples
from oracle.models import random_tree
from oracle.slow_bp import SlowBP


def enumerated(graph):
    """Return the max-marginals of a small graph, each with a largest number of 1, by going through all joint states."""
    slow = SlowBP(graph)
    sizes = tuple(slow.sizes)
    score = np.zeros(sizes)
    for scope, table in zip(slow.scopes, slow.tables, strict=True):
        order = np.argsort(scope)
        shape = [sizes[i] if i in scope else 1 for i in range(len(sizes))]
        score = score + np.transpose(table, order).reshape(shape)
    axes = range(len(sizes))
    return [np.exp(score.max(axis=tuple(a for a in axes if a != i)) - score.max()) for i in axes], score.max()


def max_marginals(graph, method="bp"):
    task = new_task(graph, abp.Inference(graph, method)._options)._replace(semiring=MAX)
    run = AllStates(task)
    for _ in steps(run, task.figures):
        pass
    assert task.figures.ending is abp.StopReason.CONVERGED
    assert run.complete()
    start = run.workspace.domains.slot_start
    belief, log_normaliser = np.empty(start[-1]), np.empty(len(start) - 1)
    status, _ = read_beliefs(run.workspace.layout, run.workspace.arrays, start[:-1], belief, log_normaliser)
    assert status == OK
    return np.split(belief, start[1:-1])


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]), method=st.sampled_from(["bp", "residual"]))
def test_max_marginals_of_a_tree_are_those_of_all_joint_states(seed, zeros, method, any_arithmetic):
    graph = random_tree(seed, zeros=zeros, n_factors=4, max_states=3, max_arity=3)
    expected, _ = enumerated(graph)
    for found, right in zip(max_marginals(graph, method), expected, strict=True):
        assert np.allclose(found, right, rtol=1e-9, atol=1e-12)


def test_structures_take_part_as_tables():
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factor([0, 1], structure=abp.Equality(0.5, -1.0))
    graph.add_factor([1, 2], entries=([[0, 1], [2, 3]], [1.0, 2.0]), default=-3.0)
    graph.add_factor([0], log_table=[0.1, 0.2, 0.3, 0.4])
    expected, _ = enumerated(graph)
    for _ in range(2):  # before and after a run on sums has left its tables with the graph
        for found, right in zip(max_marginals(graph), expected, strict=True):
            assert np.allclose(found, right, rtol=1e-9)
        assert abp.infer(graph, "bp").consistent


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_matrix_gives_the_largest_terms_of_its_rows_and_columns(rows):
    rng = np.random.default_rng(rows)
    matrix, row_weight, column_weight = rng.random((rows, 7)), rng.random(rows), rng.random(7)
    dots, sums, none = np.empty(rows), np.empty(7), np.empty(0, dtype=np.int64)
    matrix_max(matrix.reshape(-1), none, 7, 7, row_weight, column_weight, dots, sums)
    assert np.array_equal(dots, (matrix * column_weight).max(axis=1))
    assert np.array_equal(sums, (matrix * row_weight[:, np.newaxis]).max(axis=0))
