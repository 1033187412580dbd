"""What each part of `adaptive` is worth: times to the same error without it, divided by the time with all parts.

    python evaluation/benchmarks/ablation.py [--only TEXT] [--bare FILE]

Processor time from a built graph to all marginals in one array, at the snapshot from which on the error stays under
the bound of `anytime_worker.py`. Versions take turns in one process; least of some runs each. `--bare` is a file with
real documents (`documents`, `graph`), as for `anytime.py`, of which the first four are measured to 1e-3.
"""

import argparse
import contextlib
import functools
import gc
import importlib
import math
import sys
import time
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from anytime_worker import MODELS, built, error_of, flat
from timing import keep_freed_memory, table

import anytimebp as abp
from anytimebp.inference import all_states
from anytimebp.inference.adaptive import adaptive_run
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.adaptive.rounds import Rounds

RUNS = 7
DOCUMENTS = 4
plain_schedule, note = all_states.plain_schedule, Rounds._note  # noqa: SLF001  (it is put in another place)


def _never_lazy(*given, is_lazy, **named):
    del is_lazy
    return plain_schedule(*given, is_lazy=False, **named)


def _nothing(*_):
    return None


def _no(*_):
    return False


def _note_rounds_alone(self, known, *, is_told=True):
    note(self, known, is_told=is_told and known.tail is None)


WITHOUT = {
    "rounds": [mock.patch.object(AdaptiveRun, "_why_full", "rounds are switched off")],
    "answers after looks": [mock.patch.object(Rounds, "_note", _note_rounds_alone)],
    "halves of looks": [mock.patch.object(Rounds, "_nearest", _nothing)],
    "later rounds": [mock.patch.object(Rounds, "_pays", _no)],
    "messages handed on": [mock.patch.object(Rounds, "put_messages", _nothing)],
    "lazy sweeps": [mock.patch.object(all_states, "plain_schedule", _never_lazy)],
    "a first round on relations": [mock.patch.object(adaptive_run, "may_have_relations", _no)],
}
"""What is put in the place of each part."""


def _switched_off(patches):
    stack = contextlib.ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


def _run(build, number):
    """Return the processor time of a run up to a snapshot of that number; None for a run to its end."""
    graph, evidence = built(build)
    left = iter(range(number or 0, -1, -1))
    stop = None if number is None else lambda _snapshot: next(left, 0) == 0
    gc.collect()
    began = time.process_time()
    flat(abp.infer(graph, "adaptive", evidence=evidence, callback=stop).marginals)
    return time.process_time() - began


def _last_above(build, error, reference, starts):
    """Return the number of the snapshot from which on the error stays under a bound."""
    graph, evidence = built(build)
    errors = [
        error_of(flat(s.marginals), reference, starts) for s in abp.Inference(graph, "adaptive", evidence=evidence)
    ]
    above = [index for index, found in enumerate(errors) if not found < error]
    return above[-1] + 1 if above else 0


def _times_as_long(build, error):
    """Return, for each part, how many times as long it takes without it."""
    graph, evidence = built(build)
    reference = flat(abp.infer(graph, "bp", evidence=evidence, tolerance=1e-12).marginals)
    starts = np.cumsum([0, *[variable.n_states for variable in graph.variables][:-1]])
    versions, best = {"": [], **WITHOUT}, {}
    numbers = {}
    for name, patches in versions.items():
        with _switched_off(patches):
            numbers[name] = _last_above(build, error, reference, starts)
    for _ in range(RUNS):
        for name, patches in versions.items():
            with _switched_off(patches):
                spent = min(_run(build, numbers[name]), _run(build, None))
            best[name] = min(best.get(name, math.inf), spent)
    return {name: best[name] / best[""] for name in WITHOUT}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose names hold this text")
    parser.add_argument("--bare", help="file with real documents")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_freed_memory()
    gc.disable()
    cases = {name: (builds[:3], error) for name, (builds, error, _) in MODELS.items()}
    if arguments.bare:
        sys.path.insert(0, str(Path(arguments.bare).parent))
        bare = importlib.import_module(Path(arguments.bare).stem)
        documents = list(bare.documents())[:DOCUMENTS]
        cases["real documents"] = [functools.partial(bare.graph, abp, one) for one in documents], 1e-3
    rows = []
    for name, (builds, error) in cases.items():
        if arguments.only in name:
            found = [_times_as_long(build, error) for build in builds]
            means = {part: math.exp(np.mean([math.log(one[part]) for one in found])) for part in WITHOUT}
            rows.append([name, *(f"{mean:.2f}" for mean in means.values())])
            print(rows[-1], file=sys.stderr, flush=True)
    print(table(["times as long without", *WITHOUT], rows))


if __name__ == "__main__":
    main()
