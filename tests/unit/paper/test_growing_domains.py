"""Growth: policies, budgets, recording, zeros, room, rules, degenerate runs."""

import itertools
import pickle
import signal
import warnings
from time import perf_counter

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.control import round_limits
from oracle.enumeration import exact
from oracle.models import grid, one_factor, random_loopy, worst
from oracle.slow_growth import domains_of, restricted, take_messages

pytestmark = pytest.mark.compiled  # thousands of rounds; test_growth_small.py runs uncompiled too

GROWING = ["random", "fixed", "dynamic"]
SPARSE = ["truncated", *GROWING]


def marginals_of(result):
    return [result.marginals[i] for i in range(len(result.marginals))]


# ---------------------------------------------------------------- degenerate runs
@pytest.mark.parametrize("method", SPARSE)
def test_everything_observed(method):
    graph = grid(3, 4, 1.0, 1.0, seed=0)
    states = np.arange(9) % 4
    result = abp.infer(graph, method, evidence={f"x{i}": int(s) for i, s in enumerate(states)})
    reference = abp.infer(graph, "bp", evidence={f"x{i}": int(s) for i, s in enumerate(states)})
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.log_z == pytest.approx(reference.log_z, abs=1e-12)
    assert all(result.marginals[i][s] == 1.0 for i, s in enumerate(states))
    assert result.unexplored_mass == 0.0


def test_full_domains_from_the_start_are_bp():
    graph = random_loopy(3, scale=0.5)
    result = abp.infer(graph, "truncated", fraction=1.0, tolerance=1e-11)
    assert result.domain_sizes.tolist() == graph.variables.sizes().tolist()
    assert worst(result, marginals_of(abp.infer(graph, "bp", tolerance=1e-11))) < 1e-9


@pytest.mark.parametrize("method", SPARSE)
def test_graphs_without_factors_or_variables(method):
    empty = abp.infer(abp.FactorGraph(), method)
    assert empty.stop_reason is abp.StopReason.CONVERGED
    assert len(empty.marginals) == 0
    lonely = abp.FactorGraph()
    lonely.add_variable("a", 4)
    lonely.add_variable("b", 1)
    lonely.add_factor(["a"], log_table=[0.0, 1.0, 2.0, -np.inf])
    result = abp.infer(lonely, method, fraction=1.0, rng=0)
    weights = np.exp([0.0, 1.0, 2.0, -np.inf])
    assert np.allclose(result.marginals["a"], weights / weights.sum())
    assert result.marginals["b"].tolist() == [1.0]


def test_truncated_keeps_a_part_of_each_universe():
    graph = grid(3, 10, 2.0, 0.5, seed=1)
    assert abp.infer(graph, "truncated").domain_sizes.tolist() == [3] * 9
    assert abp.infer(graph, "truncated", fraction=0.05).domain_sizes.tolist() == [1] * 9
    result = abp.infer(graph, "truncated", fraction=0.5)
    assert 0.0 < result.unexplored_mass < 1.0
    assert result.work_parts["priorities"] == 12 * 100


# ---------------------------------------------------------------- hard zeros
def equality_chain(n, states, first):
    """Return a chain of equal variables whose unary scores favour different states."""
    graph = abp.FactorGraph()
    graph.add_variables(n, states)
    rng = np.random.default_rng(first)
    unary = rng.normal(0.0, 1.0, (n, states))
    unary[np.arange(n), (first + np.arange(n)) % states] += 8.0
    graph.add_factors(np.arange(n)[:, np.newaxis], log_table=unary)
    table = np.where(np.eye(states) > 0, 0.0, -np.inf)
    graph.add_factors(np.stack([np.arange(n - 1), np.arange(1, n)], axis=1), log_table=table)
    return graph, unary.sum(axis=0)


@pytest.mark.usefixtures("any_arithmetic")
@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("closed", [False, True])
def test_an_equality_chain_whose_first_states_disagree(method, closed):
    for first in range(3):
        graph, joint = equality_chain(5, 6, first)
        if closed:  # around a loop, zeros could keep each other alive
            graph.add_factor([4, 0], log_table=np.where(np.eye(6) > 0, 0.0, -np.inf))
        inference = abp.Inference(graph, method, rng=first)
        seen = 0
        for snapshot in inference:
            domains = domains_of(inference._run.method)
            common = sorted(set.intersection(*map(set, domains)))
            assert common  # no snapshot before the domains admit a joint state
            seen += 1
            if not closed:
                weights = np.exp(joint[common] - joint[common].max())
                assert np.allclose(snapshot.marginals["x2"][common], weights / weights.sum(), atol=1e-7)
                assert snapshot.log_z == pytest.approx(np.log(np.exp(joint[common]).sum()), abs=1e-7)
        result = inference.run()
        assert seen > 0
        assert result.current.domain_sizes.sum() == 30
        if not closed:
            assert worst(result, [np.exp(joint) / np.exp(joint).sum()] * 5) < 1e-7


