"""Joint extraction with factors that are trained jointly, beside counted ones: NEREL and CoNLL04.

    python evaluation/benchmarks/learning.py --nerel FOLDER --conll04 FOLDER [--documents N] [--out FILE]

Set OPENBLAS_NUM_THREADS=1 to measure one core.

F1 on the test documents with given spans. All models share the same local classifiers, and what is tuned is tuned on
dev. `--documents` takes the first N training documents only. Processor time; classifiers are not counted. `--out` keeps
the sums of every model as JSON.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from timing import keep_freed_memory, table

from anytimebp.learn import CRF
from anytimebp_evaluation.conll04 import read_conll04
from anytimebp_evaluation.nerel.documents import SPLITS, read_documents, read_labels
from anytimebp_evaluation.nerel.learned import RELATIONS, TABLE, TYPES, LearnedTask, differences

SMALL = 0.01  # penalty of weights of which there are few


def _show(what, done, total):
    sys.stderr.write(f"\r{what}: {done} of {total}   ")


def measure(name, labels, documents, arguments):
    """Print the table of one task; return its rows."""
    splits = {split: [own for own in documents if own.split == split and own.entities] for split in SPLITS}
    splits["train"] = splits["train"][: arguments.documents]
    task = LearnedTask(splits, labels, arguments.seed, _show)
    crf = CRF(
        method=arguments.method,
        optimizer=arguments.optimizer,
        l2={TYPES: SMALL, RELATIONS: SMALL, TABLE: SMALL},
        learning_rate=arguments.rate,
        batch_size=8,
        max_iterations=arguments.passes,
        patience=2,
        tolerance=1e-4,
        progress=True,
        seed=arguments.seed,
    )
    answers = [*task.counted(), *task.scaled(crf)]
    for l2 in arguments.l2:
        crf.set_params(l2={TYPES: SMALL, RELATIONS: SMALL, TABLE: l2})
        answers += [replace(own, model=f"{own.model}, l2={l2:g}") for own in task.free(crf)]
    rows, counted = [], answers[1]
    for answer in answers:
        types, relations = answer.f1()
        gaps = differences(counted, answer)
        shown = ["" if answer is counted else f"{own.value:+.3f} ({own.low:+.3f} to {own.high:+.3f})" for own in gaps]
        rows.append([answer.model, f"{types:.3f}", shown[0], f"{relations:.3f}", shown[1], f"{answer.seconds:.0f}"])
    sizes = ", ".join(f"{len(splits[split])} {split}" for split in SPLITS)
    print(f"\n{name}: {sizes} documents; classifiers took {task.classifier_seconds:.0f} s\n")
    head = ["model", "F1 of types", "less counted (95 %)", "F1 of relations", "less counted (95 %)", "training, s"]
    print(table(head, rows), flush=True)
    return {"task": name, "documents": sizes, "seed": arguments.seed, "rows": [answer.row() for answer in answers]}


def main():
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nerel", type=Path, help="folder of NEREL")
    parser.add_argument("--conll04", type=Path, help="folder of CoNLL04")
    parser.add_argument("--documents", type=int, help="training documents; all by default")
    parser.add_argument("--passes", type=int, default=8, help="passes of Adam at the most")
    parser.add_argument("--rate", type=float, default=0.02, help="learning rate of Adam")
    parser.add_argument("--l2", type=float, nargs="*", default=[1.0, 30.0], help="penalties of the free table")
    parser.add_argument("--method", default="bp", help="of inference")
    parser.add_argument("--optimizer", default="adam", choices=["adam", "lbfgs"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file for the sums, as JSON")
    arguments = parser.parse_args()
    keep_freed_memory()
    found = []
    if arguments.conll04:
        found.append(measure("CoNLL04", *read_conll04(arguments.conll04), arguments))
    if arguments.nerel:
        labels = read_labels(arguments.nerel)
        found.append(measure("NEREL", labels, read_documents(arguments.nerel, labels), arguments))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
