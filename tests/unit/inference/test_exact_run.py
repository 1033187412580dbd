"""Runs of `exact` and `auto`: budgets, snapshots, Ctrl-C, memory, work, and which of the two ways is taken."""

import pickle
import signal

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.exact.cost import plan_within
from anytimebp.inference import auto_run
from anytimebp.kernels.codes import SUM
from anytimebp.layout.graph_layout import compiled_graph
from oracle.enumeration import exact
from oracle.models import grid, random_tree, worst


def complete(n, states, seed=0, scale=1.0):
    """Return a complete graph."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, states)
    pairs = [[i, j] for i in range(n) for j in range(i)]
    graph.add_factors(pairs, log_table=rng.normal(0.0, scale, (len(pairs), states, states)))
    graph.add_factors([[i] for i in range(n)], log_table=rng.normal(0.0, 1.0, (n, states)))
    return graph


# ---------------------------------------------------------------- stopping and going on
def test_a_run_without_time_answers_with_unary_scores_and_goes_on():
    graph = complete(6, 3)
    inference = abp.Inference(graph, "exact")
    first = inference.run(seconds=0.0)
    assert first.stop_reason is abp.StopReason.OUT_OF_TIME
    assert not first.consistent
    assert not first.exact
    assert np.isnan(first.log_z)
    assert first.estimated_error == np.inf
    unary = np.exp(graph.factor_log_table(graph.n_factors - 6))
    assert first.marginals[0] == pytest.approx(unary / unary.sum())
    marginals, log_z = exact(graph)
    last = inference.run()
    assert last.stop_reason is abp.StopReason.CONVERGED
    assert worst(last, marginals) < 1e-12
    assert last.log_z == pytest.approx(log_z)


@pytest.mark.parametrize("budget", ["max_updates", "max_work"])
def test_budgets_of_counts_end_the_run_between_cliques(budget):
    graph = complete(8, 3)
    whole = abp.infer(graph, "exact")
    inference, seen, last = abp.Inference(graph, "exact"), [], None
    while inference.stop_reason is None:
        last = inference.run(**{budget: 1})
        seen.append(last.stop_reason)
    assert seen[0].name == "OUT_OF_" + budget.removeprefix("max_").upper()
    assert len(seen) > 8
    assert last.stop_reason is abp.StopReason.CONVERGED
    assert (last.updates, last.work) == (whole.updates, whole.work)
    assert last.log_z == whole.log_z
    assert np.array_equal(last.marginals.concatenated(), whole.marginals.concatenated())


def test_iterating_gives_one_snapshot():
    (snapshot,) = abp.Inference(complete(5, 3), "exact")
    assert snapshot.exact
    assert snapshot.consistent
    assert snapshot.method == "exact"


def test_ctrl_c_ends_the_run_with_what_is_known(monkeypatch):
    from anytimebp.exact import passes  # noqa: PLC0415
    from anytimebp.inference import solution  # noqa: PLC0415

    monkeypatch.setattr(solution, "WORTH_A_LOOK", 0)
    real = passes.collect_slice

    def pressed(*arguments):
        signal.raise_signal(signal.SIGINT)
        return real(*arguments[:-1], 1)

    inference = abp.Inference(complete(5, 3), "exact")
    monkeypatch.setattr(passes, "collect_slice", pressed)
    result = inference.run()
    assert result.stop_reason is abp.StopReason.INTERRUPTED
    assert not result.exact
    monkeypatch.setattr(passes, "collect_slice", real)
    assert inference.run().exact


def test_work_counts_entries_and_is_predicted():
    from anytimebp.exact.tree import plan  # noqa: PLC0415

    graph = grid(5, 4, 1.0, 1.0, seed=0)
    result, compiled = abp.infer(graph, "exact"), compiled_graph(graph)
    tree = plan(compiled, compiled.universe_sizes)
    assert result.updates == 2 * tree.n
    assert tree.entries < result.work <= tree.work


def test_rules_are_asked_once_and_counted():
    asked = []

    def score(a, b):
        asked.append(np.broadcast(a, b).size)
        return -0.3 * np.abs(a - b)

    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=score)
    result = abp.infer(graph, "exact")
    assert result.work_parts["growth"] == 16
    assert worst(result, exact(graph)[0]) < 1e-12


def test_the_same_bits_every_time():
    graph, twin = grid(6, 3, 1.0, 1.0, seed=3), grid(6, 3, 1.0, 1.0, seed=3)
    first, second, other = abp.infer(graph, "exact"), abp.infer(graph, "exact"), abp.infer(twin, "exact")
    for result in (second, other):
        assert np.array_equal(result.marginals.concatenated(), first.marginals.concatenated())
        assert result.log_z == first.log_z


def test_results_travel():
    result = pickle.loads(pickle.dumps(abp.infer(complete(4, 3), "exact", factor_marginals=True)))
    assert result.exact
    assert result.factor_marginals[0].sum() == pytest.approx(1.0)
    assert result.choice == ""


# ---------------------------------------------------------------- memory
def planned(graph, max_memory):
    compiled = compiled_graph(graph)
    return plan_within(compiled, compiled.universe_sizes, max_memory)


def test_what_a_tree_would_need_is_known_before_anything_is_made():
    graph = complete(12, 10)
    with pytest.raises(
        abp.MemoryLimitError, match=r"exact inference needs cliques of 1,111,111,111,110 entries in all"
    ):
        planned(graph, 10**9)
    with pytest.raises(abp.MemoryLimitError, match=r"more than the .* that are free.* or use `method=\"adaptive\"`"):
        planned(complete(60, 4), None)


def test_max_memory_is_what_a_run_may_need():
    graph = complete(6, 8)
    with pytest.raises(abp.MemoryLimitError, match=r"needs .* \(([\d,]+) bytes\)") as refused:
        planned(graph, 100_000)
    needed = int(str(refused.value).partition("(")[2].partition(" bytes")[0].replace(",", ""))
    assert 8 * 8**6 < needed < 3 * 8 * 8**6
    assert abp.infer(graph, "exact", max_memory=needed).exact


def test_evidence_makes_a_wide_model_small():
    graph = complete(12, 10)
    given = {f"x{i}": 1 for i in range(8)}
    assert abp.infer(graph, "exact", evidence=given).exact
    assert abp.infer(graph, evidence=given).method == "exact"
    assert abp.infer(graph).method == "adaptive"


# ---------------------------------------------------------------- auto
def test_small_loops_are_exact_and_say_why():
    result = abp.infer(grid(3, 3, 1.0, 1.0, seed=0))
    assert result.method == "exact"
    assert result.choice.startswith("a junction tree: its cliques have ")
    assert result.trace[-1].choice == result.choice
    assert result.estimated_error == 0.0


def test_wide_models_are_adaptive_and_say_what_exact_would_cost():
    graph = grid(10, 8, 1.0, 0.1, seed=0)
    result = abp.infer(graph)
    assert result.method == "adaptive"
    assert not result.exact
    assert "; exact inference would need cliques of more than " in result.choice
    assert result.exact_entries > 1e9
    reference = abp.infer(graph, "adaptive")
    assert result.log_z == reference.log_z
    assert (result.updates, result.work) == (reference.updates, reference.work)


def test_a_large_forest_goes_to_belief_propagation_which_is_exact(monkeypatch):
    monkeypatch.setattr(auto_run, "SMALL_FOREST", 0)
    result = abp.infer(random_tree(0))
    assert result.method == "adaptive"
    assert result.exact
    assert result.exact_entries == 0.0
    assert "there are no loops" in result.choice


def test_under_a_budget_only_what_is_cheap_is_exact(monkeypatch):
    graph = complete(5, 4)
    monkeypatch.setattr(auto_run, "CHEAP", 100.0)
    assert abp.infer(graph).method == "exact"  # fewer entries than the usual sweeps read
    for budget in ({"seconds": 60.0}, {"max_updates": 10**6}, {"max_work": 10**9}, {"target_error": 1e-9}):
        assert abp.infer(graph, **budget).method == "adaptive"
    monkeypatch.setattr(auto_run, "CHEAP", 1e6)
    assert abp.infer(graph, seconds=60.0).method == "exact"


def test_rules_are_not_all_asked_before_the_first_answer_of_a_budget(monkeypatch):
    graph = abp.FactorGraph()
    graph.add_variables(3, 10)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=lambda a, b: -0.3 * np.abs(a - b))
    assert abp.infer(graph, seconds=60.0).method == "exact"
    monkeypatch.setattr(auto_run, "MOST_ASKED", 299)
    assert abp.infer(graph, seconds=60.0).method == "adaptive"
    assert abp.infer(graph).method == "exact"


def test_damping_memory_and_policies_are_for_belief_propagation():
    graph = complete(6, 8)
    assert abp.infer(graph, damping=0.3).method == "adaptive"
    result = abp.infer(graph, max_memory=1_000_000)
    assert result.method == "adaptive"
    assert "do not fit into memory" in result.choice


def test_graphs_of_very_many_variables_are_not_searched(monkeypatch):
    monkeypatch.setattr(auto_run, "MOST_VARIABLES", 4)
    assert "5 variables are too many" in abp.infer(complete(5, 3)).choice


def test_auto_is_the_default_and_answers_before_it_has_chosen():
    assert abp.METHODS[-2:] == ("exact", "auto")
    inference = abp.Inference(complete(5, 3))
    result = inference.run(seconds=0.0)
    assert not result.consistent
    assert inference.run().exact


def test_an_impossible_model_is_found_out_where_bp_cannot_see_it():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], table=[[0.0, 1.0], [1.0, 0.0]])
    for method in ("exact", "auto"):
        with pytest.raises(abp.InconsistentModelError, match="no joint state is possible"):
            abp.infer(graph, method)


def test_max_marginals_are_refused():
    from anytimebp.inference.exact_run import ExactRun  # noqa: PLC0415
    from anytimebp.inference.method import new_task  # noqa: PLC0415

    task = new_task(complete(3, 2), abp.Inference(abp.FactorGraph(), "exact")._options)
    ExactRun(task)
    with pytest.raises(abp.OptionError, match="max-marginals"):
        ExactRun(task._replace(semiring=SUM + 1))
