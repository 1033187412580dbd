"""The joint model with weights that are trained jointly, instead of a table that is counted.

The model is that of `joint.py`, learned by maximum (Bethe) likelihood of the training documents, in two ways. The
scaled table is the counted one with a weight that is learned, together with the exponents a and b and the constant of
"none": four numbers. The free table has a weight per entry. It begins at the scaled one, and the penalty pulls it
there. What classifiers say of documents that they were trained on is no measure of how far to trust them: so training
documents are scored by classifiers that were trained on the others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytimebp import FactorGraph, NotConvergedWarning, UncertainResultWarning, infer
from anytimebp.learn import CRF, Example
from anytimebp_evaluation.nerel.classifiers import relation_states, train, type_states
from anytimebp_evaluation.nerel.documents import Document, Labels, candidate_pairs
from anytimebp_evaluation.nerel.joint import Scores, compatibility, count_triples
from anytimebp_evaluation.nerel.scoring import (
    Counts,
    Difference,
    count_right,
    paired_difference,
    precision_recall_f1,
    relation_f1,
    type_f1,
)
from anytimebp_evaluation.nerel.task import tuned
from anytimebp_evaluation.nerel.tuning import Progress, joint_choice
from anytimebp_evaluation.sampling import whole

FOLDS = 3  # classifiers that score the training documents
NONE_SHIFTS = (-1.5, -1.0, -0.5, 0.0, 0.5)  # of the learned constant of "none", of which the best F1 on dev is taken
TYPE_COUNTS = ("types_right", "types_total")
RELATION_COUNTS = ("true_positives", "false_positives", "false_negatives")
TYPES, RELATIONS, TABLE = "types", "relations", "types and relation"


@dataclass(frozen=True)
class Answer:
    """How right a model is, document by document, and what it took to make it.

    Attributes:
        model: What is told of it.
        seconds: That training or tuning took, classifiers not counted.
        counts: Of every test document.
    """

    model: str
    seconds: float
    counts: tuple[Counts, ...]

    def f1(self) -> tuple[float, float]:
        """Return F1 of types and of relations."""
        each = self.counts
        right = sum(own.types_right for own in each) / max(1, sum(own.types_total for own in each))
        found = sum(own.true_positives for own in each)
        wrong, missed = sum(own.false_positives for own in each), sum(own.false_negatives for own in each)
        return right, precision_recall_f1(found, wrong, missed)[2]

    def row(self) -> dict[str, float | str]:
        """Return the figures of all documents."""
        types, relations = self.f1()
        sums = np.sum([list(asdict(own).values()) for own in self.counts], axis=0).tolist()
        found: dict[str, float | str] = {"model": self.model, "seconds": round(self.seconds, 1)}
        found |= {"types": round(types, 4), "relations": round(relations, 4)}
        return found | dict(zip(asdict(self.counts[0]), sums, strict=True))


def example_of(
    document: Document, scores: Scores, labels: Labels, table: NDArray[np.float64], *, is_free: bool
) -> Example:
    """Return a document as an example: first the types of its entities, then the relations of its pairs.

    Args:
        document: The document.
        scores: Of classifiers.
        labels: The states.
        table: Where a free table begins, or what is scaled, of shape (types, types, relations).
        is_free: Whether every entry of the table is learned, or one weight of all.
    """
    graph = FactorGraph()
    entities = np.array(graph.add_variables(len(document.entities), labels.types), dtype=np.int64)
    relations = np.array(graph.add_variables(len(scores.pairs), labels.relations), dtype=np.int64)
    example = Example(graph)
    example.add_factors(TYPES, entities[:, None], joint_features=scores.types[:, :, None])
    if len(relations):
        is_none = np.zeros(scores.relations.shape)
        is_none[:, 0] = 1.0
        rows = np.stack([scores.relations, is_none], axis=2)
        example.add_factors(RELATIONS, relations[:, None], joint_features=rows)
        scopes = np.column_stack([scores.pairs, relations])
        if is_free:
            example.add_factors(TABLE, scopes, offset=table)
        else:
            example.add_factors(TABLE, scopes, joint_features=table[..., np.newaxis])
    return example


def truth_of(document: Document, scores: Scores, labels: Labels) -> list[str]:
    """Return the true labels of an example's variables."""
    types = [labels.types[k] for k in type_states([document], labels).tolist()]
    return types + [labels.relations[k] for k in relation_states([document], [scores.pairs], labels).tolist()]


def cross_scores(documents: Sequence[Document], dev: Sequence[Document], labels: Labels, seed: int) -> list[Scores]:
    """Return scores of training documents, each by classifiers that have not seen it."""
    found: dict[int, Scores] = {}
    for fold in range(FOLDS):
        others = [document for k, document in enumerate(documents) if k % FOLDS != fold]
        chosen = list(range(fold, len(documents), FOLDS))
        scored = train(others, dev, labels, seed).scores([documents[k] for k in chosen])
        found.update(zip(chosen, scored, strict=True))
    return [found[k] for k in range(len(documents))]


class _Learned(NamedTuple):
    """Answers without and with a constant of "none" that is tuned on dev, and that constant."""

    answers: list[Answer]
    none: float


