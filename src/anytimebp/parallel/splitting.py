"""A graph cut into graphs: each factor goes to one part, and variables of several parts are shared by them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from anytimebp.layout.cut import cut_of
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import FactorBlock
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import IndexArray
from anytimebp.model.variable import VariableKey, VariableTable


class Part(NamedTuple):
    """A part of a graph.

    Attributes:
        graph: Its variables and factors.
        shared: For each of its variables that other parts hold, too: what all parts call it. Scores of a shared
            variable multiply, so its unary factors belong into one part alone.
    """

    graph: FactorGraph
    shared: Mapping[VariableKey, Hashable]


class Split(NamedTuple):
    """A graph in parts.

    Attributes:
        parts: The parts.
        variables: By part, the numbers of its variables in the whole graph, rising.
        home: (V,) the part that answers for a variable.
    """

    parts: list[Part]
    variables: list[IndexArray]
    home: IndexArray


def homes(graph: FactorGraph, n_parts: int) -> IndexArray:
    """Return (V,) the part of each variable, so that parts have about the same work, and little is between them."""
    labels = cut_of(compiled_graph(graph), n_parts).labels
    return labels[0] if labels else np.zeros(len(graph.variables), dtype=np.int64)


def split(graph: FactorGraph, home: IndexArray) -> Split:
    """Cut a graph into parts; a factor between parts goes to that of its first variable.

    Args:
        graph: The model; not changed.
        home: (V,) the part that answers for a variable. No part is without any, so that there may be fewer than asked.
    """
    home = np.unique(home, return_inverse=True)[1].reshape(-1)
    n_parts = int(home.max(initial=0)) + 1
    owners = [home[block.scopes[:, 0]] for block in graph.blocks]
    parts, variables, holders = [], [], np.zeros(len(home), dtype=np.int64)
    for part in range(n_parts):
        held = home == part
        for block, owner in zip(graph.blocks, owners, strict=True):
            held[block.scopes[owner == part]] = True
        variables.append(np.flatnonzero(held))
        holders += held
    for part, own in enumerate(variables):
        made = _variables_of(graph.variables, own)
        local = np.full(len(home), -1)
        local[own] = np.arange(len(own))
        for block, owner in zip(graph.blocks, owners, strict=True):
            _add_block(made, block, np.flatnonzero(owner == part), local)
        positions = np.flatnonzero(holders[own] > 1)
        parts.append(Part(made, dict(zip(positions.tolist(), own[positions].tolist(), strict=True))))
    return Split(parts, variables, home)


def evidence_of(observed: Mapping[int, Observation], found: Split, part: int) -> dict[int, Observation]:
    """Return the evidence on the variables of a part."""
    own, taken = found.variables[part], dict[int, Observation]()
    for index, seen in observed.items():
        position = int(np.searchsorted(own, index))
        if position < len(own) and own[position] == index:
            taken[position] = seen
    return taken


def _variables_of(variables: VariableTable, own: IndexArray) -> FactorGraph:
    """Return a graph of some variables, under their names, without factors."""
    made = FactorGraph()
    sizes = variables.sizes()[own]
    ends = [*np.flatnonzero(np.diff(sizes)) + 1, len(own)] if len(own) else []
    begin = 0
    for end in ends:
        names = [variables.name(int(index)) for index in own[begin:end]]
        made.add_variables(int(end) - begin, int(sizes[begin]), names)
        begin = int(end)
    return made


def _add_block(made: FactorGraph, block: FactorBlock, rows: IndexArray, local: IndexArray) -> None:
    """Add some factors of a block, which share their scores as before."""
    if not len(rows):
        return
    source = block.source
    stated: dict[str, Any] = source.stated(0)
    if source.n_members > 1:
        assert source.tables is not None  # noqa: S101  (no other kind has several)
        stated = {source.tag: source.tables.values[rows]}
    made.add_factors(local[block.scopes[rows]], **stated)
