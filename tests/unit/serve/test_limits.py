"""Limits follow from the model and from the memory that is free."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.serve import limits
from anytimebp.serve.limits import Limits


@pytest.mark.parametrize(
    ("free", "runs", "sessions"),
    [(2**40, 4, 32), (2**31, 4, 32), (400_000_000, 4, 6), (100_000_000, 1, 2), (1, 1, 2)],
)
def test_runs_and_sessions_fit_into_half_of_the_free_memory(monkeypatch, free, runs, sessions):
    monkeypatch.setattr(limits, "available_memory", lambda: free)
    graph = abp.FactorGraph()
    graph.add_variables(2, 1000)
    graph.add_factor([0, 1], rule=lambda a, b: 0.0 * (a + b))
    need = graph.summary().full_bp_bytes
    found = Limits.of(graph)
    assert 2**23 < need < 2**27
    assert (found.runs, found.sessions) == (
        max(1, min(4, int(free / 4 / need))),
        max(2, min(32, int(free / 4 / need))),
    )
    assert found.runs <= runs
    assert found.sessions <= sessions
    assert found.max_memory >= 2**26


def test_a_run_may_use_the_memory_that_was_asked_for():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], log_table=np.eye(2))
    assert Limits.of(graph, 3.0, 1_000_000)[:2] == (3.0, 1_000_000)
