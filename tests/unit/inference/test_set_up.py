"""Setting up a run on a large graph: in slices of a bounded size, and to the same bits as at one go."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.domains import domains as domains_module
from anytimebp.inference import set_up
from anytimebp.inference.adaptive import choice
from anytimebp.inference.run import Run, Stop
from anytimebp.layout import graph_layout
from anytimebp.model.factor import ENTRIES, FACTORS
from anytimebp.slices import NUMBERS
from anytimebp.tables import arrays, making, memory

EVIDENCE = {"x1": 1, "x5": {0, 2}}


def grid(side, states, seed=0):
    rng, number = np.random.default_rng(seed), np.arange(side * side).reshape(side, side)
    graph = abp.FactorGraph()
    graph.add_variables(side * side, states)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    graph.add_factors(number.reshape(-1, 1), log_table=rng.normal(0, 1, (side * side, states)))
    graph.add_factors(np.concatenate([across, down]), log_table=rng.normal(0, 0.5, (states, states)))
    return graph


@pytest.fixture
def in_slices(monkeypatch):
    """Have every graph set up in slices."""
    monkeypatch.setattr(set_up, "QUICK", 0)


def slices(inference):
    """Run an inference slice by slice, and yield the result after each; then the last one."""
    stop = Stop()
    stop.is_set = True
    inference.stop_by(stop)
    while inference.stop_reason is None:
        yield inference.run()


@pytest.mark.usefixtures("in_slices")
@pytest.mark.parametrize("method", ["bp", "residual", "adaptive", "auto"])
@pytest.mark.parametrize("evidence", [None, EVIDENCE])
def test_a_run_that_is_stopped_at_every_slice_ends_with_the_same_bits(method, evidence):
    graph = grid(3, 4)
    expected = abp.infer(grid(3, 4), method, evidence=evidence)
    *stopped, last = slices(abp.Inference(graph, method, evidence=evidence))
    assert len(stopped) > 2
    assert last.stop_reason in {abp.StopReason.CONVERGED, abp.StopReason.INTERRUPTED}
    assert np.array_equal(last.marginals.concatenated(), expected.marginals.concatenated())
    assert last.log_z == expected.log_z
    assert last.work == expected.work


@pytest.mark.usefixtures("in_slices")
@pytest.mark.parametrize("joint", [False, True])
def test_a_run_that_is_stopped_while_it_is_set_up_answers_with_priors(joint):
    graph = grid(3, 4)
    scores = np.zeros((9, 4))
    for block in graph.blocks[:1]:
        for k, (index,) in enumerate(block.scopes.tolist()):
            scores[index] += block.log_values(k, [np.arange(4)], graph.variables)
    prior = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = next(slices(abp.Inference(graph, "bp", factor_marginals=joint)))
    assert found.updates == 0
    np.testing.assert_allclose(found.marginals.concatenated(), prior.ravel(), rtol=1e-12)
    assert not found.consistent


@pytest.mark.usefixtures("in_slices")
def test_factors_that_are_added_while_a_run_is_set_up_do_not_reach_it():
    graph, expected = grid(3, 4), abp.infer(grid(3, 4), "bp")
    steps = slices(abp.Inference(graph, "bp"))
    next(steps)
    graph.add_factor(["x0"], log_table=[9.0, 0.0, 0.0, 0.0])
    *_, last = steps
    assert np.array_equal(last.marginals.concatenated(), expected.marginals.concatenated())
    assert abp.infer(graph, "bp").marginals["x0"][0] > 0.9


def test_the_next_run_finds_the_layout_that_was_made_in_slices(in_slices):
    graph = grid(3, 4)
    abp.infer(graph, "bp")
    compiled = graph.compiled
    assert isinstance(compiled, graph_layout.CompiledGraph)
    abp.infer(graph, "adaptive")
    assert graph.compiled is compiled


def _counted(monkeypatch, counts):
    """Have kernels that set a run up count what they look at."""

    def count(module, name, entries):
        kernel = getattr(module, name)

        def counting(*given):
            counts.append(int(entries(*given)))
            return kernel(*given)

        monkeypatch.setattr(module, name, counting)

    def folded(rows, slot_start, *_):
        stated = int((rows[:, FACTORS] * rows[:, ENTRIES]).sum())
        return stated + (slot_start[-1] - slot_start[0] if not stated else 0)

    count(domains_module, "fold_priors", folded)
    count(graph_layout, "fill_topology", lambda *given: given[-1])
    count(arrays, "place_slots", lambda *given: given[-1])
    count(arrays, "scratch_sizes", lambda start, sizes, kind: len(kind))
    count(making, "list_tables", lambda *given: given[-1])
    count(choice, "weigh_near", lambda edge_start, slot_start, *_: slot_start[-1] - slot_start[0])
    count(memory, "fill_entries", lambda start, *_: len(start) - 1)


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["bp", "adaptive"])
@pytest.mark.parametrize("evidence", [None, EVIDENCE])
def test_no_slice_of_setting_up_looks_at_more_than_a_bounded_number_of_entries(method, evidence, monkeypatch):
    graph, counts, slices = grid(200, 16), [], []
    _counted(monkeypatch, counts)
    step = Run._step

    def counting(run, budget):
        counts.clear()
        found = step(run, budget)
        slices.append(sum(counts))
        return found

    monkeypatch.setattr(Run, "_step", counting)
    abp.infer(graph, method, evidence=evidence, max_updates=1)
    assert sum(slices) > 2 * 16 * 200 * 200  # priors are folded, and made the largest of them 0
    assert max(slices) < NUMBERS + 16  # a part of the variables ends with a whole one
