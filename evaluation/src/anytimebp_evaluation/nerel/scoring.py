"""How right an answer is: counts per document, F1 over documents, and whether two answers really differ.

With given spans every entity gets one type, so that micro F1 of types is the share of right ones. "none" is no
relation: relations are counted as in retrieval, and true ones outside the candidate pairs are missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anytimebp_evaluation.nerel.documents import Document, Labels

RESAMPLES = 2000


@dataclass(frozen=True)
class Counts:
    """What is right and wrong in a document."""

    types_right: int
    types_total: int
    true_positives: int
    false_positives: int
    false_negatives: int


@dataclass(frozen=True)
class Difference:
    """A difference of two scores, and the interval that holds it in 95 of 100 resamples of the documents."""

    value: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0.0 or self.high < 0.0


def count_right(
    document: Document,
    pairs: NDArray[np.int64],
    types: NDArray[np.int64],
    relations: NDArray[np.int64],
    labels: Labels,
) -> Counts:
    """Compare an answer with what is true.

    Args:
        document: The truth.
        pairs: Positions of entities, of shape (pairs, 2).
        types: The chosen state of every entity.
        relations: The chosen state of every pair.
        labels: What the states are.
    """
    right = sum(labels.types[state] == entity.type for state, entity in zip(types, document.entities, strict=True))
    chosen = {
        (labels.relations[state], first, second)
        for state, (first, second) in zip(relations, pairs.tolist(), strict=True)
        if state
    }
    found = len(chosen & document.relations)
    return Counts(right, len(document.entities), found, len(chosen) - found, len(document.relations) - found)


def precision_recall_f1(found: float, wrong: float, missed: float) -> tuple[float, float, float]:
    """Return precision, recall and F1 of counts; 0 where there is nothing to divide by."""
    precision = found / (found + wrong) if found + wrong else 0.0
    recall = found / (found + missed) if found + missed else 0.0
    return precision, recall, float(relation_f1(np.array([found, wrong, missed], dtype=np.float64)))


def relation_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return F1 of found, wrong and missed relations along the last axis."""
    found, wrong, missed = np.moveaxis(counts, -1, 0)
    return 2.0 * found / np.maximum(2.0 * found + wrong + missed, 1.0)  # type: ignore[no-any-return]


def type_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of right types, of right and all along the last axis."""
    right, total = np.moveaxis(counts, -1, 0)
    return right / np.maximum(total, 1.0)  # type: ignore[no-any-return]


def paired_difference(
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    first: Sequence[Sequence[float]],
    second: Sequence[Sequence[float]],
    seed: int = 0,
) -> Difference:
    """Return the score of the second answer less that of the first, with a paired bootstrap over documents.

    Args:
        score: Of summed counts, along the last axis.
        first: Counts of the first answer, a row per document.
        second: Of the second, for the same documents in the same order.
        seed: Of the resampling.
    """
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(one), size=(RESAMPLES, len(one)))
    resampled = score(two[drawn].sum(axis=1)) - score(one[drawn].sum(axis=1))
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Difference(float(score(two.sum(axis=0)) - score(one.sum(axis=0))), float(low), float(high))
