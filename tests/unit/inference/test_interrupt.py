"""Ctrl-C: in one call, in a loop of calls, and while kernels are loaded or compiled."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import anytimebp as abp
from anytimebp.inference import budget, warm_up
from anytimebp.inference.adaptive import adaptive_run
from anytimebp.inference.method import LEAVES
from anytimebp.kernels.held_signals import LoadingStoppedError, hold_signals, let_signals_in
from oracle.models import grid, random_tree

pytestmark = [
    pytest.mark.usefixtures("plain_ctrl_c"),
    pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning"),
]


def press(*_):
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def graph():
    return grid(3, 3, 1.0, 0.7, seed=2)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test moves it."""
    now = [1000.0]
    monkeypatch.setattr(budget, "monotonic", lambda: now[0])
    return now


# ---------------------------------------------------------------- a loop of calls
def test_pressed_twice_soon_it_ends_a_loop_of_calls(graph, clock):
    results = []

    def loop():
        for _ in range(5):
            results.append(abp.infer(graph, "bp", callback=press))
            clock[0] += 1.9

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert [result.stop_reason for result in results] == [abp.StopReason.INTERRUPTED]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_pressed_twice_with_time_between_it_ends_two_calls(graph, clock):
    for _ in range(2):
        assert abp.infer(graph, "bp", callback=press).stop_reason is abp.StopReason.INTERRUPTED
        clock[0] += 2.1


def test_the_time_counts_from_the_end_of_the_call(graph, clock):
    def slow(_):
        press()
        clock[0] += 10.0  # a rule, say, that takes its time

    abp.infer(graph, "bp", callback=slow)
    with pytest.raises(KeyboardInterrupt):
        abp.infer(graph, "bp", callback=press)


@pytest.mark.usefixtures("clock")
def test_what_has_raised_once_is_settled(graph):
    """In a loop over snapshots Ctrl-C raises, so the next one is a first one."""
    inference = abp.Inference(graph, "bp")
    next(inference)
    step = inference._run._steps
    inference._run._steps = (press() or one for one in step)
    with pytest.raises(KeyboardInterrupt):
        next(inference)
    assert abp.infer(graph, "bp", callback=press).stop_reason is abp.StopReason.INTERRUPTED


def test_a_callback_that_stops_does_not_hide_ctrl_c(graph):
    result = abp.infer(graph, "bp", callback=lambda _: press() or True)
    assert result.stop_reason is abp.StopReason.INTERRUPTED


# ---------------------------------------------------------------- signals that wait
def test_handlers_run_between_kernels_and_not_within():
    with hold_signals():
        press()
        with hold_signals():
            press()
        with pytest.raises(KeyboardInterrupt):
            let_signals_in()
        with pytest.raises(KeyboardInterrupt):
            let_signals_in()
        let_signals_in()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_comes_last_is_not_lost():
    def load():
        with hold_signals():
            press()

    with pytest.raises(KeyboardInterrupt):
        load()
    let_signals_in()


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="not a signal of this system")
def test_handlers_of_other_signals_wait_too():
    seen = []
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    try:
        with hold_signals():
            signal.raise_signal(signal.SIGALRM)
            assert not seen
            let_signals_in()
            assert seen == [signal.SIGALRM]
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 2


def test_a_handler_that_was_put_in_place_meanwhile_stays():
    with hold_signals():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_load_as_ever():
    def load():
        with hold_signals(lambda: True):
            let_signals_in()
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(load).result() is signal.default_int_handler
        with hold_signals():
            press()
            pool.submit(let_signals_in).result()
            with pytest.raises(KeyboardInterrupt):
                let_signals_in()


# ---------------------------------------------------------------- loading
@pytest.fixture
def loading(monkeypatch):
    """Have kernels loaded anew, of which one is interrupted; gives the steps that were made."""
    monkeypatch.setattr(warm_up, "_unfinished", set())
    run_small_models, steps = warm_up.run_small_models, []

    def interrupted(method, options):
        for step in run_small_models(method, options):
            if len(steps) == 1:
                press()
            steps.append(method)  # still reached: nothing is raised within a kernel
            yield step

    def begin(method):
        options = abp.Inference(abp.FactorGraph())._options
        warm_up._unfinished.add(warm_up._first_kernels(method, options))
        monkeypatch.setattr(warm_up, "_loaded_meanwhile", set())
        monkeypatch.setattr(warm_up, "run_small_models", interrupted)
        return steps

    return begin


