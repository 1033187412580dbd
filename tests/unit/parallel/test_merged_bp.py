"""Graphs that are swept together have the results of runs on each alone, to the last bit."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference import part_sweeps
from oracle.examples import examples
from oracle.models import random_loopy, random_tree
from unit.tables.test_carry_over import draw_evidence

FIGURES = ("log_z", "max_residual", "mean_residual", "updates", "work_parts", "arithmetic", "stop_reason", "consistent")
FIGURES += ("damping", "exact", "exact_entries", "estimated_error", "unexplored_mass", "tolerance", "method")


def assert_alone(graph, result, method, **options):
    """Check that a result is that of a run on the graph alone."""
    if isinstance(result, Exception):
        with pytest.raises(type(result)):
            abp.infer(graph, method, **options)
        return
    alone = abp.infer(graph, method, **options)
    np.testing.assert_array_equal(result.marginals.concatenated(), alone.marginals.concatenated())
    np.testing.assert_array_equal(result.domain_sizes, alone.domain_sizes)
    for name in FIGURES:
        assert getattr(result, name) == getattr(alone, name), name
    assert len(result.trace) == len(alone.trace)
    for moment, other in zip(result.trace, alone.trace, strict=True):
        for ours, theirs in zip(moment[1:9], other[1:9], strict=True):
            assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))


def loop(seed, n=8, states=3, spread=0.7, arity=2):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, states)
    graph.add_factors([[i] for i in range(n)], log_table=rng.normal(size=(n, states)))
    scopes = [[(i + k) % n for k in range(arity)] for i in range(n)] + [[n // 2, 0]] * (arity == 2)
    graph.add_factors(scopes, log_table=rng.normal(0, spread, (len(scopes), *[states] * arity)))
    return graph


def dense(seed, n=14, spread=0.1):
    """Return a graph whose cliques are too large for exact inference, though its tables are small."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, 3)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    graph.add_factors([[i] for i in range(n)], log_table=rng.normal(size=(n, 3)))
    graph.add_factors(pairs, log_table=rng.normal(0, spread, (len(pairs), 3, 3)))
    return graph


def with_hub(seed):
    """Return a wheel: its hub has more messages than are multiplied anew each time."""
    graph, rng = loop(seed, 18, 2, 0.2), np.random.default_rng(seed)
    hub = graph.add_variable("hub", 2)
    graph.add_factors([[i, hub.index] for i in range(18)], log_table=rng.normal(0, 0.2, (18, 2, 2)))
    return graph


def wide(seed):
    graph = loop(seed)
    graph.add_factor([0, 1], log_table=np.where(np.eye(3) > 0, 0.0, -900.0))
    return graph


def is_merged(result):
    return not isinstance(result, Exception) and "swept together" in result.choice


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.2]), observes=st.booleans())
def test_bp_on_many_graphs_is_bp_on_each_to_the_last_bit(seed, zeros, observes):
    rng = np.random.default_rng(seed)
    graphs = [random_loopy(seed + k, zeros=zeros) for k in range(4)]
    graphs += [random_tree(seed, n_factors=2), loop(seed), loop(seed + 1, 9, 2, 1.5), abp.FactorGraph(), wide(seed)]
    graphs += [loop(seed, 6, 2, arity=3), loop(seed + 2, spread=6.0), with_hub(seed)]
    evidence = [draw_evidence(graph, rng) if observes and len(graph.variables) else None for graph in graphs]
    found = list(abp.infer_many(graphs, evidence=evidence, method="bp", errors="return"))
    for graph, seen, result in zip(graphs, evidence, found, strict=True):
        assert_alone(graph, result, "bp", evidence=seen)
    if not observes and not zeros:
        assert is_merged(found[5])
        assert is_merged(found[11])
        assert not any(is_merged(found[k]) for k in (4, 7, 8))  # a tree, nothing, logs


@pytest.mark.compiled  # a hundred sweeps over all pairs of 8 variables
def test_each_graph_has_its_own_ending():
    graphs = [dense(seed, 8, spread) for seed, spread in enumerate((0.02, 0.1, 0.3, 0.5, 0.8, 4.0))]
    found = list(abp.infer_many(graphs, method="bp", errors="return"))
    assert len({result.updates for result in found}) > 3
    for graph, result in zip(graphs, found, strict=True):
        assert_alone(graph, result, "bp")
        assert is_merged(result) == (len(result.trace) <= part_sweeps.MOST_SWEEPS)


