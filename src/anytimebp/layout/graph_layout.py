"""The graph compiled once: topology in flat arrays that kernels read, and the way back to the factors' sources.

Unary factors are not part of it: they are folded into each variable's prior, so that how they are split changes
nothing. A *message factor* is any other one. Nothing here is sized by the universes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anytimebp.model.factor import FactorBlock
from anytimebp.model.graph import FactorGraph
from anytimebp.model.rows import row_starts
from anytimebp.model.source import Box, FactorSource, FloatArray, IndexArray, States, TableRange
from anytimebp.model.variable import VariableTable


class GraphLayout(NamedTuple):
    """Topology. V variables, F message factors, E edges; an edge is a (factor, variable) pair.

    Attributes:
        factor_edge_start: (F + 1,) the edges of factor f are factor_edge_start[f] to factor_edge_start[f + 1], in the
            order of its table's axes.
        edge_variable: (E,) the variable of an edge.
        edge_factor: (E,) the message factor of an edge.
        variable_edge_start: (V + 1,) where a variable's edges start in variable_edge.
        variable_edge: (E,) edges by variable, rising within each.
    """

    factor_edge_start: IndexArray
    edge_variable: IndexArray
    edge_factor: IndexArray
    variable_edge_start: IndexArray
    variable_edge: IndexArray


class MessageBlock(NamedTuple):
    """A block of message factors: `first` is the message factor number of its first one."""

    first: int
    block: FactorBlock


class CompiledGraph:
    """A graph's layout with what belongs to it; shared by all runs on the graph and never changed by one.

    Attributes:
        arrays: The topology.
        variables: The variables, as they were when compiled.
        universe_sizes: (V,).
        message_blocks: The factors that send messages.
        unary_blocks: The factors that are folded into priors.
        blocks: All factors.
        extent: The range of the message factors' scores, as far as known without asking rules (NaN and False there).
        shared_tables: Tables made by earlier runs, by arithmetic; a cache for whoever makes them.
        unconnected: Variables of more than one state without any factor.
    """

    __slots__ = (
        "arrays",
        "blocks",
        "extent",
        "message_blocks",
        "shared_tables",
        "unary_blocks",
        "unconnected",
        "universe_sizes",
        "variables",
    )

    def __init__(self, graph: FactorGraph) -> None:
        """Compile a graph."""
        self.variables: VariableTable = graph.variables.copy()
        self.universe_sizes: IndexArray = self.variables.sizes()
        self.blocks: tuple[FactorBlock, ...] = graph.blocks
        self.unary_blocks = [block for block in self.blocks if block.scopes.shape[1] == 1]
        self.message_blocks: list[MessageBlock] = []
        n_factors = 0
        for block in self.blocks:
            if block.scopes.shape[1] > 1:
                self.message_blocks.append(MessageBlock(n_factors, block))
                n_factors += len(block.scopes)
        self.arrays = _topology(self.message_blocks, n_factors, len(self.universe_sizes))
        self.extent = _extent(self.message_blocks)
        self.shared_tables: dict[object, object] = {}
        self.unconnected = self._find_unconnected()

    def _find_unconnected(self) -> IndexArray:
        start = self.arrays.variable_edge_start
        alone = (start[1:] == start[:-1]) & (self.universe_sizes > 1)
        if alone.any():
            for block in self.unary_blocks:
                alone[block.scopes[:, 0]] = False
        return np.flatnonzero(alone)

    def graph_factor(self, message_factor: int) -> int:
        """Return the number in the graph of a message factor."""
        block, offset = self.locate(message_factor)
        return block.first + offset

    def locate(self, message_factor: int) -> tuple[FactorBlock, int]:
        """Return the block of a message factor, and its place in it."""
        first, block = self.message_blocks[bisect_right(self.message_blocks, message_factor, key=_first) - 1]
        return block, message_factor - first

    def source(self, message_factor: int) -> tuple[FactorSource, int]:
        """Return the source of a message factor, and which member of it."""
        block, offset = self.locate(message_factor)
        return block.source, block.member(offset)

    def log_values(self, message_factor: int, states: States) -> FloatArray:
        """Return a message factor's log scores on the product of the given states, one index array per axis."""
        block, offset = self.locate(message_factor)
        return block.log_values(offset, states, self.variables)

    def log_parts(self, message_factor: int, states: States) -> Iterator[tuple[Box, FloatArray]]:
        """Give the same scores a part at a time, each with its place."""
        block, offset = self.locate(message_factor)
        return block.log_parts(offset, states, self.variables)

    def edges(self, message_factor: int) -> range:
        """Return the edges of a message factor."""
        return range(self.arrays.factor_edge_start[message_factor], self.arrays.factor_edge_start[message_factor + 1])

    def edges_of(self, variable: int) -> list[int]:
        """Return the edges of a variable."""
        start = self.arrays.variable_edge_start
        edges: list[int] = self.arrays.variable_edge[start[variable] : start[variable + 1]].tolist()
        return edges


def _first(message_block: MessageBlock) -> int:
    return message_block.first


def compiled_graph(graph: FactorGraph) -> CompiledGraph:
    """Return the layout of a graph, compiling it unless an earlier run left it there."""
    found = graph.compiled
    if isinstance(found, CompiledGraph):
        return found
    compiled = CompiledGraph(graph)
    graph.compiled = compiled
    return compiled


def _topology(blocks: list[MessageBlock], n_factors: int, n_variables: int) -> GraphLayout:
    counts = [len(block.scopes) for _, block in blocks]
    arity = np.repeat(np.array([block.scopes.shape[1] for _, block in blocks], dtype=np.int64), counts)
    edge_variable = (
        np.concatenate([block.scopes.reshape(-1) for _, block in blocks]) if blocks else np.empty(0, dtype=np.int64)
    )
    return GraphLayout(
        factor_edge_start=row_starts(arity),
        edge_variable=edge_variable,
        edge_factor=np.repeat(np.arange(n_factors, dtype=np.int64), arity),
        variable_edge_start=row_starts(np.bincount(edge_variable, minlength=n_variables)),
        variable_edge=np.argsort(edge_variable, kind="stable"),
    )


def _extent(blocks: list[MessageBlock]) -> TableRange:
    if not blocks:
        return TableRange(np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_))
    ranges = [(_range(block.source), len(block.scopes)) for _, block in blocks]
    return TableRange(
        _join([_spread(known.log_max, n) for known, n in ranges]),
        _join([_spread(known.log_min, n) for known, n in ranges]),
        _join([_spread(known.has_zero, n) for known, n in ranges]),
    )


def _join(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate; one tied block stays one number seen many times."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _range(source: FactorSource) -> TableRange:
    """Return the range of a source's scores, or that it is unknown."""
    return source.range or TableRange(np.array([np.nan]), np.array([np.nan]), np.array([False]))


def _spread(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """Return one value per factor of a block, from one per member of its source."""
    return values if len(values) == n else np.broadcast_to(values, (n,))
