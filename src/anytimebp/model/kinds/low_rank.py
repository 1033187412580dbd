"""Potentials of rank r, sums of products; `kernels/low_rank.py` sums them with r numbers per state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.model.scores import read_numbers
from anytimebp.model.source import FactorSource, Field, FloatArray, IndexArray, Packed, States, TableRange

PAIR = 2


@dataclass(frozen=True, eq=False)
class LowRank:
    """The potential of a joint state is a sum of r products, each with one number per variable.

    Attributes:
        factors: For each variable, an array of shape (states, r) of non-negative numbers.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("a", 1000)
        >>> _ = graph.add_variable("b", 1000)
        >>> left, right = np.random.default_rng(0).random((2, 1000, 3))
        >>> _ = graph.add_factor(["a", "b"], structure=abp.LowRank([left, right]))
        >>> exact = left[7] @ right.T / (left[7] @ right.T).sum()
        >>> bool(np.allclose(abp.infer(graph, evidence={"a": 7}).marginals["b"], exact))
        True
    """

    factors: Sequence[npt.ArrayLike]

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the numbers, checked."""
        try:
            factors = [read_numbers(one) for one in self.factors]
        except (TypeError, ValueError):
            factors = []
        rank = factors[0].shape[1] if factors and factors[0].ndim == PAIR else 0
        wanted = [(n, rank) for n in shape]
        if len(shape) < PAIR or rank < 1 or [one.shape for one in factors] != wanted:
            got = [one.shape for one in factors]
            msg = (
                f"{what}: LowRank takes two variables or more, and for each an array of numbers of shape (states, r) "
                f"with one r for all; got shapes {got} for universes {shape}"
            )
            raise ModelError(msg)
        numbers = np.concatenate([one.reshape(-1) for one in factors])
        if not (np.isfinite(numbers) & (numbers >= 0.0)).all():
            msg = f"{what}: the numbers of LowRank must be finite and not negative"
            raise ModelError(msg)
        with np.errstate(divide="ignore"):
            source = LowRankSource(shape, np.log(numbers), rank)
        if source.range is None or source.range.log_max[0] == -np.inf:
            msg = f"{what} is zero everywhere: every product of LowRank is"
            raise InconsistentModelError(msg)
        return source


class LowRankSource(FactorSource):
    """Logs of the numbers of a sum of products.

    Attributes:
        log_factors: (r times all states,) of variable after variable, state after state.
        rank: r.
    """

    __slots__ = ("_by_axis", "log_factors", "range", "rank", "shape")
    tags = ("low_rank",)
    fields = (Field("log_factors", "f"),)
    sums = "low_rank"
    has_log_message = True

    def __init__(self, shape: tuple[int, ...], log_factors: FloatArray, rank: int) -> None:
        """Hold the logs."""
        self.shape, self.log_factors, self.rank = shape, log_factors, rank
        ends = np.cumsum([n * rank for n in shape])[:-1]
        self._by_axis = [part.reshape(-1, rank) for part in np.split(log_factors, ends)]
        self.range = self._range([np.arange(n) for n in shape])[0]

    def _range(self, states: States) -> tuple[TableRange, list[float]]:
        """Return bounds of the scores on some states, and the largest log of each axis."""
        own = [part[given] for part, given in zip(self._by_axis, states, strict=True)]
        tops = [float(part.max(initial=-np.inf)) for part in own]
        high = sum(part.max(axis=0) for part in own)
        finite = [np.where(part > -np.inf, part, np.inf).min(axis=0) for part in own]
        low = sum(finite)
        has_zero = any((part == -np.inf).any() for part in own)
        log_max = float(np.logaddexp.reduce(np.asarray(high)))
        possible = np.asarray(low)[np.asarray(high) > -np.inf]
        log_min = float(possible.min(initial=np.inf)) if has_zero else float(np.logaddexp.reduce(possible))
        log_min = min(log_min, log_max)
        return TableRange(np.array([log_max]), np.array([log_min]), np.array([has_zero])), tops

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        total: FloatArray = np.full([len(own) for own in states], -np.inf)
        for r in range(self.rank):
            mesh = np.ix_(*[part[given, r] for part, given in zip(self._by_axis, states, strict=True)])
            total = np.logaddexp(total, np.asarray(sum(mesh)))
        return total

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return log o over some states."""
        total = np.zeros(self.rank)
        for k, (own, weight) in enumerate(zip(others, weights, strict=True)):
            if k != axis:
                total = total + np.logaddexp.reduce(self._by_axis[k][own] + weight[:, np.newaxis], axis=0)
        found: FloatArray = np.logaddexp.reduce(self._by_axis[axis][states] + total, axis=1)
        return found

    @property
    def room(self) -> int:
        """Numbers that one update needs room for, beside messages."""
        return len(self.shape) * (self.rank + 1)

    def packed(self, states: States) -> Packed:
        """Return the numbers of the given states, term after term, scaled so that no score is above 1."""
        extent, tops = self._range(states)
        log_max = float(extent.log_max[0])
        parts = []
        for axis, given in enumerate(states):
            top = tops[axis] if axis else log_max - sum(tops[1:])
            parts.append((self._by_axis[axis][given].T - top).reshape(-1) if np.isfinite(top) else np.empty(0))
        scores = np.concatenate(parts) + (log_max if np.isfinite(log_max) else 0.0)  # which `words` takes away again
        work = self.rank * sum(len(given) for given in states)
        none = np.empty(0, dtype=np.int64)
        return Packed("low_rank", extent, np.array([self.rank]), scores, none, twice=False, work=work)

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the numbers."""
        entries: FloatArray = self.rank * sizes.sum(axis=1)
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return the numbers."""
        words: FloatArray = 1.0 + self.rank * sizes.sum(axis=1)
        return words

    def gain(self, sizes: FloatArray) -> float:
        """Return 2: numbers are read in order, but twice."""
        del sizes
        return 2.0

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure; the universes are not known yet."""
        del tag  # there is but one
        return {"structure": _Restated(held["log_factors"])}


@dataclass(frozen=True, eq=False)
class _Restated:
    """Logs of the numbers of a LowRank, as files hold them."""

    log_factors: FloatArray

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the numbers, checked."""
        numbers, states = np.asarray(self.log_factors), sum(shape)
        if numbers.ndim != 1 or not numbers.size or numbers.size % states or not (numbers < np.inf).all():
            msg = f"{what}: a LowRank of universes {shape} has not {numbers.shape} numbers"
            raise ModelError(msg)
        rank = numbers.size // states
        ends = np.cumsum([n * rank for n in shape])[:-1]
        parts = [part.reshape(-1, rank) for part in np.split(np.array(numbers, dtype=np.float64), ends)]
        if np.asarray(sum(part.max(axis=0) for part in parts)).max() == -np.inf:
            msg = f"{what} is zero everywhere: every product of LowRank is"
            raise InconsistentModelError(msg)
        return LowRankSource(shape, np.concatenate([part.reshape(-1) for part in parts]), rank)
