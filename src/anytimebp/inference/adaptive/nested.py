"""Domains nested in universes: messages over both, and the strips of the tables between them.

`adaptive` keeps two sets of messages. Those over the universes (or over the states within reach) are sent rarely,
through strips or whole tables; those over the domains are sent until they settle, with the rest standing still in
between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anytimebp.domains.domains import Domains
from anytimebp.inference.adaptive.leaf_axes import LeafAxes
from anytimebp.inference.adaptive.strip_sources import StripSources
from anytimebp.kernels.codes import LINEAR, TABLE
from anytimebp.kernels.fill_strips import plan_strips
from anytimebp.kernels.inner import take_stock
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.rows import row_items
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.memory import held_bytes
from anytimebp.tables.workspace import Workspace

MAX_ARITY = 32  # axes that NumPy's arrays can have


class NestedArrays(NamedTuple):
    """Domains and strips. V variables, F factors, E edges; slots are those of the messages over the universes.

    Attributes:
        size: (V,) states in each domain.
        member: Per variable slot: the slots in the domain, in the order in which they joined; `size` of them count.
        is_member: Per variable slot: whether it is in the domain.
        slot_state: Per variable slot: the state.
        universe_size: (V,) all states.
        source_address: (F,) where a dense factor's numbers lie, 0 for those that are asked from Python.
        source_kind: (F,) LOG_TABLE, POTENTIALS, SCALED or ASKED.
        shift: (F,) what to subtract from log scores.
        table_size: (F,) entries at that address.
        edge_stride: (E,) entries between two states of the edge's variable.
        leaf_stride: (F,) the same for the leaf that strips sum out.
        leaf_size: (F,) its states; 1 where there is none.
        leaf_start: (F,) where its states start in a row of those of all variables, leaves included; -1 for none.
        leaf_weight: Priors of all states in that row; nothing where there are no leaves.
        pool: All strips.
        strip_start: (E,) where an edge's strip starts: rows of joint states of the other domains, each along the
            universe.
        old_pool: The strips before the domains last grew.
        old_start: (E,) where they start in it.
        old_size: (V,) the domains then.
        tail: Per edge slot: scratch of a strip update.
        edge_peak: (E,) product of the largest weights in the other domains at the last update over the universes.
        factor_peak: (F,) product of the largest weights in all its domains, then.
        outside_total: (F,) Z_f of the joint states with the first variable outside its domain, over that product.
        moved: (V,) sum of all that messages to a variable have moved on its domain.
        seen: (E,) how much of it there was when the factor was last updated.
        row_base: Scratch: a number per row of a strip, or per entry of a table over the domains.
        row_old: Scratch, the same.
        row_target: Scratch, the same.
        row_weight: Scratch, the same.
        dots: Scratch, the same.
        outside: Scratch: a number per state of one variable.
        offsets: Scratch: a number per axis.
    """

    size: IndexArray
    member: IndexArray
    is_member: npt.NDArray[np.bool_]
    slot_state: IndexArray
    universe_size: IndexArray
    source_address: IndexArray
    source_kind: IndexArray
    shift: FloatArray
    table_size: IndexArray
    edge_stride: IndexArray
    leaf_stride: IndexArray
    leaf_size: IndexArray
    leaf_start: IndexArray
    leaf_weight: FloatArray
    pool: FloatArray
    strip_start: IndexArray
    old_pool: FloatArray
    old_start: IndexArray
    old_size: IndexArray
    tail: FloatArray
    edge_peak: FloatArray
    factor_peak: FloatArray
    outside_total: FloatArray
    moved: FloatArray
    seen: FloatArray
    row_base: IndexArray
    row_old: IndexArray
    row_target: IndexArray
    row_weight: FloatArray
    dots: FloatArray
    outside: FloatArray
    offsets: IndexArray


class NestedWorkspace:
    """Messages over universes and over domains within them.

    Attributes:
        layout: Topology.
        space: Messages over the universes; without tables as long as these are not made in full.
        inner: Messages, tables and tails over the domains.
        nested: Domains and strips.
        reach: The states within reach.
    """

    def __init__(self, workspace: Workspace, reach: Reach, sources: StripSources | None) -> None:
        """Start from domains without any state.

        Args:
            workspace: Of the messages over what is within reach.
            reach: The states within reach.
            sources: Where strips come from; None for whole tables.
        """
        space, n_variables = workspace.arrays, len(workspace.domains.sizes)
        self.layout: GraphLayout = workspace.layout
        self.space: WorkspaceArrays = space
        self.reach = reach
        n_slots, n_edges = len(space.prior), len(space.edge_capacity)
        self.nested = NestedArrays(
            size=np.zeros(n_variables, dtype=np.int64),
            member=np.empty(n_slots, dtype=np.int64),
            is_member=np.zeros(n_slots, dtype=np.bool_),
            slot_state=reach.slot_state,
            universe_size=workspace.compiled.universe_sizes,
            source_address=sources.address if sources else space.table_address,
            source_kind=sources.kind if sources else space.table_address,
            shift=sources.shift if sources else space.table_min,
            table_size=sources.axes.table_size if sources else space.table_address,
            edge_stride=sources.axes.edge_stride if sources else space.table_address,
            leaf_stride=sources.axes.leaf_stride if sources else space.table_address,
            leaf_size=sources.axes.leaf_size if sources else space.table_address,
            leaf_start=sources.leaf_start if sources else space.table_address,
            leaf_weight=sources.leaf_weight if sources else space.table_min,
            pool=np.empty(0),
            strip_start=np.zeros(n_edges, dtype=np.int64),
            old_pool=np.empty(0),
            old_start=np.zeros(n_edges, dtype=np.int64),
            old_size=np.zeros(n_variables, dtype=np.int64),
            tail=np.empty(len(space.message) if sources else 0),
            edge_peak=np.ones(n_edges),
            factor_peak=np.ones(len(space.factor_total)),
            outside_total=np.zeros(len(space.factor_total)),
            moved=np.zeros(n_variables),
            seen=np.zeros(n_edges),
            row_base=np.empty(0, dtype=np.int64),
            row_old=np.empty(0, dtype=np.int64),
            row_target=np.empty(0, dtype=np.int64),
            row_weight=np.empty(0),
            dots=np.empty(0),
            outside=np.empty(max(len(space.peak), int(sources.axes.leaf_size.max(initial=1)) if sources else 1)),
            offsets=np.empty(MAX_ARITY, dtype=np.int64),
        )
        self.inner = _inner_arrays(space)
        self._most_axes = int(np.diff(self.layout.factor_edge_start).max(initial=0))
        self._tables = np.empty(0)

    @property
    def is_whole(self) -> bool:
        """Whether every domain is all there is, but for states that priors exclude: these never join."""
        return bool((self.nested.is_member | (self.space.prior == 0.0)).all())

    @property
    def nbytes(self) -> int:
        """Bytes of messages, strips and tables, of copies at the end of a round, and of beliefs."""
        copies = self.space.message.nbytes + 4 * self.space.prior.nbytes
        return held_bytes(self.space, self.inner, self.nested, self.reach, [self._tables]) + copies

    def make_room(self, *, strips: bool) -> None:
        """Allocate tables, and strips, for the domains as they are now; the strips before stay to be copied."""
        strip_start = np.empty(len(self.layout.edge_variable) + 1, dtype=np.int64)
        table_start = np.empty(len(self.space.factor_total) + 1, dtype=np.int64)
        rows = plan_strips(self.layout, self.space, self.nested, strip_start, table_start)
        old = self.nested
        if strips:
            self.nested = old._replace(
                pool=np.empty(int(strip_start[-1])),
                strip_start=strip_start[:-1],
                old_pool=old.pool,
                old_start=old.strip_start,
            )
        entries = max(rows, int(np.diff(table_start).max(initial=0)))
        if entries > len(old.row_base):
            self.nested = self.nested._replace(
                row_base=np.empty(entries, dtype=np.int64),
                row_old=np.empty(entries, dtype=np.int64),
                row_target=np.empty(entries, dtype=np.int64),
                row_weight=np.empty(entries),
                dots=np.empty(entries),
            )
        self._tables = np.empty(int(table_start[-1]))
        self.inner.table_address[:] = self._tables.__array_interface__["data"][0] + 8 * table_start[:-1]
        levels = rows * self._most_axes  # entries of all levels between the first and the last axis, at the most
        if levels > len(self.inner.prefix):
            self.inner = self.inner._replace(prefix=np.empty(levels), dots=np.empty(levels))

    def release_old_strips(self) -> None:
        """Let go of the strips before the domains last grew."""
        self.nested = self.nested._replace(old_pool=np.empty(0))

    def release(self) -> None:
        """Let go of strips and tables."""
        nothing = np.empty(0)
        self.nested = self.nested._replace(pool=nothing, old_pool=nothing)
        self._tables = nothing

    def carry_over(self, other: NestedWorkspace) -> None:
        """Take domains and messages from a workspace with fewer states within reach; new states get small messages."""
        space, nested, layout = self.space, self.nested, self.layout
        slot = np.searchsorted(self.reach.place, other.reach.place)
        sizes = other.space.domain_size
        slot -= np.repeat(space.variable_slot_start[:-1], sizes)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        rank = np.arange(len(slot)) - np.repeat(other.space.variable_slot_start[:-1], sizes)
        active = rank < other.nested.size[owner]
        first = space.variable_slot_start[owner[active]]
        member = slot[other.space.variable_slot_start[owner[active]] + other.nested.member[active]]
        nested.size[:] = other.nested.size
        nested.member[first + rank[active]] = member
        nested.is_member[first + member] = True
        edge_size = sizes[layout.edge_variable]
        within = np.arange(int(edge_size.sum())) - np.repeat(np.cumsum(edge_size) - edge_size, edge_size)
        target = slot[np.repeat(other.space.variable_slot_start[layout.edge_variable], edge_size) + within]
        space.message[:] = np.repeat(other.space.edge_min, space.domain_size[layout.edge_variable])
        space.message[np.repeat(space.edge_slot_start, edge_size) + target] = other.space.message
        space.edge_scale[:] = other.space.edge_scale
        take_stock(layout, space)


def put_messages(before: NestedWorkspace, axes: LeafAxes, workspace: Workspace) -> None:
    """Put the messages of a workspace without leaves in place of those that one over the whole graph starts with.

    States out of reach get the smallest number of the message. Linear arithmetic on both sides.
    """
    space, arrays, layout = before.space, workspace.arrays, before.layout
    within = before.reach.place - np.repeat(before.reach.slot_start, space.domain_size)
    size, whole_size = space.domain_size[layout.edge_variable], arrays.edge_capacity[axes.edge]
    slot = row_items(space.variable_slot_start[layout.edge_variable], size)
    first = arrays.edge_slot_start[axes.edge]
    arrays.message[row_items(first, whole_size)] = np.repeat(space.edge_min, whole_size)
    arrays.message[np.repeat(first, size) + within[slot]] = space.message[row_items(space.edge_slot_start, size)]
    take_stock(workspace.layout, arrays)


def can_nest(workspace: Workspace) -> bool:
    """Tell whether inner rounds are possible: there are factors, all of them tables without zeros, summed linearly."""
    arrays = workspace.arrays
    all_tables = len(arrays.factor_kind) > 0 and bool((arrays.factor_kind == TABLE).all())
    return arrays.arithmetic == LINEAR and all_tables and not arrays.table_has_zero.any()


class Reach(NamedTuple):
    """States that take part, of those that the evidence leaves.

    Attributes:
        domains: Over these states; owned, as a workspace changes its priors.
        slot_state: The state in each variable slot.
        place: Of each variable slot in the row of all slots that the evidence leaves.
        slot_start: (V,) where each variable's slots start in that row.
    """

    domains: Domains
    slot_state: IndexArray
    place: IndexArray
    slot_start: IndexArray


def within_reach(domains: Domains, least: FloatArray | None) -> Reach:
    """Return the states whose log prior is above their variable's `least`; all of them if that is None."""
    slot_state = domains.slot_state
    if domains.is_whole:
        slot_state = np.arange(len(domains.log_prior)) - np.repeat(domains.slot_start[:-1], domains.sizes)
    if least is None:
        whole = domains._replace(log_prior=domains.log_prior.copy())
        return Reach(whole, slot_state, np.arange(len(slot_state)), domains.slot_start[:-1])
    near = domains.log_prior > np.repeat(least, domains.sizes)
    place = np.flatnonzero(near)
    slot_start = np.zeros(len(domains.sizes) + 1, dtype=np.int64)
    np.cumsum(np.add.reduceat(near, domains.slot_start[:-1], dtype=np.int64), out=slot_start[1:])
    sizes = np.diff(slot_start)
    left = domains._replace(
        sizes=sizes,
        slot_start=slot_start,
        slot_state=slot_state[place],
        log_prior=domains.log_prior[place],
        log_prior_min=np.maximum(domains.log_prior_min, least),
    )
    return Reach(left, slot_state[place], place, domains.slot_start[:-1])


def _inner_arrays(space: WorkspaceArrays) -> WorkspaceArrays:
    """Return arrays over domains, in the first slots of the same edges and variables."""
    n_edges, n_factors, n_messages = len(space.edge_capacity), len(space.factor_total), len(space.message)
    return space._replace(
        domain_size=np.zeros(len(space.domain_size), dtype=np.int64),
        edge_capacity=np.zeros(n_edges, dtype=np.int64),
        prior=np.empty(len(space.prior)),
        message=np.empty(n_messages),
        tail=np.zeros(max(1, n_messages)),
        edge_min=np.ones(n_edges),
        edge_scale=np.ones(n_edges),
        edge_residual=np.zeros(n_edges),
        factor_total=np.ones(n_factors),
        table_address=np.zeros(n_factors, dtype=np.int64),
        table_min=np.ones(n_factors),
        hub_high=np.empty(len(space.hub_high)),
        hub_low=np.empty(len(space.hub_high)),
        hub_zeros=np.empty(len(space.hub_high), dtype=np.int64),
        incoming=np.empty(len(space.incoming)),
        outgoing=np.empty(len(space.incoming)),
    )
