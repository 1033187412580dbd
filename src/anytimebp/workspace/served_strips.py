"""Strips of factors whose scores are asked from Python: rules and listed entries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.kernels.codes import MAX_LINEAR_RANGE, SERVED
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.workspace.nested import NestedWorkspace


class NotPositiveError(Exception):
    """A factor's scores hold hard zeros, or a range that linear arithmetic cannot hold; the stage has to end."""


class ServedStrips:
    """Fills the strips that kernels cannot fill.

    Attributes:
        asked: Scores asked for so far.
    """

    def __init__(self, compiled: CompiledGraph, kind: IndexArray) -> None:
        """Find the factors."""
        self._compiled = compiled
        self._factors: list[int] = np.flatnonzero(kind == SERVED).tolist()
        self._is_scaled = np.zeros(len(kind), dtype=np.bool_)
        self.asked = 0

    def fill(self, workspace: NestedWorkspace) -> Iterator[None]:
        """Fill the strips of one factor after another; rows that are there already are copied, but for high arities."""
        for factor in self._factors:
            edges = self._compiled.edges(factor)
            for axis, edge in enumerate(edges):
                self._fill_strip(workspace, factor, axis, edge)
                yield

    def _fill_strip(self, workspace: NestedWorkspace, factor: int, axis: int, edge: int) -> None:
        nested, space = workspace.nested, workspace.space
        variables = workspace.layout.edge_variable[list(self._compiled.edges(factor))].tolist()
        n = int(space.domain_size[variables[axis]])
        states = [_domain_states(workspace, variable) for variable in variables]
        start = int(space.variable_slot_start[variables[axis]])
        states[axis] = nested.slot_state[start : start + n]
        kept = 0
        if len(variables) == 2:  # noqa: PLR2004
            kept = int(nested.old_size[variables[1 - axis]])
            states[1 - axis] = states[1 - axis][kept:]
        rows = int(np.prod([len(s) for k, s in enumerate(states) if k != axis]))
        begin = int(nested.strip_start[edge])
        old = int(nested.old_start[edge])
        nested.pool[begin : begin + kept * n] = nested.old_pool[old : old + kept * n]
        if rows:
            source, member = self._compiled.source(factor)
            block = np.moveaxis(source.log_values(member, states), axis, -1).reshape(rows * n)
            self.asked += block.size
            nested.pool[begin + kept * n : begin + (kept + rows) * n] = self._scaled(nested.shift, factor, block)

    def _scaled(self, shift: FloatArray, factor: int, block: FloatArray) -> FloatArray:
        if not self._is_scaled[factor]:
            shift[factor] = block.max()
            self._is_scaled[factor] = True
        block = block - shift[factor]
        if not (np.abs(block) <= MAX_LINEAR_RANGE).all():
            raise NotPositiveError
        return np.exp(block)


def _domain_states(workspace: NestedWorkspace, variable: int) -> IndexArray:
    nested, start = workspace.nested, int(workspace.space.variable_slot_start[variable])
    return nested.slot_state[start + nested.member[start : start + nested.size[variable]]]
