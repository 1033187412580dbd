"""`adaptive`: what it chooses and says, budgets between its stages, rules, memory, runs that do not settle."""

import warnings

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.engine import adaptive_run, choice, full_run
from anytimebp.engine.adaptive_run import AdaptiveRun
from anytimebp.engine.choice import Counts, Way, first_choice
from anytimebp.engine.full_run import FullRun
from anytimebp.layout.graph_layout import compiled_graph
from oracle.models import grid, hub, peaked, random_loopy, random_tree, worst

OTHERS = [method for method in abp.METHODS if method != "adaptive"]


def bits(snapshot):
    return b"".join(m.tobytes() for m in snapshot.marginals.values()) + np.float64(snapshot.log_z).tobytes()


def marginals_of(result):
    return [result.marginals[i] for i in range(len(result.marginals))]


def started(graph, run_class=AdaptiveRun, **options):
    """Return an inference that goes through rounds on domains, or inner rounds, at any cost."""
    inference = abp.Inference(graph, "adaptive", **options)
    inference._run = run_class(graph, inference._options, at_any_cost=True)
    inference._steps = inference._run.steps()
    return inference


# ---------------------------------------------------------------- rounds on domains
def test_rounds_on_domains_alone_end_where_bp_ends():
    for graph in (peaked(3), hub(3), grid(3, 6, 4.0, 0.3, seed=3)):
        result = started(graph).run()
        assert result.stop_reason is abp.StopReason.CONVERGED
        assert result.distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


def test_inner_rounds_alone_end_where_bp_ends():
    for graph in (peaked(3), hub(3), grid(3, 6, 4.0, 0.3, seed=3)):
        result = started(graph, FullRun).run()
        assert result.stop_reason is abp.StopReason.CONVERGED
        assert result.trace[-1].choice.startswith("frozen tails")
        assert result.distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


@pytest.mark.parametrize("factor_marginals", [False, True])
def test_a_settled_round_on_a_hub_is_not_touched_by_the_next_one(factor_marginals):
    graph = hub(0)
    settled = {s.updates: bits(s) for s in started(graph, factor_marginals=factor_marginals) if s.consistent}
    assert len(settled) > 2
    inference = started(graph, factor_marginals=factor_marginals)
    while inference.stop_reason is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", abp.NotConvergedWarning)
            result = inference.run(max_updates=7)
        if result.consistent:
            assert bits(result) == settled[result.updates]


def test_snapshots_of_rounds_on_domains_cannot_be_written_to():
    snapshot = next(started(grid(3, 6, 4.0, 0.3, seed=0)))
    with pytest.raises(ValueError, match="read-only"):
        snapshot.domain_sizes[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        snapshot.marginals["x0"][0] = 1.0


def test_states_that_priors_exclude_do_not_keep_rounds_from_ending():
    graph = grid(2, 6, 2.0, 0.3, seed=0)
    graph.add_factor([0], log_table=[0.0, 0.0, -np.inf, -np.inf, -np.inf, -np.inf])
    result = started(graph).run(max_updates=20_000)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


def test_domains_that_hold_every_state_leave_no_error_to_expect():
    for seed in range(6):
        for graph in (random_loopy(seed), random_tree(seed, max_states=6, n_factors=5)):
            result = started(graph).run()
            assert result.stop_reason is abp.StopReason.CONVERGED
            assert result.estimated_error <= 1e-5


@pytest.mark.parametrize("far", [-5000.0, -np.inf])
def test_a_rule_of_any_range_is_begun_with(far, every_stage):
    graph = abp.FactorGraph()
    graph.add_variables(3, 6)
    graph.add_factors([[0], [1], [2]], log_table=np.random.default_rng(0).normal(0.0, 3.0, (3, 6)))
    for pair in ([0, 1], [1, 2], [2, 0]):
        graph.add_factor(pair, rule=lambda a, b: np.where((a == 5) & (b == 5), far, -0.1 * abs(a - b)))
    result = abp.infer(graph, "adaptive")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.trace[-1].choice == "full BP: scores have hard zeros or a range beyond linear arithmetic"
    assert result.distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7
