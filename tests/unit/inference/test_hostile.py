"""Models and uses that once gave a wrong answer, or nearly did."""

import copy
import pickle
import signal
import threading
from itertools import combinations, islice

import numpy as np
import pytest

import anytimebp as abp
from oracle.enumeration import exact
from oracle.models import grid, one_factor, random_loopy, worst
from oracle.slow_bp import SlowBP

EQUAL = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
METHODS = ["bp", "residual"]


def equality_clique(n):
    graph = abp.FactorGraph()
    graph.add_variables(n, 2)
    graph.add_factors(np.array(list(combinations(range(n), 2))), log_table=EQUAL)
    graph.add_factor([0], log_table=[0.0, -0.1])
    graph.add_factor([1], log_table=[-0.09, 0.0])
    return graph


@pytest.mark.compiled
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [4, 6, 8])
def test_messages_that_grow_without_bound_settle_once_nothing_is_left_for_other_states(n, method):
    result = abp.infer(equality_clique(n), method)
    assert result.stop_reason is abp.StopReason.CONVERGED
    for marginal in result.marginals.values():
        assert marginal.max() == 1.0
        assert marginal.min() < 1e-30
    assert np.isfinite(result.log_z)


def test_messages_that_run_off_within_a_sweep_are_not_called_converged():
    with pytest.warns(abp.NotConvergedWarning):
        result = abp.infer(equality_clique(12), "bp")
    assert result.stop_reason is abp.StopReason.NOT_CONVERGED
    assert not result.consistent
    assert all(np.isfinite(m).all() for m in result.marginals.values())


@pytest.mark.compiled
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
def test_no_message_and_no_figure_is_ever_nan(method):
    for seed in range(150):
        inference = abp.Inference(random_loopy(seed, scale=1.0, zeros=0.4), method)
        for snapshot in islice(inference, 2000):  # some fall ever more slowly
            assert not np.isnan(snapshot.max_residual)
            assert not np.isnan(snapshot.mean_residual)
        assert not np.isnan(inference._run.method.workspace.arrays.message).any()


def test_infinite_residuals_are_not_nan():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factor([0, 1], log_table=[[0.3, 0], [0, 0.1]])
    graph.add_factor([1, 2], log_table=[[0.2, 0], [0, 0.5]])
    graph.add_factor([2, 0], log_table=[[0, 0], [-np.inf, -np.inf]])
    for snapshot in abp.Inference(graph, "residual"):
        assert not np.isnan(snapshot.max_residual)
    assert snapshot.consistent


def test_a_rule_cannot_change_the_domains():
    def rule(a, b):
        a += 1
        return -1.0 * (a - b) ** 2

    graph = abp.FactorGraph()
    graph.add_variables(2, 4)
    graph.add_factor([0, 1], rule=rule)
    with pytest.raises(abp.RuleError, match=r"factor 0 \(x0, x1\) raised ValueError.*read-only"):
        abp.infer(graph, "bp", evidence={0: {0, 2}})


@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
@pytest.mark.parametrize("method", ["bp", "residual"])
def test_a_run_that_turns_to_logs_goes_on_where_it_is_and_keeps_the_budget(method):
    n = 40
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(n, 3)
    graph.add_factors(np.arange(n)[:, np.newaxis], log_table=rng.normal(0, 30, (n, 3)))
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    graph.add_factors(ring, log_table=np.where(np.eye(3) > 0, 5.0, -np.inf))
    for budget in (20, 40, 60, 77):
        assert abp.infer(graph, method, max_updates=budget).updates == budget
    inference = abp.Inference(graph, method)
    while (before := inference.run(max_updates=1)).arithmetic == "linear":
        message = inference._run.method.workspace.arrays.message.copy()
    workspace = inference._run.method.workspace
    with np.errstate(divide="ignore"):
        was = np.log(message).reshape(-1, 3)
    moved = (was != workspace.arrays.message.reshape(-1, 3)).any(axis=1)
    assert before.updates > 1
    assert 0 < moved.sum() <= 2  # the messages of one update, and all others are those of before
    best = sum(graph.factor_log_table(k) for k in range(n)).argmax()
    result = inference.run(max_updates=100 * n)
    assert all(result.marginals[k][best] > 1.0 - 1e-9 for k in range(n))


