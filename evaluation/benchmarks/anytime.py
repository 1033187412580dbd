"""How soon `adaptive` is near BP's marginals, against yardsticks that do not move when the library gets faster.

    python evaluation/benchmarks/anytime.py --before FOLDER --bare FILE [--only TEXT] [--no-budgets]

`--before` is the source folder of an older version, whose `bp` is measured in a process of its own; `--bare` is a file
with real documents and a bare loop of full BP over them (`documents`, `graph`, `yardstick`, `distance`). Times go from
a built graph to `marginals.concatenated()`, in processor time: a callback stops a run at the snapshot from which on its
error is known to stay under the bound. Medians of five runs, one after the other, on graphs that were built before.
"""

import argparse
import functools
import gc
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import models
import numpy as np
from timing import table, verdict

import anytimebp as abp

RUNS = 5
DATA = Path(os.environ.get("ANYTIMEBP_DATA", Path(__file__).parents[3] / "shared" / "data")) / "models"
FRACTIONS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
SLOWER = 1.1  # times as long that `adaptive` may take to the error of `bp` within a budget


def _grid(side, states, unary, pairwise):
    return [
        lambda seed=seed: models.graph_of(models.grid(side, side, states, unary, pairwise, seed)) for seed in range(3)
    ]


def _extraction(entities):
    return [lambda seed=seed: models.graph_of(models.joint_extraction(entities, seed)) for seed in (0, 2, 3)]


def _real(name, evidence=None):
    def build():
        graph = abp.read_model(DATA / f"{name}.uai")
        return graph, abp.read_evidence(DATA / evidence, graph) if evidence else None

    return [build]


MODELS = {
    "joint extraction, 8 entities": (_extraction(8), 1e-3, 5.0),
    "joint extraction, 16 entities": (_extraction(16)[:1], 1e-3, 8.0),
    "5x5 grid, 250 states, scores 10, 2": (_grid(5, 250, 10.0, 2.0), 1e-4, 6.0),
    "5x5 grid, 250 states, scores 10, 0.5": (_grid(5, 250, 10.0, 0.5), 1e-4, 6.0),
    "5x5 grid, 1000 states, scores 10, 2": (_grid(5, 1000, 10.0, 2.0), 1e-4, 40.0),
    "10x10 grid, 100 states, scores 6, 2": (_grid(10, 100, 6.0, 2.0), 1e-4, 2.5),
    "pdb1i24": (_real("pdb1i24"), 1e-4, 4.0),
    "mildew, first evidence": (_real("mildew", "mildew.uai.evid"), 1e-4, 2.0),
    "mildew, second evidence": (_real("mildew", "mildew.uai.ev1.evid"), 1e-4, 2.0),
    "pathfinder, first evidence": (_real("pathfinder", "pathfinder.uai.evid"), 1e-4, 2.0),
    "pathfinder, second evidence": (_real("pathfinder", "pathfinder.uai.ev1.evid"), 1e-4, 2.0),
    "10x10 grid, 100 states, scores 1, 0.5": (_grid(10, 100, 1.0, 0.5), 1e-4, 1 / 1.05),
    "ObjectDetection_24": (_real("ObjectDetection_24"), 1e-4, 1 / 1.05),
    "alarm": (_real("alarm"), 1e-4, 1 / 1.05),
}
"""Graphs, the L2 error to reach, and how many times as soon as `bp` before."""


def built(build):
    """Return a new graph, and the evidence for it."""
    found = build()
    return found if isinstance(found, tuple) else (found, None)


def flat(marginals):
    """Return all marginals in one array; older versions have no method for it."""
    return marginals.concatenated() if hasattr(marginals, "concatenated") else np.concatenate(list(marginals.values()))


def error_of(found, reference, starts):
    """Return the mean over variables of the L2 distance of two arrays of marginals."""
    return float(np.sqrt(np.add.reduceat((found - reference) ** 2, starts)).mean())


def measure(build, method, error):
    """Return the median time to an error, the time to the end, where each variable's marginal starts, and the truth."""
    graph, evidence = built(build)
    reference = flat(abp.infer(graph, "bp", evidence=evidence, tolerance=1e-12).marginals)
    sizes = [variable.n_states for variable in graph.variables]
    starts = np.cumsum([0, *sizes[:-1]])
    seen = [
        error_of(flat(snapshot.marginals), reference, starts)
        for snapshot in abp.Inference(graph, method, evidence=evidence)
    ]
    above = [index for index, distance in enumerate(seen) if not distance < error]
    number = above[-1] + 1 if above else 0
    return _median_time(build, method, number), _median_time(build, method), starts, reference


def _median_time(build, method, number=None):
    """Return the median time to the snapshot of that number, or to the end."""
    spent, graphs = [], [built(build) for _ in range(RUNS + 2)]
    gc.collect()
    gc.disable()
    for graph, evidence in graphs:
        left = iter(range(number or 0, -1, -1))
        stop = None if number is None else lambda _snapshot, left=left: next(left) == 0
        before = time.process_time()
        flat(abp.infer(graph, method, evidence=evidence, callback=stop).marginals)
        spent.append(time.process_time() - before)
    gc.enable()
    return statistics.median(spent[2:])  # the first ones load, and warm the caches up


def errors_within(build, method, budgets, starts, reference):
    """Return the median L2 error of runs within each of some budgets, in seconds."""
    found = []
    for seconds in budgets:
        errors = []
        for _ in range(RUNS):
            graph, evidence = built(build)
            marginals = abp.infer(graph, method, evidence=evidence, seconds=seconds).marginals
            errors.append(error_of(flat(marginals), reference, starts))
        found.append(statistics.median(errors))
    return found


