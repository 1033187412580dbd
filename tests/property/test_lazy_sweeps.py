"""Sweeps that leave factors out: the bound on what they leave out holds, and where they end is a fixed point."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.schedule.sweeps import LazySchedule
from oracle.examples import examples
from oracle.models import grid, random_loopy, worst
from oracle.settled import largest_move, moves
from oracle.slow_bp import SlowBP, load_messages

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
few = settings(max_examples=examples(30, uncompiled=10))
seeds = st.integers(0, 10**6)
dampings = st.sampled_from([0.0, 0.4, 0.8])
zeros = st.sampled_from([0.0, 0.2])


@pytest.fixture(autouse=True, scope="module")
def lazy_from_the_start():
    """Small graphs, too, begin with lazy sweeps here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anytimebp.inference.schedule.sweeps.TINY", 0)
        yield


def twin_of(graph, inference):
    slow = SlowBP(graph)
    load_messages(slow, inference._run.method.now)
    return slow


def schedule_of(inference):
    schedule = inference._run.method.now._schedule
    assert isinstance(schedule, LazySchedule)
    return schedule


@pytest.mark.parametrize("schedule", ["sequential", "random"])
@few
@given(seed=seeds, scale=st.sampled_from([0.3, 1.0, 3.0]), zeros=zeros, damping=dampings)
def test_what_is_called_converged_is_a_fixed_point(schedule, seed, scale, zeros, damping):
    graph = random_loopy(seed, scale=scale, zeros=zeros)
    if graph.summary().is_forest:
        return
    inference = abp.Inference(graph, "adaptive", schedule=schedule, rng=seed, damping=damping)
    if inference.run().stop_reason is abp.StopReason.CONVERGED:
        assert largest_move(twin_of(graph, inference)) <= 1.01e-8


@few
@given(seed=seeds, zeros=zeros, damping=dampings)
def test_no_factor_would_move_its_messages_by_more_than_it_has_to_catch_up_with(seed, zeros, damping):
    graph = random_loopy(seed, scale=1.0, zeros=zeros)
    if graph.summary().is_forest:
        return
    inference = abp.Inference(graph, "adaptive", damping=damping)
    for snapshot in itertools.islice(inference, 8):
        slow, run = twin_of(graph, inference), inference._run.method.now
        if run.leaves is not None:  # a forest, after a variable of one state has cut it
            return
        movement, layout = schedule_of(inference)._movement, run.workspace.layout
        waiting = np.add.reduceat(movement.moved[layout.edge_variable] - movement.seen, layout.factor_edge_start[:-1])
        for f, bound in enumerate(waiting.tolist()):
            factor = run.workspace.compiled.graph_factor(f)
            found = moves(slow, factor)
            if np.isfinite(found).all():  # messages that turn to zero move by infinity, which is counted as 1000
                assert max(found) <= bound + 1e-9
        assert snapshot.mean_residual <= snapshot.max_residual


@few
@given(seed=seeds, damping=dampings)
def test_ends_where_bp_ends_at_weak_coupling(seed, damping):
    graph = random_loopy(seed, scale=0.3)
    reference = abp.infer(graph, "bp", tolerance=1e-12)
    result = abp.infer(graph, "adaptive", damping=damping)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert worst(result, list(reference.marginals.values())) < 1e-7
    assert result.log_z == pytest.approx(reference.log_z, abs=1e-7)


def test_what_has_settled_is_left_out():
    graph = grid(3, 3, 1.0, 0.1, seed=0)  # settles at once
    slow = graph.add_variables(3, 2, names=["a", "b", "c"])
    tight = np.array([[1.6, 0.0], [0.0, 1.6]])
    graph.add_factors([[slow[0], slow[1]], [slow[1], slow[2]], [slow[2], slow[0]]], log_table=tight)
    graph.add_factor(["a"], log_table=[0.0, 0.3])
    lazy, plain = abp.infer(graph, "adaptive"), abp.infer(graph, "bp")
    assert lazy.distance(plain) < 1e-7
    assert lazy.updates < 0.6 * plain.updates
