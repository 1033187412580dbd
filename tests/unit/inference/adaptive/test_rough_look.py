"""Which states a look takes in on large universes: rough sums leave out only what cannot count."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.adaptive import adaptive_run, rough_look


def smooth_ring(n, rng, **options):
    """Return a ring of rules, with a few likely states each."""
    graph = abp.FactorGraph()
    graph.add_variables(4, n)
    centre = rng.uniform(0.3 * n, 0.7 * n, 4)
    graph.add_factors([[i] for i in range(4)], log_table=-0.5 * ((np.arange(n) - centre[:, None]) / 12.0) ** 2)
    for pair in ([0, 1], [1, 2], [2, 3], [3, 0]):
        graph.add_factor(pair, rule=lambda a, b: -0.02 * np.abs(a - b) - 1e-4 * (a - 2 * b) ** 2 / n, **options)
    return graph


@pytest.fixture
def always_large(monkeypatch):
    """Make every run of adaptive one on tables over domains alone."""
    monkeypatch.setattr(adaptive_run.AdaptiveRun, "_begin_with", lambda run: run._large())


@pytest.mark.usefixtures("always_large")
@pytest.mark.parametrize("seed", range(4))
def test_rough_sums_find_the_states_that_proper_ones_find(seed, monkeypatch):
    graph, domains, work = smooth_ring(300, np.random.default_rng(seed)), [], []
    for much in (0, 2**40):
        monkeypatch.setattr(rough_look, "MUCH", much)
        inference = abp.Inference(graph, "adaptive")
        found = [next(inference) for _ in range(7)]
        domains.append([snapshot.domain_sizes.tolist() for snapshot in found])
        work.append(found[1].work_parts["scoring"])
        marginals = [snapshot.marginals.concatenated() for snapshot in found]
        assert all(np.isclose(own.sum(), 4.0) for own in marginals)
    assert domains[0] == domains[1]
    assert work[0] != work[1]


@pytest.mark.usefixtures("always_large")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::anytimebp.UncertainResultWarning")
def test_runs_with_evidence_and_proposals_end_at_bp_if_everything_is_proposed(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(rough_look, "MUCH", int(rng.choice([0, 2**40])))
    monkeypatch.setattr(rough_look, "MOST_PROPOSED", 30)
    n = 30
    graph = smooth_ring(n, rng, propose=lambda *_: np.arange(n))
    evidence = {0: set(rng.choice(n, 20, replace=False).tolist()), 2: rng.normal(size=n)}
    found = abp.infer(graph, "adaptive", evidence=evidence, tolerance=1e-10)
    assert found.stop_reason is abp.StopReason.CONVERGED
    assert found.distance(abp.infer(graph, "bp", evidence=evidence, tolerance=1e-10)) < 1e-8