def test_by_default_graphs_too_dense_for_a_junction_tree_are_swept_together():
    graphs = (
        [dense(seed, spread=0.02) for seed in range(5)] + [loop(seed) for seed in range(5)] + [dense(9, spread=1.0)]
    )
    found = list(abp.infer_many(graphs, errors="return"))
    assert [is_merged(result) for result in found[:5]] == [True] * 5
    assert all("solved together with 4" in result.choice for result in found[5:10])
    for k, (graph, result) in enumerate(zip(graphs, found, strict=True)):
        alone = abp.infer(graph)
        assert result.method == alone.method
        np.testing.assert_allclose(result.marginals.concatenated(), alone.marginals.concatenated(), atol=1e-12)
        if k not in range(5, 10):
            assert_alone(graph, result, "auto")
            assert result.choice.startswith(alone.choice)


def test_targets_tolerance_and_pickles_of_graphs_that_were_swept_together():
    graphs = [loop(seed) for seed in range(4)]
    found = list(abp.infer_many(graphs, method="bp", targets=["x2", "x1"], tolerance=1e-4))
    for graph, result in zip(graphs, found, strict=True):
        assert is_merged(result)
        alone = abp.infer(graph, "bp", targets=["x2", "x1"], tolerance=1e-4)
        for copy in (result, pickle.loads(pickle.dumps(result))):
            assert list(copy.marginals) == ["x1", "x2"]
            np.testing.assert_array_equal(copy.marginals["x2"], alone.marginals["x2"])
            assert copy.updates == alone.updates
            assert copy.estimated_error == alone.estimated_error


@pytest.mark.parametrize(
    "options", [{"damping": 0.3}, {"schedule": "random", "rng": 0}, {"factor_marginals": True}, {"max_updates": 5}]
)
def test_what_a_run_alone_does_otherwise_is_left_to_it(options):
    for result in abp.infer_many([loop(0), loop(1)], method="bp", **options):
        assert not is_merged(result)


# ---------------------------------------------------------------- leaves of large tables
TABLE = np.random.default_rng(0).normal(0.0, 0.4, (5, 5, 60))


def sentence(seed, n=6, table=TABLE, spread=1.0, potentials=None):
    """Return types of `n` mentions, and a relation of each ordered pair: leaves of one large table."""
    graph, rng, (states, _, relations) = abp.FactorGraph(), np.random.default_rng(seed), table.shape
    types = graph.add_variables(n, states)
    pairs = [(i, j) for i in types for j in types if i != j]
    last = graph.add_variables(len(pairs), relations)
    graph.add_factors([[i] for i in types], log_table=rng.normal(0, spread, (n, states)))
    graph.add_factors([[i] for i in last], log_table=rng.normal(0, spread, (len(last), relations)))
    scopes = [(i, j, relation) for (i, j), relation in zip(pairs, last, strict=True)]
    own = {"log_table": table} if potentials is None else {"table": potentials}
    graph.add_factors(scopes, **own)
    return graph


def with_tree(seed):
    """Return a sentence with a chain that hangs on it."""
    graph = sentence(seed)
    first = graph.add_variables(2, 3)[0]
    graph.add_factors([[0, first]], log_table=np.zeros((5, 3)))
    graph.add_factor([first, first + 1], log_table=np.eye(3))
    return graph


@pytest.mark.parametrize("observed", [None, {"x10": 3, "x20": {1, 2, 5}}, {"x0": 1}])
def test_bp_on_many_graphs_with_leaves_is_bp_on_each_to_the_last_bit(observed):
    graphs = [sentence(seed, n) for seed, n in enumerate((7, 6, 8, 7))] + [with_tree(4)]
    found = list(abp.infer_many(graphs, method="bp", evidence=[observed] * 5))
    for graph, result in zip(graphs, found, strict=True):
        assert_alone(graph, result, "bp", evidence=observed)
    are_merged = observed is None or "x0" not in observed  # which would make trees of its factors
    assert [is_merged(result) for result in found] == [are_merged] * 4 + [False]


@pytest.mark.compiled
@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.3, 1.0, 3.0]), observes=st.booleans())
def test_by_default_graphs_with_leaves_come_to_the_fixed_points_of_their_own_runs(seed, spread, observes):
    graphs = [sentence(seed + n, n, spread=spread) for n in (11, 2, 12, 11, 3)]
    evidence = [{"x30": 2} if observes and n > 3 else None for n in (11, 2, 12, 11, 3)]
    options = {"tolerance": 1e-12}
    found = list(abp.infer_many(graphs, evidence=evidence, **options))
    for graph, seen, result in zip(graphs, evidence, found, strict=True):
        alone = abp.infer(graph, evidence=seen, **options)
        assert result.method == alone.method
        assert result.log_z == pytest.approx(alone.log_z, abs=1e-9)
        np.testing.assert_allclose(result.marginals.concatenated(), alone.marginals.concatenated(), atol=1e-9)
        assert result.estimated_error < 1e-6


