"""The option `threads`: checked, and without effect on answers and processes."""

import os
import subprocess
import sys
import threading

import pytest

import anytimebp as abp
from oracle.models import grid, random_loopy
from unit.kernels.test_to_factor import wheel

MODELS = {
    "pairs": lambda: grid(4, 5, 1.0, 0.5, seed=1),
    "four axes": lambda: random_loopy(5, scale=0.2, max_arity=4, max_states=3),
    "a hub with hard zeros": lambda: wheel(20, seed=6, scale=0.2, zeros=0.2),
    "a wide range": lambda: random_loopy(2, scale=0.3, unary=700.0),
}


def bits(result):
    return [m.tobytes() for m in result.marginals.values()], result.log_z, result.updates, len(result.trace)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_any_number_of_threads_gives_the_same_bits(name, method):
    graph = MODELS[name]()
    runs = [bits(abp.infer(graph, method, rng=0, threads=threads)) for threads in (1, 2, 4)]
    assert runs[1:] == runs[:1] * 2


@pytest.mark.compiled
def test_large_tables_give_the_same_bits_and_start_no_thread():
    graph = grid(2, 1000, 1.0, 0.5, seed=1)
    before = threading.active_count()
    runs = []
    for threads in (1, 2, 4):
        graph.compiled = None  # tables are made again
        inference = abp.Inference(graph, "bp", threads=threads)
        for _ in inference:
            assert threading.active_count() == before
        runs.append(bits(inference.run()))
    assert runs[1:] == runs[:1] * 2


IN_A_FORKED_PROCESS = """
import os, signal, sys, warnings
import numpy as np, anytimebp as abp

warnings.simplefilter("ignore")
graph = abp.FactorGraph()
graph.add_variables(4, 1100)
scores = np.random.default_rng(0).normal(0.0, 0.1, (4, 1100, 1100))
graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], log_table=scores)
inference = abp.Inference(graph, "bp", threads=2, tolerance=1e-3)
while not inference.run(seconds=0.0).updates:
    pass
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


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_threads_must_be_a_whole_number_of_at_least_one(threads):
    with pytest.raises(abp.OptionError, match="threads must be a whole number of at least 1, got"):
        abp.infer(grid(2, 2, 1.0, 1.0, seed=0), "bp", threads=threads)


def test_without_parts_no_number_of_threads_changes_a_bit():
    answers = [abp.infer(grid(2, 2, 1.0, 1.0, seed=0), "bp", threads=threads) for threads in (1, None, 3)]
    assert len({result.marginals.concatenated().tobytes() for result in answers}) == 1
