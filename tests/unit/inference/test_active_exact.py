"""`exact` on models too wide for it: nested domains, lower bounds that rise, and what memory allows in the end."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference import active_exact
from anytimebp.inference.active_exact import ActiveExactRun
from anytimebp.inference.method import new_task, steps
from oracle.enumeration import exact, joint_log_scores
from oracle.models import grid, peaked, random_loopy, worst

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rounds(graph, **options):
    """Return the snapshots of a run on likely states, though the whole model would fit."""
    task = new_task(graph, abp.Inference(graph, "exact", **options)._options)
    method, found = ActiveExactRun(task), []
    for _ in steps(method, task.figures):
        if task.figures.is_news and task.figures.rounds > len(found):
            found.append(method.read(settled=False))
    return method, task.figures, found


@pytest.mark.parametrize("seed", range(6))
def test_log_z_rises_to_the_true_one_and_never_exceeds_it(seed):
    graph = peaked(seed, zeros=0.2 * (seed % 2))
    marginals, log_z = exact(graph)
    _, figures, found = rounds(graph)
    assert figures.ending is abp.StopReason.CONVERGED
    bounds = [snapshot.log_z for snapshot in found]
    assert len(bounds) > 1
    assert np.all(np.diff(bounds) >= -1e-12)
    assert max(bounds) <= log_z + 1e-10
    assert bounds[-1] == pytest.approx(log_z, abs=1e-6)
    assert worst(found[-1], marginals) < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_every_round_is_exact_on_its_states(seed):
    graph = random_loopy(seed, scale=2.0, unary=2.0)
    joint = joint_log_scores(graph)
    _, _, found = rounds(graph, evidence={0: {0, 1}})
    for snapshot in found:
        domains = [snapshot.marginals.domain(i) for i in range(joint.ndim)]
        assert set(domains[0].tolist()) <= {0, 1}
        cut = joint[np.ix_(*domains)]
        assert snapshot.log_z == pytest.approx(np.log(np.exp(cut - cut.max()).sum()) + cut.max())
        weight = np.exp(cut - snapshot.log_z)
        for i, states in enumerate(domains):
            own = weight.sum(axis=tuple(k for k in range(joint.ndim) if k != i))
            assert snapshot.marginals[i][states] == pytest.approx(own)


def test_states_that_zeros_exclude_are_neither_inside_nor_outside():
    graph = peaked(3)
    never = np.ones((len(graph.variables[0].labels), len(graph.variables[1].labels)))
    never[-1] = 0.0
    graph.add_factor([0, 1], table=never)
    method, _, found = rounds(graph)
    assert int(method._domains.sizes[0]) == len(never) - 1
    assert worst(found[-1], exact(graph)[0]) < 1e-6


def test_domains_only_grow_and_the_last_round_may_hold_all(monkeypatch):
    monkeypatch.setattr(active_exact, "LAST", 1e-2)
    graph = random_loopy(1, scale=0.5)
    _, figures, found = rounds(graph)
    sizes = [snapshot.domain_sizes for snapshot in found]
    assert all((after >= before).all() for before, after in pairwise(sizes))
    assert found[-1].exact
    assert found[-1].estimated_error == 0.0
    assert figures.ending is abp.StopReason.CONVERGED
    assert worst(found[-1], exact(graph)[0]) < 1e-12


def test_a_model_too_wide_answers_with_the_largest_domains_that_fit():
    graph = grid(5, 8, 3.0, 1.0, seed=0)
    whole = abp.infer(graph, "exact")
    with pytest.warns(abp.UncertainResultWarning, match="belief propagation judged"):
        result = abp.infer(graph, "exact", max_memory=300_000)
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert result.method == "exact"
    assert not result.exact
    assert result.estimated_to == "the exact marginals"
    assert abp.infer(graph, "bp", max_updates=5).estimated_to == whole.estimated_to == "BP"
    assert result.consistent
    assert "do not fit into memory" in result.choice
    assert result.log_z < whole.log_z
    assert 0.0 < result.unexplored_mass < 0.2
    assert result.distance(whole) < 10.0 * result.estimated_error
    assert len(result.trace) > 1
    assert result.factor_marginals.__len__() == 0


def test_where_the_first_domains_do_not_fit_there_is_one_state_each_at_the_least():
    graph = grid(4, 12, 0.0, 0.01, seed=0)  # flat: no state is unlikely
    result = abp.infer(graph, "exact", max_memory=120_000)
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert result.consistent
    assert result.domain_sizes.min() >= 1


def test_budgets_end_the_run_with_the_last_round():
    graph = grid(5, 8, 3.0, 1.0, seed=0)
    inference = abp.Inference(graph, "exact", max_memory=300_000)
    first = inference.run(seconds=0.0)
    assert not first.consistent
    snapshot = next(inference)
    assert snapshot.consistent
    assert not snapshot.exact
    result = inference.run(max_work=1)
    assert result.log_z >= snapshot.log_z
    assert inference.run().log_z >= result.log_z


def test_states_that_exclude_each_other_wait_for_more():
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    graph.add_factors([[0], [1], [2]], log_table=[[0.0, -4.0, -9.0], [0.0, -4.0, -9.0], [0.0, -4.0, -9.0]])
    graph.add_factors([[0, 1], [1, 2], [2, 0]], table=1.0 - np.eye(3))
    marginals, log_z = exact(graph)
    _, _, found = rounds(graph)
    assert worst(found[-1], marginals) < 1e-6
    assert max(snapshot.log_z for snapshot in found) <= log_z + 1e-12


def test_marginals_of_factors_are_there_if_asked_for():
    graph = grid(5, 8, 3.0, 1.0, seed=0)
    result = abp.infer(graph, "exact", max_memory=400_000, factor_marginals=True)
    assert result.factor_marginals[graph.n_factors - 1].sum() == pytest.approx(1.0)


@pytest.mark.compiled
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3, 0.7]), is_observed=st.booleans())
def test_lower_bounds_rise_and_never_exceed_log_z(seed, zeros, is_observed):
    graph = random_loopy(seed, scale=1.5, unary=3.0, zeros=zeros)
    marginals, log_z = exact(graph)
    best = int(np.argmax(marginals[0]))
    if is_observed:
        log_z += np.log(marginals[0][best])
    bounds = [snapshot.log_z for snapshot in rounds(graph, evidence={0: best} if is_observed else {})[2]]
    assert np.all(np.diff(bounds) >= -1e-12)
    assert max(bounds) <= log_z + 1e-10


def test_the_estimate_does_not_rest_on_belief_propagation():
    graph = peaked(0)
    whole = abp.infer(graph, "exact")
    task = new_task(graph, abp.Inference(graph, "exact")._options)
    method = ActiveExactRun(task)
    for _ in method.begin():
        pass
    sure = np.zeros_like(method._belief)
    sure[method._domains.slot_start[:-1]] = 1.0  # as if BP were sure of the first states
    method._belief = sure
    for _ in method.settle():
        pass
    found = method.read(settled=False)
    assert found.distance(whole) > 0.1
    assert task.figures.estimated_error == 0.0  # by BP's beliefs
    assert found.estimated_error > 0.1 * found.distance(whole)
    assert task.figures.ending is None
    assert "exact sums" in task.figures.choice
