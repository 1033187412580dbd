"""`max_memory`: predictions against what is allocated, and runs that end where it does and keep answering."""

import contextlib
import tracemalloc
from time import perf_counter

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.adaptive.adaptive_run import ROUNDS
from anytimebp.inference.method import LEAVES, LOGS
from anytimebp.inference.warm_up import load_kernels, load_structures
from anytimebp.model.source import cut

MB = 10**6
RING = [[0, 1], [1, 2], [2, 3], [3, 0]]

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module", autouse=True)
def kernels():
    """Load all kernels first: what loading and compiling allocates is no part of a run's memory."""
    for method in abp.METHODS:
        load_kernels(abp.Inference(peaked(2), method)._options)
        abp.infer(with_rules(3, noise), method)
        for limit in (10_000, 100_000):
            with contextlib.suppress(abp.MemoryLimitError):
                abp.infer(with_rules(100, noise), method, max_memory=limit)
    for kernels in (ROUNDS, LOGS, LEAVES):
        load_kernels(abp.Inference(peaked(2), "adaptive")._options, kernels=kernels)
    load_structures()


def peaked(states, scale=5.0, n_variables=4):
    graph = abp.FactorGraph()
    graph.add_variables(n_variables, states)
    scores = np.random.default_rng(0).normal(0.0, scale, (n_variables, states))
    graph.add_factors(np.arange(n_variables)[:, np.newaxis], log_table=scores)
    return graph


def with_rules(states, rule, scale=5.0):
    graph = peaked(states, scale)
    for pair in RING:
        graph.add_factor(pair, rule=rule)
    return graph


def noise(a, b):
    return np.sin(0.7 * a * (b + 1.0))


def mostly_possible(a, b):
    return np.where((a + b) % 50 == 0, -np.inf, np.sin(a * (b + 1.0)))


def with_tables(states=300):
    graph, rng = peaked(states), np.random.default_rng(1)
    for pair in RING:
        graph.add_factor(pair, log_table=rng.normal(size=(states, states)))
    return graph


def with_lists(states=20_000, entries=60_000):
    graph, rng = peaked(states), np.random.default_rng(1)
    for pair in RING:
        indices = np.unique(rng.integers(0, states, (entries, 2)), axis=0)
        graph.add_factor(pair, entries=(indices, rng.normal(size=len(indices))), default=-10.0)
    return graph


def with_structure(structure, states):
    graph = peaked(states)
    for pair in RING:
        graph.add_factor(pair, structure=structure)
    return graph


MODELS = {
    "tables": with_tables,
    "rules": lambda: with_rules(800, noise),
    "lists": with_lists,
    "equality": lambda: with_structure(abp.Equality(default=-5.0), 50_000),
    "differences": lambda: with_structure(abp.Difference(-0.5 * np.abs(np.arange(-5, 6)), default=-10.0), 50_000),
}


def traced(inference, **budget):
    """Return the result of a run and the most bytes it had allocated."""
    tracemalloc.start()
    try:
        result = inference.run(**budget)
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_keeps_answering(inference, result, limit, peak):
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert "memory" in str(result.stop_reason)
    assert result.consistent
    assert peak < 1.2 * limit
    started = perf_counter()
    again = inference.run(seconds=10.0)
    assert perf_counter() - started < 0.5
    assert again.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert again.consistent
    for i in range(4):
        np.testing.assert_array_equal(again.marginals[i], result.marginals[i])
        assert again.marginals[i].sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("method", ["bp", "residual"])
@pytest.mark.parametrize("name", MODELS)
def test_full_runs_take_what_was_predicted(name, method):
    graph = MODELS[name]()
    predicted = graph.summary().full_bp_bytes
    _, peak = traced(abp.Inference(graph, method, max_memory=predicted), max_updates=8)
    assert 0.5 * predicted < peak < 1.2 * predicted


@pytest.mark.parametrize("method", ["bp", "residual"])
@pytest.mark.parametrize("name", MODELS)
def test_a_byte_less_is_refused_before_anything_is_made(name, method):
    graph = MODELS[name]()
    predicted = graph.summary().full_bp_bytes
    inference = abp.Inference(graph, method, max_memory=predicted - 1)
    tracemalloc.start()
    with pytest.raises(abp.MemoryLimitError, match=f"{predicted:,} bytes"):
        inference.run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * predicted