@pytest.mark.parametrize("method", METHODS)
def test_log_z_is_as_good_with_damping(method, any_arithmetic):
    graph = grid(4, 4, 1.0, 0.6, seed=4)
    reference = abp.infer(graph, "bp", tolerance=1e-12).log_z
    for damping in (0.5, 0.9):
        result = abp.infer(graph, method, damping=damping, tolerance=1e-4)
        assert result.arithmetic == any_arithmetic
        assert result.log_z == pytest.approx(reference, abs=1e-6)


@pytest.mark.parametrize("way", ["log_table", "table", "rule"])
@pytest.mark.parametrize("method", METHODS)
def test_opposed_priors_across_hard_constraints(way, method):
    scores = {"log_table": EQUAL, "table": np.eye(2), "rule": lambda a, b: EQUAL[a, b]}[way]
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    for i, prior in enumerate([[0, -550.0], [0, -550.0], [-550.0, 0], [-550.0, 0.1]]):
        graph.add_factor([i], log_table=prior)
    for i in range(3):
        graph.add_factor([i, i + 1], **{way: scores})
    for _ in range(2):  # the second run uses tables that the first one left
        result = abp.infer(graph, method)
        assert result.arithmetic == "log"
        assert all(abs(m[1] - 1 / (1 + np.exp(-0.1))) < 1e-9 for m in result.marginals.values())


def test_a_prior_times_a_message_that_underflows():
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    graph.add_factor([0], log_table=[0, -550.0])
    graph.add_factor([0, 2], log_table=[[0, 0], [-550.0, -550.0]])
    graph.add_factor([1], log_table=[-550.0, 0])
    graph.add_factor([1, 3], log_table=[[-550.0, -550.0], [0.1, 0.1]])
    graph.add_factor([0, 1], log_table=EQUAL)
    assert abp.infer(graph, "bp").marginals[0][1] == pytest.approx(1 / (1 + np.exp(-0.1)), abs=1e-9)


def test_a_four_way_equality_of_opposed_priors():
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    for i, prior in enumerate([[0, -500.0], [0, -500.0], [-500.0, 0], [-500.0, 0.1]]):
        graph.add_factor([i], log_table=prior)
    graph.add_factor([0, 1, 2, 3], entries=([[0] * 4, [1] * 4], [0.0, 0.0]))
    result = abp.infer(graph, "bp")
    assert result.marginals[0][1] == pytest.approx(1 / (1 + np.exp(-0.1)), abs=1e-9)


def test_a_rule_that_turns_out_wide():
    table = np.array([[0, -900.0], [-900.0, 0]])
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2]], rule=lambda a, b: table[a, b])
    graph.add_factor([0], log_table=[0, -500.0])
    graph.add_factor([2], log_table=[-500.0, 0.1])
    result = abp.infer(graph, "bp")
    assert result.arithmetic == "log"
    assert result.marginals[1][1] == pytest.approx(1 / (1 + np.exp(-0.1)), abs=1e-9)


@pytest.mark.parametrize("state", [0, 1])
def test_a_hub_that_gets_zero_messages(state, any_arithmetic):
    rng = np.random.default_rng(2)
    graph = abp.FactorGraph()
    graph.add_variable("hub", 2)
    graph.add_variables(21, 2, names=[f"leaf{k}" for k in range(21)])
    for k in range(20):
        graph.add_factor(["hub", f"leaf{k}"], log_table=rng.normal(0, 0.5, (2, 2)))
    graph.add_factor(["hub", "leaf20"], log_table=EQUAL)
    graph.add_factor(["leaf20"], log_table=[0.0, -np.inf] if state == 0 else [-np.inf, 0.0])
    inference = abp.Inference(graph, "bp", factor_marginals=True)
    result = inference.run()
    assert any_arithmetic
    assert result.marginals["hub"][state] == 1.0
    slow = SlowBP(graph)
    assert slow.run()
    assert worst(result, slow.marginals()) < 1e-12
    weights = result.factor_marginals._log_weight
    layout, arrays = inference._run.method.workspace.layout, inference._run.method.workspace.arrays
    edge = int(np.flatnonzero((layout.edge_variable == 0) & (layout.edge_factor == 20))[0])
    ours = weights[arrays.edge_slot_start[edge] :][:2]
    expected = slow.to_factor(0, 20)
    assert ours[1] - ours[0] == pytest.approx(expected[1] - expected[0], abs=1e-9)


