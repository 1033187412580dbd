"""Factor graphs in the .fg format of libDAI.

The number of factors; then for each, separated by blank lines: its number of variables, their labels (whole numbers),
their numbers of states, the number of entries that are not zero, and those, one a line, as index and potential. The
first variable is the fastest in the index. `#` starts a comment. A variable that no factor names does not exist here.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from anytimebp.formats.potentials import factor_potentials, unnamed
from anytimebp.formats.tokens import Tokens, open_tokens
from anytimebp.model.graph import MAX_ARITY, FactorGraph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import MAX_STATES

SHOWN = 5  # names in a message
FREE_PER_ENTRY = 16
FREE_ENTRIES = 2**24
"""Zeros that tables may hold: so many per listed entry, and so many more in a file. A short file can name tables beyond
all memory; factors that exceed this stay lists of log scores."""


class ListedFactor(NamedTuple):
    """A factor as the file states it."""

    labels: list[int]
    shape: list[int]
    indices: IndexArray
    values: FloatArray


def read_fg(path: Path) -> FactorGraph:
    """Read a factor graph; variables come in the order of their labels, named x and their label."""
    sizes: dict[int, int] = {}
    with open_tokens(path) as tokens:
        factors = [_read_factor(tokens, k, sizes) for k in range(tokens.integer("the number of factors"))]
        tokens.finish("the last factor")
        graph = FactorGraph()
        labels = sorted(sizes)
        for index, label in enumerate(labels):
            if label == index:
                graph.add_variables(1, sizes[label])
            else:
                graph.add_variable(f"x{label}", sizes[label])
        place = {label: index for index, label in enumerate(labels)}
        room = FREE_ENTRIES
        for factor in factors:
            room = _add_factor(tokens, graph, factor, place, room)
    return graph


def _read_factor(tokens: Tokens, k: int, sizes: dict[int, int]) -> ListedFactor:
    what = f"factor {k}"
    arity = tokens.integer(f"the number of variables of {what}", high=MAX_ARITY)
    labels = tokens.integers(arity, f"the variables of {what}").tolist()
    if len(set(labels)) < arity:
        tokens.fail(f"{what} names a variable twice", tokens.position - 1)
    shape = [tokens.integer(f"the numbers of states of {what}", low=1, high=MAX_STATES) for _ in range(arity)]
    for axis, (label, size) in enumerate(zip(labels, shape, strict=True)):
        if sizes.setdefault(label, size) != size:
            message = f"{what}: variable {label} has {sizes[label]} states in a factor before this one"
            tokens.fail(message, tokens.position - arity + axis)
    count = tokens.integer(f"the number of entries of {what}", high=min(prod(shape), 2**62))
    start = tokens.position
    listed = tokens.numbers(2 * count, f"the entries of {what}").reshape(count, 2)
    _check_entries(tokens, listed, prod(shape), start, what)
    return ListedFactor(labels, shape, listed[:, 0].astype(np.int64), np.ascontiguousarray(listed[:, 1]))


def _check_entries(tokens: Tokens, listed: FloatArray, n_joint: int, start: int, what: str) -> None:
    index, value = listed.T
    known = (index >= 0) & (index < min(n_joint, 2**53)) & (index == np.floor(index))
    if not known.all():
        message = f"{what}: the index of an entry is a whole number from 0 to {n_joint - 1:,}"
        tokens.fail(message, start + 2 * int(known.argmin()))
    fine = (value >= 0) & (value < np.inf)
    if not fine.all():
        tokens.fail(f"{what}: potentials are finite and not negative", start + 2 * int(fine.argmin()) + 1)
    order = np.argsort(index, kind="stable")
    twice = np.flatnonzero(np.diff(index[order]) == 0)
    if twice.size:
        tokens.fail(f"{what} lists an entry twice", start + 2 * int(order[twice[0] + 1]))


def _add_factor(tokens: Tokens, graph: FactorGraph, factor: ListedFactor, place: dict[int, int], room: int) -> int:
    """Add a factor as a table, or as listed entries once zeros have taken all the room; return the room left."""
    scope = [place[label] for label in factor.labels]
    n_joint = prod(factor.shape)
    if not scope:
        return _add_constant(tokens, graph, factor, room)
    cost = max(0, n_joint - FREE_PER_ENTRY * len(factor.values))
    if cost <= room:
        table = np.zeros(n_joint)
        table[factor.indices] = factor.values
        graph.add_factor(scope, table=np.ascontiguousarray(table.reshape(factor.shape[::-1]).transpose()))
        return room - cost
    states, rest = np.empty((len(factor.indices), len(scope)), dtype=np.int64), factor.indices
    for axis, size in enumerate(factor.shape):
        rest, states[:, axis] = np.divmod(rest, size)
    with np.errstate(divide="ignore"):  # entries may be listed although they are zero
        graph.add_factor(scope, entries=(states, np.log(factor.values)))
    return room


def _add_constant(tokens: Tokens, graph: FactorGraph, factor: ListedFactor, room: int) -> int:
    """State a factor without variables as one on the first variable: the same distribution and the same log Z."""
    if not len(graph.variables):
        tokens.fail("a factor needs a variable, and there are none")
    value = factor.values[0] if len(factor.values) else 0.0
    graph.add_factor([0], table=np.full(graph.variables[0].n_states, value))
    return room


def write_fg(graph: FactorGraph, file: BinaryIO, path: Path) -> list[str]:
    """Write a factor graph; return what the format cannot hold."""
    dropped = unnamed(graph)
    used = np.zeros(len(graph.variables), dtype=np.bool_)
    for block in graph.blocks:
        used[block.scopes.ravel()] = True
    lonely = [graph.variables.name(int(i)) for i in np.flatnonzero(~used)]
    if lonely:
        more = ", ..." if len(lonely) > SHOWN else ""
        dropped.append(f"variables without factors ({len(lonely):,}: {', '.join(lonely[:SHOWN])}{more})")
    file.write(f"{graph.n_factors}\n".encode("ascii"))
    text, known = "", None
    for scope, table in factor_potentials(graph, path, dropped):
        if table is not known:  # tied factors come one after the other
            text, known = _entries_text(table), table
        labels, sizes = " ".join(map(str, scope)), " ".join(map(str, table.shape))
        file.write(f"\n{len(scope)}\n{labels}\n{sizes}\n{text}".encode("ascii"))
    return dropped


def _entries_text(table: FloatArray) -> str:
    flat = table.ravel(order="F")
    index = np.flatnonzero(flat)
    rows = [f"{k} {value!r}" for k, value in zip(index.tolist(), flat[index].tolist(), strict=True)]
    return "\n".join([str(len(rows)), *rows, ""])
