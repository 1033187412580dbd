"""`adaptive`: what it chooses and says, budgets between its stages, rules, memory, runs that do not settle."""

import warnings

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.all_states import AllStates
from anytimebp.kernels.codes import LINEAR
from anytimebp.layout.graph_layout import compiled_graph
from oracle.models import grid, hub, peaked, random_loopy, random_tree, spin_glass

pytestmark = pytest.mark.usefixtures("every_stage")

OTHERS = [method for method in abp.METHODS if method not in {"adaptive", "auto"}]


def bits(snapshot):
    return b"".join(m.tobytes() for m in snapshot.marginals.values()) + np.float64(snapshot.log_z).tobytes()


def marginals_of(result):
    return [result.marginals[i] for i in range(len(result.marginals))]


def started(graph, run_class=AdaptiveRun, **options):
    """Return an inference that makes rounds on domains at any cost."""
    inference = abp.Inference(graph, "adaptive", **options)
    inference._run.start(lambda task: run_class(task, at_any_cost=True))
    return inference


# ---------------------------------------------------------------- rounds on domains
def test_rounds_on_domains_alone_end_where_bp_ends():
    for graph in (peaked(3), hub(3), grid(3, 6, 4.0, 0.3, seed=3)):
        result = started(graph).run()
        assert result.stop_reason is abp.StopReason.CONVERGED
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
def test_a_rule_of_any_range_is_begun_with(far):
    graph = abp.FactorGraph()
    graph.add_variables(3, 6)
    graph.add_factors([[0], [1], [2]], log_table=np.random.default_rng(0).normal(0.0, 3.0, (3, 6)))
    for pair in ([0, 1], [1, 2], [2, 0]):
        graph.add_factor(pair, rule=lambda a, b: np.where((a == 5) & (b == 5), far, -0.1 * abs(a - b)))
    result = abp.infer(graph, "adaptive")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.trace[-1].choice.startswith("full BP: ")
    assert result.distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


def test_log_z_of_rounds_on_domains_is_that_of_their_messages():
    graph = grid(3, 6, 2.0, 0.7, seed=0)
    result = started(graph).run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.log_z == pytest.approx(abp.infer(graph, "bp", tolerance=1e-12).log_z, abs=1e-7)


