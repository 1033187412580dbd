"""What must be measured in a process of its own: importing, the first answer, peak memory, the examples at full size.

`python children.py TASK [ARGUMENT]` prints what it measured as JSON. Imports are inside the tasks: they are measured.
"""

# ruff: noqa: PLC0415

import json
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter, time


def importing():
    """Measure `import anytimebp`, NumPy included."""
    started = perf_counter()
    import anytimebp  # noqa: F401

    return {"seconds": perf_counter() - started, "numba": "numba" in sys.modules}


def first_marginals(method):
    """Print when the first marginals of a small graph were ready, by the wall clock."""
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


def imported():
    """Tell the peak memory of a process that only imports."""
    import anytimebp  # noqa: F401

    return {"peak": memory_of("VmHWM")}


def linking(seed, seconds, max_memory, unexplored):
    """Run examples/entity_linking.py; compare with BP on states that were picked without the run."""
    example = _example("entity_linking")
    import linking_reference
    import numpy as np

    import anytimebp as abp

    mentions, entities = 60, 50_000
    document = example.make_document(mentions, entities, np.random.default_rng(int(seed)))
    first = []

    def look(snapshot):
        if not first and snapshot.consistent and snapshot.unexplored_mass < float(unexplored):
            first.append((snapshot.seconds, snapshot.work))

    try:
        result = abp.infer(
            document.graph, "adaptive", seconds=float(seconds), max_memory=int(max_memory), callback=look
        )
    except abp.AnytimeBPError as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    joint = np.array([result.marginals[i] for i in range(mentions)])
    return {
        "first": first[0] if first else None,
        "seconds": result.seconds,
        "peak": memory_of("VmHWM"),  # of the run: what follows is about its answer
        "work": result.work,
        "entries": len(document.pairs) * entities**2,
        "stop": result.stop_reason.name,
        "mentions": mentions,
        "alone": example.linked_right(document.prior, document.truth),
        "joint": example.linked_right(joint, document.truth),
        "unexplored": _or_error(lambda: result.unexplored_mass),
        "distance": linking_reference.largest_distance(example, document, joint),
    }


def localising(side, seed, method, seconds, max_memory):
    """Run examples/localisation.py; lengths are in cells of the map with 300 x 300."""
    example = _example("localisation")
    import numpy as np

    import anytimebp as abp

    network = example.make_network(int(side), np.random.default_rng(int(seed)))
    states = [1 if f"s{i}" in network.known else network.side**2 for i in range(len(network.places))]
    try:
        result = example.locate(network, method, float(seconds), int(max_memory))
    except abp.AnytimeBPError as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    peak = memory_of("VmHWM")
    unexplored = _or_error(lambda: result.unexplored_mass)
    if isinstance(unexplored, str):
        return {"failed": unexplored}
    belief, unknown = example.read_belief(network, result), slice(len(network.known), None)
    scale = 300 / network.side
    return {
        "seconds": result.seconds,
        "peak": peak,
        "work": result.work,
        "entries": sum(states[i] * states[j] for i, j in network.pairs),
        "stop": result.stop_reason.name,
        "unexplored": unexplored,
        "located": int(belief.located.sum()),
        "miss": scale * float(belief.miss[unknown].mean()),
        "miss_located": scale * float(belief.miss[belief.located].mean()) if belief.located.any() else float("nan"),
    }


def _example(name):
    """Import one of the examples."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    return import_module(name)


def _or_error(figure):
    """Return a figure, or the name of the error: one missing figure should not hide the others."""
    try:
        return figure()
    except Exception as error:  # noqa: BLE001  (whatever it is, it is shown)
        return f"{type(error).__name__}: {error}"


def memory_of(field):
    """Return a figure of this process in bytes. Not `getrusage`: its peak includes that of the parent process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    msg = f"/proc/self/status has no {field}"
    raise RuntimeError(msg)


TASKS = {
    task.__name__: task
    for task in (importing, first_marginals, large_grid, million_factors, imported, linking, localising, limited_run)
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
