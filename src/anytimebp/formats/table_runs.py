"""Factors read one by one, stacked: small tables of the same shape that follow each other become one array.

A hundred thousand factors of four numbers each are then a few blocks of a graph, and as few arrays of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.formats.input_file import Source
from anytimebp.formats.tokens import Tokens
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray

FREE_STATES = 2**24  # states of all variables of a text file; with more, a few bytes would cost gigabytes
TOGETHER = 2**18  # entries read or stacked per call: small beside tables, and enough to make calls cheap


class Entries(NamedTuple):
    """A factor by its entries that are not zero: states, shape (entries, arity), and log scores."""

    states: IndexArray
    log_scores: FloatArray


class Run(NamedTuple):
    """Factors of one shape: their scopes, shape (factors, arity), and their tables, stacked; or entries of one."""

    scopes: IndexArray
    scores: FloatArray | Entries


class TableRuns:
    """Takes factors in order."""

    def __init__(self) -> None:
        """Start empty."""
        self._runs: list[Run] = []
        self._scopes: list[Sequence[int]] = []
        self._tables: list[FloatArray] = []

    def add(self, scope: Sequence[int], table: FloatArray) -> None:
        """Add a factor by its table."""
        known = self._tables
        if known and (known[0].shape != table.shape or (len(known) + 1) * table.size > TOGETHER):
            self._close()
        self._scopes.append(scope)
        self._tables.append(table)

    def add_listed(self, scope: Sequence[int], entries: Entries) -> None:
        """Add a factor by its entries."""
        self._close()
        self._runs.append(Run(_rows([scope]), entries))

    def finish(self) -> list[Run]:
        """Return all runs, in order."""
        self._close()
        return self._runs

    def _close(self) -> None:
        if not self._tables:
            return
        tables = np.stack(self._tables) if len(self._tables) > 1 else self._tables[0][np.newaxis]
        self._runs.append(Run(_rows(self._scopes), np.ascontiguousarray(tables)))
        self._scopes, self._tables = [], []


def _rows(scopes: list[Sequence[int]]) -> IndexArray:
    return np.array(scopes, dtype=np.int64).reshape(len(scopes), -1 if scopes[0] else 0)


def add_constants(graph: FactorGraph, values: FloatArray, sizes: IndexArray, source: Source) -> None:
    """State factors without variables as factors on the smallest one: the same distribution and the same log Z.

    Args:
        graph: Gets the factors.
        values: Their potentials, shape (factors,).
        sizes: Of all universes.
        source: The file that they come from.
    """
    if not len(sizes):
        msg = "a factor needs a variable, and there are none"
        raise ModelError(msg)
    smallest = int(sizes.argmin())
    source.make_room(8 * len(values) * int(sizes[smallest]))
    tables = np.repeat(values[:, np.newaxis], sizes[smallest], axis=1)
    graph.add_factors(np.full((len(values), 1), smallest), table=tables)


def check_states(tokens: Tokens, sizes: Sequence[int], positions: Sequence[int]) -> None:
    """Refuse universes that the tables and lists of a file do not fill. Called when the whole file is read.

    Args:
        tokens: Of the file, all used.
        sizes: Of the universes.
        positions: The numbers of the tokens that state these.
    """
    most = FREE_STATES + tokens.position
    total = 0
    for size, position in zip(sizes, positions, strict=True):
        total += size
        if total > most:
            message = (
                f"with the {size:,} states of this variable, there are {total:,}, and the file backs up {most:,}: "
                f"{FREE_STATES:,}, and one more for each of its {tokens.position:,} numbers; larger universes go into "
                "an .npz file"
            )
            tokens.fail(message, position)
