"""Scores so far apart that a change of scale could lose numbers, or turn a hard zero to NaN."""

import warnings

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.kernels.joining import _scale_down
from oracle.models import random_tree, worst

GROWING = ["random", "fixed", "dynamic"]
INF = np.inf


def pair_by_rule(scores, unary):
    scores = np.array(scores, dtype=float)
    graph = abp.FactorGraph()
    for name, n in zip("xy", scores.shape, strict=True):
        graph.add_variable(name, n)
    for name, own in zip("xy", unary, strict=True):
        graph.add_factor([name], log_table=np.array(own, dtype=float))
    graph.add_factor(["x", "y"], rule=lambda a, b: scores[a, b])
    return graph


def check(graph, method, seeds=4, **options):
    """Every snapshot is finite, and the end is that of BP."""
    reference = abp.infer(graph, "bp")
    for seed in range(seeds):
        inference = abp.Inference(graph, method, rng=seed, **options)
        for snapshot in inference:
            assert all(np.isfinite(marginal).all() for marginal in snapshot.marginals.values())
            assert np.isfinite(snapshot.log_z)
        result = inference.run()
        assert worst(result, list(reference.marginals.values())) < 1e-7
        assert result.log_z == pytest.approx(reference.log_z)


@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("grow", [1, 3])
@pytest.mark.parametrize(
    ("scores", "unary"),
    [
        ([[-INF, -1000.0], [-1000.0, -1001.0]], [[0, -1], [0, -1]]),
        ([[-INF, -INF], [-INF, -1000.0]], [[0, -1], [0, -1]]),
        ([[-INF, -1000, -1000], [-1000, -INF, -1002], [-INF] * 3], [[-1, -INF, -1], [-INF, -1, -1]]),
        ([[-INF, 1000.0], [1000.0, 1001.0]], [[0, -1], [0, -1]]),
    ],
)
def test_a_rule_may_begin_with_hard_zeros_and_go_on_with_low_scores(scores, unary, method, grow):
    graph = pair_by_rule(scores, unary)
    for damping in (0.0, 0.5):
        check(graph, method, grow=grow, damping=damping)


def test_domains_in_batches_are_finite_where_a_rule_begins_with_zeros():
    rng = np.random.default_rng(15)
    scores = np.where(rng.random((12, 12)) < 0.9, -INF, -1000.0 + rng.normal(0, 2, (12, 12)))
    graph = abp.FactorGraph()
    graph.add_variables(2, 12)
    graph.add_factor([0, 1], rule=lambda a, b: scores[a, b])
    memory = 80 * 24 + 1500 + int(rng.uniform(0.2, 1.2) * 8 * 144)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        result = abp.infer(graph, "adaptive", max_memory=memory)
    assert "batches" in result.trace[-1].choice
    assert np.isfinite(result.marginals["x0"]).all()


@pytest.mark.parametrize("method", GROWING)
def test_a_new_scale_does_not_lose_sums_that_were_small_already(method):
    graph = pair_by_rule([[-INF, 0.0], [-INF, 300.0], [-INF, 310.0]], [[0, -1, -2], [0, -500]])
    check(graph, method, seeds=8)


@pytest.mark.usefixtures("every_stage")
def test_strips_of_a_rule_that_begins_with_zeros_end_without_a_warning():
    scores = np.full((40, 40), -1.0)
    scores[:20, :] = -INF
    graph = pair_by_rule(scores, [-np.arange(40.0), -np.arange(40.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = abp.infer(graph, "adaptive")
    assert worst(result, list(abp.infer(graph, "bp").marginals.values())) < 1e-7


def test_messages_scaled_down_for_a_state_that_joins_stay_positive():
    graph = pair_by_rule([[-INF, 0.0], [0.0, -1.0], [0.0, 0.0]], [[0, 0, 0], [0, 0]])
    inference = abp.Inference(graph, "random", rng=0)
    inference.run()
    workspace, growing = inference._run.method.workspace, inference._run.method.growing
    start = int(workspace.arrays.edge_slot_start[0])
    message = workspace.arrays.message[start : start + 3]
    message[:], workspace.arrays.edge_min[0] = [1.0, 1e-200, 0.0], 1e-200
    _scale_down(workspace.layout, workspace.arrays, growing.journal, 0, 3, 1e200)
    assert message[0] == pytest.approx(1e-200)
    assert message[1] > 0.0
    assert message[2] == 0.0
    assert 0.0 < workspace.arrays.edge_min[0] <= message[1]


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("grow", [1, 2, 4])
def test_forests_of_scores_down_to_thousands_of_nats_grow_to_where_bp_ends(method, grow):
    for seed in range(24, 36):
        graph = random_tree(seed, scale=2000.0, zeros=0.75, max_arity=3, max_states=3, n_factors=4)
        reference = abp.infer(graph, "bp")
        result = abp.infer(graph, method, grow=grow, rng=seed)
        assert result.log_z == pytest.approx(reference.log_z)
        assert worst(result, list(reference.marginals.values())) < 1e-7
