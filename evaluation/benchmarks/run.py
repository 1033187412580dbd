"""Measures the bars of the project and prints them; `--write` keeps them in docs/benchmarks.md, `--quick` does less.

Contenders take turns within one run. Milliseconds are the best of the rounds; ratios are the median, over rounds, of
the quotient within a round. One thread each.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # must be set before NumPy is loaded

import argparse
import textwrap
from pathlib import Path

import adaptive
import calibration
import files
import growth
import memory
import processes
import speed
import structures
import universes
from timing import keep_freed_memory

from anytimebp_evaluation.machine import machine

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
ADAPTIVE_PAGE = PAGE.with_name("adaptive.md")

SECTIONS = {
    "End to end": (
        "Milliseconds from a built graph to residual 1e-10 and marginals, with layout and exponentiation. The "
        "bare loop is a single-purpose Numba loop without options, trace or checks; it visits the factors in the "
        "same order. It uses the library's exp, which is five times as fast as NumPy's on processors without "
        "AVX-512; the next column has its time with NumPy's. `bp` stops when one more pass would move no message "
        "by more than the tolerance. The others stop when the last pass moved none, which may be a few sweeps "
        "earlier. The graph of 8 entities is one on which BP settles without damping, as it does on six of the "
        "first eight seeds."
    ),
    "Logs": (
        "The same in log arithmetic: scores span more than 600 nats, and a tenth of all entries are hard zeros; "
        "milliseconds. NumPy computes one log-sum-exp of all factors in each direction."
    ),
    "Bandwidth": (
        "The speed at which a sweep of `bp` reads its tables, against NumPy's sum of as many numbers in the same run, "
        "one thread each: medians over sweeps in the middle of runs."
    ),
    "Small graphs": "Ten variables of five states in a ring, with unary factors: layout, run and marginals together.",
    "Scale": "A grid of 100,000 variables on one tied table, and one million factors on another.",
    "Start": "In fresh processes; the kernels are compiled once and then kept on disk.",
    "Hubs": "A variable with many neighbours that form a ring, ten states each.",
    "Structures": (
        "Milliseconds of processor time of a sweep of `bp`, there or back, on a ring of ten variables tied by ten "
        "factors of a kind: the best of the rounds. As tables, the factors of 100,000 states would take 800 GB, "
        "or 80 GB if shared. The exponent says how cost grows with the number of states, fitted from 1,000 to "
        "100,000. AtMostOne does little more than what every factor must do: multiply the incoming messages and "
        "scale the outgoing ones."
    ),
    "Sparse domains: work": (
        "Table entries read or scored until the L2 distance to BP is under 1e-4, divided by what `bp` reads for "
        "the same error, on the 5 x 5 grid with 250 states; scores are the standard deviations of unary and "
        "pairwise log scores. Median of 5 seeds. `bp` takes 3 to 4 sweeps. Rounds converge to the tolerance. With "
        "1e-4, the error asked for, the bars are met. With 1e-6, one state at a time misses them, because every "
        "round passes on changes a hundred times smaller than the error. The one-off priorities of `fixed` read "
        "each table once, as one sweep does, and are listed apart."
    ),
    "Sparse domains: one state at a time": (
        "Growth to full domains on the 10 x 10 grid with 100 states (10, 1): 10,000 growth rounds, each converged "
        "to 1e-6, against `bp` to 1e-8."
    ),
    "Sparse domains: large graphs": (
        "A growth round on grids of 10 states (standard deviations 1 and 0.3), once domains have two states on "
        "average, without recording. The numbers of updates differ because the small grid has relatively more "
        "border. An update on the large grid reads from memory rather than from the cache."
    ),
    "Sparse domains: budgets": (
        "Milliseconds by which a time budget is overrun in the worst of five runs, on 33 variables of 1000 states "
        "with 256 MB of tables; negative if a run ends before its budget."
    ),
    "Memory": (
        "The memory of runs that `max_memory` limits, each in a process of its own and with 20 seconds (2 if "
        "universes have a million states). The peak of the process must stay within 1.2 times the sum of the "
        "limit and what it held before. Runs that are out of memory have consistent marginals, and answer at once "
        "when they are continued."
    ),
    "Adaptive: against bp": (
        "Milliseconds until the L2 distance to converged BP stays under the error, from a newly built graph with "
        "log tables; layout, exponentiation and reading of marginals are included. Medians over 5 seeds on which "
        "`bp` settles undamped, or 5 runs of real models; the methods take turns, on one thread each."
    ),
    "Adaptive: growth of cost": (
        "The 5 x 5 grid with scores of deviation 10 and 2, pairwise scores from rules: milliseconds of `adaptive` to "
        "L2 < 1e-2. Up to 1000 states the reference is `bp`, beyond it a run of `adaptive` to an estimated error of "
        "1e-5."
    ),
    "Adaptive: estimated error": (
        "Estimated and true errors of all recorded snapshots of runs on random, attractive and truncated-linear "
        "grids, joint extraction, random graphs and real models. The truth is the distance to where the same run "
        "ends. Picture: calibration.png."
    ),
    "Files": (
        "A grid of 10 x 10 variables with 60 states each, numbers of four digits. `np.fromstring` parses the "
        "numbers of the same text without checks. The peak is the most memory that reading takes, with the "
        "tables."
    ),
    "Universes: entity linking": (
        "examples/entity_linking.py at full size: 60 mentions over 50,000 entities, 117 pairs by a rule, in 1 GB; "
        "as tables, 2.3 TB. `unexplored` is what the run reports. `off BP` is the largest total variation, over "
        "mentions, from BP on 400 entities per mention, which were chosen without the run; this is accurate to "
        "3e-4. The bar: unexplored under 1e-3, a peak less than 1 GB above that of a process that only imports, "
        "and at most 1 % of all entries."
    ),
    "Universes: localisation": (
        "examples/localisation.py: 30 sensors on 300 x 300 cells, 90,000 states each, in 2 GB, and dense BP on "
        "the same networks on 60 x 60. `off` is the mean distance from the most probable cell to the truth, in "
        "cells of the large map: over all unknown sensors, and over those that are located (their number in "
        "brackets)."
    ),
    "Commands": "Whole commands in fresh processes, on the example of `anytimebp demo`.",
}


def measure(*, quick):
    """Yield the sections of the page, a title and a table each, as they are measured."""
    rounds = 8 if quick else 30
    yield "End to end", speed.end_to_end(rounds)
    yield "Logs", speed.logs(rounds)
    yield "Bandwidth", speed.bandwidth(rounds)
    yield "Small graphs", speed.small_graphs(1_000 if quick else 10_000)
    yield "Scale", processes.scale()
    yield "Start", processes.start_up(3 if quick else 5)
    yield "Hubs", speed.hubs()
    yield from measure_structures(quick=quick)
    yield from measure_growth(quick=quick)
    yield from measure_adaptive(quick=quick)
    yield from measure_files(quick=quick)
    yield from measure_memory(quick=quick)


def measure_memory(*, quick):
    """Yield the section on memory limits."""
    yield "Memory", memory.limits(list(memory.CASES)[::4] if quick else memory.CASES)


def measure_structures(*, quick):
    """Yield the section on factors with a structure."""
    yield "Structures", structures.cost(4 if quick else 15)
    yield "Counts", structures.counts(3 if quick else 10)


def measure_adaptive(*, quick):
    """Yield the sections on `adaptive`."""
    yield "Adaptive: against bp", adaptive.against_bp(2 if quick else 5, 3 if quick else 5)
    yield "Adaptive: growth of cost", adaptive.growth_of_cost(1 if quick else 5)
    rows = calibration.collect(16 if quick else 80)
    yield "Adaptive: estimated error", calibration.summary(rows)
    if not quick:
        calibration.draw(rows)


def measure_universes(*, quick):
    """Yield the sections on the examples at full size, which takes many minutes and 7 GB: only if asked for."""
    yield "Universes: entity linking", universes.linking(1 if quick else 3)
    yield "Universes: localisation", universes.localising(1 if quick else 3, seconds=60 if quick else 120)


def measure_files(*, quick):
    """Yield the sections on files and the command line."""
    yield "Files", files.reading(5 if quick else 15)
    yield "Commands", files.commands()


def measure_growth(*, quick):
    """Yield the sections on sparse domains."""
    yield "Sparse domains: work", growth.work(2 if quick else 5)
    yield "Sparse domains: one state at a time", growth.one_by_one(3 if quick else 7)
    yield "Sparse domains: large graphs", growth.large_graphs()
    yield "Sparse domains: budgets", growth.budgets()


def main():
    """Measure, print and, if asked, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="keep the tables in docs/benchmarks.md and docs/adaptive.md"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and 1,000 small graphs instead of 10,000")
    parser.add_argument("--structures", action="store_true", help="only what is about factors with a structure")
    parser.add_argument("--growth", action="store_true", help="only what is about sparse domains")
    parser.add_argument("--adaptive", action="store_true", help="only what is about `adaptive`")
    parser.add_argument("--files", action="store_true", help="only what is about files and the command line")
    parser.add_argument("--memory", action="store_true", help="only what is about memory limits")
    parser.add_argument("--universes", action="store_true", help="only the examples at full size (not in other runs)")
    options = parser.parse_args()
    keep_freed_memory()
    print(machine("numpy", "numba", "anytimebp"), "\n")
    sections = {}
    parts = {
        measure_structures: options.structures,
        measure_growth: options.growth,
        measure_adaptive: options.adaptive,
        measure_files: options.files,
        measure_memory: options.memory,
        measure_universes: options.universes,
    }
    chosen = next((part for part, wanted in parts.items() if wanted), measure)
    for title, rows in chosen(quick=options.quick):
        if options.write:
            write_into_page_on_adaptive(title, rows)
        sections[title] = f"{wrapped(SECTIONS[title])}\n\n{rows}\n"
        print(f"## {title}\n\n{sections[title]}", flush=True)
    if options.write:
        write(sections)


