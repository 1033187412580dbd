"""What parts of a graph say to each other about the variables that they share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from anytimebp.errors import EvidenceError, ModelError
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import Labels
from anytimebp.tables.carry_over import ranges

NOBODY = np.empty(0, dtype=np.int64)


class Border(NamedTuple):
    """The shared variables of a part.

    Attributes:
        keys: What all parts call them.
        sizes: Their universes.
        n_variables: Of the part in all.
        arity: The most variables of one of its factors.
        labels: Of their states; None where these are only counted.
        observed: Evidence on shared variables, by what all parts call them.
    """

    keys: list[Hashable]
    sizes: IndexArray
    n_variables: int
    arity: int
    labels: tuple[Labels | None, ...] = ()
    observed: Mapping[Hashable, Observation] = MappingProxyType({})


class Boundary:
    """The newest messages of every part to its shared variables, as logs; and the evidence on these.

    What an answer costs depends on the boundary of one part, and not on how many there are.

    Attributes:
        beside: For each part, all that share a variable with it, itself included.
    """

    def __init__(self, borders: Sequence[Border]) -> None:
        """Have heard from nobody: all messages are uniform.

        Raises:
            ModelError: If parts do not agree on the states of a variable.
            EvidenceError: If they do not agree on the evidence on it.
        """
        number: dict[Hashable, int] = {}
        sizes: list[int] = []
        owner: list[int] = []
        labels: dict[int, Labels] = {}
        rows: list[IndexArray] = []
        for part, border in enumerate(borders):
            own = [number.setdefault(key, len(number)) for key in border.keys]
            for position, index in enumerate(own):
                size = int(border.sizes[position])
                if index == len(sizes):
                    sizes.append(size)
                    owner.append(part)
                elif sizes[index] != size:
                    msg = (
                        f"parts {owner[index]} and {part} share variable {border.keys[index]!r}, "
                        f"but give it {sizes[index]} and {size} states"
                    )
                    raise ModelError(msg)
            for index, given in zip(own, border.labels, strict=False):
                if given is not None and labels.setdefault(index, given) != given:
                    key = border.keys[own.index(index)]
                    msg = f"parts share variable {key!r}, but part {part} has other labels, or another order of them"
                    raise ModelError(msg)
            rows.append(np.array(own, dtype=np.int64))
        each = np.array(sizes, dtype=np.int64)
        start = row_starts(each)
        self._slots = [row_items(start[own], each[own]) for own in rows]
        self._first = [row_starts(each[own])[:-1] for own in rows]
        self._start, self._n_slots = start, int(start[-1])
        self._holders = np.bincount(np.concatenate(rows), minlength=len(each)) if rows else np.zeros(0, dtype=np.int64)
        self._every_slot = np.concatenate(self._slots) if rows else np.zeros(0, dtype=np.int64)
        self._every = np.zeros(len(self._every_slot))
        ends = np.cumsum([len(slots) for slots in self._slots]).tolist()
        self._messages = [self._every[end - len(own) : end] for end, own in zip(ends, self._slots, strict=True)]
        self._totals: tuple[FloatArray, FloatArray] | None = None
        self._taken = 0
        self.beside = _beside(rows, len(each))
        self._evidence = np.zeros(self._n_slots)
        for key, seen in _observed(borders).items():
            row = self._evidence[start[number[key]] : start[number[key] + 1]]
            chosen = slice(None) if seen.states is None else seen.states
            row[:] = -np.inf
            row[chosen] = 0.0 if seen.log_scores is None else seen.log_scores
        self._is_excluded = self._evidence == -np.inf

    def take(self, part: int, messages: FloatArray) -> None:
        """Replace what a part says."""
        self._taken += 1
        if self._totals is None or self._taken % len(self._messages) == 0:  # so that rounding does not add up
            self._totals = None
        else:
            (total, zeros), slots = self._totals, self._slots[part]
            for scores, sign in ((self._messages[part], -1.0), (messages, 1.0)):
                is_zero = scores == -np.inf
                np.add.at(total, slots, sign * np.where(is_zero, 0.0, scores))
                np.add.at(zeros, slots, sign * is_zero)
        self._messages[part][:] = messages

    def _sums(self) -> tuple[FloatArray, FloatArray]:
        """Return, per slot, the sum of the finite log messages, and how many are -inf."""
        if self._totals is None:
            is_zero = self._every == -np.inf
            total: FloatArray = np.zeros(self._n_slots)
            zeros: FloatArray = np.zeros(self._n_slots)
            total[:] = np.bincount(self._every_slot, np.where(is_zero, 0.0, self._every), self._n_slots)
            zeros[:] = np.bincount(self._every_slot, is_zero, self._n_slots)
            total += np.where(self._is_excluded, 0.0, self._evidence)
            zeros += self._is_excluded
            self._totals = total, zeros
        return self._totals

    def outside(self, part: int) -> FloatArray:
        """Return the log of what all other parts, and the evidence, say about the shared variables of a part."""
        (total, zeros), own, slots = self._sums(), self._messages[part], self._slots[part]
        is_zero = own == -np.inf
        left = total[slots] - np.where(is_zero, 0.0, own)
        left[zeros[slots] - is_zero > 0] = -np.inf
        return left

    def moved(self, part: int, before: FloatArray) -> float:
        """Return by how many nats, at the most, what others say about one variable has moved."""
        if not len(before):
            return 0.0
        return float(ranges(self.outside(part), before, self._first[part]).max())

    def log_z(self, of_parts: float) -> float:
        """Return the Bethe estimate of the whole graph, given the sum of those of its parts with their priors.

        A part's estimate has the belief of each shared variable as a factor; the whole has it once.
        """
        self._totals = None
        total, zeros = self._sums()
        if not len(total):
            return of_parts
        total = np.where(zeros > 0, -np.inf, total)
        first, sizes = self._start[:-1], np.diff(self._start)
        top = np.maximum.reduceat(total, first)
        sums = top + np.log(np.add.reduceat(np.exp(total - np.repeat(top, sizes)), first))
        return of_parts + float(np.sum((1 - self._holders) * sums))


def _beside(rows: Sequence[IndexArray], n_variables: int) -> list[IndexArray]:
    """Return, for each part, the parts that hold one of its shared variables, given these by part."""
    part, held = np.repeat(np.arange(len(rows)), [len(own) for own in rows]), np.concatenate([*rows, NOBODY])
    holder, start = part[np.argsort(held, kind="stable")], row_starts(np.bincount(held, minlength=n_variables))
    found = [holder[row_items(start[own], start[own + 1] - start[own])] for own in rows]
    return [np.unique(np.append(others, number)) for number, others in enumerate(found)]


def _observed(borders: Sequence[Border]) -> dict[Hashable, Observation]:
    """Return the evidence on shared variables; parts that were told of it must have been told the same."""
    found: dict[Hashable, Observation] = {}
    for border in borders:
        for key, seen in border.observed.items():
            known = found.setdefault(key, seen)
            if any(not _is_same(own, other) for own, other in zip(seen, known, strict=True)):
                msg = f"evidence: parts are told different things of the variable that they share as {key!r}"
                raise EvidenceError(msg)
    return found


def _is_same(own: FloatArray | IndexArray | None, other: FloatArray | IndexArray | None) -> bool:
    return own is other or (own is not None and other is not None and np.array_equal(own, other))