class LearnedTask:
    """One task: documents, their scores by classifiers, and models that are compared on the test documents."""

    def __init__(self, splits: dict[str, list[Document]], labels: Labels, seed: int, progress: Progress) -> None:
        """Train classifiers."""
        self._splits, self._labels, self._seed, self._progress = splits, labels, seed, progress
        began = time.process_time()
        classifiers = train(splits["train"], splits["dev"], labels, seed)
        self._scores = {split: classifiers.scores(splits[split]) for split in ("dev", "test")}
        self._scores["train"] = cross_scores(splits["train"], splits["dev"], labels, seed)
        self.classifier_seconds = time.process_time() - began
        pairs = [candidate_pairs(document) for document in splits["train"]]
        self._table = compatibility(count_triples(splits["train"], pairs, labels))

    def counted(self) -> list[Answer]:
        """Return local scores alone, and the counted table with weights that are tuned on dev."""
        began = time.process_time()
        found = tuned(self._splits, self._scores["dev"], self._labels, self._progress)
        seconds = time.process_time() - began
        local, joint = [], []
        for document, scores in zip(self._splits["test"], self._scores["test"], strict=True):
            relations = found.relations(scores, "local").argmax(axis=1)
            local.append(count_right(document, scores.pairs, scores.types.argmax(axis=1), relations, self._labels))
            joint.append(self._joint(found.model.graph(document, scores), document, scores))
        self.table_weight = found.table_weight
        name = f"counted table, weight {found.table_weight:g}, none {found.model.none:+g}, tuned on dev"
        return [Answer("local classifiers", 0.0, tuple(local)), Answer(name, seconds, tuple(joint))]

    def scaled(self, crf: CRF) -> list[Answer]:
        """Return what is learned with one weight for the whole counted table."""
        start = {TYPES: np.ones(1), RELATIONS: np.array([1.0, 0.0]), TABLE: np.array([self.table_weight])}
        found = self._learned(crf, self._table, start, "scaled table", is_free=False)
        self.scaled_weights = {name: own.copy() for name, own in crf.weights_.items()}
        self.scaled_weights[RELATIONS][1] -= found.none
        return found.answers

    def free(self, crf: CRF) -> list[Answer]:
        """Return what is learned with a weight for every entry, from the scaled table on."""
        start = {name: own for name, own in self.scaled_weights.items() if name != TABLE}
        table = float(self.scaled_weights[TABLE][0]) * self._table
        return self._learned(crf, table, start, "free table", is_free=True).answers

    def _learned(
        self, crf: CRF, table: NDArray[np.float64], start: dict[str, NDArray[np.float64]], what: str, *, is_free: bool
    ) -> _Learned:
        """Return what is learned, as it is and with a constant of "none" that is tuned on dev."""
        began = time.process_time()
        given = {split: self._examples(split, table, is_free=is_free) for split in ("train", "dev", "test")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)  # the table says how many passes were made
            truths = [self._truths(split) for split in ("train", "dev")]
            crf.fit(given["train"], truths[0], validation=(given["dev"], truths[1]), initial=start)
        seconds = time.process_time() - began
        plain = self._predicted(crf, given["test"], "test")
        learned = crf.weights_[RELATIONS]
        shifts = {}
        for shift in NONE_SHIFTS:
            crf.weights_[RELATIONS] = learned + np.array([0.0, shift])
            shifts[shift] = sum(Answer("", 0.0, tuple(self._predicted(crf, given["dev"], "dev"))).f1())
        best = max(shifts, key=lambda shift: shifts[shift])
        crf.weights_[RELATIONS] = learned + np.array([0.0, best])
        shifted = self._predicted(crf, given["test"], "test")
        name = f"{what}, {crf.likelihood_} likelihood, {len(crf.iterations_)} iterations"
        both = time.process_time() - began
        answers = [
            Answer(name, seconds, tuple(plain)),
            Answer(f"{name}, none {best:+g} by dev", both, tuple(shifted)),
        ]
        return _Learned(answers, best)

    def _examples(self, split: str, table: NDArray[np.float64], *, is_free: bool) -> list[Example]:
        both = zip(self._splits[split], self._scores[split], strict=True)
        return [example_of(document, scores, self._labels, table, is_free=is_free) for document, scores in both]

    def _truths(self, split: str) -> list[list[str]]:
        both = zip(self._splits[split], self._scores[split], strict=True)
        return [truth_of(document, scores, self._labels) for document, scores in both]

    def _predicted(self, crf: CRF, examples: Sequence[Example], split: str) -> list[Counts]:
        return [
            self._joint(crf.graph(example), document, scores)
            for example, document, scores in zip(examples, self._splits[split], self._scores[split], strict=True)
        ]

    def _joint(self, graph: FactorGraph, document: Document, scores: Scores) -> Counts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            warnings.simplefilter("ignore", UncertainResultWarning)
            result = whole(infer(graph, "bp", tolerance=1e-4))
        return count_right(document, scores.pairs, *joint_choice(result, len(document.entities)), self._labels)


def differences(first: Answer, second: Answer) -> tuple[Difference, Difference]:
    """Return F1 of types and of relations of the second answer less those of the first, with intervals."""
    types, relations = (
        [[[float(getattr(own, name)) for name in names] for own in answer.counts] for answer in (first, second)]
        for names in (TYPE_COUNTS, RELATION_COUNTS)
    )
    return (
        paired_difference(type_f1, types[0], types[1]),
        paired_difference(relation_f1, relations[0], relations[1]),
    )
