"""Factors are kept in blocks, one per call that added them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError
from anytimebp.model.source import (
    ASKED_AT_ONCE,
    MAX_ARITY,
    Box,
    FactorSource,
    FloatArray,
    IndexArray,
    Naming,
    States,
    cut,
)
from anytimebp.model.variable import VariableTable

TOO_MANY = (
    f"no table of it can be made, which has at most {MAX_ARITY} axes: methods bp, residual, adaptive and auto need none"
)


def row_starts(lengths: npt.ArrayLike) -> IndexArray:
    """Return (n + 1,) where each of n rows starts, and where the last one ends."""
    lengths = np.asarray(lengths, dtype=np.int64)
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.add.accumulate(lengths, out=starts[1:])
    return starts


def row_items(first: IndexArray, counts: IndexArray) -> IndexArray:
    """Return first[i], first[i] + 1, ..., counts[i] of them, for all i in order."""
    before = np.cumsum(counts) - counts
    items: IndexArray = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    return items


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

        All code that needs the scores of a factor calls this, so that errors of rules name the factor.
        """
        if len(states) > MAX_ARITY:
            msg = f"{describe_factor((self,), variables, self.first + offset)} has {len(states)} variables; {TOO_MANY}"
            raise ModelError(msg)
        return self.source.ask(self.member(offset), states, lambda: self._naming(offset, variables))

    def gather(self, offsets: IndexArray, states: States, variables: VariableTable) -> FloatArray:
        """Return the log scores of several factors, each on its own states, (n, *sizes); a new array.

        Args:
            offsets: (n,) their positions in the block.
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
        """Yield the same scores in parts, each with its place, so that the whole need not fit into memory."""
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
    return f"{factor_title(index, block.name)} ({scope_names(variables, block.scopes[index - block.first])})"


def scope_names(variables: VariableTable, indices: Sequence[int] | IndexArray) -> str:
    """Return the names of a factor's variables as errors show them; only the first ones if there are many."""
    names = ", ".join([plain_name(variables.name(int(i))) for i in indices[:MAX_ARITY]])
    return names if len(indices) <= MAX_ARITY else f"{names}, and {len(indices) - MAX_ARITY:,} more"


def factor_title(index: int, name: str | None) -> str:
    """Return a factor's number, and its name if it has one."""
    return f"factor {index}" if name is None else f"factor {index} {name!r}"


def plain_name(name: str) -> str:
    """Return a name as errors show it: in quotes and escaped if it could control a terminal."""
    return name if name.isprintable() else repr(name)


WIDTH = 8
SCOPES, FACTORS, ARITY, TABLES, MEMBERS, ENTRIES, IS_LOG, EXTENT = range(WIDTH)
"""Columns: address of the scopes; factors; arity; address of the tables, 0 if there are none; how many of them; entries
of each; whether they are log scores; address of their extents, (3, members): largest and smallest finite log score, and
whether there is a hard zero; of potentials, their sums follow, see `DenseSource`."""


class MessageBlock(NamedTuple):
    """A block of message factors: `first` is the message factor number of its first one."""

    first: int
    block: FactorBlock


class BlockRows:
    """The rows of a graph's blocks, and counts that are updated when a block is added.

    Attributes:
        n_message_factors: Factors of two or more variables.
        n_edges: Variables of all of these together.
        message_blocks: The blocks of such factors.
        n_slots: States of all of these variables, counted on every edge.
        n_joint_states: Joint states of all these factors together, as a float.
        n_table_entries: Entries of the tables of these blocks, as many as there are.
        asked: Places of the blocks that have no tables.
    """

    __slots__ = (
        "_numbers",
        "asked",
        "message_blocks",
        "n_edges",
        "n_joint_states",
        "n_message_factors",
        "n_slots",
        "n_table_entries",
    )

    def __init__(self, blocks: Iterable[FactorBlock] = ()) -> None:
        """Write the rows of some blocks."""
        self._numbers = array("q")
        self.n_message_factors = self.n_edges = self.n_slots = self.n_table_entries = 0
        self.n_joint_states = 0.0
        self.message_blocks: list[MessageBlock] = []
        self.asked: list[int] = []
        for block in blocks:
            self.add(block)

    def add(self, block: FactorBlock) -> None:
        """Write the row of one more block."""
        scopes, tables = block.scopes, block.source.tables
        n, arity = scopes.shape
        position = scopes.__array_interface__["data"][0]
        if tables is None:
            self.asked.append(len(self._numbers) // WIDTH)
            self._numbers.extend((position, n, arity, 0, 1, 0, 0, 0))
        else:
            values, extent = tables.values, tables.extent.__array_interface__["data"][0]
            address, members = values.__array_interface__["data"][0], tables.n_members
            self._numbers.extend((position, n, arity, address, members, values.size // members, tables.is_log, extent))
        if arity > 1:
            self.message_blocks.append(MessageBlock(self.n_message_factors, block))
            self.n_message_factors += n
            self.n_edges += n * arity
            self.n_slots += n * sum(block.source.shape)
            self.n_joint_states += n * prod(map(float, block.source.shape))
            self.n_table_entries += 0 if tables is None else tables.values.size

    def replaced(self, position: int, block: FactorBlock) -> BlockRows:
        """Return the same rows with another source in one block, with tables of the same shape."""
        twin, own = self.copy(), BlockRows([block])
        twin._numbers[position * WIDTH : (position + 1) * WIDTH] = own._numbers  # noqa: SLF001  (one of its own kind)
        for k, (first, other) in enumerate(twin.message_blocks):
            if other.first == block.first:
                twin.message_blocks[k] = MessageBlock(first, block)
                before = 0 if other.source.tables is None else other.source.tables.values.size
                twin.n_table_entries += own.n_table_entries - before
        return twin

    def numbers(self) -> IndexArray:
        """Return a copy of the rows, shape (blocks, WIDTH)."""
        return np.array(self._numbers, dtype=np.int64).reshape(-1, WIDTH)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Message factors, their edges, slots and table entries."""
        return self.n_message_factors, self.n_edges, self.n_slots, self.n_table_entries

    def packed(self) -> bytes:
        """Return the rows as the bytes of their numbers."""
        return self._numbers.tobytes()

    def copy(self) -> BlockRows:
        """Return a copy of the rows, to which others can be added independently."""
        twin = BlockRows()
        twin._numbers = self._numbers[:]
        twin.n_message_factors, twin.n_edges = self.n_message_factors, self.n_edges
        twin.n_slots, twin.n_table_entries = self.n_slots, self.n_table_entries
        twin.n_joint_states = self.n_joint_states
        twin.message_blocks, twin.asked = self.message_blocks.copy(), self.asked.copy()
        return twin
