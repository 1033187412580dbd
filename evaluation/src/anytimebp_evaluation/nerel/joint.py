"""The factor graph of a document: types of entities and relations of pairs, tied by what goes with what.

With x for what the classifiers see, t for types and r for relations, the model is

    p(t, r | x)  ~  prod_i p(t_i | x_i)^a  *  prod_ij p(r_ij | x_ij)^b  *  prod_ij (p(r_ij | t_i, t_j) / p(r_ij))^w

which is Bayes' rule for a = b = w = 1 and evidence that is independent given types and relations. It is not: a
word may tell both classifiers the same, and an entity stands in many pairs. So a and b, which calibrate the
classifiers, and w are tuned. The fraction is counted on the training documents, and one table for all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anytimebp import FactorGraph
from anytimebp_evaluation.nerel.documents import Document, Labels, gold_relations

SMOOTHING = 1.0  # how many pairs of every two types are thought to have been seen beside the real ones


@dataclass(frozen=True)
class Scores:
    """What the local classifiers say of a document, in logs.

    Attributes:
        types: Of shape (entities, types).
        pairs: Positions of the first and second entity, of shape (pairs, 2).
        relations: Of shape (pairs, relations).
    """

    types: NDArray[np.float64]
    pairs: NDArray[np.int64]
    relations: NDArray[np.float64]


@dataclass(frozen=True)
class JointModel:
    """What all documents share.

    Attributes:
        labels: The states.
        table: Log scores of shape (types, types, relations), as `compatibility` gives them, times their weight.
        none: What is added to the log score of "none" for every pair.
    """

    labels: Labels
    table: NDArray[np.float64]
    none: float

    def graph(self, document: Document, scores: Scores) -> FactorGraph:
        """Return the graph of a document: first the types of its entities, then the relations of its pairs."""
        graph = FactorGraph()
        names = [entity.name for entity in document.entities]
        between = [f"{names[first]} to {names[second]}" for first, second in scores.pairs.tolist()]
        entities = np.array(graph.add_variables(len(names), self.labels.types, names), dtype=np.int64)
        relations = np.array(graph.add_variables(len(between), self.labels.relations, between), dtype=np.int64)
        graph.add_factors(entities[:, None], log_table=scores.types)
        if between:
            graph.add_factors(relations[:, None], log_table=biased(scores.relations, self.none))
            graph.add_factors(np.column_stack([scores.pairs, relations]), log_table=self.table)
        return graph


def count_triples(
    documents: Sequence[Document], pairs: Sequence[NDArray[np.int64]], labels: Labels
) -> NDArray[np.float64]:
    """Count the types of both entities and the relation of every candidate pair.

    A pair with two relations counts once for each.

    Returns:
        Counts of shape (types, types, relations).
    """
    type_index = {name: index for index, name in enumerate(labels.types)}
    relation_index = {name: index for index, name in enumerate(labels.relations)}
    counts = np.zeros((len(labels.types), len(labels.types), len(labels.relations)))
    for document, rows in zip(documents, pairs, strict=True):
        types = [type_index[entity.type] for entity in document.entities]
        related = gold_relations(document)
        for first, second in rows.tolist():
            for relation in related.get((first, second), labels.relations[:1]):
                counts[types[first], types[second], relation_index[relation]] += 1.0
    return counts


def compatibility(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log p(r | t1, t2) - log p(r) of counted triples.

    Every two types are smoothed towards the relations of all pairs, so that types which were never seen together say
    nothing, and no entry is minus infinity.

    Args:
        counts: Of shape (types, types, relations), with at least one pair.
    """
    relation = counts.sum(axis=(0, 1)) + 1.0 / counts.shape[2]
    relation /= relation.sum()
    given_types = counts + SMOOTHING * relation
    given_types /= given_types.sum(axis=2, keepdims=True)
    return np.log(given_types) - np.log(relation)  # type: ignore[no-any-return]


def biased(relations: NDArray[np.float64], none: float) -> NDArray[np.float64]:
    """Return log scores of relations, of shape (pairs, relations), with a constant added to those of "none"."""
    scores = relations.copy()
    scores[:, 0] += none
    return scores
