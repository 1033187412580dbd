"""What is measured in processes of their own: scale and memory, import time, time to the first answer."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import time

from timing import table, verdict

CHILDREN = Path(__file__).with_name("children.py")


def run_child(task, *arguments, **environment):
    """Run a task of `children.py` in a new process; return what it printed."""
    done = subprocess.run(
        [sys.executable, str(CHILDREN), task, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def scale():
    """Return the table of what large tied models cost."""
    grid, stated = run_child("large_grid"), run_child("million_factors")
    share, own_share = (grid[part] / grid["messages"] for part in ("memory", "memory_of_run"))
    seconds, size = stated["seconds"], f"{grid['messages'] / 1e6:.0f} MB of messages"
    rows = [
        ["layout of 316x316 variables, one 16x16 table", f"{grid['layout']:.2f} s", "2 s", grid["layout"] < 2],
        [f"peak memory of graph, layout and run over {size}", f"{share:.2f} times", "3 times", share < 3],
        [f"stating {stated['factors']:,} factors on one table", f"{seconds:.2f} s", "5 s", seconds < 5],
    ]
    rows = [[*row[:3], verdict(met=row[3])] for row in rows]
    rows.insert(2, ["the same without the stated graph", f"{own_share:.2f} times", "-", "-"])
    rows.insert(1, [f"run to 1e-6, {grid['sweeps']} sweeps", f"{grid['run']:.2f} s", "-", "-"])
    return table(["what", "measured", "bar", "met"], rows)


def start_up(rounds=5):
    """Return the table of import time and of the time from process start to the first marginals."""
    imports = [run_child("importing") for _ in range(rounds)]
    seconds = statistics.median(child["seconds"] for child in imports)
    light = not any(child["numba"] for child in imports)
    rows = [["`import anytimebp`, without Numba", f"{seconds:.2f} s", "0.3 s", verdict(met=light and seconds < 0.3)]]
    for method in ("bp", "residual"):
        with tempfile.TemporaryDirectory() as folder:
            cold = _first_marginals(method, folder)
            warm = statistics.median(_first_marginals(method, folder) for _ in range(rounds))
        rows.append([f"first marginals, `{method}`, kernels cached", f"{warm:.2f} s", "2 s", verdict(met=warm < 2)])
        rows.append([f"first marginals, `{method}`, very first time", f"{cold:.1f} s", "30 s", verdict(met=cold < 30)])
    return table(["what", "measured", "bar", "met"], rows)


def _first_marginals(method, cache):
    """Return the seconds from the start of a process to its first marginals."""
    started = time()
    return run_child("first_marginals", method, NUMBA_CACHE_DIR=cache)["at"] - started