@pytest.mark.parametrize("method", abp.METHODS)
@pytest.mark.parametrize("limit", [MB, None])
def test_states_that_do_not_fit_are_refused_before_arrays_over_them_are_made(method, limit, monkeypatch):
    monkeypatch.setattr("anytimebp.tables.memory.available_memory", lambda: MB)
    graph = abp.FactorGraph()
    graph.add_variables(2, 5 * MB)
    graph.add_factor([0, 1], rule=noise)
    inference = abp.Inference(graph, method, max_memory=limit)
    tracemalloc.start()
    with pytest.raises(abp.MemoryLimitError, match=r"[\d,]{11,} bytes"):
        inference.run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MB


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_tables_that_cannot_exist_are_refused(method):
    graph = with_rules(200_000, noise)
    with pytest.raises(abp.MemoryLimitError, match=r"1,360,\d{3},\d{3},\d{3} bytes"):
        abp.infer(graph, method, max_memory=10**9)


def test_adaptive_on_tables_that_just_fit_after_rounds_on_domains():
    graph = with_tables()
    limit = graph.summary().full_bp_bytes
    result, peak = traced(abp.Inference(graph, "adaptive", max_memory=limit))
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert peak < 1.2 * limit


@pytest.mark.parametrize("limit", [3 * MB, 10 * MB])
def test_adaptive_on_tables_of_rules_over_domains(limit):
    inference = abp.Inference(with_rules(2000, noise, scale=10.0), "adaptive", max_memory=limit)
    result, peak = traced(inference)
    assert result.trace.column("choice")[0].startswith("domains that grow in batches")
    assert_keeps_answering(inference, result, limit, peak)


@pytest.mark.parametrize("limit", [3 * MB, 10 * MB])
def test_adaptive_on_tables_over_domains(limit):
    inference = abp.Inference(with_rules(2000, mostly_possible), "adaptive", max_memory=limit)
    result, peak = traced(inference)
    assert result.trace.column("choice")[-1].startswith("domains that grow in batches")
    assert_keeps_answering(inference, result, limit, peak)


def test_adaptive_where_nothing_tells_states_apart():
    limit = 600_000
    graph = with_rules(1000, mostly_possible, scale=0.1)
    inference = abp.Inference(graph, "adaptive", max_memory=limit)
    result, peak = traced(inference)
    assert result.trace.column("choice")[-1].startswith("domains that grow in batches")
    assert_keeps_answering(inference, result, limit, peak)


@pytest.mark.parametrize("method", ["dynamic", "random"])
@pytest.mark.parametrize("make", [lambda: with_rules(500, noise), lambda: with_tables(200)], ids=["rules", "tables"])
def test_growing_runs(method, make):
    limit = 800_000
    inference = abp.Inference(make(), method, max_memory=limit, rng=0, grow=4)
    result, peak = traced(inference)
    assert_keeps_answering(inference, result, limit, peak)


def test_truncated_runs_take_what_was_predicted():
    graph = with_rules(2000, noise)
    with pytest.raises(abp.MemoryLimitError, match="bytes") as refusal:
        abp.infer(graph, "truncated", max_memory=MB)
    predicted = int(str(refusal.value).split("(")[1].split(" ")[0].replace(",", ""))
    inference = abp.Inference(graph, "truncated", max_memory=predicted)
    result, peak = traced(inference)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert 0.5 * predicted < peak < 1.2 * predicted


@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
@pytest.mark.parametrize("method", ["dynamic", "fixed", "random", "truncated"])
def test_time_limits_hold_on_universes_that_no_table_covers(method):
    graph = with_rules(100_000, noise)
    inference = abp.Inference(graph, method, max_memory=200 * MB, fraction=1e-3, rng=0)
    result, peak = traced(inference, seconds=0.2)
    assert result.seconds < 1.0
    assert peak < 200 * MB


@pytest.mark.parametrize("most", [1, 7, 100, 10**6])
def test_boxes_are_cut_without_gaps(most):
    seen = np.zeros((5, 6, 7), dtype=int)
    for box in cut((slice(1, 5), slice(0, 6), slice(2, 7)), most):
        assert seen[box].size <= most
        seen[box] += 1
    assert (seen[1:, :, 2:] == 1).all()
    assert seen.sum() == 4 * 6 * 5
