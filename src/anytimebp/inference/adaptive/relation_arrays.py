"""What is known of a graph of relations: its tables and priors, and messages over its active states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from anytimebp.kernels.relations_setup import ACTIVE, ENTRIES_OF_TABLES, SLOTS
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.tables.spare import SpareMemory


class Relations(NamedTuple):
    """A graph of relations. V variables, F factors, E edges.

    Attributes:
        edge_variable: (E,) three a factor, that of the leaf last.
        universe_sizes: (V,) states.
        slot_start: (V + 1,) where a variable's states start in a row of all of them.
        is_leaf: (V,) which variables are leaves of relations.
        prior: Of all states, largest 1.
        kind: (F,) LOG_TABLE, POTENTIALS or SCALED.
        address: (F,) of tables as they are given.
        shift: (F,) what to subtract from log scores.
        made_start: (F,) where the entries of SCALED tables start in `made`.
        is_made: By entries of SCALED tables: whether the line that starts there has been exponentiated.
        made: Address of these lines.
        line: Address of scratch for one.
    """

    edge_variable: IndexArray
    universe_sizes: IndexArray
    slot_start: IndexArray
    is_leaf: BoolArray
    prior: FloatArray
    kind: IndexArray
    address: IndexArray
    shift: FloatArray
    made_start: IndexArray
    is_made: BoolArray
    made: int
    line: int


class ActiveRelations(NamedTuple):
    """Active states of a graph of relations, and messages over them; those of the two ends of a factor in a row.

    Attributes:
        size: (V,) active states; one stands for all of a leaf.
        start: (V + 1,) where they start.
        slot: Their slots among all states.
        table_start: (F + 1,) where tables start.
        message_start: (F + 1,) where messages start.
        busy: Factors with two ends of several active states.
        total: Log beliefs of active states.
        table: Tables over the active states of both ends.
        message: Log messages, largest 0.
        weight: Scratch: what the ends of a factor say to it.
        told: Scratch: what it says to them.
        moved: (V,) what all messages to a variable have moved.
        seen: (2 F,) how much of that a factor has taken in.
        log_part: (F,) what busy factors add to log Z.
    """

    size: IndexArray
    start: IndexArray
    slot: IndexArray
    table_start: IndexArray
    message_start: IndexArray
    busy: IndexArray
    total: FloatArray
    table: FloatArray
    message: FloatArray
    weight: FloatArray
    told: FloatArray
    moved: FloatArray
    seen: FloatArray
    log_part: FloatArray


class TiedRows(NamedTuple):
    """Active states that count, of both ends of all factors of one table, sorted by state.

    Attributes:
        weight: What ends say to factors, as messages lie; zero where it counts for little.
        scale: (2 F,) by end, what messages from a factor are divided by.
        highest: (2 F,) by end, the log of what its weights are divided by.
        start: Where the factors of each state start; those of the first end, and those of the second.
        factor: These factors.
        slot: Where the weights of the state are.
    """

    weight: FloatArray
    scale: FloatArray
    highest: FloatArray
    start: IndexArray
    factor: IndexArray
    slot: IndexArray


_NOTHING, _NOWHERE = np.empty(0), np.empty(0, dtype=np.int64)
NO_ROWS = TiedRows(_NOTHING, _NOTHING, _NOTHING, _NOWHERE, _NOWHERE, _NOWHERE)


def room_for_rows(model: Relations, active: ActiveRelations, n_states: int, memory: SpareMemory) -> TiedRows:
    """Return room for active states by rows of a table.

    Args:
        model: The graph.
        active: The active states.
        n_states: The most of an end.
        memory: What to take it from.
    """
    n_slots, n_factors = len(active.message), len(model.kind)
    real = memory.real(n_slots + 4 * n_factors)
    whole = memory.whole(2 * (n_states + 1) + 2 * n_slots)
    return TiedRows(
        *_cut(real, n_slots, 2 * n_factors, 2 * n_factors), *_cut(whole, 2 * (n_states + 1), n_slots, n_slots)
    )


def room_for(model: Relations, n_ends: int, counts: list[float], memory: SpareMemory) -> ActiveRelations:
    """Return room for messages.

    Args:
        model: The graph.
        n_ends: The most states that both ends of a factor have.
        counts: The columns of `kernels/relations_setup.py` for the active states.
        memory: What to take it from.
    """
    n_variables, n_factors = len(model.is_leaf), len(model.kind)
    n_active, n_entries, n_slots = int(counts[ACTIVE]), int(counts[ENTRIES_OF_TABLES]), int(counts[SLOTS])
    whole = memory.whole(2 * n_variables + 1 + n_active + 3 * n_factors + 2)
    real = memory.real(n_active + n_entries + n_slots + 2 * n_ends + n_variables + 3 * n_factors)
    return ActiveRelations(
        *_cut(whole, n_variables, n_variables + 1, n_active, n_factors + 1, n_factors + 1, n_factors),
        *_cut(real, n_active, n_entries, n_slots, n_ends, n_ends, n_variables, 2 * n_factors, n_factors),
    )


def _cut(numbers: Any, *lengths: int) -> Iterator[Any]:
    """Cut an array into pieces of some lengths."""
    end = 0
    for length in lengths:
        start, end = end, end + length
        yield numbers[start:end]
