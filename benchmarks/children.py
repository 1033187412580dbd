"""What must be measured in a process of its own: importing, the first answer, peak memory.

`python children.py TASK [ARGUMENT]` prints what it measured as JSON. Imports are inside the tasks: they are measured.
"""

# ruff: noqa: PLC0415

import json
import sys
from pathlib import Path
from time import perf_counter, time


def importing():
    """Measure `import anytimebp`, NumPy included."""
    started = perf_counter()
    import anytimebp  # noqa: F401

    return {"seconds": perf_counter() - started, "numba": "numba" in sys.modules}


def first_marginals(method):
    """Tell when the first marginals of a small graph were there, by the wall clock."""
    import anytimebp as abp

    graph = abp.FactorGraph()
    names = [graph.add_variable(name, 3).name for name in "abcd"]
    for left, right in zip(names, names[1:] + names[:1], strict=True):
        graph.add_factor([left, right], log_table=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 1.0]])
    return {"sum": float(abp.infer(graph, method).marginals["a"].sum()), "at": time()}


def large_grid():
    """Measure layout, run and peak memory of a grid of 100,000 variables on one tied table."""
    import models

    import anytimebp as abp
    from anytimebp.layout.graph_layout import compiled_graph

    abp.infer(models.small_graph(0), "bp")  # loads the compiled kernels
    before = memory_of("VmRSS")
    graph = models.tied_grid(316, 316, 16, seed=0)
    with_graph = memory_of("VmRSS")
    started = perf_counter()
    compiled = compiled_graph(graph)
    layout = perf_counter() - started
    result = abp.infer(graph, "bp", tolerance=1e-6)
    n_slots = 16 * len(compiled.arrays.edge_variable)
    return {
        "layout": layout,
        "run": result.seconds,
        "sweeps": len(result.trace),
        "messages": 8 * n_slots,
        "memory": memory_of("VmHWM") - before,
        "memory_of_run": memory_of("VmHWM") - with_graph,
    }


def million_factors():
    """Measure the statement of one million pairwise factors on one tied table."""
    import models
    import numpy as np

    import anytimebp as abp

    scopes = models.grid_scopes(708, 708)
    log_table = np.random.default_rng(0).normal(size=(16, 16))
    started = perf_counter()
    graph = abp.FactorGraph()
    graph.add_variables(708 * 708, 16)
    graph.add_factors(scopes, log_table=log_table)
    return {"seconds": perf_counter() - started, "factors": graph.n_factors}


def limited_run(name):
    """Measure what a run takes that `max_memory` limits."""
    import memory

    return memory.run(name)


def memory_of(field):
    """Return a figure of this process in bytes. Not `getrusage`: its peak includes that of the parent process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    msg = f"/proc/self/status has no {field}"
    raise RuntimeError(msg)


TASKS = {task.__name__: task for task in (importing, first_marginals, large_grid, million_factors, limited_run)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