@pytest.mark.parametrize("method", GROWING)
def test_permutation_constraints(method):
    rng, n = np.random.default_rng(0), 4
    graph = abp.FactorGraph()
    graph.add_variables(n, n)
    graph.add_factors(np.arange(n)[:, np.newaxis], log_table=rng.normal(0.0, 0.3, (n, n)) + np.array([3.0, 0, 0, 0]))
    pairs = [(a, b) for a in range(n) for b in range(a)]
    graph.add_factors(pairs, log_table=np.where(np.eye(n) > 0, -np.inf, 0.0))
    reference = abp.infer(graph, "bp", tolerance=1e-11)
    inference = abp.Inference(graph, method, rng=0, tolerance=1e-10)
    for snapshot in inference:
        assert snapshot.consistent
        assert int((snapshot.domain_sizes > 1).sum()) >= 1
    assert worst(inference.run(), marginals_of(reference)) < 1e-6


@pytest.mark.parametrize("method", GROWING)
def test_a_contradiction_is_named_at_the_end(method):
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    same = np.where(np.eye(3) > 0, 0.0, -np.inf)
    graph.add_factor([0, 1], log_table=same)
    graph.add_factor([1, 2], log_table=same)
    graph.add_factor([0], log_table=[0.0, 0.0, -np.inf])
    graph.add_factor([2], log_table=[-np.inf, -np.inf, 0.0])
    with pytest.raises(abp.InconsistentModelError, match="no joint state is possible"):
        abp.infer(graph, method, rng=0)


def test_stopped_before_the_domains_admit_a_joint_state():
    graph, _ = equality_chain(5, 6, 0)
    result = abp.infer(graph, "dynamic", max_updates=1)
    assert not result.consistent
    assert all(m.sum() == pytest.approx(1.0) for m in marginals_of(result))
    assert np.isnan(result.log_z)


def test_a_hub_with_zeros_grows():
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(31, 4)
    graph.add_factors(np.arange(31)[:, np.newaxis], log_table=rng.normal(0.0, 2.0, (31, 4)))
    star = np.stack([np.zeros(30, dtype=int), np.arange(1, 31)], axis=1)
    tables = rng.normal(0.0, 1.0, (30, 4, 4))
    tables[:, 1, 2] = tables[:, 3, 0] = -np.inf
    graph.add_factors(star, log_table=tables)
    reference = abp.infer(graph, "bp")
    for method in GROWING:
        inference = abp.Inference(graph, method, rng=0, tolerance=1e-10)
        for snapshot in inference:
            domains = domains_of(inference._run.method)
            slow = restricted(graph, domains)
            take_messages(slow, inference._run.method)
            assert slow.residual() <= 1.01e-10
            assert abs(snapshot.marginals["x0"][domains[0]] - slow.marginals()[0]).max() < 1e-9
        assert worst(inference.run(), marginals_of(reference)) < 1e-8


# ---------------------------------------------------------------- rules, lists, ranges
@pytest.mark.parametrize("method", GROWING)
def test_rules_are_asked_for_slices_only(method):
    asked = []

    def rule(a, b):
        asked.append((a.size, b.size))
        return -0.3 * np.abs(a - b).astype(float)

    graph = abp.FactorGraph()
    graph.add_variables(2, 60)
    rng = np.random.default_rng(0)
    graph.add_factors([[0], [1]], log_table=rng.normal(0.0, 5.0, (2, 60)))
    graph.add_factor([0, 1], rule=rule)
    result = abp.infer(graph, method, callback=lambda s: s.domain_sizes.sum() >= 10, rng=0)
    assert result.domain_sizes.sum() == 10
    if method == "random":
        assert sum(a * b for a, b in asked) <= 25
    assert result.work == sum(result.work_parts.values()) > 0


