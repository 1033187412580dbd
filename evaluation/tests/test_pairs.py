"""Residuals by the formula of the paper, and residual BP with look-ahead, against textbook BP."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp_evaluation.families import graph_of, grid
from anytimebp_evaluation.look_ahead import LookAhead
from anytimebp_evaluation.pairs import PairModel, printed_residual
from anytimebp_evaluation.sampling import converged_bp, whole
from oracle.slow_bp import SlowBP, dynamic_range, load_messages
from oracle.slow_growth import domains_of, restricted, take_messages


@pytest.fixture(scope="module")
def model():
    return grid(3, 3, 6, 3.0, 1.0, seed=4)


def slow_mean(slow):
    """Return the mean over pairs of the largest range of log(new / old)."""
    largest = [
        max(dynamic_range(new, slow.message[key]) for key, new in slow.updated(factor).items())
        for factor, scope in enumerate(slow.scopes)
        if len(scope) > 1
    ]
    return np.mean(largest)


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("updates", [1, 5, 12, 30])
@pytest.mark.parametrize("options", [{"method": "bp", "schedule": "random"}, {"method": "residual"}])
def test_the_printed_residual_of_bp_is_that_of_textbook_messages(model, options, updates):
    graph = graph_of(model)
    inference = abp.Inference(graph, rng=0, **options)
    inference.run(max_updates=updates)
    slow = SlowBP(graph)
    load_messages(slow, inference._run.method)
    assert printed_residual(PairModel.of(graph), inference) == pytest.approx(slow_mean(slow), rel=1e-9)


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("updates", [3, 20, 50, 120, 700, 100_000])
@pytest.mark.parametrize("method", ["fixed", "dynamic", "random"])
def test_the_printed_residual_of_growing_domains_is_finite_and_that_of_textbook_messages(model, method, updates):
    graph = graph_of(model)
    inference = abp.Inference(graph, method, rng=0, tolerance=1e-5)
    whole(inference.run(max_updates=updates))
    run = inference._run.method
    slow = restricted(graph, domains_of(run, settled=False))
    take_messages(slow, run, settled=False)
    assert printed_residual(PairModel.of(graph), inference) == pytest.approx(slow_mean(slow), rel=1e-9, abs=1e-12)


def test_look_ahead_sends_the_message_that_would_move_most_and_ends_at_the_marginals_of_bp(model):
    graph = graph_of(model)
    run, slow, work = LookAhead(PairModel.of(graph)), SlowBP(graph), 12 * 36
    for factor, scope in enumerate(slow.scopes):
        if len(scope) == 1:
            slow.message.update(slow.updated(factor))
    pairs = [factor for factor, scope in enumerate(slow.scopes) if len(scope) > 1]
    for _ in range(20):
        would = [
            max(dynamic_range(new, slow.message[key]) for key, new in slow.updated(factor).items()) for factor in pairs
        ]
        assert np.allclose(run.residual, would, atol=1e-9)
        best = pairs[int(np.argmax(would))]
        slow.message.update(slow.updated(best))
        near = [f for f in pairs if f != best and set(slow.scopes[f]) & set(slow.scopes[best])]
        work += 36 * len(near)
        run.update()
        assert run.work == work
    while run.residual.max() > 1e-9:
        run.update()
    l2, tv = run.distances(converged_bp(graph))
    assert l2 < 1e-8
    assert tv < 1e-8
