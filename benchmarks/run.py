"""Measures the bars of the project and prints them; `--write` keeps them in docs/benchmarks.md, `--quick` does less.

Contenders take turns within one run. Milliseconds are the best of the rounds; ratios are the median, over rounds, of
the quotient within a round. One thread each.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # must be set before NumPy is loaded

import argparse
from pathlib import Path

import processes
import speed
from timing import keep_freed_memory, machine

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PEERS = "## Peers"  # written by peers/run.py, and kept

SECTIONS = {
    "End to end": (
        "From a built graph to residual 1e-10 and marginals, layout and exponentiation included; milliseconds. The "
        "bare loop is a single-purpose Numba loop without options, trace or checks, which goes through the factors "
        "in the same order. It is given the library's exp, five times as fast as NumPy's on processors without "
        "AVX-512; with NumPy's it takes what the next column says. `bp` stops when one more pass would move nothing "
        "by more than the tolerance, the others when the last pass moved nothing, which may be a few sweeps "
        "earlier. The graph of 8 entities is one on which BP settles without damping, as it does on six of the "
        "first eight seeds."
    ),
    "Bandwidth": (
        "The speed at which a sweep of `bp` reads its tables, against NumPy's sum of as many numbers in the same run, "
        "one thread each: medians over sweeps in the middle of runs."
    ),
    "Small graphs": "Ten variables of five states in a ring, with unary factors: layout, run and marginals together.",
    "Scale": "A grid of 100,000 variables on one tied table, and one million factors on another.",
    "Start": "In fresh processes; the kernels are compiled once and then kept on disk.",
    "Hubs": "A variable with many neighbours that form a ring, ten states each.",
}


def measure(*, quick):
    """Yield the sections of the page, a title and a table each, as they are measured."""
    rounds = 8 if quick else 30
    yield "End to end", speed.end_to_end(rounds)
    yield "Bandwidth", speed.bandwidth(rounds)
    yield "Small graphs", speed.small_graphs(1_000 if quick else 10_000)
    yield "Scale", processes.scale()
    yield "Start", processes.start_up(3 if quick else 5)
    yield "Hubs", speed.hubs()


def main():
    """Measure, print and, if asked, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the tables in docs/benchmarks.md")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and 1,000 small graphs instead of 10,000")
    options = parser.parse_args()
    keep_freed_memory()
    head = f"# Benchmarks\n\nWritten by `benchmarks/run.py`. {machine('numpy', 'numba', 'anytimebp')}\n"
    print(head)
    parts = [head]
    for title, rows in measure(quick=options.quick):
        parts.append(f"## {title}\n\n{SECTIONS[title]}\n\n{rows}\n")
        print(parts[-1], flush=True)
    if options.write:
        write(parts)


def write(parts):
    """Write the page, keeping its section on peers."""
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if PEERS in old:
        parts = [*parts, old[old.index(PEERS) :].rstrip() + "\n"]
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
