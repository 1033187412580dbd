"""Several threads: the answers, sweeps and stops of one thread, and the same bits every time."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.inference import Inference
from anytimebp.kernels import sharing
from anytimebp.kernels.codes import LINEAR, LOG
from anytimebp.kernels.sharing import PARTS
from anytimebp.tables import crew
from anytimebp.tables import store as tables
from oracle.models import grid, random_loopy, worst
from oracle.slow_bp import SlowBP, load_messages
from unit.test_hubs import wheel


@pytest.fixture
def share_everything(monkeypatch):
    """Let threads share tables however small they are, and exponentiate a few entries at a time."""
    monkeypatch.setattr(crew, "SHARED_ENTRIES", 1)
    monkeypatch.setattr(crew, "SHARED_ROWS", 1)
    monkeypatch.setattr(crew, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(tables, "SLICE_ENTRIES_OF_CREW", 7)


def bits(result):
    return [m.tobytes() for m in result.marginals.values()], result.log_z, result.updates, len(result.trace)


MODELS = {
    "pairs": lambda: grid(4, 5, 1.0, 0.5, seed=1),
    "mixed arities": lambda: random_loopy(3, scale=0.3),
    "four axes": lambda: random_loopy(5, scale=0.2, max_arity=4, max_states=3),
    "hard zeros": lambda: random_loopy(8, scale=0.3, zeros=0.2),
    "a hub": lambda: wheel(20, seed=5, scale=0.3),
    "a hub with hard zeros": lambda: wheel(20, seed=6, scale=0.2, zeros=0.2),
    "a wide range": lambda: random_loopy(2, scale=0.3, unary=700.0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_answer(name, threads, any_arithmetic, share_everything):
    graph = MODELS[name]()
    alone = abp.infer(graph, "bp", rng=0)
    graph.compiled = None  # tables are made again
    together = abp.infer(graph, "bp", rng=0, threads=threads)
    assert alone.consistent
    assert together.consistent
    assert together.arithmetic == alone.arithmetic
    assert len(together.trace) == len(alone.trace)  # as many sweeps
    assert worst(together, list(alone.marginals.values())) < 1e-7
    assert together.log_z == pytest.approx(alone.log_z, abs=1e-6)


@pytest.mark.parametrize("options", [{"schedule": "random", "rng": 4}, {"damping": 0.3}, {"method": "residual"}])
def test_threads_go_with_other_options(options, share_everything):
    graph = grid(4, 5, 1.0, 0.5, seed=1)
    options = {"method": "bp", "rng": 0, **options}
    alone, together = (abp.infer(graph, threads=threads, **options) for threads in (1, 2))
    assert together.consistent
    assert worst(together, list(alone.marginals.values())) < 1e-7


def test_a_forest_is_still_exact(share_everything):
    graph = abp.FactorGraph()
    graph.add_variables(4, 5)
    graph.add_factors([[0, 1], [1, 2], [1, 3]], log_table=np.random.default_rng(0).normal(0, 1, (3, 5, 5)))
    alone, together = (abp.infer(graph, "bp", threads=threads) for threads in (1, 3))
    assert worst(together, list(alone.marginals.values())) < 1e-14


@pytest.mark.parametrize("name", ["pairs", "four axes", "a hub with hard zeros"])
def test_the_bits_do_not_depend_on_who_reads_which_part(name, any_arithmetic, share_everything):
    runs = [bits(abp.infer(MODELS[name](), "bp", rng=0, threads=threads)) for threads in (2, 2, 3, 8)]
    assert runs[1:] == runs[:1] * 3


def test_what_is_called_converged_is_a_fixed_point(share_everything):
    for seed in range(6):
        graph = random_loopy(seed, scale=1.0)
        inference = Inference(graph, "bp", tolerance=1e-6, threads=2)
        if inference.run().consistent and not graph.summary().is_forest:
            slow = SlowBP(graph)
            load_messages(slow, inference._run.method)
            assert slow.residual() <= 1e-6


def test_helpers_are_really_asked(share_everything, monkeypatch):
    helped = []
    submit = crew.ThreadPoolExecutor.submit
    monkeypatch.setattr(
        crew.ThreadPoolExecutor, "submit", lambda pool, *call: helped.append(call[0]) or submit(pool, *call)
    )
    result = abp.infer(grid(3, 4, 1.0, 0.5, seed=1), "bp", threads=2)
    assert result.consistent
    assert {crew.help_slice, tables.exponentiate_slice} == set(helped)


@pytest.mark.parametrize("rows", [3, 8, 77])
@pytest.mark.parametrize("arithmetic", [LINEAR, LOG])
def test_helpers_read_all_parts_of_what_nobody_else_claims(arithmetic, rows):
    rng = np.random.default_rng(rows)
    matrix, row_weight, column_weight, dots = rng.random((rows, 5)), rng.random(rows), rng.random(5), np.empty(rows)
    helpers = crew.Crew(3, 6)
    given = [arithmetic, matrix.ctypes.data, 5, rows, 5, *(a.ctypes.data for a in (row_weight, column_weight, dots))]
    helpers.mailbox[sharing.ARITHMETIC : sharing.DOTS + 1] = given
    sharing.publish(helpers.mailbox)
    with helpers:
        sharing.wait_until_done(helpers.mailbox)
    sums = helpers._partial.reshape(PARTS, 2, 6)[:, 0, :5]
    if arithmetic == LINEAR:
        assert np.allclose(dots, matrix @ column_weight, rtol=1e-14)
        assert np.allclose(sums.sum(axis=0), row_weight @ matrix, rtol=1e-14)
    else:
        assert np.allclose(np.exp(dots), np.exp(matrix + column_weight).sum(axis=1), rtol=1e-14)
        assert np.allclose(np.exp(sums).sum(axis=0), np.exp(row_weight + matrix.T).sum(axis=1), rtol=1e-14)


def test_small_models_are_left_to_one_thread():
    graph = grid(3, 4, 1.0, 0.5, seed=1)
    before = threading.active_count()
    assert bits(abp.infer(graph, "bp", threads=4)) == bits(abp.infer(graph, "bp"))
    assert threading.active_count() <= before


def test_the_size_of_a_crew_follows_from_the_tables():
    def size(states, threads, side=2):
        layout = abp.Inference(grid(side, 2, 1.0, 1.0, seed=0), "bp")
        next(layout)
        arrays = layout._run.method.workspace.layout
        return crew.crew_for(arrays, np.full(side * side, states), threads).size

    assert size(1000, 1) == 1
    assert size(1000, 2) == 2
    assert size(1000, 100) == PARTS
    assert size(300, 100) == 1  # four tables of 90,000 entries
    assert size(400, 100) == 2
    assert size(100, 2, side=20) == 1  # many entries, but in small tables


@pytest.mark.parametrize("limit", [1, 7, 13])
def test_budgets_of_updates_are_honoured(limit, share_everything):
    inference = Inference(grid(3, 4, 1.0, 0.5, seed=1), "bp", threads=2)
    result = inference.run(max_updates=limit)
    assert result.updates == limit
    assert result.stop_reason is abp.StopReason.OUT_OF_UPDATES
    assert inference.run().consistent


@pytest.mark.compiled
def test_budgets_of_seconds_and_work_are_honoured():
    graph = grid(4, 600, 1.0, 1.0, seed=3)
    result = abp.infer(graph, "bp", threads=2, seconds=0.03, tolerance=1e-300)
    assert result.stop_reason is abp.StopReason.OUT_OF_TIME
    assert 0.03 <= result.seconds < 0.5
    result = abp.infer(graph, "bp", threads=2, max_work=10**7, tolerance=1e-300)
    assert result.stop_reason is abp.StopReason.OUT_OF_WORK
    assert 10**7 <= sum(result.work_parts.values()) < 10**7 + 600**2


def test_a_model_that_vanishes_is_named_as_by_one_thread(share_everything):
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    same, other = np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    graph.add_factor([0, 1], log_table=same)
    graph.add_factor([1, 2], log_table=same)
    graph.add_factor([0, 2], log_table=other)
    graph.add_factor([0], log_table=[0.0, -np.inf])
    messages = []
    for threads in (1, 2):
        with pytest.raises(abp.InconsistentModelError) as caught:
            abp.infer(graph, "bp", threads=threads)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_run_out_of_range_goes_on_in_logs(share_everything):
    graph = random_loopy(8, scale=300.0, unary=300.0, zeros=0.3)
    alone, together = (abp.infer(graph, "bp", threads=threads, max_updates=500) for threads in (1, 2))
    assert alone.arithmetic == together.arithmetic == "log"
    assert worst(together, list(alone.marginals.values())) < 1e-7


def test_helpers_leave_when_the_leader_does():
    helper = crew.Crew(2, 4)
    with pytest.raises(KeyboardInterrupt), helper:
        raise KeyboardInterrupt
    done = helper._pool.submit(int)  # runs once the helper has left
    assert done.result(timeout=30) == 0


def test_idle_threads_end_with_their_run(share_everything):
    before = threading.active_count()
    abp.infer(grid(3, 4, 1.0, 0.5, seed=1), "bp", threads=3)
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_errors_of_a_helper_are_not_swallowed_when_tables_are_made():
    def fail(number):
        if number:
            message = "of a helper"
            raise ValueError(message)

    with pytest.raises(ValueError, match="of a helper"):
        crew.Crew(2, 1).do(fail, [(0,), (1,)])


IN_A_FORKED_PROCESS = """
import os, signal, sys, warnings
import numpy as np, anytimebp as abp
from anytimebp.tables import crew

