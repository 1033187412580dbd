"""What is compiled before a run's clock starts."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anytimebp as abp
import anytimebp.kernels
from anytimebp.inference.adaptive.adaptive_run import ROUNDS
from anytimebp.inference.warm_up import load_kernels
from oracle.models import grid
from unit.inference.adaptive.test_choice import joint_extraction

pytestmark = pytest.mark.compiled


def signatures():
    """Return how many versions of each kernel there are."""
    found = {}
    for module in pkgutil.iter_modules(anytimebp.kernels.__path__):
        for name, value in vars(importlib.import_module(f"anytimebp.kernels.{module.name}")).items():
            if hasattr(value, "overloads"):
                found[module.name, name] = len(value.overloads)
    return found


def test_a_run_of_adaptive_compiles_nothing_after_its_clock_has_started():
    abp.infer(grid(2, 2, 1.0, 0.5, seed=0), evidence={"x0": 1})  # what evidence needs is loaded before the clock starts
    load_kernels(abp.Inference(grid(2, 2, 1.0, 0.5, seed=0))._options, kernels=ROUNDS)  # the clock stands still then
    assert "anytimebp.kernels.rounds" in sys.modules
    before = signatures()
    grids = (grid(4, 300, 10.0, 1.0, seed=0), grid(5, 50, 6.0, 2.0, seed=0), grid(5, 60, 1.0, 0.5, seed=0))
    for graph in (*grids, joint_extraction(12, 30, 40, 6.0)):
        ways = {moment.choice.split(":")[0] for moment in abp.infer(graph).trace}
        assert ways
        abp.infer(graph, target_error=1e-3)
        abp.infer(graph, evidence={"x0": 1, "x1": np.zeros(graph.variables[1].n_states)})
        abp.infer(graph, damping=0.3)
    assert signatures() == before


IN_A_NEW_PROCESS = """
import anytimebp as abp
from oracle.models import grid
from unit.inference.test_warm_up import signatures

abp.infer(grid(2, 2, 1.0, 0.5, seed=0), "{first}")
before = signatures()
for method in ("truncated", "random", "fixed", "dynamic"):
    abp.infer(grid(2, 4, 1.0, 0.5, seed=0), method)
assert signatures() == before
"""


FOREST_FIRST = """
import anytimebp as abp
from oracle.models import random_tree
from unit.inference.test_warm_up import signatures

inference = abp.Inference(random_tree(0, max_states=5, n_factors=4), "{method}")
inference._load()
before = signatures()
inference.run()
assert signatures() == before
"""


LOGS_LATER = """
import numpy as np
import anytimebp as abp
from anytimebp.inference.method import LOGS
from anytimebp.inference.warm_up import load_kernels
from anytimebp.kernels.messages import CALLS
from anytimebp.kernels.codes import SUM_IN_LOGS
from oracle.models import grid
from unit.inference.test_warm_up import signatures

graph = grid(3, 3, 1.0, 0.5, seed=0)
inference = abp.Inference(graph, "{method}")
inference.run()
assert CALLS[SUM_IN_LOGS] == 0
load_kernels(inference._options, kernels=LOGS)  # as runs do while the clock stands still
before = signatures()
graph.add_factor([0, 1], log_table=np.where(np.eye(3) > 0, 0.0, -np.inf))
graph.add_factor([1, 2], log_table=1000.0 * np.eye(3))
result = abp.infer(graph, "{method}")
assert result.arithmetic == "log"
assert signatures() == before
"""


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_log_arithmetic_is_loaded_where_it_is_needed_and_all_at_once(method):
    run_in_a_new_process(LOGS_LATER.format(method=method))


@pytest.mark.parametrize("method", ["residual", "adaptive"])
def test_a_forest_compiles_nothing_after_its_clock_has_started(method):
    run_in_a_new_process(FOREST_FIRST.format(method=method))


@pytest.mark.parametrize("first", ["truncated", "random"])
def test_runs_that_grow_compile_nothing_after_their_clock_has_started_whichever_came_first(first):
    run_in_a_new_process(IN_A_NEW_PROCESS.format(first=first))


def run_in_a_new_process(script):
    tests = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", script], cwd=tests, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
