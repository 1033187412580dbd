"""Factors read one by one, stacked: small tables of the same shape that follow each other become one array.

A hundred thousand factors of four numbers each are then a few blocks of a graph, and as few arrays of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray

TOGETHER = 2**18  # entries that are read or stacked at once: small against the tables, large against the calls


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


def add_constants(graph: FactorGraph, values: FloatArray) -> None:
    """State factors without variables as factors on the first one: the same distribution and the same log Z."""
    if not len(graph.variables):
        msg = "a factor needs a variable, and there are none"
        raise ModelError(msg)
    for value in values.tolist():
        graph.add_factor([0], table=np.full(graph.variables[0].n_states, value))
