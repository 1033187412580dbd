"""What is compiled before a run's clock starts."""

import importlib
import pkgutil
import sys
from unittest.mock import patch

import numpy as np
import pytest

import anytimebp as abp
import anytimebp.kernels
from anytimebp.inference import inference as of_inference
from anytimebp.inference import warm_up
from oracle.models import grid
from oracle.new_process import new_processes
from unit.inference.adaptive.test_choice import joint_extraction

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def run_in_a_new_process():
    run = new_processes()
    yield run
    run.close()


def signatures():
    """Return how many versions of each kernel there are."""
    found = {}
    for module in pkgutil.iter_modules(anytimebp.kernels.__path__):
        for name, value in vars(importlib.import_module(f"anytimebp.kernels.{module.name}")).items():
            if hasattr(value, "overloads"):
                found[module.name, name] = len(value.overloads)
    return found


def nothing_under_the_clock(run, *given, **options):
    """Run; fail if a kernel is loaded by anything but what loads before the clock starts, or while it stands still."""
    load_kernels, known = warm_up.load_kernels, {}

    def load(*given, **named):
        assert not known or signatures() == known
        load_kernels(*given, **named)
        known.update(signatures())

    with patch.object(warm_up, "load_kernels", load), patch.object(of_inference, "load_kernels", load):
        result = run(*given, **options)
    assert known
    assert signatures() == known
    return result


@pytest.mark.parametrize("is_kept", [False, True])
def test_the_time_that_is_told_counts_the_kernels_of_bp_where_they_are_missing(is_kept):
    with patch.object(warm_up, "is_kept", lambda _: is_kept):
        told = warm_up._seconds(warm_up.LARGER)
        assert told == warm_up.SECONDS[warm_up.LARGER] + (0 if is_kept else warm_up.SECONDS["bp"])
        assert warm_up._seconds("residual") == warm_up.SECONDS["residual"]


def test_a_run_of_adaptive_compiles_nothing_while_its_clock_runs():
    grids = (grid(4, 300, 10.0, 1.0, seed=0), grid(5, 50, 6.0, 2.0, seed=0), grid(5, 60, 1.0, 0.5, seed=0))
    for graph in (*grids, joint_extraction(12, 30, 40, 6.0)):
        ways = {moment.choice.split(":")[0] for moment in nothing_under_the_clock(abp.infer, graph).trace}
        assert ways
        evidence = {"x0": 1, "x1": np.zeros(graph.variables[1].n_states)}
        for options in ({"target_error": 1e-3}, {"evidence": evidence}, {"damping": 0.3}):
            nothing_under_the_clock(abp.infer, graph, **options)
    assert "anytimebp.kernels.active" in sys.modules


def relations_of_one_table(*, n_ends, n_relations, n_states, n_leaf):
    """Return tags of some variables, and relations of pairs of them that share a table; messages are weak."""
    rng, graph = np.random.default_rng(0), abp.FactorGraph()
    ends, leaves = graph.add_variables(n_ends, n_states), graph.add_variables(n_relations, n_leaf)
    pairs = np.array([rng.choice(n_ends, 2, replace=False) for _ in range(n_relations)])
    scopes = np.column_stack([np.array(ends)[pairs], np.array(leaves)])
    graph.add_factors(scopes, log_table=rng.normal(0.0, 0.2, (n_states, n_states, n_leaf)))
    for variables, n in ((ends, n_states), (leaves, n_leaf)):
        scores = rng.normal(0.0, 8.0, (len(variables), n))
        graph.add_factors(np.array(variables)[:, None], log_table=scores)
    return graph


def test_looks_at_relations_compile_nothing_while_the_clock_runs():
    """Full BP follows a look at few states, and rounds one at many; in these, a look costs little beside full BP."""
    few = relations_of_one_table(n_ends=12, n_relations=60, n_states=20, n_leaf=30)
    many = relations_of_one_table(n_ends=12, n_relations=60, n_states=300, n_leaf=4)
    for graph in (few, many):
        trace = nothing_under_the_clock(abp.infer, graph).trace
        ways = [moment.choice.split(":")[0] for moment in trace]
        looked = next(moment for moment in trace if moment.estimated_error < np.inf)
        assert looked.choice.startswith("rounds on likely states")
        assert ways.count("rounds on likely states") == 2 if graph is few else ways.count("rounds on likely states") > 2


IN_PARTS = """
import anytimebp as abp
from anytimebp.inference.adaptive.adaptive_run import ROUNDS
from anytimebp.inference.warm_up import load_kernels
from oracle.models import grid
from unit.inference.test_warm_up import loops_with_leaves, nothing_under_the_clock, ring_that_turns_to_logs

options = abp.Inference(grid(2, 2, 1.0, 0.5, seed=0))._options
load_kernels(options, kernels="dynamic")
load_kernels(options, kernels=ROUNDS)
for model in (loops_with_leaves(), ring_that_turns_to_logs()):
    nothing_under_the_clock(abp.infer, model, method="bp", max_updates=20_000)
wide = grid(3, 3, 1.0, 400.0, seed=0)
assert nothing_under_the_clock(abp.infer, wide, method="bp", max_updates=20_000).arithmetic == "log"
"""


def test_kernels_of_which_other_runs_have_loaded_a_part_are_loaded_before_the_clock_goes_on(run_in_a_new_process):
    run_in_a_new_process(IN_PARTS)