def test_a_hub_far_from_zero_keeps_its_digits():
    graph = abp.FactorGraph()
    graph.add_variable("hub", 2)
    graph.add_variables(100, 2, names=[f"leaf{k}" for k in range(100)])
    tables = np.full((100, 2, 2), 1e5)
    tables[:, 1] -= 3e4
    tables[50:, 0] -= 3e4
    tables[50:, 1] += 3e4
    tables[:, 1] += 1e-3
    for k in range(100):
        graph.add_factor(["hub", f"leaf{k}"], log_table=tables[k])
    expected = 1 / (1 + np.exp(-0.1))
    assert abp.infer(graph, "bp").marginals["hub"][1] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e4, 1e250])
def test_potentials_of_any_scale(scale):
    rng = np.random.default_rng(5)
    tables = rng.random((2, 3, 3)) * scale
    tables[0, 1, 1] = 0.0
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    graph.add_factor([0, 1], table=tables[0])
    graph.add_factor([1, 2], table=tables[1])
    marginals, log_z = exact(graph)
    result = abp.infer(graph, "bp")
    assert worst(result, marginals) < 1e-12
    assert result.log_z == pytest.approx(log_z, rel=1e-12)


@pytest.mark.parametrize("bad", [1e300, -1e300, 1e13])
def test_scores_beyond_all_sense_are_refused(bad):
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    for table in ([[0.0, bad], [0.0, 0.0]], [[0.0, bad], [-np.inf, 0.0]]):
        with pytest.raises(abp.ModelError, match="-inf for what is impossible"):
            graph.add_factor([0, 1], log_table=table)
    with pytest.raises(abp.ModelError, match="-inf for what is impossible"):
        graph.add_factor([0, 1], entries=([[0, 0]], [bad]))
    with pytest.raises(abp.EvidenceError, match="-inf for what is impossible"):
        abp.infer(graph, "bp", evidence={0: [bad, 0.0]})
    graph.add_factor([0, 1], rule=lambda a, b: bad + 0.0 * (a + b))
    with pytest.raises(abp.RuleError, match="-inf for what is impossible"):
        abp.infer(graph, "bp")


@pytest.mark.parametrize("evidence", [{}, {0: {0, 2}}, {1: {1, 3}, 2: 0}, {2: {0, 1}}])
def test_scores_in_any_memory_order(evidence):
    rng = np.random.default_rng(6)
    table = rng.normal(size=(3, 4, 5))
    backwards = np.ascontiguousarray(table.T)
    ways = [
        {"log_table": table},
        {"log_table": np.asfortranarray(table)},
        {"log_table": table[::-1, :, ::-1][::-1, :, ::-1]},
        {"rule": lambda a, b, c: backwards.T[a, b, c]},
        {"rule": lambda a, b, c: backwards[c.ravel()[:, None, None], b.ravel()[:, None], a.ravel()].T},
        {"table": np.exp(backwards).T},
    ]
    results = [abp.infer(one_factor(table.shape, **way), "bp", evidence=evidence) for way in ways]
    for other in results[1:]:
        assert worst(other, list(results[0].marginals.values())) < 1e-12
        assert other.log_z == pytest.approx(results[0].log_z, abs=1e-12)


@pytest.mark.parametrize("way", ["table", "rule"])
def test_the_largest_arity(way):
    shape = [1] * 28 + [2, 3]
    table = np.arange(1.0, 7.0).reshape(shape)
    scores = {"table": table, "rule": lambda *states: np.log(table)[states]}[way]
    for evidence in ({}, {"v28": 1}):
        result = abp.infer(one_factor(shape, **{way: scores}), "bp", evidence=evidence)
        expected = np.array([5, 7, 9]) / 21 if not evidence else np.array([4, 5, 6]) / 15
        assert np.allclose(result.marginals["v29"], expected)
    with pytest.raises(abp.ModelError, match="must have 1 to 30 variables"):
        one_factor([1] * 31, table=np.ones([1] * 31))


