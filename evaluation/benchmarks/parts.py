"""A grid in parts against one run: time, sweeps, peak memory.

Run: python parts.py [SIDE] [WORKERS] [threads|ray|own ...]. One table is shared by all pairs; with `own`, in threads,
each pair has its own.

Each run has a process of its own; figures are the best of two. `cut` is timed apart, as is making the parts on Ray;
`seconds` is what the result says. Memory is that of the process and, on Ray, of its actors: shared pages are divided
by those who share them.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import anytimebp as abp
from anytimebp.layout.cut import cut_of
from anytimebp.layout.graph_layout import compiled_graph

STATES = 16


def grid(side, *, is_tied=True):
    """Return a grid of random unary scores, and of one tied table or one for each pair."""
    rng, graph, number = np.random.default_rng(0), abp.FactorGraph(), np.arange(side * side).reshape(side, side)
    graph.add_variables(side * side, STATES)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    graph.add_factors(number.reshape(-1, 1), log_table=rng.normal(0, 1, (side * side, STATES)))
    shape = (STATES, STATES) if is_tied else (2 * side * (side - 1), STATES, STATES)
    graph.add_factors(np.concatenate([across, down]), log_table=rng.normal(0, 0.5, shape))
    return graph


def memory():
    """Return the MB of this process and of Ray's actors that hold parts."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = int(folder.name) == os.getpid() or b"ray::Holder" in (folder / "cmdline").read_bytes()
            text = (folder / "smaps_rollup").read_text() if is_ours else ""
        except OSError:  # it has ended meanwhile
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


class Watch(threading.Thread):
    """Looks at the memory ten times a second."""

    peak, is_over = 0.0, False

    def run(self):
        """Look until told that it is over."""
        while not self.is_over:
            self.peak = max(self.peak, memory())
            time.sleep(0.1)


def measure(side, workers, number):
    """Print the figures of one run; `number` 0 is a run without parts."""
    is_tied, workers = workers != "own", "threads" if workers == "own" else workers
    options = {"parts": 4 * number, "threads": number, "workers": workers} if number else {}
    abp.infer(grid(4), "bp", **options)  # kernels
    graph, began = grid(side, is_tied=is_tied), time.perf_counter()
    if number:
        cut_of(compiled_graph(graph), 4 * number)
    cut, watch = time.perf_counter() - began, Watch()
    watch.start()
    result = abp.infer(graph, "bp", **options)
    watch.is_over = True
    sweeps = result.updates / (2 * side * (side - 1))
    figures = {"cut": cut, "seconds": result.seconds, "sweeps": sweeps, "MB": watch.peak, "log_z": result.log_z}
    print(json.dumps(figures))


def main():
    """Run alone and in parts, in turns, and print the best of each with ratios."""
    given = sys.argv[1:]
    side, number, kinds = int([*given, "1000"][0]), int([*given[1:], "2"][0]), given[2:] or ["threads", "ray"]
    alone = {kind: "own" if kind == "own" else "threads" for kind in kinds}
    rows = {(kind, 0): [] for kind in alone.values()} | {(kind, n): [] for kind in kinds for n in (1, number)}
    for _ in range(2):
        for (kind, n), found in rows.items():
            command = [sys.executable, __file__, "measure", str(side), kind, str(n)]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    best = {row: min(found, key=lambda figures: figures["seconds"]) for row, found in rows.items()}
    for (kind, n), row in best.items():
        one = best[alone.get(kind, kind), 0]
        ratios = {name: round(row[name] / one[name], 3) for name in ("seconds", "sweeps", "MB")}
        print(f"{f'{n} {kind}' if n else f'one run, {kind}'}: {row}; against one run: {ratios}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main()
