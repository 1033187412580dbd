"""Times one version of the library, to an error and within budgets: lines of JSON in, lines out.

A case is chosen first (`choose`): the snapshot is found from which on the error stays under the bound. Every run has a
graph of its own, built before the clock starts, and ends with all marginals in one array; just before it, an older
graph is run, so that code is warm. Freed memory is kept, for all versions alike: otherwise, page faults hit whoever
comes after a large free, and figures of the same runs differ by ten times. Only what all versions have is used.
"""

import gc
import json
import os
import sys
import time
import warnings
from pathlib import Path

import models
import numpy as np
from timing import keep_freed_memory

import anytimebp as abp

DATA = Path(os.environ.get("ANYTIMEBP_DATA", Path(__file__).parents[3] / "shared" / "data")) / "models"


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


class Case:
    """One model under one method.

    Args:
        name: Of the model in MODELS.
        number: Which of its graphs.
        method: Method.
        truth: File of the marginals that errors are against; written by whoever comes first.
    """

    def __init__(self, name, number, method, truth):
        """Find the snapshot from which on the error stays under the bound."""
        builds, error, _ = MODELS[name]
        self._build, self._method = builds[number], method
        self._older = graph, evidence = built(self._build)
        if not Path(truth).exists():
            np.save(truth, flat(abp.infer(graph, "bp", evidence=evidence, tolerance=1e-12).marginals))
        self._reference = np.load(truth)
        self._starts = np.cumsum([0, *[variable.n_states for variable in graph.variables][:-1]])
        run = abp.Inference(graph, method, evidence=evidence)
        self.errors = [error_of(flat(snapshot.marginals), self._reference, self._starts) for snapshot in run]
        above = [index for index, distance in enumerate(self.errors) if not distance < error]
        self._number = above[-1] + 1 if above else 0

    def seconds(self, *, to_end):
        """Return the processor time of one run, to the bound or to the end."""
        new = built(self._build)
        gc.collect()
        self._older[0].compiled = None
        self._run(*self._older, to_end=to_end)
        before = time.process_time()
        self._run(*new, to_end=to_end)
        return time.process_time() - before

    def _run(self, graph, evidence, *, to_end):
        left = iter(range(self._number, -1, -1))
        stop = None if to_end else lambda _snapshot: next(left, 0) == 0
        flat(abp.infer(graph, self._method, evidence=evidence, callback=stop).marginals)

    def error_within(self, seconds):
        """Return the L2 error of a run within a budget."""
        graph, evidence = built(self._build)
        gc.collect()
        marginals = abp.infer(graph, self._method, evidence=evidence, seconds=seconds).marginals
        return error_of(flat(marginals), self._reference, self._starts)


def main():
    """Answer until there is nothing more to do."""
    warnings.simplefilter("ignore")
    keep_freed_memory()
    gc.disable()
    case = None
    for line in sys.stdin:
        asked = json.loads(line)
        task = asked.pop("task")
        if task == "choose":
            case = Case(**asked)
            answer = case.errors
        else:
            answer = case.seconds(**asked) if task == "seconds" else case.error_within(**asked)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
