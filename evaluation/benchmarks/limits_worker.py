"""Times `bp` of whichever library it is started with: a line of JSON with a case in, a line with figures out.

Cases are pickled: a file and evidence, or arrays that a graph is built of. Only what all versions have is used.
"""

import gc
import json
import pickle
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np

import anytimebp as abp

ENOUGH = 0.3  # seconds of repeats of a case on one visit; at least two


def graph_of(case):
    """Build the graph of a case, in bulk."""
    if "file" in case:
        return abp.read_model(case["file"])
    graph = abp.FactorGraph()
    for size in case["sizes"]:
        graph.add_variable(f"v{len(graph.variables)}", int(size))
    for scopes, scores in case["factors"]:
        graph.add_factors(scopes, log_table=scores)
    return graph


def small_graphs(case):
    """Return the CPU time of a call on each of many small graphs, stated one by one beforehand, on the average."""
    graphs = [graph_of(one) for one in case["graphs"]]
    started = process_time()
    for graph in graphs:
        abp.infer(graph, **case["options"]).marginals.concatenated()
    return (process_time() - started) / len(graphs), 0, ""


def one_run(graph, case):
    """Return the CPU time from a built graph to all marginals, the sweeps and the reason to stop."""
    graph.compiled = None
    started = process_time()
    result = abp.infer(graph, "bp", evidence=case.get("evidence"), **case.get("options", {}))
    result.marginals.concatenated()
    return process_time() - started, len(result.trace), result.stop_reason.name


def measure(case):
    """Return the best of a few repeats."""
    if "graphs" in case:
        runs = [small_graphs(case) for _ in range(3)]
    else:
        graph, runs, total = graph_of(case), [], 0.0
        while len(runs) < 2 or total < ENOUGH:
            runs.append(one_run(graph, case))
            total += runs[-1][0]
    seconds, sweeps, reason = min(runs)
    return {"seconds": seconds, "sweeps": sweeps, "reason": reason}


def yardstick(folder):
    """Return the CPU time of the bare full BP on the documents of `nerel.py` in a folder, together and one by one."""
    sys.path.insert(0, folder)
    import nerel  # noqa: PLC0415  (not part of the project)

    each = []
    for document in nerel.documents():
        best = np.inf
        for _ in range(3):
            started = process_time()
            nerel.yardstick(document, tolerance=1e-8)
            best = min(best, process_time() - started)
        each.append(best)
    return {"seconds": sum(each)}


def main():
    """Answer until there is nothing more to do."""
    warnings.simplefilter("ignore")
    gc.disable()
    for line in sys.stdin:
        asked = json.loads(line)
        if "yardstick" in asked:
            answer = yardstick(asked["yardstick"])
        else:
            answer = measure(pickle.loads(Path(asked["case"]).read_bytes()))  # noqa: S301  (our parent has made it)
        gc.collect()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
