"""Strips of factors whose scores are asked from Python: rules and listed entries.

No score is asked for twice while strips are filled. The strips of a factor overlap where all its variables are in their
domains; this sub-table is put together first, and each strip takes its part from there. What was asked for before
stays: as domains S only grow, it is every joint state with at most one variable outside the old S.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from anytimebp.inference.adaptive.nested import NestedWorkspace
from anytimebp.kernels.codes import ASKED, MAX_LINEAR_RANGE
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import Box, FloatArray, IndexArray
from anytimebp.tables.boxes import new_boxes

ALL = slice(None)
NONE: IndexArray = np.empty(0, dtype=np.int64)


class NotPositiveError(Exception):
    """A factor's scores hold hard zeros, or a range that linear arithmetic cannot hold; the stage has to end."""


class _Axis(NamedTuple):
    """One variable of a factor, and the strip along it.

    Attributes:
        states: Within reach.
        member: Slots of the domain, in the order in which they joined.
        outside: Slots that are not in it.
        n_old: How many states the domain had when strips were last filled.
        columns: Slots that were within reach then.
        fresh: Slots that were not.
        strip: Numbers to be filled, the other variables' domains along their axes.
        before: The strip as it was then.
    """

    states: IndexArray
    member: IndexArray
    outside: IndexArray
    n_old: int
    columns: IndexArray | slice
    fresh: IndexArray
    strip: FloatArray
    before: FloatArray

    @property
    def domain(self) -> IndexArray:
        """The states of the domain."""
        return self.states[self.member]


class AskedStrips:
    """Fills the strips that kernels cannot fill.

    Attributes:
        asked: Scores asked for so far.
    """

    def __init__(self, compiled: CompiledGraph, kind: IndexArray) -> None:
        """Find the factors."""
        self._compiled = compiled
        self._factors: list[int] = np.flatnonzero(kind == ASKED).tolist()
        self._is_scaled = np.zeros(len(kind), dtype=np.bool_)
        self._last: NestedWorkspace | None = None
        self.asked = 0

    @property
    def is_needed(self) -> bool:
        """Whether there are such factors."""
        return bool(self._factors)

    def fill(self, workspace: NestedWorkspace) -> Iterator[None]:
        """Fill the strips of one factor after another; ask only for what was not there before."""
        for factor in self._factors:
            yield from self._fill_factor(workspace.nested.shift, factor, self._axes(workspace, factor))
        self._last = workspace

    def _axes(self, workspace: NestedWorkspace, factor: int) -> list[_Axis]:
        """Return where the strips of a factor are and were."""
        nested, space, edges = workspace.nested, workspace.space, self._compiled.edges(factor)
        variables: list[int] = workspace.layout.edge_variable[list(edges)].tolist()
        same = self._last is workspace
        last = self._last or workspace
        pool, strip_start = (nested.old_pool, nested.old_start) if same else (last.nested.pool, last.nested.strip_start)
        size = [int(nested.size[v]) for v in variables]
        old_size = [int(last.nested.old_size[v]) for v in variables]
        axes = []
        for axis, (edge, variable) in enumerate(zip(edges, variables, strict=True)):
            start, n = int(space.variable_slot_start[variable]), int(space.domain_size[variable])
            columns: IndexArray | slice = ALL
            n_columns, fresh = n, NONE
            if not same:
                known = _places(last, variable) if self._last else NONE
                columns = np.searchsorted(_places(workspace, variable), known)
                n_columns, fresh = len(known), np.delete(np.arange(n), columns)
            axes.append(
                _Axis(
                    nested.slot_state[start : start + n],
                    nested.member[start : start + size[axis]],
                    np.flatnonzero(~nested.is_member[start : start + n]),
                    old_size[axis],
                    columns,
                    fresh,
                    _shaped(nested.pool, int(nested.strip_start[edge]), size, axis, n),
                    _shaped(pool, int(strip_start[edge]), old_size, axis, n_columns),
                )
            )
        return axes

    def _fill_factor(self, shift: FloatArray, factor: int, axes: list[_Axis]) -> Iterator[None]:
        """Fill a factor's strips: what was there, the sub-table on the domains, then one strip after another."""
        old, size = [a.n_old for a in axes], [len(a.member) for a in axes]
        if old == size and not any(len(a.fresh) for a in axes):
            for own in axes:
                own.strip[...] = own.before
            return
        domains = [a.domain for a in axes]
        table = np.empty(size)
        box = [slice(0, n) for n in old]
        for axis, own in enumerate(axes):
            own.strip[_at(box, axis, own.columns)] = own.before
            if len(own.fresh):
                states = _states(domains, box, axis, own.states[own.fresh])
                yield from self._ask(shift, factor, own.strip, _at(box, axis, own.fresh), states)
            table[_at(box, axis, ALL)] = own.strip[_at(box, axis, own.member)]
        for new in new_boxes(old, size, 2):
            yield from self._ask(shift, factor, table, new, _states(domains, new))
        for axis, own in enumerate(axes):
            own.strip[_at([ALL] * len(axes), axis, own.member)] = table
            for new in new_boxes(old, size, 1, skipped=axis):
                states = _states(domains, new, axis, own.states[own.outside])
                yield from self._ask(shift, factor, own.strip, _at(new, axis, own.outside), states)

    def _ask(
        self,
        shift: FloatArray,
        factor: int,
        target: FloatArray,
        place: tuple[slice | IndexArray, ...],
        states: list[IndexArray],
    ) -> Iterator[None]:
        """Ask for the scores on a product of states, if there are any, and put them where they belong."""
        if all(len(part) for part in states):
            for box, scores in self._compiled.log_parts(factor, states):
                self.asked += scores.size
                target[_within(place, box)] = self._scaled(shift, factor, scores)
                yield

    def _scaled(self, shift: FloatArray, factor: int, block: FloatArray) -> FloatArray:
        if not self._is_scaled[factor]:
            shift[factor] = block.max()
            self._is_scaled[factor] = True
        if block.min() == -np.inf:
            raise NotPositiveError
        block = block - shift[factor]
        if not (np.abs(block) <= MAX_LINEAR_RANGE).all():
            raise NotPositiveError
        return np.exp(block)


