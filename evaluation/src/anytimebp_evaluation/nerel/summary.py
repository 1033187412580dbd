"""What the rows of the experiment come to: per contender F1 and seconds, and the comparisons of contenders."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from anytimebp_evaluation.nerel.raw import WORDS
from anytimebp_evaluation.nerel.scoring import (
    Difference,
    paired_difference,
    precision_recall_f1,
    relation_f1,
    type_f1,
)
from anytimebp_evaluation.nerel.task import METHODS, Row, contenders

RELATION_COUNTS = ("true_positives", "false_positives", "false_negatives")
TYPE_COUNTS = ("types_right", "types_total")
SAME = 0.001  # F1 that differs by no more counts as the same


@dataclass(frozen=True)
class Summary:
    """A contender over all documents.

    Attributes:
        fraction: The budget as a part of BP's time; NaN without one.
        budget: The mean budget in seconds; NaN without one.
        precision: Of relations, as are recall and relation_f1.
        mean_seconds: Per document.
        work: Mean of table entries read.
        l2: Mean distance of marginals to those of full BP.
    """

    contender: str
    fraction: float
    budget: float
    type_f1: float
    precision: float
    recall: float
    relation_f1: float
    mean_seconds: float
    median_seconds: float
    work: float
    l2: float

    @property
    def method(self) -> str:
        """The method, without the budget."""
        return self.contender.partition(" ")[0]


class Rows:
    """The rows of those documents that all contenders have answered, by contender, in the same order of documents.

    Where classifiers were trained with several seeds, a document counts once, with the means of its numbers: what is
    right by chance of a seed is not right on another document. Seeds that have got through fewer documents than
    others are left out: they are still under way.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        """Sort rows, which may come from a file and then be texts throughout."""
        names = contenders()
        by_key: dict[tuple[int, str, str], Row] = {}
        for row in rows:
            by_key[int(float(row["seed"])), str(row["document"]), str(row["contender"])] = row
        known = list(dict.fromkeys(key[:2] for key in by_key))
        whole = [
            (seed, document) for seed, document in known if all((seed, document, name) in by_key for name in names)
        ]
        done = Counter(seed for seed, _ in whole)
        self.seeds = sorted(seed for seed, count in done.items() if count == max(done.values()))
        answered = Counter(document for seed, document in whole if seed in self.seeds)
        self.documents = [document for document, count in answered.items() if count == len(self.seeds)]
        self.of = {
            name: [_mean([by_key[seed, document, name] for seed in self.seeds]) for document in self.documents]
            for name in names
        }

    def column(self, contender: str, name: str) -> list[float]:
        """Return a number of every document."""
        return [float(row[name]) for row in self.of[contender]]

    def counts(self, contender: str, names: Sequence[str]) -> list[list[float]]:
        """Return some numbers of every document, a row each."""
        return [[float(row[name]) for name in names] for row in self.of[contender]]

    def relation_difference(self, first: str, second: str) -> Difference:
        """Return F1 of relations of the second contender less that of the first."""
        return paired_difference(relation_f1, self.counts(first, RELATION_COUNTS), self.counts(second, RELATION_COUNTS))

    def type_difference(self, first: str, second: str) -> Difference:
        """Return F1 of types of the second contender less that of the first."""
        return paired_difference(type_f1, self.counts(first, TYPE_COUNTS), self.counts(second, TYPE_COUNTS))

    def summaries(self) -> list[Summary]:
        """Return a summary per contender."""
        return [self._summary(name) for name in self.of]

    def _summary(self, name: str) -> Summary:
        found, wrong, missed = (sum(self.column(name, count)) for count in RELATION_COUNTS)
        precision, recall, f1 = precision_recall_f1(found, wrong, missed)
        right, total = (sum(self.column(name, count)) for count in TYPE_COUNTS)
        seconds = self.column(name, "seconds")
        return Summary(
            contender=name,
            fraction=self.column(name, "budget_fraction")[0],
            budget=float(np.mean(self.column(name, "budget_seconds"))),
            type_f1=right / max(total, 1.0),
            precision=precision,
            recall=recall,
            relation_f1=f1,
            mean_seconds=float(np.mean(seconds)),
            median_seconds=float(np.median(seconds)),
            work=float(np.mean(self.column(name, "work"))),
            l2=float(np.mean(self.column(name, "l2"))),
        )


def _mean(rows: Sequence[Row]) -> Row:
    """Return rows of one document and contender as one: numbers as means, words as those that occur."""
    merged: Row = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in WORDS:
            merged[name] = " ".join(sorted({str(value) for value in values}))
        else:
            merged[name] = float(np.mean([float(value) for value in values]))
    return merged


def by_time(summaries: Sequence[Summary], method: str) -> list[Summary]:
    """Return a method's contenders from the smallest budget to the run without one."""
    of_method = [summary for summary in summaries if summary.method == method]
    return sorted(of_method, key=lambda summary: math.inf if math.isnan(summary.fraction) else summary.fraction)


def soonest_same(summaries: Sequence[Summary], method: str) -> Summary | None:
    """Return the smallest budget of a method from which on both F1 are those of full BP; None if they never are."""
    full = next(summary for summary in summaries if summary.contender == METHODS[0])
    soonest = None
    for summary in reversed(by_time(summaries, method)):
        gap = max(abs(summary.type_f1 - full.type_f1), abs(summary.relation_f1 - full.relation_f1))
        if gap > SAME:
            break
        soonest = summary
    return soonest
