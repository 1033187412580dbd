"""F1 of relations on real documents within a part of the time of full BP, against that of full BP itself.

    python evaluation/benchmarks/decisions.py --bare FILE DOCUMENTS [--quick] [--parts 32]

DOCUMENTS is the folder that `anytimebp reproduce nerel` reads; classifiers are trained and the joint model is tuned as
there. `--bare` is a file with a bare loop of full BP (`yardstick`), as for `anytime.py`: every test document is given
1/32 of the time in which that loop settles, from a built graph on. A first answer is begun even where the time is used
up by setting up, so the table says how long answers really took, until all marginals are in one array. Processor time;
budgets go by that as well, so that other programs on the machine do not shorten them.
"""

import argparse
import gc
import importlib
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from timing import keep_freed_memory, table

import anytimebp as abp
from anytimebp.inference import budget
from anytimebp.inference.adaptive import adaptive_run
from anytimebp_evaluation.nerel.classifiers import train
from anytimebp_evaluation.nerel.documents import read_documents, read_labels
from anytimebp_evaluation.nerel.joint import biased
from anytimebp_evaluation.nerel.scoring import count_right, precision_recall_f1
from anytimebp_evaluation.nerel.task import split_documents, tuned

TOLERANCE = 1e-8  # to which the bare loop settles, as `bp` does
RUNS = 3  # of which the quickest counts
CLOSE = 0.001  # of F1 that an answer may be worse than full BP


def _chosen(marginals, shape):
    """Return the likeliest states of types and relations."""
    types, relations = marginals[: shape[0] * shape[1]], marginals[shape[0] * shape[1] :]
    return types.reshape(shape[:2]).argmax(axis=1), relations.reshape(-1, shape[2]).argmax(axis=1)


def _bare(bare, model, scores):
    """Return the decisions of full BP, and the least time that it took."""
    spent, document = [], (model.table, scores.types, scores.pairs, biased(scores.relations, model.none))
    for _ in range(RUNS):
        (types, relations), history = bare.yardstick(document, TOLERANCE)
        spent.append(history[-1][0])
    return (types.argmax(axis=1), relations.argmax(axis=1)), min(spent)


def _within(model, document, scores, seconds):
    """Return the decisions of `adaptive` within a budget, and the least time that it took."""
    shape, spent = (*scores.types.shape, scores.relations.shape[1]), []
    for _ in range(RUNS):
        graph = model.graph(document, scores)
        gc.collect()
        before = time.process_time()
        marginals = abp.infer(graph, "adaptive", seconds=seconds).marginals.concatenated()
        spent.append(time.process_time() - before)
    return _chosen(marginals, shape), min(spent)


def measure(bare, data, parts, *, quick):
    """Print F1 of full BP, and of `adaptive` within a part of its time."""
    labels = read_labels(data)
    splits = split_documents(read_documents(data, labels), quick=quick)
    classifiers = train(splits["train"], splits["dev"], labels, 0)
    model = tuned(splits, classifiers.scores(splits["dev"]), labels, lambda *_: None).model
    counts, spent, differ, kept = np.zeros((2, 3)), np.zeros(2), 0, []
    documents = [
        (d, s) for d, s in zip(splits["test"], classifiers.scores(splits["test"]), strict=True) if len(s.pairs)
    ]
    _bare(bare, model, documents[0][1])  # loads and compiles
    _within(model, *documents[0], 1.0)
    gc.disable()
    for document, scores in documents:
        truth, full = _bare(bare, model, scores)
        own, seconds = _within(model, document, scores, full / parts)
        for row, answer in enumerate((truth, own)):
            right = count_right(document, scores.pairs, *answer, labels)
            counts[row] += right.true_positives, right.false_positives, right.false_negatives
        differ += sum(int((a != b).sum()) for a, b in zip(truth, own, strict=True))
        spent += full, seconds
        kept.append(full / seconds)
    f1 = [precision_recall_f1(*row)[2] for row in counts]
    rows = [
        ["full BP, bare loop", f"{1e3 * spent[0]:.1f}", f"{f1[0]:.4f}"],
        [f"`adaptive` within 1/{parts}", f"{1e3 * spent[1]:.1f}", f"{f1[1]:.4f}"],
    ]
    print(table([f"{len(documents)} documents", "time in all, ms", "F1 of relations"], rows))
    print(f"\n{differ} decisions differ; F1 differs by {f1[1] - f1[0]:+.4f} (at least -{CLOSE}); answers took ", end="")
    print(f"1/{np.exp(np.log(kept).mean()):.1f} of the time of full BP, as a geometric mean over documents")


def main():
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=Path, help="folder of the documents")
    parser.add_argument("--bare", required=True, help="file with a bare loop of full BP")
    parser.add_argument("--parts", type=int, default=32, help="the budget is one of so many parts of full BP's time")
    parser.add_argument("--quick", action="store_true", help="a few documents only")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_freed_memory()
    sys.path.insert(0, str(Path(arguments.bare).parent))  # Numba's disk cache finds the module by its name
    bare = importlib.import_module(Path(arguments.bare).stem)
    bare.time = type("Clock", (), {"perf_counter": staticmethod(time.process_time)})
    budget.perf_counter = adaptive_run.perf_counter = time.process_time
    measure(bare, arguments.documents, arguments.parts, quick=arguments.quick)


if __name__ == "__main__":
    main()
