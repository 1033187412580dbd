"""What is chosen on the dev documents: how much the counted table weighs, and how much "none" gives way.

Where "none" is the likeliest state of nearly all pairs, the choice of the likeliest misses too many relations for a
good F1. So the local scores and the joint model each have a constant of their own added to the log score of "none".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from anytimebp import NotConvergedWarning, Result, infer
from anytimebp_evaluation.nerel.documents import Document, Labels
from anytimebp_evaluation.nerel.joint import JointModel, Scores, biased
from anytimebp_evaluation.nerel.scoring import Counts, count_right, precision_recall_f1
from anytimebp_evaluation.sampling import whole

Progress = Callable[[str, int, int], None]

LOCAL_NONE = tuple(np.arange(-4.0, 1.25, 0.25).tolist())
TABLE_WEIGHTS = (0.2, 0.3, 0.4, 0.5)
JOINT_NONE = (-1.5, -1.0, -0.5, 0.0)
PIPELINE_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
PIPELINE_NONE = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5)
LOOSE = 1e-2  # residual at which a run counts as settled while tuning: choices do not hang on more digits


def pipeline_relations(scores: Scores, model: JointModel) -> NDArray[np.float64]:
    """Return log scores of relations once every entity has got its likeliest local type, of shape (pairs, relations).

    The table counts, but only from types to relations: what a pipeline does instead of joint inference.
    """
    types = scores.types.argmax(axis=1)
    first, second = scores.pairs.T
    return biased(scores.relations, model.none) + model.table[types[first], types[second]]  # type: ignore[no-any-return]


def joint_choice(result: Result, n_entities: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the likeliest type of every entity and relation of every pair by the marginals of a joint graph."""
    likeliest = [int(result.marginals[index].argmax()) for index in range(len(result.marginals))]
    states = np.array(likeliest, dtype=np.int64)
    return states[:n_entities], states[n_entities:]


def tune_local(documents: Sequence[Document], scores: Sequence[Scores], labels: Labels) -> float:
    """Return the constant for "none" with the best F1 of relations by local scores."""

    def goodness(none: float) -> float:
        relations = (biased(one.relations, none) for one in scores)
        return _both_f1(_local_counts(documents, scores, relations, labels))

    return float(max(LOCAL_NONE, key=goodness))


def tune_pipeline(
    documents: Sequence[Document], scores: Sequence[Scores], labels: Labels, table: NDArray[np.float64]
) -> JointModel:
    """Return the model with the best F1 of relations after types have been chosen by local scores."""

    def goodness(model: JointModel) -> float:
        relations = (pipeline_relations(one, model) for one in scores)
        return _both_f1(_local_counts(documents, scores, relations, labels))

    settings = [(weight, none) for weight in PIPELINE_WEIGHTS for none in PIPELINE_NONE]
    return max((JointModel(labels, weight * table, none) for weight, none in settings), key=goodness)


def tune_joint(
    documents: Sequence[Document],
    scores: Sequence[Scores],
    labels: Labels,
    table: NDArray[np.float64],
    progress: Progress,
) -> tuple[JointModel, float]:
    """Return the joint model with the best mean F1 of types and relations, by BP, and the weight of its table."""
    settings = [(weight, none) for weight in TABLE_WEIGHTS for none in JOINT_NONE]
    best, best_weight, best_goodness = None, 0.0, -1.0
    for done, (weight, none) in enumerate(settings):
        progress("tuning", done, len(settings))
        model = JointModel(labels, np.ascontiguousarray(weight * table), none)
        goodness = _both_f1(_joint_counts(model, documents, scores))
        if goodness > best_goodness:
            best, best_weight, best_goodness = model, weight, goodness
    progress("tuning", len(settings), len(settings))
    assert best is not None  # noqa: S101  # the grid is not empty, and F1 is at least 0
    return best, best_weight


def _local_counts(
    documents: Sequence[Document],
    scores: Sequence[Scores],
    relations: Iterable[NDArray[np.float64]],
    labels: Labels,
) -> Iterable[Counts]:
    for document, one, log_scores in zip(documents, scores, relations, strict=True):
        yield count_right(document, one.pairs, one.types.argmax(axis=1), log_scores.argmax(axis=1), labels)


def _joint_counts(model: JointModel, documents: Sequence[Document], scores: Sequence[Scores]) -> Iterable[Counts]:
    for document, one in zip(documents, scores, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            result = whole(infer(model.graph(document, one), "bp", tolerance=LOOSE))
        yield count_right(document, one.pairs, *joint_choice(result, len(document.entities)), model.labels)


def _both_f1(counts: Iterable[Counts]) -> float:
    """Return the mean of the F1 of types and of relations over documents."""
    each = list(counts)
    right, total = sum(one.types_right for one in each), sum(one.types_total for one in each)
    found = sum(one.true_positives for one in each)
    wrong, missed = sum(one.false_positives for one in each), sum(one.false_negatives for one in each)
    return (right / max(total, 1) + precision_recall_f1(found, wrong, missed)[2]) / 2.0
