"""The experiment: every test document by local scores, by a pipeline, by BP, by `adaptive`, and within budgets.

Yields a raw row per document and contender; whatever is told about the experiment is computed from those.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anytimebp import FactorGraph, NotConvergedWarning, OptionError, Result, UncertainResultWarning, infer
from anytimebp_evaluation.nerel.documents import (
    SPLITS,
    Document,
    Labels,
    candidate_pairs,
    count_reachable,
    read_documents,
    read_labels,
)
from anytimebp_evaluation.nerel.joint import JointModel, Scores, biased, compatibility, count_triples
from anytimebp_evaluation.nerel.scoring import count_right
from anytimebp_evaluation.nerel.tuning import (
    Progress,
    joint_choice,
    pipeline_relations,
    tune_joint,
    tune_local,
    tune_pipeline,
)
from anytimebp_evaluation.sampling import converged_bp, whole

Row = dict[str, str | float | int]

QUICK = {"train": 24, "dev": 2, "test": 3}
FRACTIONS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # budgets, as parts of the time of full BP on the same document
LOCAL = ("local", "pipeline")  # contenders without inference
METHODS = ("bp", "adaptive")


@dataclass(frozen=True)
class Trained:
    """What the training and dev documents have taught.

    Attributes:
        model: The joint model.
        table_weight: The weight of its table, for the record.
        pipeline: The same for types that are chosen first, with weights of its own.
        local_none: What is added to the local log score of "none".
        train_documents: How many documents were trained on.
    """

    model: JointModel
    table_weight: float
    pipeline: JointModel
    local_none: float
    train_documents: int

    def relations(self, scores: Scores, contender: str) -> NDArray[np.float64]:
        """Return the log scores of relations by which a contender without inference chooses."""
        if contender == "pipeline":
            return pipeline_relations(scores, self.pipeline)
        return biased(scores.relations, self.local_none)


def run_nerel(
    data: Path, *, quick: bool, seed: int, progress: Progress, done: AbstractSet[str] = frozenset()
) -> Iterator[list[Row]]:
    """Train, tune, and yield the rows of one test document after the other, a row per contender.

    Args:
        data: The folder with the documents.
        quick: A few documents only: seconds instead of minutes.
        seed: Of the training.
        progress: Called with what is under way, how much of it is done, and how much there is.
        done: Names of documents to leave out.

    Raises:
        OptionError: The folder lacks a file, or a split of the documents is empty.
        FormatError: A file is not what it should be; names the line.
    """
    from anytimebp_evaluation.nerel.classifiers import train  # noqa: PLC0415  (loads scikit-learn: a second)

    labels = read_labels(data)
    splits = split_documents(read_documents(data, labels), quick=quick)
    wanted = [document for document in splits["test"] if document.name not in done]
    if not wanted:
        return
    progress("training", 0, 1)
    classifiers = train(splits["train"], splits["dev"], labels, seed)
    progress("training", 1, 1)
    trained = tuned(splits, classifiers.scores(splits["dev"]), labels, progress)
    scores = classifiers.scores(wanted)
    for method in METHODS:  # compiled kernels are loaded here, not while the clock runs
        _timed(trained.model.graph(wanted[0], scores[0]), method, None)
    for index, (document, one) in enumerate(zip(wanted, scores, strict=True)):
        progress("documents", index, len(wanted))
        about: Row = {"seed": seed, "document": document.name, "split": document.split}
        yield [{**about, **row} for row in _document_rows(document, one, trained)]
    progress("documents", len(wanted), len(wanted))


def contenders() -> list[str]:
    """Return the names of all contenders: local ones, methods to the end, and within parts of BP's time."""
    budgets = [f"{method} {fraction:g}" for fraction in FRACTIONS for method in METHODS]
    return [*LOCAL, *METHODS, *budgets]


def split_documents(documents: Sequence[Document], *, quick: bool) -> dict[str, list[Document]]:
    """Return the documents by split, a few of each if it is to be quick.

    Raises:
        OptionError: A split is empty.
    """
    splits = {split: [document for document in documents if document.split == split] for split in SPLITS}
    for split, members in splits.items():
        if not members:
            msg = f"there are no {split} documents"
            raise OptionError(msg)
    return {split: members[: QUICK[split]] if quick else members for split, members in splits.items()}