def test_max_updates_is_exact_between_rounds_and_full_sweeps():
    inference = started(grid(3, 6, 4.0, 0.5, seed=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        while inference.stop_reason is None:
            before = inference._run.figures.updates
            assert inference.run(max_updates=5).current.updates <= before + 5


# ---------------------------------------------------------------- the trace
def ways(result):
    """Return the ways that a run has gone, one after the other."""
    found = []
    for moment in result.trace:
        way = moment.choice.partition(":")[0]
        if not found or found[-1] != way:
            found.append(way)
    return found


def test_the_trace_says_which_way_adaptive_goes_and_why():
    result = abp.infer(grid(3, 8, 5.0, 0.5, seed=0), "adaptive")
    assert all(moment.choice.partition(": ")[2] for moment in result.trace)
    assert ways(result) == ["rounds on likely states", "full BP"]
    tree = abp.FactorGraph()
    tree.add_variables(2, 8)
    tree.add_factor([0], log_table=-3.0 * np.arange(8))
    tree.add_factor([0, 1], log_table=np.random.default_rng(0).normal(0.0, 2.0, (8, 8)))
    assert ways(abp.infer(tree, "adaptive"))[0] == "rounds on likely states"


@pytest.mark.parametrize("method", OTHERS)
def test_other_methods_have_no_choice_to_tell(method):
    result = abp.infer(grid(2, 3, 1.0, 0.5, seed=0), method, rng=0)
    assert {moment.choice for moment in result.trace} == {""}


# ---------------------------------------------------------------- rules and listed entries
def ring(stated, n=8, seed=0, scale=0.4):
    """Return a peaked ring with a factor of three, its scores stated in some way."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(4, n)
    graph.add_factors([[i] for i in range(4)], log_table=rng.normal(0.0, 3.0, (4, n)))
    for scope in ([0, 1], [1, 2], [2, 3], [3, 0], [0, 1, 2]):
        scores = rng.normal(0.0, scale, [n] * len(scope))
        if stated == "rule":
            graph.add_factor(scope, rule=lambda *states, scores=scores: scores[states])
        elif stated == "entries":
            graph.add_factor(scope, entries=(np.argwhere(np.isfinite(scores)), scores.ravel()))
        else:
            graph.add_factor(scope, log_table=scores)
    return graph


@pytest.mark.parametrize("stated", ["rule", "entries"])
def test_rules_and_listed_entries_give_what_tables_give(stated):
    for seed in range(4):
        expected = list(abp.Inference(ring("log_table", seed=seed), "adaptive"))
        ours = list(abp.Inference(ring(stated, seed=seed), "adaptive"))
        assert ours[0].distance(expected[0]) < 1e-12
        assert ours[0].domain_sizes.tolist() == expected[0].domain_sizes.tolist()
        assert ours[0].log_z == pytest.approx(expected[0].log_z, abs=1e-9)
        assert ours[-1].distance(expected[-1]) < 1e-7
        assert ours[-1].log_z == pytest.approx(expected[-1].log_z, abs=1e-7)


def test_rules_are_asked_for_active_states_only_on_domains():
    asked = []

    def rule(a, b):
        asked.append(a.size * b.size)
        return -0.1 * np.abs(a - b)

    graph = abp.FactorGraph()
    graph.add_variables(2, 60)
    graph.add_factors([[0], [1]], log_table=-4.0 * np.arange(60.0) * np.ones((2, 1)))
    graph.add_factor([0, 1], rule=rule)
    inference = started(graph)
    next(inference)
    assert inference._run.figures.work_parts["growth"] == sum(asked) == 25  # five states each, within 18 nats
    next(inference)
    parts = inference._run.figures.work_parts
    assert parts["priorities"] <= 2048  # a sample that tells the range of the scores
    assert parts["growth"] + parts["scoring"] == sum(asked) - parts["priorities"] < 200


def late_zeros(late):
    """Return a ring of rules that exclude pairs of unlikely states."""
    graph = abp.FactorGraph()
    graph.add_variables(4, 12)
    graph.add_factors([[i] for i in range(4)], log_table=-1.0 * np.arange(12) * np.ones((4, 1)))
    for pair in ([0, 1], [1, 2], [2, 3], [3, 0]):
        graph.add_factor(pair, rule=lambda a, b: np.where((a > late) & (b > late), -np.inf, -0.1 * abs(a - b)))
    return graph


def test_zeros_of_rules_that_show_up_late_lead_to_whole_tables():
    for late in range(0, 11, 2):
        graph = late_zeros(late)
        result = abp.infer(graph, "adaptive")
        assert result.stop_reason is abp.StopReason.CONVERGED
        assert result.distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7
    assert ways(abp.infer(late_zeros(0), "adaptive"))[-1] == "full BP"


def test_a_rule_that_raises_is_named():
    def rule(a, b):
        if (np.asarray(a) > 6).any() and (np.asarray(b) > 6).any():
            raise ValueError
        return -0.1 * abs(a - b)

    graph = abp.FactorGraph()
    graph.add_variables(3, 10)
    graph.add_factors([[i] for i in range(3)], log_table=-3.0 * np.arange(10) * np.ones((3, 1)))
    for pair in ([0, 1], [1, 2], [2, 0]):
        graph.add_factor(pair, rule=rule)
    inference = abp.Inference(graph, "adaptive")
    for _ in range(2):
        with pytest.raises(abp.RuleError, match="raised ValueError"):
            inference.run()


# ---------------------------------------------------------------- memory
@pytest.mark.parametrize("stated", ["rule", "log_table"])
def test_domains_that_outgrow_the_memory_leave_a_consistent_answer(stated):
    graph = ring(stated, n=24)
    reference = abp.infer(graph, "bp", tolerance=1e-12)
    for share in (0.3, 0.6, 0.9):
        result = abp.infer(graph, "adaptive", max_memory=int(share * graph.summary().full_bp_bytes))
        is_complete = (result.domain_sizes == 24).all()
        assert result.stop_reason is abp.StopReason[("CONVERGED" if is_complete else "OUT_OF_MEMORY")]
        assert result.consistent
        assert result.distance(reference) <= (1e-7 if is_complete else result.estimated_error)
        assert result.estimated_error < 1.0


def test_states_that_priors_exclude_need_no_memory():
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(4, 400)
    unary = rng.normal(0.0, 2.0, (4, 400))
    unary[:, 5:] = -np.inf
    graph.add_factors([[i] for i in range(4)], log_table=unary)
    graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], log_table=rng.normal(0.0, 0.5, (4, 400, 400)))
    result = abp.infer(graph, "adaptive", max_memory=graph.summary().full_bp_bytes - 1)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.domain_sizes.tolist() == [5] * 4
    assert result.distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


@pytest.mark.compiled
def test_counts_go_on_where_domains_exclude_each_other():
    graph = late_zeros(5)
    with pytest.raises(abp.MemoryLimitError, match=r"the first domains need 6\.1 KB"):
        abp.infer(graph, "adaptive", max_memory=int(0.3 * graph.summary().full_bp_bytes))
    for share in np.linspace(0.4, 0.95, 8):
        result = abp.infer(graph, "adaptive", max_memory=int(share * graph.summary().full_bp_bytes))
        assert result.consistent
        assert (np.diff(result.trace.column("updates")) >= 0).all()
        assert (np.diff(result.trace.column("work")) >= 0).all()


def test_whole_tables_are_not_made_while_on_domains():
    graph = grid(3, 12, 6.0, 0.3, seed=0)
    result = abp.infer(graph, "adaptive", target_error=0.05)
    assert result.stop_reason is abp.StopReason.TARGET_REACHED
    assert ways(result) == ["rounds on likely states"]
    assert LINEAR not in compiled_graph(graph).shared_tables
    assert abp.infer(graph, "adaptive").consistent
    assert compiled_graph(graph).shared_tables


# ---------------------------------------------------------------- runs that do not settle
@pytest.mark.compiled
@pytest.mark.parametrize("start", ["adaptive", AdaptiveRun, AllStates])
def test_what_does_not_settle_says_so_once(start):
    graph = spin_glass()
    inference = abp.Inference(graph, "adaptive") if start == "adaptive" else started(graph, start)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = inference.run()
    assert result.stop_reason is abp.StopReason.NOT_CONVERGED
    assert not result.current.consistent
    assert result.current.max_residual > 1e-8
    assert result.current.damping > 0.0
    assert [w.category for w in caught] == [abp.NotConvergedWarning]
    assert ways(result)[-1] == ("" if start is AllStates else "full BP")
    assert all(np.isfinite(m).all() for m in marginals_of(result))


@pytest.mark.compiled
def test_iterating_over_what_does_not_settle_warns_too():
    with pytest.warns(abp.NotConvergedWarning):
        last = list(abp.Inference(spin_glass(), "adaptive"))[-1]
    assert not last.consistent