def wrapped(text):
    """Return a paragraph in lines of at most 120 characters."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def write(sections):
    """Write the page, keeping the sections that were not measured, among them that on peers."""
    about = wrapped(f"Written by `evaluation/benchmarks/run.py`. {machine('numpy', 'numba', 'anytimebp')}")
    head = f"# Benchmarks\n\n{about}\n"
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    kept = {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() + "\n" for part in old.split("\n## ")[1:]}
    together = kept | sections
    order = [title for title in SECTIONS if title in together] + [title for title in kept if title not in SECTIONS]
    PAGE.write_text("\n".join([head, *(f"## {title}\n\n{together[title]}" for title in order)]), encoding="utf-8")


def write_into_page_on_adaptive(title, rows):
    """Put a table between its marks in docs/adaptive.md, if it has any there."""
    mark = {"Adaptive: against bp": "measurements", "Adaptive: estimated error": "calibration"}.get(title)
    text = ADAPTIVE_PAGE.read_text(encoding="utf-8")
    if mark is not None:
        before, rest = text.split(f"<!-- {mark} -->", 1)
        _, after = rest.split("<!-- end -->", 1)
        made = f"{before}<!-- {mark} -->\n\n{rows}\n\n<!-- end -->{after}"
        ADAPTIVE_PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
