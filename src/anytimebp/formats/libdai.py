"""Factor graphs in the .fg format of libDAI.

The number of factors; then for each, separated by blank lines: its number of variables, their labels (whole numbers),
their numbers of states, the number of entries that are not zero, and those, one a line, as index and potential. The
first variable is the fastest in the index. `#` starts a comment. A variable that no factor names does not exist here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from anytimebp.formats.input_file import FACTOR, FACTOR_BLOCK, VARIABLE, Source
from anytimebp.formats.potentials import as_potentials, lost_labels, lost_names, note_rounding, tables_of_block
from anytimebp.formats.table_runs import Entries, Run, TableRuns, add_constants, check_states
from anytimebp.formats.tokens import Tokens, open_tokens
from anytimebp.model.factor import FactorBlock, describe_factor, plain_name
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import MAX_ARITY, FloatArray, IndexArray
from anytimebp.model.variable import MAX_STATES

LABELLED = re.compile(r"x(0|[1-9][0-9]{0,17})")  # names that reading gives to variables
SHOWN = 5  # names in a message
FREE_PER_ENTRY = 16
FREE_ENTRIES = 2**24
"""Zeros that tables may hold: so many per listed entry, and so many more in a file. A short file can name tables beyond
all memory; factors that exceed this stay lists of log scores."""


AT_ONCE = 2**15  # entries per read: small beside tables, and enough to make calls cheap
MOST_INDICES = 2**53  # beyond, whole numbers are not all floats


class Size(NamedTuple):
    """The number of states of a variable, and the number of the token that states it first."""

    n_states: int
    position: int


class Head(NamedTuple):
    """What the file states of a factor before its entries."""

    what: str
    labels: list[int]
    shape: list[int]
    n_joint: int
    n_entries: int


def read_fg(path: Path, _odd: list[str]) -> FactorGraph:
    """Read a factor graph; variables come in the order of their labels, named x and their label.

    Factors become tables, or listed entries once `FREE_ENTRIES` is used up.
    """
    sizes: dict[int, Size] = {}
    runs = TableRuns()
    room = FREE_ENTRIES
    shape: list[int] | None = None
    with open_tokens(path) as tokens:
        for k in range(tokens.integer("the number of factors")):
            head = _read_head(tokens, f"factor {k}", sizes)
            tokens.source.make_room(4 * FACTOR if head.shape == shape else FACTOR_BLOCK)
            shape = head.shape
            cost = max(0, head.n_joint - FREE_PER_ENTRY * head.n_entries)
            if cost <= room or not head.labels:
                room -= cost
                runs.add(head.labels, _read_table(tokens, head))
            else:
                runs.add_listed(head.labels, _read_entries(tokens, head))
        tokens.finish("the last factor")
        check_states(tokens, [size.n_states for size in sizes.values()], [size.position for size in sizes.values()])
        return _build(runs.finish(), sizes, tokens.source)


def _read_head(tokens: Tokens, what: str, sizes: dict[int, Size]) -> Head:
    arity = tokens.integer(f"the number of variables of {what}", high=MAX_ARITY)
    labels = tokens.integers(arity, f"the variables of {what}").tolist()
    if len(set(labels)) < arity:
        tokens.fail(f"{what} names a variable twice", tokens.position - 1)
    shape = [tokens.integer(f"the numbers of states of {what}", low=1, high=MAX_STATES) for _ in range(arity)]
    for axis, (label, size) in enumerate(zip(labels, shape, strict=True)):
        position = tokens.position - arity + axis
        if label not in sizes:
            tokens.source.make_room(VARIABLE)
            sizes[label] = Size(size, position)
        elif sizes[label].n_states != size:
            message = f"{what}: variable {label} has {sizes[label].n_states} states in a factor before this one"
            tokens.fail(message, position)
    n_joint = prod(shape)
    count = tokens.integer(f"the number of entries of {what}", high=min(n_joint, 2**62))
    tokens.check_room(2 * count, f"the entries of {what}", tokens.position - 1)
    return Head(what, labels, shape, n_joint, count)


def _read_table(tokens: Tokens, head: Head) -> FloatArray:
    """Read entries into a table, a block at a time."""
    table = np.zeros(head.n_joint)
    seen = np.zeros(head.n_joint, dtype=np.bool_)
    for done in range(0, head.n_entries, AT_ONCE):
        start = tokens.position
        index, values = _read_listed(tokens, head, min(AT_ONCE, head.n_entries - done), head.n_entries - done)
        if seen[index].any():
            tokens.fail(f"{head.what} lists an entry twice", start + 2 * int(seen[index].argmax()))
        seen[index] = True
        table[index] = values
    return np.ascontiguousarray(table.reshape(head.shape[::-1]).transpose())


def _read_entries(tokens: Tokens, head: Head) -> Entries:
    """Read entries as states and log scores."""
    rest, values = _read_listed(tokens, head, head.n_entries, head.n_entries)
    states = np.empty((head.n_entries, len(head.shape)), dtype=np.int64)
    for axis, size in enumerate(head.shape):
        rest, states[:, axis] = np.divmod(rest, size)
    with np.errstate(divide="ignore"):  # entries may be listed although they are zero
        return Entries(states, np.log(values))


def _read_listed(tokens: Tokens, head: Head, count: int, left: int) -> tuple[IndexArray, FloatArray]:
    """Read and check `count` entries, of those left of a factor: indices and potentials."""
    start = tokens.position
    listed = tokens.numbers(2 * count, f"the entries of {head.what}", more=2 * (left - count)).reshape(count, 2)
    index, values = listed.T
    most = min(head.n_joint, MOST_INDICES)
    known = (index >= 0) & (index < most) & (index == np.floor(index))
    if not known.all():
        limit = "" if most == head.n_joint else " (there are more joint states, but no more can be listed)"
        message = f"{head.what}: the index of an entry is a whole number from 0 to {most - 1:,}{limit}"
        tokens.fail(message, start + 2 * int(known.argmin()))
    fine = (values >= 0) & (values < np.inf)
    if not fine.all():
        tokens.fail(f"{head.what}: potentials are finite and not negative", start + 2 * int(fine.argmin()) + 1)
    whole = index.astype(np.int64)
    if not (whole[1:] > whole[:-1]).all():
        order = np.argsort(whole, kind="stable")
        twice = np.flatnonzero(np.diff(whole[order]) == 0)
        if twice.size:
            tokens.fail(f"{head.what} lists an entry twice", start + 2 * int(order[twice[0] + 1]))
    return whole, values


def _build(runs: list[Run], sizes: dict[int, Size], source: Source) -> FactorGraph:
    graph = FactorGraph()
    labels = np.array(sorted(sizes), dtype=np.int64)
    alike = groupby(enumerate(labels.tolist()), key=lambda pair: (pair[0] == pair[1], sizes[pair[1]].n_states))
    for (automatic, n_states), pairs in alike:
        names = [f"x{label}" for _, label in pairs]
        graph.add_variables(len(names), n_states, None if automatic else names)
    universes = graph.variables.sizes()
    for run in runs:
        scopes = np.searchsorted(labels, run.scopes)
        if isinstance(run.scores, Entries):
            graph.add_factor(scopes[0], entries=run.scores)
        elif scopes.shape[1]:
            graph.add_factors(scopes, table=run.scores)
        else:
            add_constants(graph, run.scores, universes, source)
    return graph


def write_fg(graph: FactorGraph, file: BinaryIO, path: Path) -> list[str]:
    """Write a factor graph; return what the format cannot hold."""
    labels = _labels(graph)
    dropped = lost_labels(graph)
    if labels is None:
        labels, dropped = list(range(len(graph.variables))), lost_names(graph) + dropped
    used = np.zeros(len(graph.variables), dtype=np.bool_)
    for block in graph.blocks:
        used[block.scopes.ravel()] = True
    lonely = [plain_name(graph.variables.name(int(i))) for i in np.flatnonzero(~used)]
    if lonely:
        more = ", ..." if len(lonely) > SHOWN else ""
        dropped.append(f"variables without factors ({len(lonely):,}: {', '.join(lonely[:SHOWN])}{more})")
    file.write(f"{graph.n_factors}\n".encode("ascii"))
    for block in graph.blocks:
        sizes = " ".join(map(str, block.source.shape))
        for scope, text in _texts(graph, block, path, dropped):
            names = " ".join([str(labels[i]) for i in scope])
            file.write(f"\n{len(scope)}\n{names}\n{sizes}\n{text}".encode("ascii"))
    return dropped


def _texts(graph: FactorGraph, block: FactorBlock, path: Path, dropped: list[str]) -> Iterator[tuple[list[int], str]]:
    """Yield the scope of each factor of a block, and its entries as text; of a list, only those that are listed."""
    source, stated = block.source, block.source.stated(0)
    if stated.get("default") == -np.inf and prod(source.shape) <= MOST_INDICES:
        what = describe_factor((block,), graph.variables, block.first)
        indices, log_scores = stated["entries"]
        text = _listed_text(indices, log_scores, source.shape, what, path)
        yield from ((scope, text) for scope in block.scopes.tolist())
        note_rounding(source, dropped)
        return
    text, known = "", None
    for scope, table in tables_of_block(graph, block, path, dropped):
        if table is not known:  # tied factors come one after the other
            text, known = _entries_text(table), table
        yield scope, text


def _labels(graph: FactorGraph) -> list[int] | None:
    """Return the labels that reading would turn into these names in this order, or None if there are none."""
    names = list(graph.variables.names())
    if not all(map(LABELLED.fullmatch, names)):
        return None
    labels = [int(name[1:]) for name in names]
    return labels if all(one < next_one for one, next_one in pairwise(labels)) else None


def _listed_text(indices: IndexArray, log_scores: FloatArray, shape: tuple[int, ...], what: str, path: Path) -> str:
    index = np.zeros(len(log_scores), dtype=np.int64)
    for axis in range(len(shape) - 1, -1, -1):
        index = index * shape[axis] + indices[:, axis]
    order = np.argsort(index)
    return _rows_text(index[order], as_potentials(log_scores[order], what, path))


def _entries_text(table: FloatArray) -> str:
    flat = table.ravel(order="F")
    index = np.flatnonzero(flat)
    return _rows_text(index, flat[index])


def _rows_text(index: IndexArray, values: FloatArray) -> str:
    rows = [f"{k} {value!r}" for k, value in zip(index.tolist(), values.tolist(), strict=True) if value != 0.0]
    return "\n".join([str(len(rows)), *rows, ""])
