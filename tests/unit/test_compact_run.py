"""Rounds where only tables over the domains are kept: they end at BP's marginals, and say what they know before."""

import numpy as np
import pytest
from tests.unit.test_structures import KINDS, twins

import anytimebp as abp
from anytimebp.engine import adaptive_run
from anytimebp.engine.choice import Choice, Way


@pytest.fixture
def always_compact(monkeypatch):
    """Make every run of adaptive one of compact tables."""
    monkeypatch.setattr(adaptive_run.AdaptiveRun, "_decide", lambda _: Choice(Way.COMPACT, "for the test"))


@pytest.mark.usefixtures("always_compact")
@pytest.mark.parametrize("kind", KINDS)
def test_compact_runs_end_at_the_marginals_of_bp(kind):
    graph, dense = twins(3, [kind], unary=4.0)
    found = abp.infer(graph, "adaptive", tolerance=1e-11)
    expected = abp.infer(dense, "bp", tolerance=1e-11)
    assert found.stop_reason is abp.StopReason.CONVERGED
    for name in expected.marginals:
        np.testing.assert_allclose(found.marginals[name], expected.marginals[name], atol=1e-9)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-7)