@pytest.mark.usefixtures("any_arithmetic")
@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("shift", [0.0, 500.0, -500.0])
def test_rules_whose_scores_grow_beyond_the_first_ones(method, shift):
    scores = np.random.default_rng(1).normal(0.0, 30.0, (5, 6, 4)) + shift
    scores[0, 0, 0] = -400.0
    graph = one_factor((5, 6, 4), rule=lambda a, b, c: scores[a, b, c])
    marginals, log_z = exact(graph)
    for seed in range(3):
        result = abp.infer(graph, method, rng=seed, tolerance=1e-11)
        assert worst(result, marginals) < 1e-9
        assert result.log_z == pytest.approx(log_z, abs=1e-7)


def test_a_rule_that_is_too_wide_goes_on_in_logs():
    scores = np.zeros((4, 4))
    scores[3, 3], scores[0, 0] = 900.0, -900.0
    graph = one_factor((4, 4), rule=lambda a, b: scores[a, b])
    graph.add_factor([0], log_table=[3.0, 2.0, 1.0, 0.0])
    graph.add_factor([1], log_table=[3.0, 2.0, 1.0, 0.0])
    for method in GROWING:
        result = abp.infer(graph, method, rng=0)
        assert result.arithmetic == "log"
        assert worst(result, exact(graph)[0]) < 1e-9


# ---------------------------------------------------------------- policies
class Alphabetical:
    """States in their own order, variables in turn."""

    rescores = False

    def first_states(self, view):
        return np.array([view.allowed(i)[0] for i in range(len(view.variables))])

    def scores(self, view, variable):
        return -np.arange(view.variables[variable].n_states, dtype=float)


class Watching(Alphabetical):
    """The dynamic scores, asked for through the view."""

    rescores = True

    def first_states(self, view):
        return np.array([int(np.argmax(view.unary(i))) for i in range(len(view.variables))])

    def scores(self, view, variable):
        assert view.belief(variable).sum() == pytest.approx(1.0)
        assert len(view.domain(variable)) == len(view.belief(variable))
        return view.estimates(variable)


def test_a_policy_of_the_users():
    graph = grid(3, 4, 1.0, 0.5, seed=0)
    inference = abp.Inference(graph, policy=Alphabetical())
    reference = abp.infer(graph, "bp", tolerance=1e-11)
    for _ in inference:
        sizes = [len(d) for d in domains_of(inference._run.method)]
        assert max(sizes) - min(sizes) <= 1
        assert all(d == list(range(len(d))) for d in domains_of(inference._run.method))
    assert worst(inference.run(), marginals_of(reference)) < 1e-6


def test_a_policy_that_scores_anew_can_do_what_dynamic_does():
    graph = grid(3, 6, 3.0, 1.0, seed=0)
    mine, ours = (
        abp.Inference(graph, policy=Watching(), tolerance=1e-11),
        abp.Inference(graph, "dynamic", tolerance=1e-11),
    )
    for _ in range(40):
        next(mine)
        next(ours)
        assert domains_of(mine._run.method) == domains_of(ours._run.method)


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        ("scores", lambda v, i: np.full(4, np.nan), "none of them NaN"),
        ("scores", lambda v, i: np.zeros(3), "4 numbers for variable 'x0'"),
        ("first_states", lambda v: np.full(9, 4), "state 4 for variable 'x0'"),
        ("first_states", lambda v: np.zeros(9), "9 whole numbers, one per variable"),
    ],
)
def test_a_bad_policy_is_named(method, returned, message):
    policy = Alphabetical()
    setattr(policy, method, returned)
    with pytest.raises(abp.OptionError, match=message):
        abp.infer(grid(3, 4, 1.0, 0.5, seed=0), policy=policy)


def test_raw_priorities_depend_on_constants_and_normalised_ones_do_not():
    def graph(constant):
        made = grid(2, 5, 2.0, 0.5, seed=0)
        made.add_factor([0], log_table=np.full(5, constant))
        return made

    def order(constant, **options):
        inference = abp.Inference(graph(constant), "fixed", **options)
        grown = [inference._run.method and domains_of(inference._run.method) for _ in inference]
        return [[len(d) for d in domains] for domains in grown]

    assert order(0.0) == order(100.0)
    assert order(0.0, policy=abp.FixedGrowth(raw=True)) != order(100.0, policy=abp.FixedGrowth(raw=True))
    for policy in (abp.DynamicGrowth(raw=True), abp.FixedGrowth(raw=True), abp.RandomGrowth()):
        result = abp.infer(graph(1.0), policy=policy, rng=0)
        assert worst(result, marginals_of(abp.infer(graph(1.0), "bp"))) < 1e-6


