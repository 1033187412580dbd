"""Rules that take their time: the clock is looked at after each call, whatever a run is doing."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference import budget
from anytimebp.inference.adaptive import adaptive_run

CALL = 0.002  # seconds that a call takes, by the clock of these tests


class Clock:
    """A clock that only rules move on."""

    calls = 0

    def score(self, a, b):
        self.calls += 1
        return -0.01 * np.abs(a - b)

    def propose(self, _, k):
        self.calls += 1
        return np.arange(min(k, 30))

    def __call__(self):
        return self.calls * CALL


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(budget, "perf_counter", found)
    return found


def star(clock, states=30, leaves=24, **more):
    """Return a graph with a hub in its middle, a rule a factor, that is peaked enough to begin on domains."""
    graph = abp.FactorGraph()
    graph.add_variables(leaves + 1, states)
    scores = np.random.default_rng(0).normal(0, 9, (leaves + 1, states))
    graph.add_factors(np.arange(leaves + 1)[:, np.newaxis], log_table=scores)
    for leaf in range(1, leaves + 1):
        graph.add_factor([0, leaf], rule=clock.score, **more)
    return graph


def assert_stops_in_time(graph, clock, method, n_runs=60, **options):
    inference = abp.Inference(graph, method, **options)
    inference.load()
    for _ in range(n_runs):
        before = clock.calls
        result = inference.run(seconds=8.5 * CALL)
        if inference.stop_reason:
            break
        assert clock.calls - before == 9
        assert result.current.seconds == pytest.approx(CALL * clock.calls)
    assert clock.calls >= 24


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("method", ["dynamic", "fixed", "random", "truncated", "bp", "residual"])
def test_runs_stop_after_any_call_of_a_rule(method, clock):
    assert_stops_in_time(star(clock), clock, method, rng=0)


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.usefixtures("every_stage")
def test_adaptive_stops_after_any_call_in_its_rounds(clock):
    assert_stops_in_time(star(clock), clock, "adaptive")


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.parametrize("propose", [False, True])
def test_adaptive_stops_after_any_call_while_it_looks_out_of_domains(propose, clock, monkeypatch):
    monkeypatch.setattr(adaptive_run.AdaptiveRun, "_begin_with", lambda run: run._large())
    graph = star(clock, **({"propose": clock.propose} if propose else {}))
    assert_stops_in_time(graph, clock, "adaptive")


@pytest.mark.filterwarnings("ignore::anytimebp.NotConvergedWarning")
@pytest.mark.usefixtures("every_stage")
def test_a_run_that_is_stopped_while_rules_are_first_asked_answers_with_unary_scores_and_goes_on(clock):
    graph = star(clock, states=5)
    inference = abp.Inference(graph, "adaptive", factor_marginals=True)
    first = inference.run(seconds=3.5 * CALL)
    assert first.stop_reason is abp.StopReason.OUT_OF_TIME
    assert not first.consistent
    scores = np.random.default_rng(0).normal(0, 9, (25, 5))
    near = (scores >= scores.max(axis=1, keepdims=True) - 18.0).sum(axis=1)
    assert first.work == near[0] * near[1:5].sum()  # scores of the first four calls, over the likely states
    prior, scores = first.marginals["x1"], scores[1]
    assert np.log(prior[0] / prior[1]) == pytest.approx(scores[0] - scores[1])
    assert first.factor_marginals[30].sum() == pytest.approx(1.0)
    assert inference.run().stop_reason is abp.StopReason.CONVERGED