@pytest.mark.compiled  # hundreds of sweeps over pairs of 12 mentions
def test_damping_settles_graphs_that_go_to_and_fro():
    ring = np.where(np.eye(5) > 0, -3.0, 0.0)[:, :, np.newaxis] + np.random.default_rng(1).normal(0, 0.1, (5, 5, 60))
    graphs = [sentence(seed, 12, ring, 0.1) for seed in range(3)]
    for graph, result in zip(graphs, abp.infer_many(graphs, tolerance=1e-11), strict=True):
        alone = abp.infer(graph, tolerance=1e-11)
        assert result.method == alone.method
        np.testing.assert_allclose(result.marginals.concatenated(), alone.marginals.concatenated(), atol=1e-9)


def frustrated(seed, strength):
    """Return a sentence whose pairs want what others do not allow."""
    rng = np.random.default_rng(1)
    return sentence(seed, 11, rng.normal(0, strength, (5, 5, 1)) + rng.normal(0, 0.1, (5, 5, 60)))


@pytest.mark.compiled  # thousands of sweeps
def test_graphs_that_need_more_sweeps_than_others_stay_with_them_until_they_settle():
    graphs = [frustrated(seed, 2.0) for seed in range(3)]
    for graph, result in zip(graphs, abp.infer_many(graphs, tolerance=1e-11), strict=True):
        assert is_merged(result)
        assert len(result.trace) > sum(stage.most_sweeps for stage in part_sweeps.STUBBORN)
        assert result.stop_reason is abp.StopReason.CONVERGED
        alone = abp.infer(graph, tolerance=1e-11)
        np.testing.assert_allclose(result.marginals.concatenated(), alone.marginals.concatenated(), atol=1e-8)


@pytest.mark.compiled
def test_graphs_that_do_not_settle_end_as_their_own_runs_do_and_do_not_keep_others_from_settling():
    graphs = [frustrated(0, 8.0), sentence(1), frustrated(1, 8.0), sentence(2)]
    with pytest.warns(abp.NotConvergedWarning):
        found = list(abp.infer_many(graphs))
    for graph, result in zip(graphs[::2], found[::2], strict=True):
        assert is_merged(result)
        with pytest.warns(abp.NotConvergedWarning):
            alone = abp.infer(graph)
        assert result.stop_reason is alone.stop_reason is abp.StopReason.NOT_CONVERGED
        assert result.consistent is alone.consistent is False
        assert result.damping == alone.damping
        assert result.max_residual > result.tolerance
        assert result.trace[-1].max_residual == result.max_residual
        assert result.estimated_error > 0.0
        assert np.isfinite(result.log_z)
        for name in ("x0", "x30"):
            assert result.marginals[name].sum() == pytest.approx(1.0)
    for graph, result in zip(graphs[1::2], found[1::2], strict=True):
        assert result.stop_reason is abp.StopReason.CONVERGED
        alone = abp.infer(graph)
        np.testing.assert_allclose(result.marginals.concatenated(), alone.marginals.concatenated(), atol=1e-6)


def test_leaves_are_read_later_from_the_tables_of_the_run():
    table = np.exp(TABLE)
    graphs = [sentence(seed, potentials=table) for seed in range(3)]
    expected = [abp.infer(sentence(seed, potentials=np.exp(TABLE)), "bp").marginals.concatenated() for seed in range(3)]
    found = list(abp.infer_many(graphs, method="bp"))
    copies = pickle.loads(pickle.dumps(list(abp.infer_many(graphs, method="bp", targets=["x7"]))))
    table[:] = 1.0
    for result, copy, marginals in zip(found, copies, expected, strict=True):
        np.testing.assert_array_equal(result.marginals.concatenated(), marginals)
        assert list(copy.marginals) == ["x7"]


def test_graphs_whose_tables_exclude_everything_fail_by_themselves():
    graphs = [sentence(seed) for seed in range(3)]
    graphs[1].add_factor([0, 1], log_table=np.where(np.eye(5) > 0, 0.0, -np.inf))
    graphs[1].add_factors([[0], [1]], log_table=np.where(np.eye(5)[:2] > 0, 0.0, -np.inf))
    found = list(abp.infer_many(graphs, method="bp", errors="return"))
    assert isinstance(found[1], abp.InconsistentModelError)
    for k in (0, 2):
        assert_alone(graphs[k], found[k], "bp")