def test_random_growth_is_uniform_over_pairs():
    graph = abp.FactorGraph()
    graph.add_variable("few", 2)
    graph.add_variable("many", 9)
    counts = 0
    for seed in range(400):
        inference = abp.Inference(graph, "random", rng=seed)
        next(inference)
        counts += int(next(inference).domain_sizes[0] == 2)
    assert 20 < counts < 75  # one pair in nine: 44 on average


# ---------------------------------------------------------------- budgets and recording
def test_what_to_record_is_a_value():
    graph = grid(3, 5, 2.0, 0.5, seed=0)
    n = 45
    assert len(abp.infer(graph, "fixed", record="round").trace) == n - 9 + 2  # the first domains, and the fresh start
    assert len(abp.infer(graph, "fixed", record="end").trace) == 1
    states = abp.infer(graph, "fixed", record=abp.Every(states=10)).trace.column("states")
    assert states.tolist() == [10.0, 20.0, 30.0, 40.0, 45.0]
    assert len(abp.infer(graph, "fixed", record=abp.Every(rounds=6)).trace) == 7
    assert len(abp.infer(graph, "fixed", record=abp.Every(seconds=100.0)).trace) == 2
    assert len(abp.infer(graph, "bp", record=abp.Every(rounds=2)).trace) < len(abp.infer(graph, "bp").trace)
    for wrong in (
        {},
        {"rounds": 0},
        {"states": 1.5},
        {"seconds": -1.0},
        {"rounds": 1, "states": 1},
        {"rounds": 1, "estimates": 2},
    ):
        with pytest.raises(abp.OptionError, match="Every"):
            abp.Every(**wrong)


@pytest.mark.parametrize("method", GROWING)
def test_a_budget_of_work(method):
    graph = grid(4, 10, 3.0, 0.5, seed=0)
    inference = abp.Inference(graph, method, rng=0)
    result = inference.run(max_work=3000)
    assert result.stop_reason is abp.StopReason.OUT_OF_WORK
    assert 3000 <= result.current.work < 9000
    assert inference.run().stop_reason is abp.StopReason.CONVERGED


@pytest.mark.parametrize("method", ["fixed", "dynamic"])
def test_a_target_is_a_bound_on_the_estimated_error(method):
    graph = grid(4, 20, 6.0, 0.5, seed=0)
    result = abp.infer(graph, method, target_error=1e-3, rng=0)
    assert result.stop_reason is abp.StopReason.TARGET_REACHED
    assert result.estimated_error <= 1e-3
    assert result.domain_sizes.sum() < 16 * 20
    assert result.distance(abp.infer(graph, "bp")) < 1e-2


def test_memory_that_runs_out_ends_the_growth_with_a_consistent_answer():
    graph = grid(4, 100, 3.0, 0.5, seed=0)
    result = abp.infer(graph, "dynamic", max_memory=1_500_000)
    assert result.stop_reason is abp.StopReason.OUT_OF_MEMORY
    assert result.consistent
    assert 16 < result.domain_sizes.sum() < 1600
    with pytest.raises(abp.MemoryLimitError, match="80 bytes per state"):
        abp.infer(graph, "dynamic", max_memory=1000)


def test_breaking_out_of_the_loop_and_going_on():
    graph = grid(3, 5, 2.0, 0.5, seed=0)
    inference = abp.Inference(graph, "dynamic")
    kept = []
    for snapshot in inference:
        kept.append((snapshot, snapshot.marginals["x0"].copy(), snapshot.domain_sizes.copy()))
        if len(kept) == 10:
            break
    result = inference.run()
    for snapshot, marginal, sizes in kept:  # valid for ever
        assert (snapshot.marginals["x0"] == marginal).all()
        assert (snapshot.domain_sizes == sizes).all()
        assert not snapshot.domain_sizes.flags.writeable
    assert result.domain_sizes.sum() == 45
    assert list(inference) == []


