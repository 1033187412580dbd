"""On graphs with loops: the methods, schedules and the slow twin agree, and what they end at is a fixed point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.kernels.jit import UNCOMPILED
from oracle.models import random_loopy, worst
from oracle.settled import largest_move
from oracle.slow_bp import SlowBP, load_messages

seeds = st.integers(0, 10**9)
MOST_UPDATES = 5_000 if UNCOMPILED else None  # of runs that may never settle
RUNS = [("bp", "sequential"), ("bp", "random"), ("residual", "sequential")]


@pytest.mark.parametrize(("method", "schedule"), RUNS)
@given(seed=seeds)
def test_agrees_with_the_slow_twin_at_weak_coupling(method, schedule, seed):
    graph = random_loopy(seed, scale=0.3)
    slow = SlowBP(graph)
    assert slow.run()
    result = abp.infer(graph, method, schedule=schedule, rng=seed, tolerance=1e-10)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert worst(result, slow.marginals()) < 1e-8


@pytest.mark.parametrize(("method", "schedule"), RUNS)
@given(seed=seeds, scale=st.sampled_from([0.3, 1.0, 3.0]), zeros=st.sampled_from([0.0, 0.2]))
@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
def test_what_is_called_converged_is_a_fixed_point(method, schedule, seed, scale, zeros):
    graph = random_loopy(seed, scale=scale, zeros=zeros)
    inference = abp.Inference(graph, method, schedule=schedule, rng=seed, tolerance=1e-8)
    result = inference.run(max_updates=MOST_UPDATES)  # a joint state exists, so that messages never vanish
    if result.stop_reason is abp.StopReason.CONVERGED and not graph.summary().is_forest:
        slow = SlowBP(graph)
        load_messages(slow, inference._run.method)
        assert largest_move(slow) <= 1e-8


@given(seed=seeds, scale=st.sampled_from([1.0, 30.0, 1000.0, 5000.0]), zeros=st.sampled_from([0.0, 0.3]))
@pytest.mark.parametrize("method", ["bp", "residual"])
@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
def test_no_range_gives_nan(method, seed, scale, zeros):
    graph = random_loopy(seed, scale=scale, unary=scale, zeros=zeros)
    result = abp.infer(graph, method, max_updates=2000)
    for marginal in result.marginals.values():
        assert np.isfinite(marginal).all()
        assert marginal.sum() == pytest.approx(1.0)
    assert np.isfinite(result.log_z)


@given(seed=seeds)
def test_log_and_linear_arithmetic_agree(seed):
    graph = random_loopy(seed, scale=0.3, unary=5.0)
    linear = abp.infer(graph, "bp", tolerance=1e-11)
    wide = np.zeros(2)
    wide[1] = -2000.0
    graph.add_variable("far", 2)
    graph.add_factor(["far"], log_table=wide)
    log = abp.infer(graph, "bp", tolerance=1e-11)
    assert (linear.arithmetic, log.arithmetic) == ("linear", "log")
    for name, marginal in linear.marginals.items():
        assert np.abs(marginal - log.marginals[name]).max() < 1e-9
    assert linear.log_z == pytest.approx(log.log_z, abs=1e-9)


@given(seed=seeds, damping=st.sampled_from([0.3, 0.7]))
@pytest.mark.parametrize("method", ["bp", "residual"])
def test_damping_does_not_move_the_fixed_point(method, seed, damping):
    graph = random_loopy(seed, scale=0.3)
    plain = abp.infer(graph, method, tolerance=1e-11)
    damped = abp.infer(graph, method, tolerance=1e-11, damping=damping)
    assert worst(damped, list(plain.marginals.values())) < 1e-8
    assert damped.log_z == pytest.approx(plain.log_z, abs=1e-8)
