"""Equality and the Potts model: a list of the entries on the diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError
from anytimebp.model.kinds.listed import ListedSource, read_entries
from anytimebp.model.scores import read_log_scores
from anytimebp.model.source import FactorSource

PAIR = 2


@dataclass(frozen=True, eq=False)
class Equality:
    """All variables of the scope are in the same state, or get another score (the Potts model).

    Attributes:
        same: Log score if all are in the same state: one number, or one for each state.
        default: Log score otherwise.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("a", ["red", "green", "blue"])
        >>> _ = graph.add_variable("b", ["red", "green", "blue"])
        >>> _ = graph.add_factor(["a", "b"], structure=abp.Equality(2.0, default=0.0))
        >>> round(abp.infer(graph, evidence={"a": "red"}).probability("b", "red"), 3)
        0.787
    """

    same: float | npt.ArrayLike = 0.0
    default: float = -np.inf

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the entries on the diagonal."""
        if len(set(shape)) != 1 or len(shape) < PAIR:
            msg = f"{what}: Equality needs two variables or more, with universes of one size; got {shape}"
            raise ModelError(msg)
        same = read_log_scores(self.same, f"{what}: the `same` of Equality")
        if same.shape not in {(), (shape[0],)}:
            msg = f"{what}: the `same` of Equality must be one log score or {shape[0]}, one per state; got {same.shape}"
            raise ModelError(msg)
        indices = np.repeat(np.arange(shape[0])[:, np.newaxis], len(shape), axis=1)
        scores = np.broadcast_to(same, shape[:1])
        return ListedSource(shape, *read_entries((indices, scores), self.default, shape, what))

    @property
    def is_symmetric(self) -> bool:
        """Whether the order of two variables does not matter."""
        return True
