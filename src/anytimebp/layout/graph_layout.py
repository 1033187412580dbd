"""The graph compiled once: topology in flat arrays that kernels read, and the way back to the factors' sources.

Unary factors are not part of it: they are folded into each variable's prior, so that how they are split changes
nothing. A *message factor* is any other one. Nothing here is sized by the universes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.setting_up import fill_topology
from anytimebp.model.factor import FactorBlock
from anytimebp.model.factor import MessageBlock as MessageBlock  # noqa: PLC0414  (part of a layout)
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import Box, FactorSource, FloatArray, IndexArray, States, TableRange
from anytimebp.model.variable import VariableTable
from anytimebp.slices import AT_ONCE, at_one_go


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


class CompiledGraph:
    """A graph's layout with what belongs to it; shared by all runs on the graph and never changed by one.

    Attributes:
        arrays: The topology.
        variables: The variables, as they were when compiled.
        universe_sizes: (V,).
        message_blocks: The factors that send messages.
        asked_unary_blocks: The unary factors that have no tables.
        blocks: All factors.
        has_tables_only: Whether all message factors have tables.
        n_factors: Message factors.
        n_edges: Edges of all of these.
        n_slots: States of the variables of all message factors, counted on every edge.
        n_states: States of all variables.
        n_joint_states: Joint states of all message factors, as a float.
        n_table_entries: Entries of the tables of message factors, as many as there are.
        rows: (blocks, WIDTH) what kernels need to know of them, see `model/factor.py`.
        lends_tables: Whether a user may hold arrays that tables are read from, and change them.
        extent: The range of the message factors' scores, as far as known without asking rules (NaN and False there).
        shared_tables: Tables made by earlier runs, by arithmetic; a cache for whoever makes them.
        orders: Elimination orders found by earlier runs, by domain sizes; a cache for whoever finds them.
        cuts: Cuts into parts made by earlier runs, by the number of parts; a cache for whoever makes them.
        unconnected: Variables of more than one state without any factor.
        widest: The widest range of a message factor's scores, as far as known.
    """

    __slots__ = (
        "arrays",
        "asked_unary_blocks",
        "blocks",
        "cuts",
        "extent",
        "has_tables_only",
        "lends_tables",
        "message_blocks",
        "n_edges",
        "n_factors",
        "n_joint_states",
        "n_slots",
        "n_states",
        "n_table_entries",
        "orders",
        "rows",
        "shared_tables",
        "unconnected",
        "universe_sizes",
        "variables",
        "widest",
    )

    def __init__(self, graph: FactorGraph, *, in_slices: bool = False) -> None:
        """Compile a graph; its topology is left to `lay_out` if that goes in slices, with what it finds on the way."""
        rows = graph.rows
        self.variables: VariableTable = graph.variables.copy()
        self.universe_sizes: IndexArray = self.variables.sizes()
        self.blocks: tuple[FactorBlock, ...] = graph.blocks
        self.lends_tables: bool = graph.lends_tables
        self.rows: IndexArray = rows.numbers()
        self.message_blocks: list[MessageBlock] = rows.message_blocks.copy()
        self.n_slots, self.n_table_entries = rows.n_slots, rows.n_table_entries
        self.n_joint_states: float = rows.n_joint_states
        asked = [self.blocks[position] for position in rows.asked]
        self.asked_unary_blocks = [block for block in asked if block.scopes.shape[1] == 1]
        self.has_tables_only = len(asked) == len(self.asked_unary_blocks)
        self.n_states = int(np.add.reduce(self.universe_sizes))
        self.n_factors, self.n_edges = rows.n_message_factors, rows.n_edges
        self.shared_tables: dict[object, object] = {}
        self.orders: dict[bytes, object] = {}
        self.cuts: dict[int, object] = {}
        if not in_slices:
            at_one_go(self.lay_out())

    def lay_out(self, at_once: int = AT_ONCE) -> Generator[None, None, None]:
        """Fill in the topology; pauses on the way."""
        n_variables, n_factors, n_edges = len(self.universe_sizes), self.n_factors, self.n_edges
        numbers = np.zeros(n_factors + 1 + 3 * n_edges + n_variables + 1, dtype=np.int64)
        log_extent, is_alone = np.empty((3, n_factors)), np.empty(n_variables, dtype=np.bool_)
        state, widest = np.zeros(5, dtype=np.int64), np.zeros(1)
        while not fill_topology(self.rows, self.universe_sizes, numbers, log_extent, is_alone, state, widest, at_once):
            yield
        self.widest = float(widest[0])
        first, last = n_factors + 1, len(numbers) - n_edges
        self.arrays = GraphLayout(
            factor_edge_start=numbers[:first],
            edge_variable=numbers[first : first + n_edges],
            edge_factor=numbers[first + n_edges : first + 2 * n_edges],
            variable_edge_start=numbers[first + 2 * n_edges : last],
            variable_edge=numbers[last:],
        )
        self.extent = TableRange(log_extent[0], log_extent[1], log_extent[2] == 1.0)
        self.unconnected: IndexArray = np.flatnonzero(is_alone)
        if not self.has_tables_only:
            self._add_ranges()

    def _add_ranges(self) -> None:
        """Fill in what is known of the scores of factors that have no tables."""
        for first, block in self.message_blocks:
            if block.source.tables is None and block.source.range is not None:
                for whole, known in zip(self.extent, block.source.range, strict=True):
                    whole[first : first + len(block.scopes)] = known
                log_max, log_min, _ = block.source.range
                self.widest = max(self.widest, float((log_max - log_min).max()))

    def with_topology(self, arrays: GraphLayout) -> CompiledGraph:
        """Return the same with another topology; everything else is shared."""
        twin = CompiledGraph.__new__(CompiledGraph)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.arrays = arrays
        return twin

    @property
    def unary_blocks(self) -> list[FactorBlock]:
        """The factors that are folded into priors."""
        return [block for block in self.blocks if block.scopes.shape[1] == 1]

    def graph_factor(self, message_factor: int) -> int:
        """Return the number in the graph of a message factor."""
        block, offset = self.locate(message_factor)
        return block.first + offset

    def message_factor(self, graph_factor: int) -> int:
        """Return the number among message factors of a factor of the graph, -1 if it is unary."""
        for first, block in self.message_blocks:
            if block.first <= graph_factor < block.first + len(block.scopes):
                return first + graph_factor - block.first
        return -1

    def locate(self, message_factor: int) -> tuple[FactorBlock, int]:
        """Return the block of a message factor, and its position in it."""
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
        """Give the same scores a part at a time, each with its position."""
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
