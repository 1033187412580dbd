"""How soon `adaptive` is near BP's marginals, against fixed yardsticks: they stay when the library gets faster.

    python evaluation/benchmarks/anytime.py --before FOLDER --bare FILE [--only TEXT] [--no-budgets]

`--before` is the source folder of an older version, whose `bp` takes turns with `adaptive`, in processes of their own
(`anytime_worker.py`); `--bare` is a file with real documents and a bare loop of full BP over them (`documents`,
`graph`, `yardstick`, `distance`). Times go from a built graph to `marginals.concatenated()`, in processor time: a
callback stops a run at the snapshot from which on its error is known to stay under the bound. Medians of five runs.
"""

import argparse
import functools
import gc
import importlib
import math
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from anytime_worker import MODELS, built, flat
from timing import table, verdict
from workers import Worker

import anytimebp as abp

RUNS = 5
WARM_UP = 1  # runs of every case before
WORKER = Path(__file__).with_name("anytime_worker.py")
FRACTIONS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
SLOWER = 1.1  # times as long that `adaptive` may take to the error of `bp` within a budget


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


class Turns:
    """`bp` of an older version and `adaptive`, taking turns, each in a process of its own.

    Args:
        before: The `src` folder of the older version.
        folder: For files.
    """

    def __init__(self, before, folder):
        """Start both."""
        self._folder, self._n = Path(folder), 0
        self._old, self._new = Worker(WORKER, before), Worker(WORKER)

    def choose(self, name, number):
        """Choose a graph; the older version says what the truth is."""
        self._n += 1
        truth = str(self._folder / f"{self._n}.npy")
        self._old.ask(task="choose", name=name, number=number, method="bp", truth=truth)
        self._new.ask(task="choose", name=name, number=number, method="adaptive", truth=truth)

    def seconds(self):
        """Return the median times of `bp` before to the error, of `adaptive` to the error, and of `bp` to the end.

        A run to its end has come to the error, too, and without a callback, which costs time.
        """
        times = {(worker, to_end): [] for to_end in (False, True) for worker in (self._old, self._new)}
        for _ in range(WARM_UP + RUNS):
            for (worker, to_end), each in times.items():
                each.append(worker.ask(task="seconds", to_end=to_end))
        found = {key: statistics.median(each[WARM_UP:]) for key, each in times.items()}
        soon = [min(found[worker, False], found[worker, True]) for worker in (self._old, self._new)]
        return *soon, found[self._old, True]

    def errors(self, seconds):
        """Return the median errors of both within a budget."""
        own, old = [], []
        for _ in range(RUNS):
            old.append(self._old.ask(task="within", seconds=seconds / SLOWER))
            own.append(self._new.ask(task="within", seconds=seconds))
        return statistics.median(own), statistics.median(old)

    def close(self):
        """End both."""
        self._old.close()
        self._new.close()


def against_before(arguments, turns):
    """Print the table of times to an error, and the cells of budgets."""
    rows, cells = [], []
    for name, (builds, error, bar) in MODELS.items():
        if arguments.only not in name:
            continue
        gains, spent = [], []
        for number in range(len(builds)):
            turns.choose(name, number)
            soon, ours, end = turns.seconds()
            gains.append(soon / ours)
            spent.append(ours)
            if arguments.budgets:
                cells += [(name, fraction, *turns.errors(fraction * end)) for fraction in FRACTIONS]
        gain = math.exp(statistics.mean(map(math.log, gains)))
        each, ms = ", ".join(f"{g:.2f}" for g in gains), ", ".join(f"{1e3 * s:.2f}" for s in spent)
        rows.append([name, f"{error:g}", ms, each, f"{gain:.2f}", f"{bar:.2f}: {verdict(met=gain >= bar)}"])
        print(rows[-1], file=sys.stderr, flush=True)
    header = ["model", "L2 error", "`adaptive`, ms", "times as soon as `bp` before, by graph", "geometric mean", "bar"]
    print(table(header, rows))
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
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.bare:
        real_documents(arguments.bare)
    if arguments.before:
        with tempfile.TemporaryDirectory() as folder:
            turns = Turns(arguments.before, folder)
            against_before(arguments, turns)
            turns.close()


if __name__ == "__main__":
    main()
