"""By how much `seconds` is overrun on a large grid, cold and warm, with and without evidence.

Run: python deadlines.py [SIDE] [METHOD ...]. A grid of 16 states, with random unary scores and one table that all pairs
share.

Each row has a process of its own, whose kernels are warm. `cold` is its first run on the graph, on memory that the
system has not handed out yet; `warm` is the second. Overruns are wall-clock time beyond `seconds`, and allowed are 20
ms or 2 %. `read` is the part of the time that was spent on the answer after the clock had stopped the run, and `aside`
what had been set aside for that; `slice` is the longest slice.
"""

import json
import subprocess
import sys
import warnings
from time import perf_counter

from parts import grid

import anytimebp as abp
from anytimebp.inference.run import Run

SECONDS = (1.0, 2.0, 5.0)
EVIDENCE = {"x7": 3, "x100": {1, 2, 5}}
LEAST, SHARE = 0.020, 0.02  # seconds, and the part of the budget, that are allowed


def watched(slices):
    """Let runs note the time of each slice, the clock after it, and the time set aside for reading."""
    before = Run._step  # noqa: SLF001  (what is measured)

    def step(run, budget):
        began = perf_counter()
        found = before(run, budget)
        slices.append((perf_counter() - began, run.seconds, run.figures.reading))
        return found

    Run._step = step  # noqa: SLF001


def measure(side, method, seconds, evidence):
    """Print the figures of a cold run and of a warm one."""
    given = EVIDENCE if evidence else None
    small = grid(130)
    for _ in range(2):
        abp.infer(small, method, evidence=given, max_updates=100_000)
    abp.infer(small, method, evidence=given, seconds=0.05)
    graph, slices = grid(side), []
    watched(slices)
    for memory in ("cold", "warm"):
        slices.clear()
        began = perf_counter()
        result = abp.infer(graph, method, evidence=given, seconds=seconds)
        took = perf_counter() - began
        figures = {
            "over": took - seconds,
            "read": took - slices[-1][1],
            "aside": slices[-1][2],
            "slice": max(slices)[0],
            "updates": result.updates,
        }
        print(json.dumps({"memory": memory} | figures))


def main():
    """Measure all rows, and print them."""
    given = sys.argv[1:]
    side = given.pop(0) if given and given[0].isdigit() else "1000"
    n_late = 0
    for method in given or ["bp", "adaptive"]:
        for evidence in (False, True):
            for seconds in SECONDS:
                row = [side, method, str(seconds), str(int(evidence))]
                command = [sys.executable, __file__, "measure", *row]
                lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
                for line in lines:
                    found = json.loads(line)
                    times = "  ".join(f"{name} {1e3 * found[name]:7.1f}" for name in ("over", "read", "aside", "slice"))
                    late = found["over"] > max(LEAST, SHARE * seconds)
                    n_late += late
                    about = f"{method:9}{'evidence ' if evidence else '         '}{seconds:g} s  {found['memory']}"
                    print(f"{about}  {times} ms  updates {found['updates']:,}{'  LATE' if late else ''}", flush=True)
    print(f"{n_late} late")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["measure"]:
        measure(int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), sys.argv[5] == "1")
    else:
        main()
