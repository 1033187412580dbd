"""The local classifiers: what an entity's own words say of its type, and a pair's of its relation.

One-versus-rest logistic regression by stochastic gradient descent, on hashed features. Trained on some documents; an
exponent calibrates the probabilities on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier

from anytimebp import OptionError
from anytimebp_evaluation.nerel.documents import NONE, Document, Labels, candidate_pairs, gold_relations
from anytimebp_evaluation.nerel.features import entity_rows, pair_rows
from anytimebp_evaluation.nerel.joint import Scores

ALPHA = 1e-6  # of the penalty; the best of 1e-4 to 5e-7 on dev
TYPE_PASSES, RELATION_PASSES = 8, 5
KEPT = 0.2  # the part of the pairs without a relation that is trained on; corrected for afterwards
LOG_UNSEEN = -12.0  # of a state that no training document has
EXPONENTS = np.linspace(0.3, 1.5, 25)


@dataclass(frozen=True)
class Classifier:
    """A trained classifier over the states of a variable.

    Attributes:
        model: Of scikit-learn; knows the states that it has seen.
        n_states: How many there are.
        offset: Added to log probabilities, of shape (states,): undoes that some states were trained on in part.
        exponent: Of the probabilities.
    """

    model: Any
    n_states: int
    offset: NDArray[np.float64]
    exponent: float = 1.0

    def log_probabilities(self, rows: Any) -> NDArray[np.float64]:
        """Return log probabilities of shape (rows, states)."""
        decisions = self.model.decision_function(rows)
        if decisions.ndim == 1:  # of two states, scikit-learn gives the score of the second
            decisions = np.column_stack([-decisions, decisions])
        scores = np.full((len(decisions), self.n_states), LOG_UNSEEN)
        scores[:, self.model.classes_] = -np.logaddexp(0.0, -decisions)
        return _normalised(self.exponent * _normalised(scores + self.offset))

    def calibrated(self, rows: Any, states: NDArray[np.int64]) -> Classifier:
        """Return the classifier with the exponent that makes the given states likeliest."""
        plain = replace(self, exponent=1.0).log_probabilities(rows)
        chosen = np.arange(len(states)), states
        loss = [-float(_normalised(exponent * plain)[chosen].sum()) for exponent in EXPONENTS]
        return replace(self, exponent=float(EXPONENTS[int(np.argmin(loss))]))


@dataclass(frozen=True)
class LocalClassifiers:
    """One classifier of types and one of relations."""

    types: Classifier
    relations: Classifier

    def scores(self, documents: Sequence[Document]) -> list[Scores]:
        """Return what the classifiers say of every document."""
        pairs = [candidate_pairs(document) for document in documents]
        of_types = self.types.log_probabilities(entity_rows(documents))
        of_relations = self.relations.log_probabilities(pair_rows(documents, pairs))
        entity_ends = np.cumsum([len(document.entities) for document in documents])[:-1]
        pair_ends = np.cumsum([len(rows) for rows in pairs])[:-1]
        split = zip(np.split(of_types, entity_ends), pairs, np.split(of_relations, pair_ends), strict=True)
        return [Scores(*parts) for parts in split]


def train(train_documents: Sequence[Document], dev: Sequence[Document], labels: Labels, seed: int) -> LocalClassifiers:
    """Train both classifiers on some documents, and calibrate them on others.

    Raises:
        OptionError: The training documents have only one type or relation, which teaches nothing.
    """
    types = _fit(
        entity_rows(train_documents), type_states(train_documents, labels), len(labels.types), TYPE_PASSES, seed
    )
    pairs = [candidate_pairs(document) for document in train_documents]
    rows, states = pair_rows(train_documents, pairs), relation_states(train_documents, pairs, labels)
    kept = (states > 0) | (np.random.default_rng(seed).random(len(states)) < KEPT)
    relations = _fit(rows[kept], states[kept], len(labels.relations), RELATION_PASSES, seed)
    relations.offset[labels.relations.index(NONE)] -= np.log(KEPT)
    dev_pairs = [candidate_pairs(document) for document in dev]
    return LocalClassifiers(
        types.calibrated(entity_rows(dev), type_states(dev, labels)),
        relations.calibrated(pair_rows(dev, dev_pairs), relation_states(dev, dev_pairs, labels)),
    )


def type_states(documents: Sequence[Document], labels: Labels) -> NDArray[np.int64]:
    """Return the true types of all entities, document by document, as indices."""
    index = {name: state for state, name in enumerate(labels.types)}
    return np.array([index[entity.type] for document in documents for entity in document.entities], dtype=np.int64)


def relation_states(
    documents: Sequence[Document], pairs: Sequence[NDArray[np.int64]], labels: Labels
) -> NDArray[np.int64]:
    """Return the true relations of all pairs, document by document, as indices; of two, the first by name."""
    index = {name: state for state, name in enumerate(labels.relations)}
    states = []
    for document, rows in zip(documents, pairs, strict=True):
        related = gold_relations(document)
        states += [index[related.get((first, second), [NONE])[0]] for first, second in rows.tolist()]
    return np.array(states, dtype=np.int64)


def _fit(rows: Any, states: NDArray[np.int64], n_states: int, passes: int, seed: int) -> Classifier:
    if len(np.unique(states)) < 2:  # noqa: PLR2004
        msg = "training needs documents with at least two types of entities, and with related and unrelated pairs"
        raise OptionError(msg)
    model = SGDClassifier(loss="log_loss", alpha=ALPHA, max_iter=passes, tol=None, average=True, random_state=seed)
    return Classifier(model.fit(rows, states), n_states, np.zeros(n_states))


def _normalised(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
