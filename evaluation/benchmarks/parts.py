"""A grid in parts on threads against one run: time, sweeps, peak memory. Run: python parts.py [SIDE] [THREADS].

Each run has a process of its own. `cut` is timed apart and not part of `seconds`.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np

import anytimebp as abp
from anytimebp.layout.cut import cut_of
from anytimebp.layout.graph_layout import compiled_graph

STATES = 16


def grid(side):
    """Return a grid of one tied table and random unary scores."""
    rng, graph, number = np.random.default_rng(0), abp.FactorGraph(), np.arange(side * side).reshape(side, side)
    graph.add_variables(side * side, STATES)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    graph.add_factors(number.reshape(-1, 1), log_table=rng.normal(0, 1, (side * side, STATES)))
    graph.add_factors(np.concatenate([across, down]), log_table=rng.normal(0, 0.5, (STATES, STATES)))
    return graph


def measure(side, threads):
    """Print the figures of one run; `threads` 0 is a run without parts."""
    options = {"parts": 4 * threads, "threads": threads} if threads else {}
    abp.infer(grid(4), "bp", **options)  # kernels
    graph, began = grid(side), time.perf_counter()
    if threads:
        cut_of(compiled_graph(graph), 4 * threads)
    cut, began = time.perf_counter() - began, time.perf_counter()
    result = abp.infer(graph, "bp", **options)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sweeps = result.updates / (2 * side * (side - 1))
    print(json.dumps({"cut": cut, "seconds": seconds, "sweeps": sweeps, "MB": peak, "log_z": result.log_z}))


def main():
    """Run alone and in parts, in turns, and print the best of each with ratios."""
    side, threads = int([*sys.argv, "1000"][1]), int([*sys.argv, "1000", "2"][2] if len(sys.argv) > 2 else 2)
    rows = {0: [], 1: [], threads: []}
    for _ in range(2):
        for number, found in rows.items():
            given = [sys.executable, __file__, "measure", str(side), str(number)]
            found.append(json.loads(subprocess.run(given, check=True, capture_output=True, text=True).stdout))
    best = {number: min(found, key=lambda row: row["seconds"]) for number, found in rows.items()}
    for number, row in best.items():
        ratios = {name: round(row[name] / best[0][name], 3) for name in ("seconds", "sweeps", "MB")}
        print(f"threads {number or 'none'}: {row}; against one run: {ratios}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