warnings.simplefilter("ignore")
crew.SHARED_ENTRIES = crew.SHARED_ROWS = crew.ENTRIES_PER_THREAD = 1
graph = abp.FactorGraph()
graph.add_variables(4, 1100)
scores = np.random.default_rng(0).normal(0.0, 0.1, (4, 1100, 1100))
graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], log_table=scores)
inference = abp.Inference(graph, "bp", threads=2, tolerance=1e-3)
while not inference._run.method or not inference._run.method.workspace.crew._pool._threads:
    inference.run(seconds=0.0)
sys.stdout.flush()
child = os.fork()
if not child:
    signal.alarm(10)  # ends what would hang
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0
result = inference.run()
print(f"{result.stop_reason.name} {result.log_z.hex()}")
sys.exit(code)
"""


@pytest.mark.compiled
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_paused_run_goes_on_in_a_forked_process():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FORKED_PROCESS], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    here, there = done.stdout.splitlines()
    assert here == there
    assert here.startswith("CONVERGED")


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", None])
def test_threads_must_be_a_whole_number_of_at_least_one(threads):
    with pytest.raises(abp.OptionError, match="threads must be a whole number of at least 1, got"):
        abp.infer(grid(2, 2, 1.0, 1.0, seed=0), "bp", threads=threads)
