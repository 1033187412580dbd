"""Factors whose scores come from rules and lists: Python asks for slices of them and keeps these.

The scores of a dense factor are read in place. Those of the factors here are asked from their source when a state
joins: on the domains and, where candidates are scored, also for all states of each other variable.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.kernels.codes import ASKED, DYNAMIC
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.growing_domains import GrowingDomains


class AskedFactors:
    """Fills the tables of rules and lists.

    Attributes:
        grown: Entries asked for tables so far.
        scored: Entries asked for candidates so far.
    """

    def __init__(self, growing: GrowingDomains) -> None:
        """Look up which factors are asked."""
        self._growing, self._compiled = growing, growing.universe.compiled
        self._scores_candidates = growing.candidates.mode >= DYNAMIC
        self._is_asked = growing.domain.source_kind == ASKED
        self._blocks: dict[int, FloatArray] = {}
        self.grown = 0
        self.scored = 0

    def fill(self) -> Iterator[None]:
        """Fill everything over the first domains."""
        for factor in np.flatnonzero(self._is_asked).tolist():
            yield from self._put_table(factor, self._states(factor))
            if self._scores_candidates:
                for edge in self._compiled.edges(factor):
                    self._enlarge_block(factor, edge)
                    yield from self._put_block(factor, edge, None)

    def join(self, variable: int) -> Iterator[None]:
        """Fill the slices of the state that has just joined a variable's domain."""
        slot = len(self._growing.workspace.domains.states_of(variable)) - 1
        for edge in self._compiled.edges_of(variable):
            factor = int(self._compiled.arrays.edge_factor[edge])
            if not self._is_asked[factor]:
                continue
            axis = edge - self._compiled.edges(factor).start
            states = self._states(factor)
            states[axis] = states[axis][slot:]
            yield from self._put_table(factor, states, (axis, slot))
            if self._scores_candidates:
                for other in self._compiled.edges(factor):
                    if other != edge:
                        yield from self._put_block(factor, other, (axis, slot))

    def enlarge(self, factor: int, edge: int) -> None:
        """Follow a table whose axis of an edge has been given more room."""
        if self._scores_candidates and self._is_asked[factor]:
            for other in self._compiled.edges(factor):
                if other != edge:
                    self._enlarge_block(factor, other)

    def _states(self, factor: int) -> list[IndexArray]:
        """Return the domains of a factor's variables."""
        variable, states_of = self._compiled.arrays.edge_variable, self._growing.workspace.domains.states_of
        return [states_of(int(variable[edge])) for edge in self._compiled.edges(factor)]

    def _put_table(self, factor: int, states: list[IndexArray], joined: tuple[int, int] = (0, 0)) -> Iterator[None]:
        """Ask for scores, and write them into a factor's table, a part at a time.

        Args:
            factor: The factor.
            states: Those that are asked for.
            joined: The axis on which they are the last ones, and the slot at which they start.
        """
        axis, slot = joined
        for box, scores in self._compiled.log_parts(factor, states):
            self.grown += scores.size
            position = list(box)
            position[axis] = slice(slot + position[axis].start, slot + position[axis].stop)
            if self._growing.fill_box(factor, tuple(position), scores) and self._scores_candidates:
                edges = self._compiled.edges(factor)
                self._growing.candidates.edge_slack[edges.start : edges.stop] = np.inf
            yield

    # ------------------------------------------------------------ candidates
    def _enlarge_block(self, factor: int, edge: int) -> None:
        """Make room for the scores of all states of an edge's variable with the other variables' domains."""
        shape = list(self._growing.workspace.tables.shape(factor))
        axis = edge - self._compiled.edges(factor).start
        del shape[axis]
        source, _ = self._compiled.source(factor)
        new = np.empty((source.shape[axis], *shape))
        old = self._blocks.get(edge)
        if old is not None:
            box = (slice(None), *(slice(0, min(a, b)) for a, b in zip(old.shape[1:], shape, strict=True)))
            new[box] = old[box]
        self._blocks[edge] = new
        self._growing.candidates.asked_address[edge] = new.ctypes.data
        self._growing.nbytes += new.nbytes - (old.nbytes if old is not None else 0)

    def _put_block(self, factor: int, edge: int, joined: tuple[int, int] | None) -> Iterator[None]:
        """Ask for the scores of all states of an edge's variable with the domains, or with a state that joined."""
        axis = edge - self._compiled.edges(factor).start
        states = self._states(factor)
        states[axis] = self._growing.universe.allowed_states(int(self._compiled.arrays.edge_variable[edge]))
        first = [0] * len(states)
        if joined is not None:
            first[joined[0]] = joined[1]
            states[joined[0]] = states[joined[0]][joined[1] :]
        for box, scores in self._compiled.log_parts(factor, states):
            self.scored += scores.size
            position = [slice(k + part.start, k + part.stop) for k, part in zip(first, box, strict=True)]
            target: tuple[IndexArray | slice, ...] = (states[axis][position.pop(axis)], *position)
            self._blocks[edge][target] = np.moveaxis(scores, axis, 0)
            yield