def test_ctrl_c_while_kernels_are_loaded_raises_and_the_next_call_loads_the_rest(graph, loading):
    expected = abp.infer(graph, "bp").log_z
    steps = loading("bp")
    with pytest.raises(KeyboardInterrupt):
        abp.infer(graph, "bp")
    assert len(steps) == 2
    assert abp.infer(graph, "bp").log_z == expected
    assert len(steps) > 3
    loaded = len(steps)
    abp.infer(graph, "bp")
    assert len(steps) == loaded


@pytest.mark.usefixtures("clock")
def test_the_second_ctrl_c_may_come_while_the_next_call_loads(graph, loading):
    abp.infer(graph, "bp", callback=press)
    loading("bp")
    with pytest.raises(KeyboardInterrupt):
        abp.infer(graph, "bp")


def test_threads_load_undisturbed_by_ctrl_c(graph, loading):
    loading("bp")
    warm_up._unfinished.clear()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(abp.infer, graph, "bp").result().consistent


def test_ctrl_c_while_the_kernels_of_leaves_are_loaded_ends_the_call_and_the_run_goes_on(loading):
    forest = random_tree(0)
    expected = abp.infer(forest, "bp")
    steps = loading(LEAVES)
    inference = abp.Inference(forest, "bp")
    assert inference.run().stop_reason is abp.StopReason.INTERRUPTED
    assert steps == [LEAVES] * 2
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.log_z == expected.log_z
    assert len(steps) > 3


@pytest.mark.parametrize("how", ["run", "iterate"])
def test_ctrl_c_while_the_kernels_of_rounds_are_loaded_ends_the_call_and_the_run_goes_on(
    monkeypatch, graph, loading, how
):
    monkeypatch.setattr(adaptive_run, "SMALL", 0)
    monkeypatch.setattr(adaptive_run, "may_pay", lambda *_: True)
    expected = abp.infer(graph, "adaptive")
    steps = loading(adaptive_run.ROUNDS)
    inference = abp.Inference(graph, "adaptive")
    if how == "run":
        result = inference.run()
        assert result.stop_reason is abp.StopReason.INTERRUPTED
        assert not result.consistent
    else:
        with pytest.raises(KeyboardInterrupt):
            list(inference)
    assert steps == [adaptive_run.ROUNDS] * 2
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.log_z == expected.log_z
    assert dict(result.work_parts) == dict(expected.work_parts)
    assert len(steps) > 3


def test_runs_that_make_no_rounds_do_not_load_their_kernels(graph, loading):
    steps = loading(adaptive_run.ROUNDS)
    assert abp.infer(graph, "adaptive").consistent
    assert steps == []


def test_loading_that_is_stopped_says_so():
    with pytest.raises(LoadingStoppedError), hold_signals(lambda: True):
        let_signals_in()
    let_signals_in()


IN_A_CALLBACK_OF_LLVM = """
import os, signal, threading
import numpy as np, anytimebp as abp
from numba import njit
from numba.core.codegen import JITCodeLibrary

signal.signal(signal.SIGINT, signal.default_int_handler)
calls = []

def watched(name):
    inner = getattr(JITCodeLibrary, name).__func__
    def hook(cls, *arguments):
        calls.append(name)
        if len(calls) == wanted:
            os.kill(os.getpid(), signal.SIGINT)
        return inner(cls, *arguments)
    setattr(JITCodeLibrary, name, classmethod(hook))

watched("_object_getbuffer_hook")
watched("_object_compiled_hook")
graph = abp.FactorGraph()
graph.add_variables(3, 3)
graph.add_factors([[0, 1], [1, 2]], log_table=np.eye(3))
{factor}
for wanted in ({wanted}):
    calls.clear()
    try:
        result = abp.infer(graph, "bp")
        print("lost", len(calls))
    except KeyboardInterrupt:
        print("raised")
wanted = 0
print(abp.infer(graph, "bp").stop_reason.name)
"""
FACTORS = {
    "tables": "graph.add_factor([2, 0], log_table=np.eye(3))",
    "a structure": "graph.add_factor([2, 0], structure=abp.Equality())",
    "a compiled rule": "graph.add_factor([2, 0], rule=njit(lambda a, b: 1.0 if a == b else 0.0))",
}


@pytest.mark.compiled
@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.unix
def test_ctrl_c_within_a_callback_of_llvm_is_not_lost(name):
    code = IN_A_CALLBACK_OF_LLVM.format(factor=FACTORS[name], wanted="1, 1, 2")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.stderr == ""
    assert done.stdout.split() == ["raised", "raised", "raised", "CONVERGED"]
