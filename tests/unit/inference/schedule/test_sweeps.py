"""Several sweeps in one slice, where nobody looks in between: the run is the same, sweep by sweep."""

import signal

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.all_states import QUICK_SWEEPS
from anytimebp.inference.schedule import sweeps
from oracle.models import grid, random_loopy
from unit.inference.test_inference import spin_glass

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")

METHODS = ["bp", "adaptive"]


def figures(result):
    """Return what a trace says but for times and what somebody has to look for."""
    return [moment[1:7] for moment in result.trace]


def nobody(_):
    return False


def ring(n=8, states=3, coupling=1.0, seed=0):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, states)
    pairs = [[k, (k + 1) % n] for k in range(n)]
    graph.add_factors([[k] for k in range(n)], log_table=rng.normal(size=(n, states)))
    graph.add_factors(pairs, log_table=rng.normal(0.0, coupling, (n, states, states)))
    return graph


def frustrated():
    """Return a graph whose messages go to and fro until they are damped."""
    return spin_glass(seed=3, coupling=0.5)


def drifting():
    """Return two rings, in one of which states fall by 60 nats a factor, until linear arithmetic would lose them."""
    graph = ring(coupling=2.5)
    graph.add_variables(4, 2)
    pairs = [[8 + k, 8 + (k + 1) % 4] for k in range(4)]
    graph.add_factors(pairs, log_table=[[0.0, -1.0], [-np.inf, -60.0]])
    return graph


@pytest.fixture
def slices(monkeypatch):
    """The positions that each call of the kernel began and ended at."""
    found, real = [], sweeps.sweep_slice

    def counted(*given):
        made = real(*given)
        found.append((int(given[4]), int(made[2])))
        return made

    monkeypatch.setattr(sweeps, "sweep_slice", counted)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (ring(), {}),
        (ring(seed=3), {"damping": 0.3}),
        (ring(), {"schedule": "random", "rng": 5}),
        (ring(), {"evidence": {"x1": 2}}),
        (ring(), {"record": abp.Every(rounds=2)}),
        (grid(4, 4, 1.0, 1.0, seed=3), {}),
        (random_loopy(2, scale=1.0, zeros=0.2), {}),
        pytest.param(frustrated(), {}, marks=pytest.mark.compiled),
        pytest.param(frustrated(), {"damping": 0.6}, marks=pytest.mark.compiled),
        (drifting(), {}),
    ],
)
def test_a_run_that_nobody_watches_takes_the_same_steps(method, graph, options):
    alone, watched = abp.infer(graph, method, **options), abp.infer(graph, method, callback=nobody, **options)
    assert figures(alone) == figures(watched)
    assert alone.stop_reason is watched.stop_reason
    assert (alone.log_z, alone.work_parts, alone.arithmetic) == (watched.log_z, watched.work_parts, watched.arithmetic)
    np.testing.assert_array_equal(alone.marginals.concatenated(), watched.marginals.concatenated())
    seconds = alone.trace.column("seconds")
    assert (np.diff(seconds) >= 0.0).all()
    assert seconds[0] > 0.0


def test_these_runs_are_damped_and_go_on_in_logs_after_some_sweeps():
    damped = abp.infer(frustrated(), "bp")
    assert damped.trace[0].damping == 0.0 < damped.damping
    first, whole = abp.infer(drifting(), "bp", max_updates=60), abp.infer(drifting(), "bp")
    assert (first.arithmetic, whole.arithmetic) == ("linear", "log")


@pytest.mark.parametrize("method", METHODS)
def test_a_small_run_that_nobody_watches_is_one_slice(method, slices):
    result = abp.infer(ring(), method)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert slices == [(0, result.updates)]
    assert len(result.trace) == result.updates // 8 > 2


def test_whoever_watches_gets_a_slice_per_sweep(slices):
    result = abp.infer(ring(), "bp", callback=nobody)
    assert [end - begin for begin, end in slices] == [8] * (result.updates // 8)


def test_sweeps_that_take_longer_are_slices_of_their_own(slices):
    result = abp.infer(grid(7, 120, 1.0, 0.3, seed=0), "bp")
    assert len(slices) == len(result.trace)


def test_adaptive_goes_on_with_lazy_sweeps_where_the_first_do_not_settle(slices):
    result = abp.infer(frustrated(), "adaptive")
    assert sum(end - begin for begin, end in slices) == QUICK_SWEEPS * 66 < result.updates


def test_a_budget_of_updates_is_met_to_the_update_wherever_it_ends():
    graph = ring()
    whole = abp.infer(graph, "bp")
    for updates in range(1, whole.updates):
        result = abp.infer(graph, "bp", max_updates=updates)
        assert (result.updates, result.stop_reason) == (updates, abp.StopReason.OUT_OF_UPDATES)


def test_a_run_goes_on_after_a_budget_as_if_there_had_been_none():
    graph = ring()
    inference = abp.Inference(graph, "bp")
    inference.run(max_updates=13)
    result, whole = inference.run(), abp.infer(graph, "bp")
    assert result.updates == whole.updates
    np.testing.assert_array_equal(result.marginals.concatenated(), whole.marginals.concatenated())


def test_ctrl_c_in_a_slice_of_several_sweeps_answers_with_all_of_them(monkeypatch, plain_ctrl_c):
    graph, real = ring(coupling=3.0), sweeps.sweep_slice

    def pressed(*given):
        signal.raise_signal(signal.SIGINT)
        return real(*given[:5], 3 * 8, *given[6:])

    monkeypatch.setattr(sweeps, "sweep_slice", pressed)
    found = abp.infer(graph, "bp")
    monkeypatch.setattr(sweeps, "sweep_slice", real)
    assert found.stop_reason is abp.StopReason.INTERRUPTED
    assert [moment.updates for moment in found.trace] == [8, 16, 24]
    expected = abp.infer(graph, "bp", max_updates=24)
    assert figures(found) == figures(expected)
    np.testing.assert_array_equal(found.marginals.concatenated(), expected.marginals.concatenated())


def test_the_end_alone_can_be_recorded_of_several_sweeps():
    result = abp.infer(ring(), "bp", record="end")
    assert [moment.updates for moment in result.trace] == [result.updates]