def tuned(splits: dict[str, list[Document]], scores: Sequence[Scores], labels: Labels, progress: Progress) -> Trained:
    """Return the models that are best on the dev documents.

    Args:
        splits: The documents; tables are counted on those for training.
        scores: Of the dev documents.
        labels: What the states are.
        progress: As in `run_nerel`.
    """
    pairs = [candidate_pairs(document) for document in splits["train"]]
    table = compatibility(count_triples(splits["train"], pairs, labels))
    model, weight = tune_joint(splits["dev"], scores, labels, table, progress)
    pipeline = tune_pipeline(splits["dev"], scores, labels, table)
    return Trained(model, weight, pipeline, tune_local(splits["dev"], scores, labels), len(splits["train"]))


def _document_rows(document: Document, scores: Scores, trained: Trained) -> Iterator[Row]:
    """Yield the rows of a document; BP comes first, since budgets are parts of its time."""
    graph = trained.model.graph(document, scores)
    reference = converged_bp(graph)
    bp_seconds = 0.0
    for name in contenders():
        method, _, fraction = name.partition(" ")
        budget = float(fraction) * bp_seconds if fraction else None
        if method in LOCAL:
            row = _local_row(document, scores, trained.relations(scores, method), reference, trained.model.labels)
        else:
            result, seconds = _timed(graph, method, budget)
            bp_seconds = seconds if name == "bp" else bp_seconds
            row = _run_row(document, scores, (result, reference), trained, seconds)
        limits: Row = {"budget_fraction": float(fraction or "nan"), "budget_seconds": budget or float("nan")}
        yield {"contender": name, **limits, **row, **_about(document, scores.pairs, trained)}


def _timed(graph: FactorGraph, method: str, budget: float | None) -> tuple[Result, float]:
    """Return the answer to a graph as if it had just been built, and the seconds that took by the clock on the wall."""
    graph.compiled = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # the stop reason is in the row
        warnings.simplefilter("ignore", UncertainResultWarning)
        start = time.perf_counter()
        result = infer(graph, method, seconds=budget, record="end")
        seconds = time.perf_counter() - start
    return whole(result), seconds


def _local_row(
    document: Document, scores: Scores, relations: NDArray[np.float64], reference: Result, labels: Labels
) -> Row:
    """Return the row of a contender without inference; what classifiers take is not counted for anyone.

    Args:
        document: The truth.
        scores: Of the local classifiers; they give the types.
        relations: Log scores of relations, of shape (pairs, relations).
        reference: The answer of converged BP.
        labels: What the states are.
    """
    counts = count_right(document, scores.pairs, scores.types.argmax(axis=1), relations.argmax(axis=1), labels)
    sums = np.logaddexp.reduce(relations, axis=1, keepdims=True)
    marginals = [*np.exp(scores.types), *np.exp(relations - sums)]
    gaps = [float(np.linalg.norm(own - reference.marginals[index])) for index, own in enumerate(marginals)]
    return {
        "seconds": 0.0,
        **asdict(counts),
        "l2": sum(gaps) / max(len(gaps), 1),
        "stop_reason": "",
        "work": 0,
    }


def _run_row(
    document: Document, scores: Scores, results: tuple[Result, Result], trained: Trained, seconds: float
) -> Row:
    result, reference = results
    chosen = joint_choice(result, len(document.entities))
    return {
        "seconds": seconds,
        **asdict(count_right(document, scores.pairs, *chosen, trained.model.labels)),
        "l2": result.distance(reference),
        "stop_reason": result.stop_reason.name,
        "work": result.work,
    }


def _about(document: Document, pairs: NDArray[np.int64], trained: Trained) -> Row:
    """Return what the rows of a document have in common."""
    labels = trained.model.labels
    return {
        "n_types": len(labels.types),
        "n_relations": len(labels.relations) - 1,
        "n_entities": len(document.entities),
        "n_pairs": len(pairs),
        "relations_reachable": count_reachable(document, pairs),
        "train_documents": trained.train_documents,
        "table_weight": trained.table_weight,
        "joint_none": trained.model.none,
        "local_none": trained.local_none,
    }
