"""Factors whose scores come from rules and lists: their slices are asked for in Python and remembered.

A dense factor's scores are read where they lie; these are asked from the source, for the domains when a state joins,
and, where candidates are scored, for all states of each other variable together with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.kernels.codes import ASKED, DYNAMIC, LINEAR, MAX_LINEAR_RANGE
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.workspace import SparseWorkspace


class AskedFactors:
    """Fills the tables of rules and lists.

    Attributes:
        grown: Entries asked for tables so far.
        scored: Entries asked for candidates so far.
    """

    def __init__(self, workspace: SparseWorkspace) -> None:
        """Look up which factors are asked."""
        self._workspace = workspace
        self._scores_candidates = workspace.candidates.mode >= DYNAMIC
        self._factors = np.flatnonzero(workspace.domain.source_kind == ASKED).tolist()
        self._unknown = {f for f in self._factors if np.isnan(workspace.compiled.extent.log_max[f])}
        self._blocks: dict[int, FloatArray] = {}
        self.grown = 0
        self.scored = 0

    def fill(self) -> Iterator[None]:
        """Fill everything over the first domains."""
        workspace = self._workspace
        for factor in self._factors:
            yield from self._place(factor, [*self._states(factor)])
            if self._scores_candidates:
                for edge in workspace.compiled.edges(factor):
                    self._enlarge_block(factor, edge)
                    yield from self._place_block(factor, edge, None)

    def join(self, variable: int) -> Iterator[None]:
        """Fill the slices of the state that has just joined a variable's domain."""
        workspace = self._workspace
        slot = int(workspace.arrays.domain_size[variable]) - 1
        for edge in workspace.compiled.edges_of(variable):
            factor = int(workspace.layout.edge_factor[edge])
            if workspace.domain.source_kind[factor] != ASKED:
                continue
            axis = edge - workspace.compiled.edges(factor).start
            states = [*self._states(factor)]
            states[axis] = states[axis][slot:]
            yield from self._place(factor, states, (axis, slot))
            if self._scores_candidates:
                for other in workspace.compiled.edges(factor):
                    if other != edge:
                        yield from self._place_block(factor, other, (axis, slot))

    def enlarge(self, factor: int, edge: int) -> None:
        """Keep up with a table that has got more room on the axis of an edge."""
        if self._scores_candidates and self._workspace.domain.source_kind[factor] == ASKED:
            for other in self._workspace.compiled.edges(factor):
                if other != edge:
                    self._enlarge_block(factor, other)

    def _states(self, factor: int) -> Iterator[IndexArray]:
        workspace = self._workspace
        return (
            workspace.states_of(int(workspace.layout.edge_variable[edge])) for edge in workspace.compiled.edges(factor)
        )

    def _place(self, factor: int, states: list[IndexArray], joined: tuple[int, int] = (0, 0)) -> Iterator[None]:
        """Ask for scores, scale them, and put them where they belong in a factor's table, a part at a time.

        Args:
            factor: The factor.
            states: Those that are asked for.
            joined: The axis on which they are the last ones, and the slot at which they start.
        """
        workspace, (axis, slot) = self._workspace, joined
        for box, scores in workspace.compiled.log_parts(factor, states):
            self.grown += scores.size
            finite = scores[scores > -np.inf]
            if finite.size < scores.size:
                workspace.arrays.table_has_zero[factor] = True
            if finite.size:
                self._take_range(factor, float(finite.max()), float(finite.min()))
            workspace.sum_by_logs_if_needed(factor)
            values = scores - workspace.log_scale[factor]
            if not workspace.arrays.table_in_logs[factor]:
                np.exp(values, out=values)
            place = list(box)
            place[axis] = slice(slot + place[axis].start, slot + place[axis].stop)
            workspace.table(factor)[tuple(place)] = values
            yield

    def _take_range(self, factor: int, high: float, low: float) -> None:
        """Widen what is known of a factor's range; scale its table anew if new scores are above the old ones."""
        workspace = self._workspace
        scale, log_min = workspace.log_scale, workspace.log_min
        known = factor not in self._unknown
        shift = max(0.0, high - scale[factor]) if known else high - scale[factor]
        log_min[factor] = log_min[factor] - shift if known else 0.0
        self._unknown.discard(factor)
        log_min[factor] = min(log_min[factor], low - scale[factor] - shift)
        if workspace.arrays.arithmetic == LINEAR and log_min[factor] < -MAX_LINEAR_RANGE:
            workspace.to_logs()
        workspace.sum_by_logs_if_needed(factor)  # before the table is scaled, which might lose something
        workspace.arrays.table_min[factor] = np.exp(log_min[factor])
        if shift == 0.0:
            return
        scale[factor] += shift
        if known:
            workspace.shift_scale(factor, shift)
            self._shift_table(factor, shift)  # all zeros otherwise: they stay, and have no scale
        if self._scores_candidates:
            edges = workspace.compiled.edges(factor)
            workspace.candidates.edge_slack[edges.start : edges.stop] = np.inf

    def _shift_table(self, factor: int, shift: float) -> None:
        """Lower the scale of a table's numbers; what lies in the room behind the domains may be anything."""
        table = self._workspace.table(factor)
        with np.errstate(invalid="ignore", over="ignore"):
            if self._workspace.arrays.table_in_logs[factor]:
                table -= shift
            else:
                table *= np.exp(-shift)

    # ------------------------------------------------------------ candidates
    def _enlarge_block(self, factor: int, edge: int) -> None:
        """Make room for the scores of all states of an edge's variable with the other variables' domains."""
        workspace = self._workspace
        edges, shape = workspace.compiled.edges(factor), list(workspace.capacities(factor))
        axis = edge - edges.start
        del shape[axis]
        source, _ = workspace.compiled.source(factor)
        new = np.empty((source.shape[axis], *shape))
        old = self._blocks.get(edge)
        if old is not None:
            box = (slice(None), *(slice(0, min(a, b)) for a, b in zip(old.shape[1:], shape, strict=True)))
            new[box] = old[box]
        self._blocks[edge] = new
        workspace.candidates.served_address[edge] = new.ctypes.data
        workspace.nbytes += new.nbytes - (old.nbytes if old is not None else 0)

    def _place_block(self, factor: int, edge: int, joined: tuple[int, int] | None) -> Iterator[None]:
        """Ask for the scores of all states of an edge's variable with the domains, or with a state that joined."""
        workspace = self._workspace
        axis = edge - workspace.compiled.edges(factor).start
        states = [*self._states(factor)]
        states[axis] = workspace.universe.allowed_states(int(workspace.layout.edge_variable[edge]))
        first = [0] * len(states)
        if joined is not None:
            first[joined[0]] = joined[1]
            states[joined[0]] = states[joined[0]][joined[1] :]
        for box, scores in workspace.compiled.log_parts(factor, states):
            self.scored += scores.size
            place = [slice(k + part.start, k + part.stop) for k, part in zip(first, box, strict=True)]
            target: tuple[IndexArray | slice, ...] = (states[axis][place.pop(axis)], *place)
            self._blocks[edge][target] = np.moveaxis(scores, axis, 0)
            yield
