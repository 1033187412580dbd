"""Large graphs are set up, followed and read in slices: the same answers to the bit, and an answer at any time."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference import all_states, reading_time, set_up
from anytimebp.inference.control import estimated_error
from anytimebp.inference.method import new_task, steps
from anytimebp.inference.readout import beliefs_if_any, part_of
from anytimebp.inference.run import Run
from anytimebp.inference.schedule import sweeps
from anytimebp.inference.schedule.leaves_first import LeavesFirst
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.tables import arrays, leaves, making, memory, store, workspace
from oracle.examples import examples
from oracle.leafy_models import leafy_graph
from oracle.models import grid
from unit.kernels.test_to_factor import wheel

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")


def take_for_large(monkeypatch):
    """Let every graph count as large, and all parts be small."""
    for module in (all_states, reading_time):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(set_up, "QUICK", 0)
    for module in (arrays, making, memory, store, sweeps):
        monkeypatch.setattr(module, "AT_ONCE", 5)
    for module in (arrays, workspace):
        monkeypatch.setattr(module, "NUMBERS", 5)
    monkeypatch.setattr(leaves, "AT_ONCE", 0)
    monkeypatch.setattr(leaves, "PEELED_AT_ONCE", 5)
    monkeypatch.setattr(sweeps, "ORDERED_AT_ONCE", 5)


def result_of(build, method, **options):
    graph, evidence = build()
    try:
        return abp.infer(graph, method, evidence=evidence, rng=0, max_updates=5000, **options)
    except abp.InconsistentModelError:
        return None


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    method=st.sampled_from(["bp", "residual", "adaptive"]),
    kinds=st.sampled_from(["tables", "zeros", "tied", "all"]),
    observed=st.booleans(),
)
def test_slices_change_no_bit(seed, method, kinds, observed, any_arithmetic, monkeypatch):
    monkeypatch.setattr(leaves, "OVERHEAD", -np.inf)

    def build():
        return leafy_graph(seed, kinds, observed=observed)

    right = result_of(build, method)
    with monkeypatch.context() as patch:
        take_for_large(patch)
        found = result_of(build, method)
    assert (found is None) == (right is None)
    if right is None:
        return
    assert found.stop_reason is right.stop_reason
    assert found.updates == right.updates
    assert dict(found.work_parts) == dict(right.work_parts)
    assert found.log_z.hex() == right.log_z.hex()
    assert (found.marginals.concatenated() == right.marginals.concatenated()).all()


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
@pytest.mark.parametrize("evidence", [None, {0: 1, 1: {0, 2}}])
def test_a_run_that_is_being_set_up_answers_with_the_priors(method, evidence, monkeypatch):
    take_for_large(monkeypatch)
    graph = grid(4, 5, 2.0, 1.0, seed=0)
    alone = abp.FactorGraph()
    alone.add_variables(16, 5)
    for block in graph.blocks:
        if block.scopes.shape[1] == 1:
            alone.add_factors(
                block.scopes,
                log_table=[block.log_values(k, [np.arange(5)], graph.variables) for k in range(len(block.scopes))],
            )
    priors = abp.infer(alone, evidence=evidence).marginals.concatenated()
    inference = abp.Inference(graph, method, evidence=evidence, factor_marginals=True)
    n_before = 0
    while not (found := inference.run(seconds=0.0)).updates:  # one slice each
        assert np.abs(found.marginals.concatenated() - priors).max() < 1e-12
        assert found.stop_reason is abp.StopReason.OUT_OF_TIME
        assert np.isnan(found.log_z)
        assert found.factor_marginals[len(found.factor_marginals) - 1].sum() == pytest.approx(1.0)
        n_before += 1
    assert n_before > 20  # messages alone take 16 parts
    assert inference.run().stop_reason is abp.StopReason.CONVERGED
    right = abp.infer(graph, method, evidence=evidence).marginals.concatenated()
    assert np.abs(inference.run().marginals.concatenated() - right).max() < 1e-12


@pytest.mark.parametrize("limit", [1, 7, 10**6])
def test_orders_are_found_in_slices_of_so_many_factors_and_variables(limit, monkeypatch):
    layout = CompiledGraph(grid(4, 5, 2.0, 1.0, seed=0)).arrays
    n_factors, n_variables = len(layout.factor_edge_start) - 1, len(layout.variable_edge_start) - 1
    right = sweeps.there_and_back(layout)
    monkeypatch.setattr(sweeps, "ORDERED_AT_ONCE", limit)
    made = list(itertools.islice(sweeps.orders_of_pairs(layout), 4 * n_factors + n_variables + 3))
    n_slices = -(-(4 * n_factors + n_variables) // limit)
    assert [orders is None for orders in made] == [k < n_slices - 1 for k in range(len(made))]
    assert all((orders == right).all() for orders in made[n_slices:])
    one_by_one = (order for order in sweeps.sequential_orders(layout) if order is not None)
    assert [order.tolist() for order in itertools.islice(one_by_one, 4)] == 2 * right.tolist()


@pytest.mark.parametrize("method", ["bp", "adaptive"])
def test_a_schedule_is_made_in_slices_in_which_nothing_is_updated(method, monkeypatch):
    take_for_large(monkeypatch)
    graph = grid(4, 5, 2.0, 1.0, seed=0)
    task = new_task(graph, abp.Inference(graph, method)._options)
    run = all_states.AllStates(task)
    n_waiting = 0
    for _ in steps(run, task.figures):
        schedule = run._schedule.on_core if isinstance(run._schedule, LeavesFirst) else run._schedule
        n_waiting += schedule is not None and schedule._order is None and not task.figures.updates
        if task.figures.updates:
            break
    n_factors, n_variables = 24, 16
    assert n_waiting >= (4 * n_factors + n_variables) // 5 - 1


@pytest.mark.parametrize("method", ["residual", "adaptive"])
def test_what_is_pending_on_some_edges_is_what_is_among_all(method):
    graph = grid(5, 3, 1.0, 0.7, seed=0)
    task = new_task(graph, abp.Inference(graph, method)._options)
    run = all_states.AllStates(task, at_any_cost=True)
    edges, n_seen = np.array([0, 3, 7, 8, 30, 2]), 0
    for _ in steps(run, task.figures):
        if task.figures.swept:
            n_seen += 1
            assert (run._schedule.pending(edges) == run._schedule.pending()[edges]).all()
            assert len(run._schedule.pending(edges[:0])) == 0
    assert n_seen > 3


def test_who_watches_a_large_run_is_told_of_its_end(monkeypatch):
    take_for_large(monkeypatch)
    seen = []
    result = abp.infer(grid(4, 5, 2.0, 1.0, seed=0), "bp", callback=seen.append)
    assert seen[-1].updates == result.updates
    assert seen[-1].consistent
    assert len(seen) == len(result.trace)


def test_the_clock_ends_a_call_earlier_by_the_time_that_reading_takes(monkeypatch):
    graph = grid(4, 5, 2.0, 1.0, seed=0)
    inference = abp.Inference(graph, "bp")
    inference.run(max_updates=1)
    inference._run.figures.reading = 100.0
    updates = inference.run(seconds=50.0, max_updates=1000).updates
    assert updates < 30  # one slice: a sweep has 24
    inference._run.figures.reading = 0.0
    assert inference.run(seconds=50.0).stop_reason is abp.StopReason.CONVERGED


def test_the_time_of_reading_is_known_before_anything_is_read(monkeypatch):
    seen = []
    step = Run._step

    def watched(self, budget):
        found = step(self, budget)
        seen.append(self.figures.reading)
        return found

    monkeypatch.setattr(Run, "_step", watched)
    graph = grid(4, 5, 2.0, 1.0, seed=0)
    abp.infer(graph, "bp")
    assert set(seen) == {0.0}  # it would be too short to matter
    for method in ("bp", "adaptive"):
        seen.clear()
        with monkeypatch.context() as patch:
            take_for_large(patch)
            abp.infer(graph, method)
        assert all(0.0 < seconds < 10.0 for seconds in seen)


def test_what_rules_take_is_no_time_of_reading(monkeypatch):
    take_for_large(monkeypatch)
    graph = grid(3, 4, 2.0, 1.0, seed=0)
    graph.add_factor([0], rule=lambda state: -0.1 * state)
    inference = abp.Inference(graph, "bp")
    inference.run(seconds=0.0)
    assert inference._run.figures.reading == 0.0


def test_the_variables_that_are_followed_are_read_as_among_all(any_arithmetic, monkeypatch):
    monkeypatch.setattr(estimated_error, "MANY", 40)
    graph = wheel(30, seed=1, scale=0.5)  # with a hub
    task = new_task(graph, abp.Inference(graph, "bp")._options)
    run = all_states.AllStates(task)
    for _ in steps(run, task.figures):
        layout, messages, start = run.workspace.layout, run.workspace.arrays, run.workspace.domains.slot_start
        whole, history = beliefs_if_any(layout, messages, start), run._following.history
        part = beliefs_if_any(*part_of(layout, messages, history.followed), history.start)
        assert 20 <= len(part) <= 40
        assert (part == history.part(whole)).all()
    hub = np.array([int(np.diff(layout.variable_edge_start).argmax())])
    part = beliefs_if_any(*part_of(layout, messages, hub), start[hub[0] : hub[0] + 2] - start[hub[0]])
    assert (part == whole[start[hub[0]] : start[hub[0] + 1]]).all()


@pytest.mark.parametrize("method", ["bp", "residual"])
def test_the_error_of_some_variables_stands_for_that_of_all(method, monkeypatch):
    graph = grid(12, 4, 1.0, 0.7, seed=0)
    every = [snapshot.estimated_error for snapshot in abp.Inference(graph, method)]
    monkeypatch.setattr(estimated_error, "MANY", 288)  # half of them
    some = [snapshot.estimated_error for snapshot in abp.Inference(graph, method)]
    assert len(some) == len(every) > 5
    for one, other in zip(some, every, strict=True):
        assert 0.25 < one / other < 4.0
    assert some != every
