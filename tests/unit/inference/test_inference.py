"""Running: budgets, snapshots, resuming, interrupts, damping, threads, repeatability."""

import contextlib
import gc
import pickle
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.kernels import growth, messages, residual
from oracle.models import grid, random_loopy, spin_glass
from oracle.slow_bp import SlowBP, load_messages

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
METHODS = ["bp", "residual"]


def bits(result):
    return b"".join(m.tobytes() for m in result.marginals.values()) + np.float64(result.log_z).tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_iterating_equals_running(method):
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    snapshots = list(abp.Inference(graph, method))
    result = abp.infer(graph, method)
    assert bits(snapshots[-1]) == bits(result)
    assert snapshots[-1].consistent
    assert not snapshots[0].consistent
    assert snapshots[-1].updates == result.updates
    assert len(result.trace) == len(snapshots)
    assert (np.diff([s.work for s in snapshots]) > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_stop_and_resume_equals_an_uninterrupted_run(method):
    graph = grid(4, 5, 1.0, 0.7, seed=3)
    whole = abp.infer(graph, method, schedule="random", rng=5)
    inference = abp.Inference(graph, method, schedule="random", rng=5)
    reasons = []
    for n in [1, 7, 0, 30, 13]:
        result = inference.run(max_updates=n)
        reasons.append(result.stop_reason)
        assert not result.consistent
    next(inference)
    result = inference.run()
    assert set(reasons) == {abp.StopReason.OUT_OF_UPDATES}
    assert bits(result) == bits(whole)
    assert result.updates == whole.updates
    assert inference.run().stop_reason is abp.StopReason.CONVERGED
    assert bits(inference.run()) == bits(whole)
    assert list(inference) == []


def test_max_updates_is_exact():
    graph = grid(4, 5, 1.0, 0.7, seed=3)
    for method in METHODS:
        for n in (0, 1, 10, 50):
            assert abp.infer(graph, method, max_updates=n).updates == n


def test_snapshots_never_change():
    inference = abp.Inference(grid(4, 5, 1.0, 0.7, seed=4), "bp", factor_marginals=True)
    first = next(inference)
    before, factor_before = bits(first), first.factor_marginals[20].copy()
    for _ in inference:
        pass
    assert bits(first) == before
    assert (first.factor_marginals[20] == factor_before).all()
    with pytest.raises(ValueError, match="read-only"):
        first.marginals["x0"][0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        first.domain_sizes[0] = 1


@pytest.mark.parametrize("method", METHODS)
def test_no_time_gives_the_unary_scores_and_says_so(method):
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    result = abp.infer(graph, method, seconds=0)
    assert result.stop_reason is abp.StopReason.OUT_OF_TIME
    assert not result.consistent
    assert np.isnan(result.log_z)
    unary = np.exp(graph.factor_log_table(0))
    assert np.allclose(result.marginals["x0"], unary / unary.sum())


@pytest.mark.compiled
def test_a_time_budget_is_met_between_slices():
    graph = grid(30, 60, 1.0, 2.0, seed=2)
    abp.infer(graph, "bp", max_updates=1)
    result = abp.infer(graph, "bp", seconds=0.03, tolerance=1e-14)
    assert result.stop_reason is abp.StopReason.OUT_OF_TIME
    assert 0.03 <= result.seconds < 0.5  # far looser than the promise: the machine may be busy


def test_the_clock_stands_still_while_the_caller_thinks():
    inference = abp.Inference(grid(4, 5, 1.0, 0.7, seed=2), "bp")
    first = next(inference)
    threading.Event().wait(0.2)
    second = next(inference)
    assert second.seconds - first.seconds < 0.15


def test_a_callback_sees_snapshots_and_can_stop():
    seen = []

    def callback(snapshot):
        seen.append(snapshot)
        return len(seen) == 3

    result = abp.infer(grid(4, 5, 1.0, 0.7, seed=2), "bp", callback=callback)
    assert result.stop_reason is abp.StopReason.CALLBACK
    assert len(seen) == len(result.trace) == 3
    assert np.isfinite(result.trace.column("log_z")).all()
    assert bits(seen[-1]) == bits(result)


@pytest.mark.usefixtures("plain_ctrl_c")
def test_ctrl_c_gives_what_there_is_and_leaves_no_handler():
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    before = signal.getsignal(signal.SIGINT)
    result = abp.infer(graph, "bp", callback=lambda _: signal.raise_signal(signal.SIGINT))
    assert result.stop_reason is abp.StopReason.INTERRUPTED
    assert not result.consistent
    assert result.updates > 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("plain_ctrl_c")
def test_a_second_ctrl_c_aborts():
    def callback(_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        abp.infer(grid(4, 5, 1.0, 0.7, seed=2), "bp", callback=callback)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_bits(method):
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    one = abp.infer(graph, method, schedule="random", rng=7)
    assert bits(one) == bits(abp.infer(graph, method, schedule="random", rng=np.random.default_rng(7)))
    if method == "bp":
        assert bits(one) != bits(abp.infer(graph, method, schedule="random", rng=8))


def test_runs_in_threads_do_not_disturb_each_other():
    graphs = [random_loopy(seed, n_variables=8, n_factors=14) for seed in range(12)]
    expected = [bits(abp.infer(g, "bp")) for g in graphs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(lambda g: bits(abp.infer(g, "bp")), graphs)) == expected
            assert set(pool.map(lambda _: bits(abp.infer(graphs[0], "bp")), range(8))) == {expected[0]}


def test_results_pickle():
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    result = abp.infer(graph, "bp", factor_marginals=True, evidence={"x3": {1, 2}})
    twin = pickle.loads(pickle.dumps(result))
    assert bits(twin) == bits(result)
    assert twin.stop_reason is result.stop_reason
    assert str(twin.trace[-1]) == str(result.trace[-1])  # NaN is not itself
    assert (twin.factor_marginals[17] == result.factor_marginals[17]).all()
    snapshot = pickle.loads(pickle.dumps(next(abp.Inference(graph, "bp"))))
    assert snapshot.marginals["x0"].sum() == pytest.approx(1.0)


@pytest.mark.compiled  # hundreds of sweeps
@pytest.mark.parametrize("method", METHODS)
def test_oscillation_is_damped_and_the_undamped_residual_decides(method):
    graph = spin_glass(seed=3, coupling=0.5)
    inference = abp.Inference(graph, method)
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.damping == 0.5
    slow = SlowBP(graph)
    load_messages(slow, inference._run.method)
    assert slow.residual() <= 1e-8


@pytest.mark.compiled
@pytest.mark.parametrize("method", METHODS)
def test_what_does_not_settle_says_so_once(method):
    graph = spin_glass(seed=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = abp.infer(graph, method)
    assert result.stop_reason is abp.StopReason.NOT_CONVERGED
    assert result.damping > 0
    assert not result.consistent
    assert result.max_residual > 1e-8
    assert [w.category for w in caught] == [abp.NotConvergedWarning]
    assert caught[0].filename == __file__
    assert all(np.isfinite(m).all() for m in result.marginals.values())


def test_a_model_out_of_linear_range_goes_on_in_logs():
    n = 60
    rng = np.random.default_rng(0)
    equal = np.where(np.eye(3) > 0, 0.0, -np.inf)
    graph = abp.FactorGraph()
    graph.add_variables(n, 3)
    unary = rng.normal(0, 30, (n, 3))
    graph.add_factors(np.arange(n)[:, np.newaxis], log_table=unary)
    graph.add_factors(np.stack([np.arange(n - 1), np.arange(1, n)], axis=1), log_table=equal)
    result = abp.infer(graph, "bp")
    total = unary.sum(axis=0)
    expected = np.exp(total - total.max())
    assert result.arithmetic == "log"
    assert np.abs(result.marginals["x5"] - expected / expected.sum()).max() < 1e-9
    assert result.log_z == pytest.approx(total.max() + np.log(expected.sum()), rel=1e-12)


def test_opposed_certainties_do_not_cancel_to_nothing():
    graph = abp.FactorGraph()
    graph.add_variables(5, 2)
    for k in range(1, 5):
        side = -550.0 if k % 2 else 0.0
        table = np.array([[side, side], [-550.0 - side, -550.0 - side]]) + np.array([[0.0, 0.1], [0.2, 0.0]])
        graph.add_factor([0, k], log_table=table)
    for method in METHODS:
        result = abp.infer(graph, method)
        weight = np.logaddexp(0.0, 0.1) - np.logaddexp(0.2, 0.0)
        expected = 1.0 / (1.0 + np.exp(-4 * weight))
        assert result.marginals["x0"][0] == pytest.approx(expected, abs=1e-12)


def test_work_counts_entries():
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    result = abp.infer(graph, "bp", max_updates=24)  # a sweep
    assert result.work == result.work_parts["messages"] == 25 * 24
    result = abp.infer(graph, "bp")
    assert result.work == result.work_parts["messages"] <= 25 * result.updates  # nothing is read to send the same again
    assert result.work % 25 == 0
    observed = abp.infer(graph, "bp", evidence={f"x{k}": 0 for k in range(16)})
    assert observed.work == observed.updates
    assert observed.domain_sizes.tolist() == [1] * 16
    ruled = abp.FactorGraph()
    ruled.add_variables(2, 5)
    ruled.add_factor([0, 1], rule=lambda a, b: -1.0 * (a - b) ** 2)
    assert abp.infer(ruled, "bp").work_parts == {"messages": 25, "scoring": 0, "growth": 25, "priorities": 0}


def test_the_end_alone_can_be_recorded():
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    result = abp.infer(graph, "bp", record="end")
    assert len(result.trace) == 1
    assert result.trace[0].updates == result.updates
    assert bits(result) == bits(abp.infer(graph, "bp"))


def test_progress_writes_a_line_to_standard_error(capsys):
    abp.infer(grid(4, 5, 1.0, 0.7, seed=2), "bp", progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "residual" in err
    assert err.count("\n") == 1
    assert err.endswith("\n")


@pytest.mark.compiled
def test_whole_numbers_as_options_do_not_compile_again():
    graph = grid(3, 3, 1.0, 0.3, seed=0)
    kernels = {
        "bp": messages.sweep_slice,
        "residual": residual.residual_slice,
        "fixed": growth.growth_slice,
        "dynamic": growth.growth_slice,
    }
    for method, kernel in kernels.items():
        abp.infer(graph, method)
        before = len(kernel.overloads)
        for options in ({"damping": 0}, {"tolerance": 1}, {"max_updates": np.int32(5)}, {"seconds": 1}):
            abp.infer(graph, method, **options)
        abp.infer(graph, method, evidence={"x1": {0, 2}}, damping=np.float32(0.5), grow=np.int32(2))
        assert len(kernel.overloads) == before


def test_a_failed_run_keeps_failing():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], rule=lambda a, b: a / b * 0.0)
    inference = abp.Inference(graph, "bp")
    for _ in range(2):
        with np.errstate(all="ignore"), pytest.raises(abp.RuleError):
            inference.run()
        with np.errstate(all="ignore"), pytest.raises(abp.RuleError):
            next(inference)


def test_a_memory_error_leaves_the_inference_usable():
    graph = grid(4, 5, 1.0, 0.7, seed=2)
    inference = abp.Inference(graph, "bp", max_memory=10)
    with pytest.raises(abp.MemoryLimitError):
        inference.run()
    with pytest.raises(abp.MemoryLimitError):
        next(inference)


@pytest.mark.compiled
@pytest.mark.parametrize("scores", [(1.0, 1.0), (10.0, 1.0)], ids=["full tables", "rounds, then full tables"])
@pytest.mark.parametrize("limits", [{}, {"max_updates": 150}, {"max_memory": 2_000_000}], ids=str)
@pytest.mark.parametrize("method", abp.METHODS)
def test_a_run_leaves_nothing_to_the_garbage_collector(method, limits, scores):
    """Tables of tens of megabytes would stay until it comes, and fresh memory costs more than the run."""
    graph = grid(4, 20 if method == "exact" else 150, *scores, seed=1)  # cliques of five variables
    limits = {**limits, "max_updates": 1000} if method in {"random", "fixed", "dynamic"} else limits

    def run():
        with contextlib.suppress(abp.MemoryLimitError):
            abp.infer(graph, method, rng=0, **limits)

    run()  # loads kernels, which may leave something behind
    gc.disable()
    gc.freeze()  # what is there already, millions of objects of the compiler's among it, is not gone through
    try:
        run()
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()
