"""Functions of variables: a list with an entry per joint state of the arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.kinds.listed import ListedSource, read_entries
from anytimebp.model.scores import read_log_score
from anytimebp.model.source import FactorSource

MOST_ENTRIES = 100_000_000  # joint states of a function's arguments, each an entry of some dozens of bytes
PAIR = 2


@dataclass(frozen=True, eq=False)
class Deterministic:
    """The last variable of the scope is a function of the others.

    Attributes:
        function: Takes one array of state indices for each of the other variables, which broadcast together, and
            returns the state indices of the last variable.
        score: Log score if the last variable has that value.
        default: Log score if it has another value.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in ["a", "b", "sum"]:
        ...     _ = graph.add_variable(name, 10)
        >>> _ = graph.add_factor(["a", "b", "sum"], structure=abp.Deterministic(lambda a, b: (a + b) % 10))
        >>> abp.infer(graph, evidence={"a": 7, "b": 5}).top("sum")
        [(2, 1.0)]
    """

    function: Callable[..., Any]
    score: float = 0.0
    default: float = -np.inf

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return an entry per joint state of the arguments."""
        if len(shape) < PAIR:
            msg = f"{what}: Deterministic needs two variables or more: the arguments, and the value as the last one"
            raise ModelError(msg)
        total = np.prod(shape[:-1], dtype=float)
        if total > MOST_ENTRIES:
            msg = f"{what}: the arguments of Deterministic have {total:,.0f} joint states, more than {MOST_ENTRIES:,}"
            raise ModelError(msg)
        mesh = np.ix_(*[np.arange(n) for n in shape[:-1]])
        try:
            given = np.broadcast_to(np.asarray(self.function(*mesh)), shape[:-1])
        except Exception as error:
            msg = (
                f"{what}: the function of Deterministic raised {type(error).__name__}: {error} "
                "(it gets whole arrays of state indices, so use np.where rather than if)"
            )
            raise ModelError(msg) from error
        if given.dtype.kind not in "iub":
            msg = f"{what}: the function of Deterministic must return state indices, it returned {given.dtype}"
            raise ModelError(msg)
        outside = (given < 0) | (given >= shape[-1])
        if outside.any():
            where = tuple(np.argwhere(outside)[0].tolist())
            msg = f"{what}: the function of Deterministic returned {given[where]} at {where}, not 0 to {shape[-1] - 1}"
            raise ModelError(msg)
        arguments = [axis.reshape(-1) for axis in np.broadcast_arrays(*mesh)]
        indices = np.column_stack([*arguments, given.reshape(-1)]).astype(np.int64)
        scores = np.full(len(indices), read_log_score(self.score, f"{what}: the `score` of Deterministic"))
        return ListedSource(shape, *read_entries((indices, scores), self.default, shape, what))
