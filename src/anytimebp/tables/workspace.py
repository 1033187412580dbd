"""The workspace of a run: messages, priors and tables over the active states, with room to grow where domains do.

Where domains grow, slots and the axes of tables have room behind the domain. A variable's messages move to a larger
place when the room is used up, and so do its factors' tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.kernels.codes import LINEAR, LOG, MAX, MAX_LINEAR_RANGE, SUM, TABLE
from anytimebp.kernels.messages import link_calls
from anytimebp.kernels.setting_up import start_hubs
from anytimebp.kernels.sparse_tables import copy_slots
from anytimebp.kernels.structures import HEAD, row_of
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.slices import NUMBERS, parts
from anytimebp.tables.arrays import WorkspaceArrays, allocate
from anytimebp.tables.making import make_tables, reuse_tables
from anytimebp.tables.memory import factor_kinds
from anytimebp.tables.store import SHARED_BYTES, Tables


class Workspace:
    """Messages and tables of one run.

    Attributes:
        compiled: The graph.
        layout: Its topology.
        domains: The active states.
        arrays: What kernels write; tables are in place once `prepare` is through, or whoever grows domains has filled
            the room for them.
        tables: Addresses and scales of the tables.
        room: (V,) slots that each edge of a variable has room for.
        is_set_up: Whether the arrays are there; `prepare` makes them where setting up takes slices.
        n_priors: Slots of `domains`, from the first one on, that hold priors already and no log priors.
    """

    arrays: WorkspaceArrays

    def __init__(
        self,
        compiled: CompiledGraph,
        domains: Domains,
        arithmetic: int,
        *,
        semiring: int = SUM,
        room: IndexArray | None = None,
        in_slices: bool = False,
    ) -> None:
        """Allocate everything but tables, or, where domains grow, room for these as well.

        Args:
            compiled: The graph.
            domains: The active states; owned.
            arithmetic: LINEAR or LOG.
            semiring: SUM or MAX.
            room: (V,) slots that each variable has room for; None if domains do not grow.
            in_slices: Whether to leave the arrays to `prepare`, which pauses now and then; domains do not grow.
        """
        self.compiled = compiled
        self.domains = domains
        self.layout = compiled.arrays
        n_factors = len(compiled.extent.log_max)
        self._as_tables = semiring == MAX or room is not None  # even factors that have a structure
        has_tables = self._as_tables or compiled.has_tables_only
        tables = np.zeros(n_factors, dtype=np.int64)  # TABLE
        kind = tables if has_tables else factor_kinds(compiled, domains.sizes)
        self.tables = Tables(compiled.extent, arithmetic, kind, in_slices=in_slices)
        self.room = domains.sizes if room is None else room.copy()
        self.is_set_up, self.n_priors, self._semiring = False, 0, semiring
        if not in_slices:
            for _ in self._set_up(grows=room is not None):
                pass

    def _set_up(self, *, grows: bool = False) -> Iterator[None]:
        """Make the arrays; the priors last, as domains show log priors until then."""
        domains, tables, compiled = self.domains, self.tables, self.compiled
        widest = compiled.universe_sizes if grows else self.room
        self.arrays = yield from allocate(self.layout, domains, tables, self._semiring, self.room, widest)
        self._used = len(self.arrays.message)
        if not compiled.has_tables_only and (tables.kind != TABLE).any():
            room = max(block.source.room for _, block in compiled.message_blocks)
            self.arrays = self.arrays._replace(structure_inputs=make_structure_inputs(self.layout, self.arrays, room))
        if grows:
            tables.make_room(compiled, self.arrays.edge_capacity)
            np.exp(tables.log_min, out=self.arrays.table_min)
        if len(self.arrays.hub_variable):
            self._start_hubs()
        if tables.arithmetic == LINEAR:
            yield from self._start_priors(grows=grows)
        self.is_set_up = True

    def _start_priors(self, *, grows: bool) -> Iterator[None]:
        """Turn the log priors of active states to priors; what is behind them is not touched."""
        prior = self.arrays.prior
        if grows:
            slots = self.domains.active_slots()
            prior[slots] = np.exp(prior[slots])
            return
        for first, last in parts(len(prior), NUMBERS):
            np.exp(prior[first:last], out=prior[first:last])
            self.n_priors = last
            if last < len(prior):
                yield

    def _start_hubs(self) -> None:
        """Fill the totals of hubs with their priors; messages start at 1 and add nothing."""
        arrays, domains = self.arrays, self.domains
        hubs = arrays.hub_variable, arrays.hub_start
        start_hubs(*hubs, domains.slot_start, domains.sizes, domains.log_prior, arrays.hub_high, arrays.hub_zeros)

    def prepare(self) -> Iterator[None]:
        """Make the tables, pausing now and then; reuse those that an earlier run left with the graph."""
        if not self.is_set_up:
            yield from self.tables.fill(self.compiled.extent)
            yield
            yield from self._set_up()
            yield
        shared = self._shared_tables
        if shared is not None:
            yield from reuse_tables(self.compiled, self.tables, shared)
        else:
            yield from make_tables(self.compiled, self.domains, self.tables)
            if self._can_share and self.tables.nbytes <= SHARED_BYTES:
                self.compiled.shared_tables[self.tables.arithmetic] = self.tables
        log_min, table_min = self.tables.log_min, self.arrays.table_min
        for first, last in parts(len(log_min), NUMBERS):
            np.exp(log_min[first:last], out=table_min[first:last])
            if last < len(log_min):
                yield

    @property
    def tables_are_there(self) -> bool:
        """Whether an earlier run has left the tables with the graph."""
        return self._shared_tables is not None

    @property
    def _shared_tables(self) -> Tables | None:
        shared = self.compiled.shared_tables.get(self.tables.arithmetic) if self._can_share else None
        return shared if isinstance(shared, Tables) else None

    @property
    def _can_share(self) -> bool:
        return self.domains.is_whole and not self._as_tables

    @property
    def out_of_range(self) -> bool:
        """Whether a table turned out too wide for linear arithmetic; the ranges of given tables are known before."""
        is_known = self.compiled.has_tables_only and self.compiled.widest <= MAX_LINEAR_RANGE
        if is_known or self.tables.arithmetic != LINEAR:
            return False
        return bool((self.tables.log_min < -MAX_LINEAR_RANGE).any())

    # ------------------------------------------------------------ room
    @property
    def in_use(self) -> WorkspaceArrays:
        """The arrays, without the room behind the last message."""
        return self.arrays._replace(message=self.arrays.message[: self._used])

    def moves_all(self, slots: int) -> bool:
        """Tell whether all messages must move to make room for so many slots more."""
        return self._used + slots > len(self.arrays.message)

    @property
    def n_slots(self) -> int:
        """Slots of all edges, with their room, but without gaps."""
        return int(self.room[self.layout.edge_variable].sum())

    def move_messages(self, variable: int, room: int, beside: list[FloatArray]) -> list[FloatArray]:
        """Move the messages to a variable to where there is room for more.

        Args:
            variable: The variable.
            room: Slots that each of its edges has room for afterwards.
            beside: Other numbers per edge slot, which move along.

        Returns:
            These other numbers; larger arrays if all messages had to move.
        """
        edges = self.compiled.edges_of(variable)
        per_slot = [self.arrays.message, *beside]
        if self.moves_all(room * len(edges)):
            per_slot = self._enlarge_arena(per_slot, room * len(edges))
        size = int(self.arrays.domain_size[variable])
        for edge in edges:
            old = int(self.arrays.edge_slot_start[edge])
            for array in per_slot:
                array[self._used : self._used + size] = array[old : old + size]
            self.arrays.edge_slot_start[edge] = self._used
            self._used += room
        self.room[variable] = room
        return per_slot[1:]

    def _enlarge_arena(self, per_slot: list[FloatArray], more: int) -> list[FloatArray]:
        """Copy all messages to a larger place, without the gaps that moves have left."""
        edge_room = self.room[self.layout.edge_variable]
        live = int(edge_room.sum())
        old_start, new_start = self.arrays.edge_slot_start, np.cumsum(edge_room) - edge_room
        edge_size = self.arrays.domain_size[self.layout.edge_variable]
        moved = [np.empty(2 * (live + more)) for _ in per_slot]
        for old, new in zip(per_slot, moved, strict=True):
            copy_slots(edge_size, old_start, new_start, old, new)
        self.arrays.edge_slot_start[:] = new_start
        self.arrays = self.arrays._replace(message=moved[0])
        self._used = live
        return moved

    def enlarge_table(self, edge: int, needed: int, most: int) -> int:
        """Double a table along an edge's axis, which grows the slower, the more axes there are.

        Args:
            edge: The edge.
            needed: Length that the axis must have.
            most: Length that it will ever have.

        Returns:
            The bytes that this has taken.
        """
        factor = int(self.layout.edge_factor[edge])
        edges, capacity = self.compiled.edges(factor), self.arrays.edge_capacity
        longer = math.ceil(int(capacity[edge]) * 2 ** (1 / (len(edges) - 1)))
        sizes = self.arrays.domain_size[self.layout.edge_variable[edges.start : edges.stop]].tolist()
        more = self.tables.enlarge(factor, edge - edges.start, min(most, max(needed, longer)), sizes)
        if len(edges) > 2:  # noqa: PLR2004  (pairs need no scratch)
            levels = int(np.cumprod(capacity[edges.start : edges.stop - 1])[1:].sum())
            if levels > len(self.arrays.prefix):
                scratch = np.empty(2 * levels), np.empty(2 * levels), np.empty(2 * levels, dtype=np.int64)
                self.arrays = self.arrays._replace(prefix=scratch[0], dots=scratch[1], row_start=scratch[2])
        return more

    # ------------------------------------------------------------ arithmetic
    def go_on_in_logs(self) -> bool:
        """Do as `to_logs`, on domains that do not grow; return False where that takes other tables than there are."""
        if self.out_of_range or (self.tables.kind != TABLE).any():
            return False
        self._messages_to_logs()
        self.arrays = self.arrays._replace(weight=np.empty(len(self.arrays.incoming)))
        link_calls(self.layout, self.arrays, in_logs=True)
        return True

    def to_logs(self) -> None:
        """Go on in log arithmetic, with everything where it is."""
        self.tables.to_logs()
        self._messages_to_logs()

    def _messages_to_logs(self) -> None:
        arrays = self.arrays
        with np.errstate(divide="ignore", invalid="ignore"):
            for values in (arrays.message, arrays.edge_scale, arrays.factor_total):
                np.log(values, out=values)
            prior = np.log(arrays.prior)  # a new one: snapshots go on reading the old
        self.arrays = arrays._replace(arithmetic=LOG, prior=prior)


def make_structure_inputs(layout: GraphLayout, arrays: WorkspaceArrays, room: int | None = None) -> IndexArray:
    """Return where structures find what they need; kernels write to these very arrays, which the workspace holds.

    Args:
        layout: Topology.
        arrays: Messages.
        room: Numbers that one update needs room for; as many as before, if None.
    """
    found = [
        layout.factor_edge_start,
        layout.edge_variable,
        arrays.domain_size,
        arrays.factor_kind,
        arrays.table_address,
        arrays.incoming,
        arrays.outgoing,
        arrays.peak,
    ]
    return row_of(found, len(arrays.structure_inputs) - HEAD - 1 if room is None else room)


def first_arithmetic(compiled: CompiledGraph, log_prior_min: FloatArray) -> int:
    """Return the arithmetic a run starts with: linear unless a table's or a prior's range rules it out."""
    least = np.minimum.reduce(log_prior_min, initial=0.0)
    return LOG if compiled.widest > MAX_LINEAR_RANGE or least < -MAX_LINEAR_RANGE else LINEAR