def loops_with_leaves():
    """Return a model whose core is worth its cost."""
    graph = abp.FactorGraph()
    graph.add_variables(6, 30)
    rng = np.random.default_rng(0)
    graph.add_factors([[0, 1, 3], [1, 2, 4], [2, 0, 5]], log_table=rng.normal(0.0, 0.5, (3, 30, 30, 30)))
    return graph


def ring_that_turns_to_logs():
    """Return a model that linear arithmetic can begin with, and not end."""
    graph, n = abp.FactorGraph(), 40
    graph.add_variables(n, 3)
    graph.add_factors(np.arange(n)[:, np.newaxis], log_table=np.random.default_rng(0).normal(0, 30, (n, 3)))
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    graph.add_factors(ring, log_table=np.where(np.eye(3) > 0, 5.0, -np.inf))
    return graph


def wheel():
    """Return a model with a variable of high degree."""
    graph, n, rng = abp.FactorGraph(), 20, np.random.default_rng(0)
    graph.add_variables(n + 1, 3)
    rim = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    spokes = np.stack([np.arange(n), np.full(n, n)], axis=1)
    graph.add_factors(np.concatenate([rim, spokes]), log_table=rng.normal(0.0, 0.3, (2 * n, 3, 3)))
    return graph


def ring_of_rules():
    """Return a model whose tables are too large to be filled."""
    graph, rng = abp.FactorGraph(), np.random.default_rng(0)
    graph.add_variables(4, 2_000)
    graph.add_factors(np.arange(4)[:, np.newaxis], log_table=rng.normal(0.0, 6.0, (4, 2_000)))
    graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], rule=lambda a, b: -0.01 * np.abs(a - b))
    return graph


LARGER_THAN_MEMORY = """
import anytimebp as abp
from anytimebp.kernels import active_readout, cliques, messages
from unit.inference.test_warm_up import ring_of_rules

result = abp.infer(ring_of_rules(), seconds=60.0, max_memory=2 * 10**6)
assert "whole tables do not fit into memory" in result.choice
unused = (active_readout.read_leaves, cliques.collect_slice, messages.sweep_slice)
assert [len(kernel.overloads) for kernel in unused] == [0, 0, 0]
"""


def test_a_model_larger_than_memory_loads_no_kernels_for_whole_tables(run_in_a_new_process):
    run_in_a_new_process(LARGER_THAN_MEMORY)


FIRST_RUN = """
import anytimebp as abp
from anytimebp.kernels import cutting, leaf_passes, log_sums, to_factor
from oracle.models import grid, random_tree
from unit.inference.test_warm_up import loops_with_leaves, nothing_under_the_clock, ring_that_turns_to_logs, wheel

kernels = (cutting.cut_tables_slice, leaf_passes.pass_slice, log_sums.sum_in_logs, to_factor.gather_hub)
nothing_under_the_clock(abp.infer, {model}, method="{method}", max_updates=20_000)
assert [len(kernel.overloads) for kernel in kernels] == {loaded}
"""

NEEDS = {
    "grid(3, 3, 1.0, 0.5, seed=0)": [0, 0, 0, 0],
    "grid(3, 3, 1.0, 0.5, seed=0), evidence={'x0': 1}": [1, 0, 0, 1],  # what is left is searched for trees
    "random_tree(0, max_states=5, n_factors=4)": [0, 1, 0, 1],
    "loops_with_leaves()": [0, 1, 0, 1],
    "ring_that_turns_to_logs()": [0, 0, 1, 1],
    "wheel()": [0, 0, 0, 1],
}
"""What a first run is on, and how many versions it loads of what only evidence, leaves, logs or larger graphs need."""


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
@pytest.mark.parametrize("model", NEEDS)
def test_a_first_run_loads_what_it_needs_and_nothing_while_its_clock_runs(model, method, run_in_a_new_process):
    run_in_a_new_process(FIRST_RUN.format(model=model, method=method, loaded=NEEDS[model]))


FIRST_OF_THE_DEFAULT = """
import anytimebp as abp
from oracle.models import grid, random_tree
from unit.inference.test_warm_up import loops_with_leaves, nothing_under_the_clock, ring_of_rules, wheel

nothing_under_the_clock(abp.infer, {model}, seconds=60.0)
"""


@pytest.mark.parametrize(
    "model",
    [
        "grid(3, 3, 1.0, 0.5, seed=0)",
        "grid(4, 300, 10.0, 1.0, seed=0)",
        "grid(3, 3, 1.0, 0.5, seed=0), evidence={'x0': 1}",
        "grid(4, 300, 10.0, 1.0, seed=0), evidence={'x0': {1, 2}}",
        "random_tree(0, max_states=5, n_factors=4)",
        "loops_with_leaves()",
        "loops_with_leaves(), targets=['x0']",
        "wheel()",
        "ring_of_rules(), max_memory=2 * 10**6",
    ],
)
def test_a_first_run_of_the_default_method_loads_nothing_while_its_clock_runs(model, run_in_a_new_process):
    run_in_a_new_process(FIRST_OF_THE_DEFAULT.format(model=model))


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
def test_log_arithmetic_is_loaded_where_it_is_needed_and_all_at_once(method, run_in_a_new_process):
    run_in_a_new_process(LOGS_LATER.format(method=method))


@pytest.mark.parametrize("first", ["truncated", "random"])
def test_runs_that_grow_compile_nothing_after_their_clock_has_started_whichever_came_first(first, run_in_a_new_process):
    run_in_a_new_process(IN_A_NEW_PROCESS.format(first=first))
