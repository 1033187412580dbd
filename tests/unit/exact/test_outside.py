"""What states outside weigh: sums over single ones, against enumeration."""

import numpy as np
import pytest

from anytimebp.domains.domains import full_domains
from anytimebp.exact.outside import MassOutside, Outside, log_sum
from anytimebp.exact.possible import restricted
from anytimebp.exact.tree import plan
from anytimebp.layout.graph_layout import compiled_graph
from oracle.enumeration import joint_log_scores
from oracle.models import random_loopy


def log_total(scores):
    return np.logaddexp.reduce(scores.ravel()) if scores.size else -np.inf


@pytest.mark.parametrize("max_memory", [None, 20_000])
@pytest.mark.parametrize("seed", range(8))
def test_weights_are_those_of_enumeration(seed, max_memory):
    graph = random_loopy(seed, scale=1.0, zeros=0.2 * (seed % 2), max_arity=4)
    joint, rng, compiled = joint_log_scores(graph), np.random.default_rng(seed), compiled_graph(graph)
    inside = [np.flatnonzero((rng.random(n) < 0.5) | (np.arange(n) == rng.integers(n))) for n in joint.shape]
    log_z = log_total(joint[np.ix_(*inside)])
    if log_z == -np.inf:
        return
    whole = full_domains(compiled, {})
    keep = np.concatenate([np.isin(np.arange(n), states) for n, states in zip(joint.shape, inside, strict=True)])
    domains = restricted(whole, keep)
    tree = plan(compiled, domains.sizes)
    assert log_sum(compiled, domains, None, max_memory) == pytest.approx(log_z)
    found = Outside(compiled, whole, keep, tree.arrays.variable[: tree.n], log_z, max_memory)()
    for i, n in enumerate(joint.shape):
        opened = [*inside[:i], np.setdiff1d(np.arange(n), inside[i]), *inside[i + 1 :]]
        expected = np.exp(log_total(joint[np.ix_(*opened)]) - log_z)
        assert found.weights[i] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_nothing_outside_is_no_error_and_much_is_a_large_one():
    assert MassOutside(np.zeros(3)).error == MassOutside(np.zeros(3)).mass == 0.0
    little = MassOutside(np.array([1e-6, 0.0]))
    assert little.mass == pytest.approx(1e-6)
    assert little.error == pytest.approx(1e-6, rel=1e-4)
    assert MassOutside(np.array([50.0, 50.0])).error > 0.9
