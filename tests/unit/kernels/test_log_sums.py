import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.schedule.sweeps import no_news
from anytimebp.kernels import arithmetic, log_sums
from anytimebp.kernels.codes import FACTOR_VANISHED, LOG, MAX, OK, SUM
from anytimebp.kernels.messages import sweep_slice
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.tables.workspace import Workspace


@given(st.floats(1e-300, 1e300))
def test_the_logarithm_is_right_to_the_last_bits(x):
    assert arithmetic.normal_log(x) == pytest.approx(math.log(x), rel=1e-15, abs=1e-16)


def test_the_logarithm_of_powers_and_their_neighbours():
    for x in (1.0, np.nextafter(1.0, 0), np.nextafter(1.0, 2), 0.5, 2.0, 2.0**-1000, 0.5**0.5, 2.0**0.5):
        assert arithmetic.normal_log(float(x)) == pytest.approx(math.log(x), rel=1e-15, abs=0.0)


def with_zeros(rng, log_range, zeros, shape):
    """Return log scores that reach over a range, some of them -inf."""
    values = rng.uniform(-log_range, 0.0, shape)
    return np.where(rng.random(shape) < zeros, -np.inf, values)


def update_first(workspace):
    """Update the first factor of a workspace, whatever it has seen."""
    order, figures, moved = np.array([[0]]), np.zeros((1, 3)), np.zeros(len(workspace.domains.sizes))
    news = no_news(workspace.layout)
    return sweep_slice(workspace.layout, workspace.arrays, news, order, 0, 1, 10**9, 0.0, 0.0, figures, moved)


def one_factor(log_table, log_weights, semiring, *, potentials):
    """Return the messages of one factor, its log Z_f and the status of its update, in log arithmetic."""
    graph = abp.FactorGraph()
    graph.add_variables(1, 1)
    for axis, weight in enumerate(log_weights):
        graph.add_variable(f"v{axis}", len(weight))
        graph.add_factor([f"v{axis}"], log_table=weight)
    scope = [f"v{axis}" for axis in range(len(log_weights))]
    graph.add_factor(scope, **({"table": np.exp(log_table)} if potentials else {"log_table": log_table}))
    compiled = CompiledGraph(graph)
    workspace = Workspace(compiled, full_domains(compiled, {}, {}), LOG, semiring=semiring)
    for _ in workspace.prepare():
        pass
    arrays = workspace.arrays
    status, *_ = update_first(workspace)
    messages = np.split(arrays.message, arrays.edge_slot_start[1:])
    return status, messages, arrays.factor_total[0] + workspace.tables.log_scale[0], workspace


def slow(log_table, log_weights, semiring):
    """Return the same with every term written out, in extended precision."""

    def summed(terms, axes):
        peak = terms.max(axis=axes, keepdims=True)
        if semiring == SUM:
            shift = np.where(np.isfinite(peak), peak, 0.0)
            with np.errstate(divide="ignore"):
                peak = np.log(np.exp(terms - shift).sum(axis=axes, keepdims=True)) + shift
        return np.squeeze(peak, axis=axes)

    arity, shape = log_table.ndim, log_table.shape
    weights = [
        (w.astype(np.longdouble) - w.max()).reshape([-1 if k == axis else 1 for k in range(arity)])
        for axis, w in enumerate(log_weights)
    ]
    sent = []
    for axis in range(arity):
        terms = log_table.astype(np.longdouble) + sum(w for k, w in enumerate(weights) if k != axis)
        sent.append(summed(np.broadcast_to(terms, shape), tuple(k for k in range(arity) if k != axis)))
    total = summed(log_table + sum(weights), tuple(range(arity)))
    return [message - message.max() for message in sent if message.max() > -np.inf], float(total)


@given(
    seed=st.integers(0, 10**6),
    arity=st.integers(2, 4),
    table_range=st.sampled_from([0.0, 1.0, 50.0, 500.0, 599.0, 700.0, 2000.0]),
    weight_range=st.sampled_from([0.0, 1.0, 50.0, 700.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    semiring=st.sampled_from([SUM, MAX]),
    potentials=st.booleans(),
)
def test_messages_have_all_digits_and_zeros_where_they_belong(
    seed, arity, table_range, weight_range, zeros, semiring, potentials
):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, {2: 41, 3: 13, 4: 7}[arity], arity))
    log_table = with_zeros(rng, table_range, zeros, shape)
    log_table.flat[rng.integers(log_table.size)] = 0.0
    weights = [with_zeros(rng, weight_range, zeros / 3, n) for n in shape]
    for weight in weights:
        weight[rng.integers(len(weight))] = 0.0
    potentials &= table_range < 700.0
    status, found, total, _ = one_factor(log_table, weights, semiring, potentials=potentials)
    expected, log_z = slow(log_table, weights, semiring)
    if len(expected) < arity:
        assert status == FACTOR_VANISHED
        return
    assert status == OK
    for ours, right in zip(found, expected, strict=True):
        assert ((ours == -np.inf) == (right == -np.inf)).all()
        possible = right > -np.inf
        assert np.abs(ours[possible] - right[possible]).max() < 1e-11
    assert (total == log_z == -np.inf) or total == pytest.approx(log_z, abs=1e-11)


@pytest.mark.parametrize("semiring", [SUM, MAX])
def test_a_state_whose_only_support_is_out_of_linear_reach_keeps_its_digits(semiring):
    log_table = np.array([[0.0, -np.inf, -3.0], [-np.inf, -1.0, -np.inf], [-np.inf, -np.inf, -np.inf]])
    weights = [np.array([0.0, -1500.0, 0.0]), np.array([0.0, -900.25, -np.inf])]
    status, (to_first, to_second), total, _ = one_factor(log_table, weights, semiring, potentials=False)
    assert status == OK
    assert to_first.tolist() == [0.0, pytest.approx(-901.25, rel=1e-15), -np.inf]
    assert to_second.tolist() == [0.0, pytest.approx(-1501.0, rel=1e-15), -3.0]
    assert total == 0.0


def test_a_wide_table_is_summed_by_logs_only_where_it_must_be():
    rng = np.random.default_rng(0)
    log_table = rng.uniform(-2000.0, 0.0, (20, 1)) + rng.uniform(-1.0, 0.0, (20, 20))
    status, _, _, workspace = one_factor(log_table, [np.zeros(20), np.zeros(20)], SUM, potentials=False)
    arrays, other = workspace.arrays, rng.uniform(-1.0, 0.0, (20, 20))
    assert status == OK
    assert arrays.table_in_logs[0]
    assert arrays.table_scaled[0]
    before = arrays.message.copy()
    arrays.table_address[0] = other.ctypes.data  # not looked at, where scales make up for the range
    update_first(workspace)
    assert np.array_equal(arrays.message, before)
    arrays.table_scaled[0] = 0
    update_first(workspace)
    assert not np.array_equal(arrays.message, before)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), log_range=st.sampled_from([1.0, 900.0]))
def test_log_sum_of_a_row(seed, n, log_range):
    rng = np.random.default_rng(seed)
    row, weight = with_zeros(rng, log_range, 0.3, n), with_zeros(rng, log_range, 0.2, n)
    terms = row + weight
    expected = -np.inf if (terms == -np.inf).all() else np.logaddexp.reduce(terms)
    assert log_sums.log_sum(row, weight) == pytest.approx(expected, rel=1e-13)
