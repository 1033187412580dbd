"""The last variable is a noisy OR of the others; `kernels/noisy_or.py` sums it in a forward and a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError
from anytimebp.model.kinds.listed import listed_range
from anytimebp.model.scores import read_numbers
from anytimebp.model.source import (
    FactorSource,
    Field,
    FloatArray,
    IndexArray,
    Packed,
    States,
    TableRange,
    in_logs_if_many,
)

PAIR = 2


@dataclass(frozen=True, eq=False)
class NoisyOr:
    """The last variable is on if at least one cause that is on takes effect, or if it leaks.

    The causes are all other variables. Every variable has two states, 0 (off) and 1 (on).

    Attributes:
        probabilities: For each cause, the probability that it takes effect if it is on.
        leak: Probability that the last variable is on without any cause.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in ["flu", "cold", "cough"]:
        ...     _ = graph.add_variable(name, ["no", "yes"])
        >>> _ = graph.add_factor(["flu", "cold", "cough"], structure=abp.NoisyOr([0.5, 0.6], leak=0.1))
        >>> round(abp.infer(graph, evidence={"flu": "yes", "cold": "yes"}).probability("cough", "yes"), 2)
        0.82
    """

    probabilities: npt.ArrayLike
    leak: float = 0.0

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the probabilities, checked."""
        if len(shape) < PAIR or set(shape) != {PAIR}:
            msg = f"{what}: NoisyOr takes two variables or more, of two states each; got universes {shape}"
            raise ModelError(msg)
        try:
            numbers, leak = read_numbers(self.probabilities), read_numbers(self.leak)
        except (TypeError, ValueError):
            numbers, leak = np.empty((0, 0)), np.empty(0)
        if numbers.shape != (len(shape) - 1,) or leak.shape != ():
            msg = (
                f"{what}: NoisyOr takes {len(shape) - 1} probabilities, one for each variable but the last, and a leak"
            )
            raise ModelError(msg)
        every = np.append(numbers, leak)
        if not ((every >= 0.0) & (every <= 1.0)).all():
            msg = f"{what}: the probabilities of NoisyOr must be between 0 and 1; got {every.tolist()}"
            raise ModelError(msg)
        return NoisyOrSource(shape, every)


class NoisyOrSource(FactorSource):
    """Log probabilities of the last variable, given the others.

    Attributes:
        probabilities: (arity,) those of the causes, and the leak.
    """

    __slots__ = ("_log_fails", "_log_works", "probabilities", "range", "shape")
    tags = ("noisy_or",)
    fields = (Field("probabilities", "f"),)
    sums = "noisy_or"
    has_log_message = True
    any_arity = True

    def __init__(self, shape: tuple[int, ...], probabilities: FloatArray) -> None:
        """Hold the probabilities and their logs."""
        self.shape, self.probabilities = shape, probabilities
        with np.errstate(divide="ignore"):
            self._log_works, self._log_fails = np.log(probabilities), np.log1p(-probabilities)
        self.range = self._range([np.arange(PAIR)] * len(shape))

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        mesh = np.ix_(*states)
        fails = np.full([len(own) for own in states], self._log_fails[-1])
        for own, log_fails in zip(mesh[:-1], self._log_fails.tolist(), strict=False):
            fails = fails + np.where(own == 1, log_fails, 0.0)
        return np.where(mesh[-1] == 1, _log_complement(fails), fails)

    def _range(self, states: States) -> TableRange:
        """Return the range of the scores on some states: they are monotone in each cause."""
        least, most = (np.array([at(own) for own in states[:-1]]) == 1 for at in (np.min, np.max))
        causes, leak = self._log_fails[:-1], self._log_fails[-1]
        lowest, highest = leak + causes[most].sum(), leak + causes[least].sum()
        fails = np.concatenate([[lowest, highest], highest + causes[most & ~least]])
        scores = [_log_complement(fails) if state == 1 else fails for state in states[-1].tolist()]
        on = np.array([bool((own == 1).any()) for own in states[:-1]] + [True])
        finite = self._log_fails[on & (self._log_fails > -np.inf)].sum()  # of "off"; those of "on" are among the others
        off = [np.array([finite])] if (states[-1] == 0).any() and self._log_fails[-1] > -np.inf else []
        return listed_range(np.concatenate(scores + off), 0.0, is_complete=True)

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return log o over some states."""
        none, some, last = self._log_fails[-1], self._log_works[-1], len(self.shape) - 1
        for k in range(last):
            if k != axis:
                off, on = (np.logaddexp.reduce(weights[k][others[k] == s], initial=-np.inf) for s in (0, 1))
                some = np.logaddexp(some + np.logaddexp(off, on), none + self._log_works[k] + on)
                none = none + np.logaddexp(off, self._log_fails[k] + on)
        if axis == last:
            return np.asarray(np.where(states == 1, some, none))
        value_off, value_on = (np.logaddexp.reduce(weights[last][others[last] == s], initial=-np.inf) for s in (0, 1))
        off = np.logaddexp(value_off + none, value_on + some)
        fires = np.logaddexp(some, none + self._log_works[axis])
        on = np.logaddexp(value_off + none + self._log_fails[axis], value_on + fires)
        return np.asarray(np.where(states == 1, on, off))

    def packed(self, states: States) -> Packed:
        """Return the positions of "off" and "on" among each variable's states, or -1, and all probabilities."""
        positions = [
            int(found[0]) if len(found) else -1
            for given in states
            for found in (np.flatnonzero(given == 0), np.flatnonzero(given == 1))
        ]
        works, fails = self._log_works, self._log_fails
        scores = np.concatenate([works[:-1], fails[:-1], works[-1:], fails[-1:]])
        extent, work = self._range(states), sum(len(given) for given in states)
        if extent.log_max[0] > -np.inf:  # probabilities are stored as they are
            extent = in_logs_if_many(extent._replace(log_max=np.zeros(1)), states)
        none = np.empty(0, dtype=np.int64)
        return Packed("noisy_or", extent, np.array(positions, dtype=np.int64), scores, none, twice=False, work=work)

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the states."""
        entries: FloatArray = sizes.sum(axis=1)
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return the positions and the probabilities."""
        return np.full(len(sizes), 4.0 * len(self.shape))

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del tag  # there is but one
        given = held["probabilities"]
        return {"structure": NoisyOr(given[:-1], float(given[-1])) if given.ndim == 1 and len(given) else NoisyOr([])}


def _log_complement(log_p: FloatArray) -> FloatArray:
    """Return log(1 - p)."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(log_p))