def _places(workspace: NestedWorkspace, variable: int) -> IndexArray:
    """Return the places of a variable's slots among all that the evidence leaves."""
    start = workspace.space.variable_slot_start
    return workspace.reach.place[start[variable] : start[variable + 1]]


def _shaped(pool: FloatArray, start: int, size: list[int], axis: int, n: int) -> FloatArray:
    """Return a strip as a view with an axis per variable: `n` states along its own, domains along the others."""
    shape = [*size[:axis], *size[axis + 1 :], n]
    order = [*range(axis), len(size) - 1, *range(axis, len(size) - 1)]
    return pool[start : start + prod(shape)].reshape(shape).transpose(order)


def _at(box: Sequence[slice], axis: int, own: slice | IndexArray) -> tuple[slice | IndexArray, ...]:
    """Return a box with another choice along one axis."""
    return (*box[:axis], own, *box[axis + 1 :])


def _within(place: tuple[slice | IndexArray, ...], box: Box) -> tuple[slice | IndexArray, ...]:
    """Return the part of some places that a box, counted from the first of them, is."""
    return tuple(
        slice(own.start + part.start, own.start + part.stop) if isinstance(own, slice) else own[part]
        for own, part in zip(place, box, strict=True)
    )


def _states(
    domains: list[IndexArray], box: Sequence[slice], axis: int = -1, own: IndexArray | None = None
) -> list[IndexArray]:
    """Return the states in a box of the domains, other ones along one axis."""
    return [d[part] if own is None or k != axis else own for k, (d, part) in enumerate(zip(domains, box, strict=True))]