def test_masks_and_complex_numbers_are_refused():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    with pytest.raises(abp.ModelError, match="masked array"):
        graph.add_factor([0, 1], table=np.ma.masked_less(np.ones((2, 2)), 0.5))
    graph.add_factor([0, 1], rule=lambda a, b: (a + b) * 1j)
    with pytest.raises(abp.RuleError, match="real numbers"):
        abp.infer(graph, "bp")
    with pytest.raises(abp.EvidenceError, match="'x0'.*masked array"):
        abp.infer(graph, evidence={"x0": np.ma.masked_less([0.0, 1.0], 0.5)})


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.add_factors([[0, 1], [0]], log_table=np.zeros((2, 2))),
        lambda g: g.add_factor(np.array(1), log_table=np.zeros((2, 2))),
        lambda g: g.add_factor([0, 1], entries=([[0, 0]], [0.0]), default="x"),
        lambda g: g.add_variables(2, 2, names=5),
        lambda g: g.add_variable("a", 2**70),
        lambda g: g.add_variables(2**62, 2),
        lambda g: g.add_factor(["x" + "9" * 5000], log_table=[0.0, 0.0]),
        lambda g: abp.infer(g, np.array(["bp", "bp"])),
        lambda g: abp.Inference(g, "bp", evidence={0: "nonsense"}),
    ],
)
def test_odd_calls_get_named_errors(call):
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    with pytest.raises(abp.AnytimeBPError):
        call(graph)


def test_universes_too_large_to_list_are_refused_before_anything_is_allocated():
    graph = abp.FactorGraph()
    graph.add_variable("a", 10**11)
    with pytest.raises(abp.MemoryLimitError):
        abp.infer(graph, "bp")
    with pytest.raises(abp.MemoryLimitError):
        abp.infer(graph, "bp", max_memory=10**6)


@pytest.mark.parametrize("wrong", [1, "no", None, [0, 1]])
def test_factor_marginals_are_asked_for_by_true_or_false(wrong):
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    with pytest.raises(abp.OptionError, match="factor_marginals must be True or False"):
        abp.infer(graph, factor_marginals=wrong)
    assert list(abp.infer(graph, factor_marginals=np.True_).factor_marginals) == []


def test_copies_of_a_graph_grow_apart():
    graph = grid(3, 3, 1.0, 0.3, seed=0)
    before = abp.infer(graph, "bp")
    for twin in (copy.copy(graph), copy.deepcopy(graph)):
        twin.add_variable("more", 2)
        twin.add_factor(["more", "x0"], log_table=np.zeros((2, 3)))
        assert len(graph.variables) == 9
        assert graph.n_factors == 21
        assert abp.infer(twin, "bp").consistent
    assert worst(abp.infer(graph, "bp"), list(before.marginals.values())) == 0.0


def test_marginals_stay_read_only_when_unpickled():
    result = pickle.loads(pickle.dumps(abp.infer(grid(3, 3, 1.0, 0.3, seed=0), "bp")))
    with pytest.raises(ValueError, match="read-only"):
        result.marginals["x0"][0] = 1.0


def test_a_callers_error_state_does_not_matter():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0], log_table=[0.0, -2000.0])
    graph.add_factor([0, 1], log_table=[[0.0, -900.0], [-900.0, 0.0]])
    with np.errstate(all="raise"):
        assert abp.infer(graph, "bp").marginals[1].tolist() == [1.0, 0.0]


def test_one_inference_in_two_threads_is_a_named_error_and_does_no_harm():
    inside, go_on = threading.Event(), threading.Event()

    def rule(a, b):
        inside.set()
        assert go_on.wait(10)
        return 0.1 * a * b

    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], rule=rule)
    inference = abp.Inference(graph, "bp")
    results = []
    thread = threading.Thread(target=lambda: results.append(inference.run()))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(abp.OptionError, match="already running"):
        inference.run()
    go_on.set()
    thread.join()
    assert results[0].consistent


def test_ctrl_c_in_the_last_moment_is_told():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        graph = abp.FactorGraph()
        graph.add_variables(2, 2)
        graph.add_factor([0, 1], log_table=[[0.0, 1.0], [0.0, 0.0]])
        result = abp.infer(graph, "bp", callback=lambda _: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stop_reason is abp.StopReason.INTERRUPTED
    assert result.consistent


def test_an_aborted_run_says_so_when_it_is_asked_again():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        graph = abp.FactorGraph()
        graph.add_variables(2, 2)

        def rule(a, b):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            return a + b

        graph.add_factor([0, 1], rule=rule)
        inference = abp.Inference(graph, "bp")
        with pytest.raises(KeyboardInterrupt):
            inference.run()
        with pytest.raises(abp.AnytimeBPError, match="aborted"):
            inference.run()
    finally:
        signal.signal(signal.SIGINT, before)


def test_iterating_to_the_end_of_what_does_not_settle_warns():
    with pytest.warns(abp.NotConvergedWarning) as caught:
        for _ in abp.Inference(equality_clique(12), "bp"):
            pass
    assert len(caught) == 1
