"""The exported names, what importing costs, and what a new process does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import anytimebp as abp

NAMES = {
    "And",
    "AnytimeBPError",
    "AtMostOne",
    "Cardinality",
    "FieldCheck",
    "LowRank",
    "ModularSum",
    "NoisyOr",
    "Or",
    "Xor",
    "Deterministic",
    "Difference",
    "Equality",
    "DistributionWarning",
    "DroppedWarning",
    "FormatError",
    "DynamicGrowth",
    "Every",
    "EvidenceError",
    "FactorGraph",
    "FixedGrowth",
    "GraphSummary",
    "GrowthPolicy",
    "GrowthView",
    "InconsistentModelError",
    "Inference",
    "InternalError",
    "KernelCacheWarning",
    "METHODS",
    "MapMoment",
    "MapResult",
    "MapTrace",
    "MemoryLimitError",
    "ModelError",
    "ModelWarning",
    "Moment",
    "NotConvergedWarning",
    "OptionError",
    "RandomGrowth",
    "Result",
    "RuleError",
    "Samples",
    "Session",
    "Snapshot",
    "StopReason",
    "Trace",
    "UncertainResultWarning",
    "UnconnectedVariableWarning",
    "UnknownFactorError",
    "UnknownStateError",
    "UnknownVariableError",
    "Variable",
    "__version__",
    "from_networkx",
    "from_pgmpy",
    "from_pyagrum",
    "infer",
    "infer_many",
    "infer_map",
    "plot_run",
    "read_evidence",
    "read_marginals",
    "read_model",
    "sample",
    "to_networkx",
    "write_marginals",
    "write_model",
    "write_report",
}


def test_exported_names():
    assert set(abp.__all__) == set(dir(abp)) == NAMES
    assert all(getattr(abp, name) is not None for name in NAMES)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = abp.nothing


def test_names_of_learning():
    assert set(abp.learn.__all__) == {"CRF", "Example"}
    out, _ = python("import sys, anytimebp as abp; abp.learn.CRF(); print('scipy.optimize' in sys.modules)")
    assert out.strip() == "False"


def test_methods():
    assert abp.METHODS == ("bp", "residual", "truncated", "random", "fixed", "dynamic", "adaptive", "exact", "auto")


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return done.stdout, done.stderr


def test_importing_is_silent_and_does_not_load_numba():
    code = "import sys, json, anytimebp; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    out, err = python(code)
    modules = set(json.loads(out))
    heavy = {"numba", "llvmlite", "matplotlib", "networkx", "pandas", "polars", "pyarrow", "scipy", "xarray"}
    assert not modules & heavy
    assert err == ""


SMALL = """
import anytimebp as abp
from anytimebp.kernels.messages import update
graph = abp.FactorGraph()
graph.add_variables(3, 2)
graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=[[0.0, 0.3], [0.1, 0.0]])
for method in ("bp", "adaptive", "auto"):
    print(abp.infer(graph, method).stop_reason.name)
print(len(update.overloads))
"""

OF_SMALL_GRAPHS = {
    "cliques.collect_slice",
    "cliques.distribute_slice",
    "cutting.list_tables",
    "elimination.greedy_order",
    "elimination.least_clique",
    "exponentiate.exponentiate_slice",
    "junction_tree.plan_tree",
    "lazy.lazy_slice",
    "leaves.peel_slice",
    "messages.sweep_slice",
    "messages.update",
    "orders.orders_slice",
    "orders.rank_variables",
    "readout.read_beliefs",
    "readout.sum_bethe_terms",
    "setting_up.fill_entries",
    "setting_up.fill_topology",
    "setting_up.fold_priors",
    "setting_up.place_slots",
    "setting_up.scratch_sizes",
    "through_table.contract",
    "to_factor.gather",
    "to_variable.store",
}
"""What `exact`, `bp` and `adaptive` need to set up, update, sweep and read; not for leaves, evidence, logs, rounds."""


@pytest.mark.compiled
def test_small_graphs_compile_what_they_need_once_and_say_so(tmp_path):
    first = python(SMALL, NUMBA_CACHE_DIR=str(tmp_path))
    second = python(SMALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert first[0] == second[0] == "CONVERGED\nCONVERGED\nCONVERGED\n1\n"
    for method in ("bp", "adaptive", "exact"):
        assert first[1].count(f"compiling kernels for method '{method}'; this happens once per installation") == 1
    assert first[1].count("compiling") == 3
    assert second[1] == ""
    assert {path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")} == OF_SMALL_GRAPHS
    keep_compiled(tmp_path)


def keep_compiled(folder):
    """Have the tests that follow find what was compiled here, unless they or others have compiled it before."""
    for index in folder.rglob("*.nbi"):
        kept = Path(os.environ["NUMBA_CACHE_DIR"]) / index.relative_to(folder)
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            for file in index.parent.glob(f"{index.stem}.*.nbc"):
                shutil.copy(file, kept.parent)
            shutil.copy(index, kept)
