"""The penalised negative log likelihood of labelled examples, and its derivative, to an accuracy that is asked for.

Where belief propagation is not exact, log Z is its Bethe estimate, and the likelihood is the Bethe likelihood.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anytimebp.errors import NotConvergedWarning, UncertainResultWarning
from anytimebp.learn.batch import FOREST, Batch
from anytimebp.learn.blocks import Blocks
from anytimebp.model.source import FloatArray
from anytimebp.parallel.many import infer_many
from anytimebp.results.snapshot import Result

EXACT_WAYS = (FOREST, "exact")
AT_ONCE = 8  # batches whose messages are in memory at a time


class Accuracy(NamedTuple):
    """How well inference has to be done.

    Attributes:
        tolerance: Residual of messages that have settled.
        target_error: Estimated distance of marginals to those of BP, at which inference may stop; None for never.
    """

    tolerance: float
    target_error: float | None = None


class Evaluation(NamedTuple):
    """The objective at a point.

    Attributes:
        value: Mean negative log likelihood of an example, and penalty.
        gradient: Its derivative by all weights.
        work: Table entries read.
        n_unsettled: Batches whose messages have not settled.
        is_exact: Whether all log Z are exact.
    """

    value: float
    gradient: FloatArray
    work: int
    n_unsettled: int
    is_exact: bool


class Objective:
    """The objective over some batches.

    Attributes:
        n_examples: Of all batches.
        is_exact: Whether inference is exact on all of them, so that its accuracy is no question.
    """

    def __init__(
        self, blocks: Blocks, batches: Sequence[Batch], penalties: FloatArray, options: dict[str, Any]
    ) -> None:
        """Hold what does not change.

        Args:
            blocks: Where weights stand in the vector.
            batches: The examples.
            penalties: (weights,) of the whole objective, not of the mean.
            options: Of `infer_many`.
        """
        self._blocks, self._batches = blocks, batches
        self._penalties, self._options = penalties, options
        self.n_examples = sum(batch.n_examples for batch in batches)
        self.is_exact = all(batch.way in EXACT_WAYS for batch in batches)

    def fingerprint(self) -> bytes:
        """Return bytes that tell these examples and labels from others."""
        return b"".join(batch.fingerprint() for batch in self._batches)

    def evaluate(self, vector: FloatArray, accuracy: Accuracy, n_all: int | None = None) -> Evaluation:
        """Return the objective at a point.

        Args:
            vector: All weights.
            accuracy: Of inference.
            n_all: Examples that share the penalty, if these are not all of them.
        """
        weights = self._blocks.split(vector)
        value, work, unsettled, exact = 0.0, 0, 0, True
        total = self._blocks.split(np.zeros(self._blocks.size))
        for batch, result in self._solved(weights, accuracy):
            value += result.log_z - batch.known_score
            work += result.work
            unsettled += not result.consistent
            exact &= result.exact
            for name, own in batch.expected(result).items():
                total[name] += own
            for name, own in batch.observed.items():
                total[name] -= own
                value -= float(np.vdot(own, weights[name]))
        gradient = self._blocks.joined(total, "gradient")
        pull = self._penalties * vector / (n_all or self.n_examples)
        value = value / self.n_examples + 0.5 * float(pull @ vector)
        return Evaluation(float(value), gradient / self.n_examples + pull, int(work), int(unsettled), bool(exact))

    def log_likelihood(self, vector: FloatArray, accuracy: Accuracy) -> float:
        """Return the mean log likelihood of an example."""
        weights, total = self._blocks.split(vector), 0.0
        for batch, result in self._solved(weights, accuracy, factor_marginals=False):
            total += batch.known_score - result.log_z
            total += sum(float(np.vdot(own, weights[name])) for name, own in batch.observed.items())
        return float(total / self.n_examples)

    def _solved(
        self, weights: dict[str, FloatArray], accuracy: Accuracy, *, factor_marginals: bool = True
    ) -> Iterator[tuple[Batch, Result]]:
        """Yield every batch with its answer, one after the other."""
        for way, is_wide in dict.fromkeys((batch.way, batch.is_wide) for batch in self._batches):
            chosen = [batch for batch in self._batches if (batch.way, batch.is_wide) == (way, is_wide)]
            options = {**self._options, "method": "bp" if way == FOREST else way, "tolerance": accuracy.tolerance}
            if way == "adaptive" and is_wide:
                options["target_error"] = accuracy.target_error
            for start in range(0, len(chosen), AT_ONCE):
                some = chosen[start : start + AT_ONCE]
                for batch in some:
                    batch.set_weights(weights)
                answers = infer_many([batch.graph for batch in some], factor_marginals=factor_marginals, **options)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NotConvergedWarning)  # it is counted
                    warnings.simplefilter("ignore", UncertainResultWarning)
                    found = list(answers)
                yield from zip(some, found, strict=True)