@pytest.mark.unix
def test_ctrl_c_inside_a_long_phase_answers_with_the_last_consistent_state():
    graph = grid(12, 30, 1.0, 0.5, seed=0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        inference = abp.Inference(graph, "dynamic", record="end", tolerance=1e-12)
        inference.run(seconds=0.2)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        result = inference.run(seconds=20)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stop_reason is abp.StopReason.INTERRUPTED
    assert result.consistent
    assert result.max_residual <= 1e-12
    assert result.current.domain_sizes.sum() >= result.domain_sizes.sum()


@pytest.mark.parametrize("method", SPARSE)
def test_a_budget_of_time_on_large_tables(method):
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(33, 1000)
    graph.add_factors(np.arange(33)[:, np.newaxis], log_table=rng.normal(0.0, 3.0, (33, 1000)))
    table = rng.normal(0.0, 0.5, (32, 1000, 1000))
    graph.add_factors(np.stack([np.arange(32), np.arange(1, 33)], axis=1), log_table=table)
    abp.infer(grid(2, 2, 1.0, 1.0, seed=0), method, rng=0)  # compiled, loaded
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        for budget in (0.002, 0.01):  # truncated needs 0.05 to the end
            graph.compiled = None
            started = perf_counter()
            result = abp.infer(graph, method, seconds=budget, rng=0)
            assert perf_counter() - started < budget + 0.5  # 0.02 on a quiet machine; see benchmarks
            assert result.stop_reason is abp.StopReason.OUT_OF_TIME
            assert all(m.sum() == pytest.approx(1.0) for m in marginals_of(result))
            assert result.consistent == (result.max_residual <= 1e-8)


# ---------------------------------------------------------------- rounds that do not settle
def frustrated(seed):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(6, 3)
    graph.add_factors(np.arange(6)[:, np.newaxis], log_table=rng.normal(0.0, 1.0, (6, 3)))
    pairs = [(a, b) for a in range(6) for b in range(a)]
    graph.add_factors(pairs, log_table=rng.normal(0.0, 5.0, (len(pairs), 3, 3)))
    return graph


def test_a_round_that_does_not_settle_is_cut_and_the_run_grows_on(monkeypatch):
    monkeypatch.setattr(round_limits, "FIRST", 3)
    monkeypatch.setattr(round_limits, "PER_FACTOR", 1)
    monkeypatch.setattr(round_limits, "LATER", 1)
    monkeypatch.setattr(round_limits, "LAST", 1)
    graph = frustrated(0)
    inference = abp.Inference(graph, "dynamic", tolerance=1e-12)
    with pytest.warns(abp.NotConvergedWarning):
        result = inference.run()
    assert result.stop_reason is abp.StopReason.NOT_CONVERGED
    assert result.current.domain_sizes.sum() == 18
    assert not result.current.consistent
    if result.consistent:  # an earlier state, whose messages the journal has brought back
        slow = restricted(graph, domains_of(inference._run.method))
        take_messages(slow, inference._run.method)
        assert slow.residual() <= 1.01e-12
        assert result.domain_sizes.sum() < 18


@pytest.mark.parametrize("method", GROWING)
def test_strong_coupling_ends_at_a_fixed_point_or_says_that_it_does_not(method):
    for seed in range(6):
        graph = frustrated(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", abp.NotConvergedWarning)
            inference = abp.Inference(graph, method, rng=0)
            result = inference.run()
        if result.stop_reason is abp.StopReason.CONVERGED:
            slow = restricted(graph, domains_of(inference._run.method))
            take_messages(slow, inference._run.method)
            assert slow.residual() <= 1.01e-8
        else:
            assert result.stop_reason is abp.StopReason.NOT_CONVERGED


# ---------------------------------------------------------------- results
def test_results_of_sparse_runs_travel_and_draw(tmp_path):
    graph = grid(3, 8, 3.0, 0.5, seed=0)
    reference = abp.infer(graph, "bp")
    errors = []
    result = abp.infer(
        graph,
        "dynamic",
        callback=lambda s: errors.append((s.seconds, s.distance(reference))) or s.domain_sizes.sum() > 40,
    )
    assert errors[-1][1] < errors[0][1]
    copy = pickle.loads(pickle.dumps(result))
    assert copy.unexplored_mass == result.unexplored_mass > 0.0
    assert (copy.marginals["x3"] == result.marginals["x3"]).all()
    abp.plot_run(result, errors).savefig(tmp_path / "run.png")
    abp.plot_run(reference).savefig(tmp_path / "bp.svg")
    assert (tmp_path / "run.png").stat().st_size > 10_000
    with pytest.raises(abp.OptionError, match="needs a Result"):
        abp.plot_run(graph)
    with pytest.raises(abp.OptionError, match="measure"):
        result.distance(reference, "l3")
    assert result.distance(reference, "tv") > 0.0
    assert "states in domains" in result._repr_html_()


def test_factor_marginals_on_sparse_domains():
    graph = one_factor((5, 4, 3), log_table=np.random.default_rng(0).normal(0.0, 2.0, (5, 4, 3)))
    result = abp.infer(graph, "truncated", fraction=0.6, factor_marginals=True)
    joint = result.factor_marginals[0]
    assert joint.sum() == pytest.approx(1.0)
    for axis in range(3):
        others = tuple(k for k in range(3) if k != axis)
        assert np.allclose(joint.sum(axis=others), result.marginals[axis])


# ---------------------------------------------------------------- once wrong
def test_damping_on_domains_that_admit_no_joint_state():
    no = -np.inf
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_factor([0, 1], log_table=np.array([[no, no, 0], [no, no, no], [0, 0, no]]))
    graph.add_factor([0, 1], log_table=np.array([[0, no, no], [no, no, 0], [0, no, no]]))
    for seed in range(6):
        result = abp.infer(graph, "random", damping=0.5, rng=seed)
        assert np.allclose(result.marginals[0], [0.0, 0.0, 1.0])


def dirty_heap():
    """Leave numbers behind in freed memory, for arrays that are read before they are written."""
    rubbish = [np.full(k, -7.5) for k in range(1, 3000)]
    del rubbish


@pytest.mark.parametrize("ruled", [False, True])
def test_the_current_state_of_a_run_stopped_while_a_state_joins(ruled):
    tables = np.random.default_rng(0).normal(size=(4, 9, 9))
    graph = abp.FactorGraph()
    graph.add_variables(4, 9)
    for k in range(4):
        scores = {"rule": lambda a, b, k=k: tables[k][a, b]} if ruled else {"log_table": tables[k]}
        graph.add_factor([k, (k + 1) % 4], **scores)
    dirty_heap()
    inference = abp.Inference(graph, "fixed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        while inference.stop_reason is None:
            current = inference.run(max_work=1).current
            for i in range(4):
                assert current.marginals[i].sum() == pytest.approx(1.0)
                assert (current.marginals[i] >= 0.0).all()


def test_answers_and_late_questions_where_the_scale_of_a_rule_changes():
    graph = abp.FactorGraph()
    graph.add_variables(2, 4)
    graph.add_factor([0, 1], rule=lambda a, b: 3.0 * a + 3.0 * b)
    for variable in (0, 1):
        graph.add_factor([variable], log_table=[0.0, -9.0, -18.0, -27.0])
    known = {s.updates: (s.log_z, s.unexplored_mass) for s in abp.Inference(graph, "dynamic")}
    for snapshot in list(abp.Inference(graph, "dynamic")):
        assert snapshot.unexplored_mass == pytest.approx(known[snapshot.updates][1], rel=1e-9)
    inference = abp.Inference(graph, "dynamic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        while inference.stop_reason is None:
            result = inference.run(max_work=1)
            if result.consistent:
                assert (result.log_z, result.unexplored_mass) == pytest.approx(known[result.updates], rel=1e-9)


def late_and_at_once(graph, method):
    at_once = [s.unexplored_mass for s in abp.Inference(graph, method)]
    return at_once, [s.unexplored_mass for s in list(abp.Inference(graph, method))]


def test_unexplored_mass_asked_for_later_is_the_same():
    rng = np.random.default_rng(0)
    hub = abp.FactorGraph()
    hub.add_variables(18, 3)
    hub.add_factors([[i] for i in range(18)], log_table=rng.normal(0, 2, (18, 3)))
    hub.add_factors([[0, i] for i in range(1, 18)], log_table=rng.normal(size=(17, 3, 3)))
    wide = abp.FactorGraph()
    wide.add_variables(3, 8)
    wide.add_factor([0], log_table=-1.0 * np.arange(8))
    for pair in ([0, 1], [1, 2]):
        wide.add_factor(pair, rule=lambda a, b: np.where((a == 7) & (b == 7), -900.0, -0.1 * abs(a - b)))
    for graph in (hub, wide):
        at_once, late = late_and_at_once(graph, "fixed")
        assert late == pytest.approx(at_once, rel=1e-9)


def test_an_exception_that_is_none_ends_a_run_for_good():
    calls = []

    def rule(a, b):
        calls.append(1)
        if len(calls) == 12:
            raise SystemExit
        return -1.0 * abs(a - b)

    graph = abp.FactorGraph()
    graph.add_variables(2, 9)
    graph.add_factor([0, 1], rule=rule)
    inference = abp.Inference(graph, "dynamic")
    with pytest.raises(SystemExit):
        inference.run()
    with pytest.raises(abp.AnytimeBPError, match="aborted by SystemExit"):
        inference.run()


def test_rules_are_not_asked_about_states_that_evidence_excludes():
    graph = abp.FactorGraph()
    graph.add_variable("a", 6)
    graph.add_variable("b", 6)
    graph.add_factor(["a", "b"], rule=lambda a, b: np.where(a == 0, np.nan, -1.0 * abs(a - b)))
    for method in abp.METHODS:
        result = abp.infer(graph, method, evidence={"a": {1, 2, 3, 4, 5}}, rng=0)
        assert result.unexplored_mass >= 0.0
        assert result.marginals["a"][0] == 0.0


def test_a_policy_that_builds_on_ours_is_asked():
    class Refusing(abp.DynamicGrowth):
        def scores(self, *_):
            raise RuntimeError

    class AlsoRefusing(abp.FixedGrowth):
        def scores(self, *_):
            raise RuntimeError

    for policy in (Refusing(), AlsoRefusing()):
        with pytest.raises(RuntimeError):
            abp.infer(grid(2, 3, 1.0, 1.0, seed=0), policy=policy)


def test_priorities_are_computed_once():
    class Hopeless:
        rescores = True

        def first_states(self, view):
            view.priorities(0)
            return np.zeros(4, dtype=np.uint64)

        def scores(self, view, variable):
            return np.full(view.variables[variable].n_states, -np.inf)

    result = abp.infer(grid(2, 3, 1.0, 1.0, seed=0), policy=Hopeless())
    assert result.work_parts["priorities"] == 4 * 9


def test_extreme_options():
    graph = grid(2, 3, 1.0, 1.0, seed=0)
    assert abp.infer(graph, grow=10**12, max_updates=10**30, max_work=float("inf")).consistent
    assert abp.infer(graph, record=abp.Every(rounds=np.int64(3))).consistent
    with pytest.raises(abp.OptionError, match="seconds"):
        abp.infer(graph, seconds=10**400)
    with pytest.raises(abp.OptionError, match="watch"):
        abp.Inference(graph).run(watch=3)
    hundred = abp.FactorGraph()
    hundred.add_variables(2, 100)
    hundred.add_factor([0, 1], log_table=np.zeros((100, 100)))
    assert abp.infer(hundred, "truncated", fraction=0.07).domain_sizes.tolist() == [7, 7]
    with pytest.raises(abp.MemoryLimitError, match="the first domains need"):
        abp.infer(hundred, "truncated", fraction=0.9, max_memory=50_000)


@pytest.mark.parametrize("method", ["random", "fixed", "dynamic"])
def test_a_run_to_the_end_is_not_led_astray_by_how_it_grew(method):
    graph = abp.FactorGraph()  # a strong ferromagnet: all alike, or, as BP from a fresh start says, undecided
    graph.add_variables(6, 3)
    pairs = list(itertools.combinations(range(6), 2))
    graph.add_factors(pairs, log_table=2.0 * np.eye(3))
    result = abp.infer(graph, method, rng=0)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.consistent
    assert worst(result, [np.full(3, 1 / 3)] * 6) < 1e-9


@pytest.mark.parametrize("method", ["fixed", "dynamic"])
def test_where_a_fresh_start_does_not_settle_the_answer_is_what_growth_has_led_to(method, monkeypatch):
    graph = grid(3, 4, 1.0, 0.5, seed=1)
    expected = abp.infer(graph, "bp")
    whole = abp.infer(graph, method, tolerance=1e-4)
    monkeypatch.setattr(round_limits, "FIRST", whole.updates - whole.trace[-2].updates - 1)  # too few for a fresh start
    monkeypatch.setattr(round_limits, "PER_FACTOR", 0)
    monkeypatch.setattr(round_limits, "STEPS", (0.0,))
    result = abp.infer(graph, method, tolerance=1e-4)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.consistent
    assert not result.current.consistent
    assert result.distance(expected) < 1e-3
    last = list(abp.Inference(graph, method, tolerance=1e-4))[-1]
    assert last.consistent
    assert last.distance(result) == 0.0
