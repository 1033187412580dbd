"""Work: counted alike in every run, whatever earlier runs have left with the graph."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.tables import leaves
from oracle.models import random_tree

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")

STATES = 7


def ring(scale, states=STATES):
    """A ring of a rule, another one, a list and a table, with unary rules."""
    rng = np.random.default_rng(1)
    scores = rng.normal(0.0, 1.0, (2, states, states))
    graph = abp.FactorGraph()
    graph.add_variables(4, states)
    graph.add_factor([0], rule=lambda a: -0.3 * a)
    graph.add_factor([0, 1], rule=lambda a, b: scale * scores[0][a, b])
    graph.add_factor([1, 2], rule=lambda a, b: scores[1][a, b])
    graph.add_factor([2, 3], entries=([[0, 1], [2, 2], [5, 6]], [1.0, 2.0, -1.0]), default=0.0)
    graph.add_factor([3, 0], log_table=rng.normal(0.0, 1.0, (states, states)))
    return graph


def outcome(graph, method, **options):
    result = abp.infer(graph, method, rng=0, **options)
    bits = b"".join(marginal.tobytes() for marginal in result.marginals.values())
    return bits, result.log_z.hex(), result.updates, dict(result.work_parts), result.stop_reason


@pytest.mark.parametrize("scale", [1.0, 400.0], ids=["linear", "in logs after all"])
@pytest.mark.parametrize("method", abp.METHODS)
def test_a_limit_of_work_ends_every_run_at_the_same_bits(method, scale):
    graph = ring(scale)
    whole = outcome(graph, method)
    limits = [1, 10, 60, 110, 200, 500, 1500, whole[3]["messages"]]
    before = [outcome(graph, method, max_work=int(limit)) for limit in limits]
    assert outcome(graph, method) == whole
    assert [outcome(ring(scale), method, max_work=int(limit)) for limit in limits] == before
    assert len({sum(parts.values()) for _, _, _, parts, _ in before}) > 1


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_calls_limited_by_work_stop_in_the_same_places_on_tables_that_are_there(method):
    graph = ring(1.0)

    def stops():
        inference = abp.Inference(graph, method, rng=0)
        return [dict(inference.run(max_work=limit).work_parts) for limit in (5, 30, 30, 30, 100, 100)]

    first = stops()
    abp.infer(graph, method, rng=0)
    assert stops() == first
    assert len({sum(parts.values()) for parts in first}) == len(first)


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_leaves_count_as_the_docs_say(method, monkeypatch):
    monkeypatch.setattr(leaves, "OVERHEAD", -np.inf)
    rng, n = np.random.default_rng(0), 6
    graph = abp.FactorGraph()
    graph.add_variables(n, 4)  # a ring; its factors have leaves, and a tree hangs on each variable
    graph.add_variables(n, 3)
    graph.add_variables(2 * n, 2)
    graph.add_factors([[i, (i + 1) % n, n + i] for i in range(n)], log_table=rng.normal(size=(n, 4, 4, 3)))
    graph.add_factors([[i, 2 * n + i] for i in range(n)], log_table=rng.normal(size=(n, 4, 2)))
    graph.add_factors([[2 * n + i, 3 * n + i] for i in range(n)], log_table=rng.normal(size=(n, 2, 2)))
    first = abp.infer(graph, method).trace[0]
    assert first.updates == 2 * n + n + n  # of trees, of tables with leaves, and of the core
    assert first.work == n * (8 + 4) + n * 48 + n * 16


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_on_a_forest_every_factor_is_updated_once_and_reading_is_free(method):
    graph = random_tree(3)
    result = abp.infer(graph, method)
    work = result.work
    result.marginals.concatenated()
    assert result.updates == sum(len(block.scopes) for block in graph.blocks if block.scopes.shape[1] > 1)
    assert result.work == work
