"""Factors as they are kept: in blocks of one call each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from anytimebp.model.source import ASKED_AT_ONCE, Box, FactorSource, FloatArray, IndexArray, Naming, States, cut
from anytimebp.model.variable import VariableTable

FactorKey: TypeAlias = int | str
"""The index or the name of a factor."""


@dataclass(frozen=True, slots=True)
class FactorBlock:
    """Factors added by one call.

    Attributes:
        first: Index of the first one in the graph.
        scopes: Variable indices, shape (factors, arity).
        source: Where their scores come from; one member (tied) or one a factor.
        name: Of the only factor, if it was given one.
    """

    first: int
    scopes: IndexArray
    source: FactorSource
    name: str | None = None

    def member(self, offset: int) -> int:
        """Return which member of the source the block's factor number `offset` uses."""
        return 0 if self.source.n_members == 1 else offset

    def log_values(self, offset: int, states: States, variables: VariableTable) -> FloatArray:
        """Return the log scores of the block's factor number `offset` on the product of the given states.

        Whoever asks for the scores of a given factor asks here, so that errors of rules name the very factor.
        """
        return self.source.ask(self.member(offset), states, lambda: self._naming(offset, variables))

    def gather(self, offsets: IndexArray, states: States, variables: VariableTable) -> FloatArray:
        """Return the log scores of several factors, each on its own states, (n, *sizes); a new array.

        Args:
            offsets: (n,) their places in the block.
            states: Per axis, (n, states).
            variables: Of the graph.
        """
        tables = self.source.tables
        if tables is not None:
            return tables.gather(offsets if tables.n_members > 1 else np.zeros_like(offsets), states)
        each = zip(offsets.tolist(), zip(*states, strict=True), strict=True)
        return np.stack([self.log_values(offset, own, variables) for offset, own in each])

    def log_parts(
        self, offset: int, states: States, variables: VariableTable, most: int = ASKED_AT_ONCE
    ) -> Iterator[tuple[Box, FloatArray]]:
        """Give the same scores a part at a time, each with its place: what is asked for need not fit into memory."""
        for box in cut(tuple(slice(0, len(own)) for own in states), most):
            yield box, self.log_values(offset, [own[k] for own, k in zip(states, box, strict=True)], variables)

    def partners(self, offset: int, states: States, axis: int, k: int, variables: VariableTable) -> IndexArray:
        """Return likely states of one variable of a factor, as `FactorSource.partners` does."""
        return self.source.partners(states, axis, k, lambda: self._naming(offset, variables))

    def _naming(self, offset: int, variables: VariableTable) -> Naming:
        names = [repr(variables.name(int(i))) for i in self.scopes[offset]]
        return Naming(describe_factor((self,), variables, self.first + offset), names)


def describe_factor(blocks: Sequence[FactorBlock], variables: VariableTable, index: int) -> str:
    """Return a factor's number and scope as errors show it."""
    block = blocks[bisect_right([b.first for b in blocks], index) - 1]
    names = ", ".join(plain_name(variables.name(int(i))) for i in block.scopes[index - block.first])
    return f"{factor_title(index, block.name)} ({names})"


def factor_title(index: int, name: str | None) -> str:
    """Return a factor's number, and its name if it has one."""
    return f"factor {index}" if name is None else f"factor {index} {name!r}"


def plain_name(name: str) -> str:
    """Return a name as errors show it: in quotes and written out if it holds what could drive a terminal."""
    return name if name.isprintable() else repr(name)
