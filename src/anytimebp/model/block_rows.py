"""What compiling a graph needs to know of each block of factors, in a row of whole numbers.

Rows are written when a block is added, so that compiling walks no Python objects: kernels read scopes, tables and their
extents where they lie, by their addresses. The graph's blocks keep all of these alive.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import prod
from typing import NamedTuple

import numpy as np

from anytimebp.model.factor import FactorBlock
from anytimebp.model.source import IndexArray

WIDTH = 8
SCOPES, FACTORS, ARITY, TABLES, MEMBERS, ENTRIES, IS_LOG, EXTENT = range(WIDTH)
"""Columns: address of the scopes; factors; arity; address of the tables, 0 if there are none; how many of them; entries
of each; whether they are log scores; address of their extents, (3, members): largest and smallest finite log score, and
whether there is a hard zero."""


class MessageBlock(NamedTuple):
    """A block of message factors: `first` is the message factor number of its first one."""

    first: int
    block: FactorBlock


class BlockRows:
    """The rows of a graph's blocks, with what else is counted when a block is added.

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
        place = scopes.__array_interface__["data"][0]
        if tables is None:
            self.asked.append(len(self._numbers) // WIDTH)
            self._numbers.extend((place, n, arity, 0, 1, 0, 0, 0))
        else:
            values, extent = tables.values, tables.extent.__array_interface__["data"][0]
            address, members = values.__array_interface__["data"][0], tables.n_members
            self._numbers.extend((place, n, arity, address, members, values.size // members, tables.is_log, extent))
        if arity > 1:
            self.message_blocks.append(MessageBlock(self.n_message_factors, block))
            self.n_message_factors += n
            self.n_edges += n * arity
            self.n_slots += n * sum(block.source.shape)
            self.n_joint_states += n * prod(map(float, block.source.shape))
            self.n_table_entries += 0 if tables is None else tables.values.size

    def replaced(self, place: int, block: FactorBlock) -> BlockRows:
        """Return the same rows, but for another source of tables of the same shape in a block."""
        twin, own = self.copy(), BlockRows([block])
        twin._numbers[place * WIDTH : (place + 1) * WIDTH] = own._numbers  # noqa: SLF001  (one of its own kind)
        for k, (first, other) in enumerate(twin.message_blocks):
            if other.first == block.first:
                twin.message_blocks[k] = MessageBlock(first, block)
                before = 0 if other.source.tables is None else other.source.tables.values.size
                twin.n_table_entries += own.n_table_entries - before
        return twin

    def numbers(self) -> IndexArray:
        """Return a copy of the rows, shape (blocks, WIDTH)."""
        return np.array(self._numbers, dtype=np.int64).reshape(-1, WIDTH)

    def packed(self) -> bytes:
        """Return the rows as the bytes of their numbers."""
        return self._numbers.tobytes()

    def copy(self) -> BlockRows:
        """Return the same rows, to which others can be added apart."""
        twin = BlockRows()
        twin._numbers = self._numbers[:]
        twin.n_message_factors, twin.n_edges = self.n_message_factors, self.n_edges
        twin.n_slots, twin.n_table_entries = self.n_slots, self.n_table_entries
        twin.n_joint_states = self.n_joint_states
        twin.message_blocks, twin.asked = self.message_blocks.copy(), self.asked.copy()
        return twin