def before_now(arguments, task, *given):
    """Run a task of this file with the older version, in a process of its own; return what it printed."""
    path = os.pathsep.join([arguments.before, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, __file__, "--task", task, *map(str, given)],
        env=os.environ | {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(Path(arguments.before) / "cache")},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run_task(task, name, number, *budgets):
    """Do what `before_now` asks for."""
    builds, error, _ = MODELS[name]
    build = builds[int(number)]
    soon, end, starts, reference = measure(build, "bp", error)
    answer = {"soon": soon, "end": end}
    if task == "budgets":
        answer["errors"] = errors_within(build, "bp", [float(b) for b in budgets], starts, reference)
    print(json.dumps(answer))


def against_before(arguments):
    """Print the table of times to an error, and the cells of budgets."""
    rows, cells = [], []
    for name, (builds, error, bar) in MODELS.items():
        if arguments.only not in name:
            continue
        gains = []
        for number, build in enumerate(builds):
            ours, _, starts, reference = measure(build, "adaptive", error)
            old = before_now(arguments, "soon", name, number)
            gains.append(old["soon"] / ours)
            if arguments.budgets:
                budgets = [fraction * old["end"] for fraction in FRACTIONS]
                within = before_now(arguments, "budgets", name, number, *(b / SLOWER for b in budgets))["errors"]
                own = errors_within(build, "adaptive", budgets, starts, reference)
                cells += [(name, f, a, b) for f, a, b in zip(FRACTIONS, own, within, strict=True)]
        gain = math.exp(statistics.mean(map(math.log, gains)))
        each = ", ".join(f"{g:.2f}" for g in gains)
        rows.append([name, f"{error:g}", each, f"{gain:.2f}", f"{bar:.2f}: {verdict(met=gain >= bar)}"])
        print(rows[-1], file=sys.stderr, flush=True)
    print(table(["model", "L2 error", "times as soon as `bp` before, by graph", "geometric mean", "bar"], rows))
    if cells:
        good = [own <= old + 1e-6 for _, _, own, old in cells]
        print(f"\nBudgets of 1/64 to 1 of the time of `bp` before: {sum(good)} of {len(cells)} cells are no worse")
        for (name, fraction, own, old), is_good in zip(cells, good, strict=True):
            if not is_good:
                print(f"- {name}, {fraction:.3f}: {own:.1e} against {old:.1e}")


def real_documents(path):
    """Print how soon `adaptive` makes BP's decisions on real documents, against a bare loop of full BP."""
    sys.path.insert(0, str(Path(path).parent))  # Numba's disk cache finds the module by its name
    bare = importlib.import_module(Path(path).stem)
    bare.time = type("Clock", (), {"perf_counter": staticmethod(time.process_time)})
    rows, wrong, clear = [], 0, 0
    for number, document in enumerate(bare.documents()):
        reference, _ = bare.yardstick(document)
        loop = min(_bare_time(bare, document, reference) for _ in range(RUNS))
        answers = _document_answers(bare, document, reference)
        first = answers[0]
        wrong, clear = wrong + first[1], clear + first[2]
        build = functools.partial(bare.graph, abp, document)
        times = [_median_time(build, "adaptive", last) for last in (0, len(answers) - 1)]
        rows.append([number, len(document[2]), loop, *times, first[0]])
    gains = np.array([[row[2] / row[3], row[2] / row[4]] for row in rows])
    shown = [[n, f, f"{1e3 * a:.2f}", f"{1e3 * b:.2f}", f"{1e3 * c:.2f}", f"{e:.1e}"] for n, f, a, b, c, e in rows]
    header = ["document", "pairs", "bare loop, ms", "first answer", "L2 < 1e-3", "L2 of the first"]
    print(table(header, shown))
    first, near = np.exp(np.log(gains).mean(axis=0))
    print(f"\ngeometric means: first answer {first:.1f} times as soon (15), L2 < 1e-3 {near:.1f} (6); ", end="")
    print(f"{wrong} of {clear} clear decisions differ ({1 - wrong / clear:.2%} agree; 99.8 %)")


def _bare_time(bare, document, reference):
    _, history = bare.yardstick(document, 1e-6, keep=True)
    return next(seconds for seconds, marginals in history if bare.distance(marginals, reference) < 1e-3)


def _document_answers(bare, document, reference):
    """Return the error, wrong and clear decisions of every snapshot until the error is under 1e-3."""
    types, pairs, found = document[1], document[2], []
    for snapshot in abp.Inference(bare.graph(abp, document), "adaptive"):
        marginals = flat(snapshot.marginals)
        own = marginals[: types.size].reshape(types.shape), marginals[types.size :].reshape(len(pairs), -1)
        wrong = clear = 0
        for ours, theirs in zip(own, reference, strict=True):
            best = np.sort(theirs, axis=1)
            is_clear = best[:, -1] - best[:, -2] >= 0.02
            clear += int(is_clear.sum())
            wrong += int((ours.argmax(axis=1) != theirs.argmax(axis=1))[is_clear].sum())
        found.append((bare.distance(own, reference), wrong, clear))
        if found[-1][0] < 1e-3:
            return found
    return found


def main():
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="source folder of an older version")
    parser.add_argument("--bare", help="file with real documents and a bare loop")
    parser.add_argument("--only", default="", help="models whose names hold this text")
    parser.add_argument("--no-budgets", dest="budgets", action="store_false", help="leave the budgets out")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.task:
        run_task(*arguments.task)
        return
    if arguments.bare:
        real_documents(arguments.bare)
    if arguments.before:
        against_before(arguments)


if __name__ == "__main__":
    main()
