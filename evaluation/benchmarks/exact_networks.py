"""Exact inference on Bayesian networks with three variables observed, beside pyAgrum's LazyPropagation.

Usage:
    python evaluation/benchmarks/exact_networks.py FOLDER --pyagrum PYTHON

FOLDER holds .bif.gz files, such as those in the wheel of pgmpy 0.1.26; PYTHON is an interpreter that has pyAgrum. Each
side runs in a process of its own, on the same evidence, which a joint state drawn from the network agrees with. *All*
are the posteriors of all variables, *target* that of one, drawn at random. *First* is a query whose engine, or layout,
is new, so that an order has to be found; *again* one of the same engine with other evidence. Figures are medians over
evidence sets of the least wall time of some repeats, in milliseconds: ours, pyAgrum's, and how many times as fast.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

NETWORKS = ("alarm", "insurance", "win95pts", "hepar2", "water", "mildew", "pigs", "andes", "pathfinder")
SETS, REPEATS, OBSERVED = 20, 5, 3

WAYS = ("all, first", "all, again", "target, first", "target, again")

Queries = list[tuple[dict[str, str], str]]
Times = dict[str, list[float]]


def draw_queries(path: Path) -> Queries:
    """Return evidence on three variables each, taken from joint states drawn from a network, and a target."""
    import anytimebp as abp  # noqa: PLC0415  (the other side has none)

    graph, rng = abp.read_model(path), np.random.default_rng(1)
    sets: Queries = []
    while len(sets) < SETS:
        *chosen, target = rng.choice(len(graph.variables), size=OBSERVED + 1, replace=False).tolist()
        given: dict[str, str] = {}
        for index in chosen:  # one after the other, each given the others: a draw from their joint marginal
            marginal = abp.infer(graph, "exact", evidence=given).marginals[index]
            variable = graph.variables[index]
            given[variable.name] = str(variable.labels[int(rng.choice(len(marginal), p=marginal / marginal.sum()))])
        sets.append((given, graph.variables[target].name))
    return sets


def least(query: Callable[[], object], before: Callable[[], object]) -> float:
    """Return the least wall time of some repeats, in milliseconds."""
    times = []
    for _ in range(REPEATS):
        before()
        start = time.perf_counter()
        query()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def time_ours(path: Path, sets: Queries) -> Times:
    """Return the times of all ways to ask, by evidence set."""
    import anytimebp as abp  # noqa: PLC0415

    graph = abp.read_model(path)
    names = [variable.name for variable in graph.variables]

    def query(given: dict[str, str], targets: list[str] | None) -> None:
        marginals = abp.infer(graph, "exact", evidence=given, targets=targets).marginals
        for name in targets or names:
            marginals[name]

    def forget() -> None:
        graph.compiled = None

    def other() -> None:
        query(sets[0][0], None)

    other()
    query(sets[0][0], [sets[0][1]])
    return {
        way: [
            least(partial(query, g, [t] if "target" in way else None), forget if "first" in way else other)
            for g, t in sets
        ]
        for way in WAYS
    }


def time_pyagrum(path: Path, sets: Queries) -> Times:
    """Do the same with pyAgrum."""
    import pyagrum as gum  # noqa: PLC0415

    gum.setNumberOfThreads(len(os.sched_getaffinity(0)))  # more would wait for each other
    network = gum.loadBN(str(path))
    names = list(network.names())
    same = gum.LazyPropagation(network)

    def query(given: dict[str, str], targets: list[str] | None, *, first: bool) -> None:
        engine = gum.LazyPropagation(network) if first else same
        if targets or not first:
            engine.setTargets(set(targets or names))
        engine.setEvidence(given)
        engine.makeInference()
        for name in targets or names:
            engine.posterior(name)

    def nothing() -> None:
        return

    def other() -> None:
        query(sets[0][0], None, first=False)

    return {
        way: [
            least(
                partial(query, g, [t] if "target" in way else None, first="first" in way),
                nothing if "first" in way else other,
            )
            for g, t in sets
        ]
        for way in WAYS
    }


SIDES = {"anytimebp": time_ours, "pyAgrum": time_pyagrum}


def _ask(python: str, side: str, path: Path, evidence: Path) -> Times:
    """Time one side in a process of its own."""
    command = [python, __file__, str(path), "--side", side, "--evidence", str(evidence)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: Times = json.loads(done.stdout.splitlines()[-1])
    return found


def _compare(folder: Path, pyagrum: str, names: Sequence[str]) -> None:
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    print(f"| network | {' | '.join(WAYS)} |\n|---|{'---|' * len(WAYS)}")
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            path, evidence = Path(scratch) / f"{name}.bif", Path(scratch) / f"{name}.json"
            path.write_bytes(gzip.decompress((folder / f"{name}.bif.gz").read_bytes()))
            evidence.write_text(json.dumps(draw_queries(path)))
            ours, theirs = (
                _ask(p, s, path, evidence) for p, s in ((sys.executable, "anytimebp"), (pyagrum, "pyAgrum"))
            )
            cells = []
            for way, ratio in ratios.items():
                own, other = median(ours[way]), median(theirs[way])
                ratio.append(other / own)
                cells.append(f"{own:.2f} / {other:.2f} ({other / own:.1f} x)")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    for way, ratio in ratios.items():
        print(f"{way}: {geometric_mean(ratio):.1f} times as fast in the geometric mean, {min(ratio):.1f} at the least")


def main() -> None:
    """Compare, or time one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--pyagrum", default=sys.executable)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--evidence", type=Path)
    given = parser.parse_args()
    if given.side is None:
        _compare(given.path, given.pyagrum, given.networks)
    else:
        print(json.dumps(SIDES[given.side](given.path, json.loads(given.evidence.read_text()))))


if __name__ == "__main__":
    main()
