"""The workspace of a run whose domains grow: room that doubles, compact tables, a journal.

Messages and priors are over slots as ever; what is new is that slots and table axes have room behind the domain. A
variable's messages move to a larger place when the room is used up, and so do its factors' tables.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.domains.universe import Universe
from anytimebp.kernels.codes import ASKED, DYNAMIC, LINEAR, LOG, MAX_LINEAR_RANGE, RANKED, SAFE
from anytimebp.kernels.journal import N_GROWN, N_SAVED
from anytimebp.kernels.sparse_tables import copy_slots, fill_tables
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.arrays import make_candidates
from anytimebp.paper.start import first_slots, make_arrays, make_domain, make_journal, must_be_logs
from anytimebp.tables.memory import check_first_domains, exceeds_memory, first_bytes, held_bytes
from anytimebp.tables.workspace import WorkspaceArrays

FIRST_ROOM = 4  # slots that a domain has room for at first
SLICE_ENTRIES = 2**16  # filled between two looks at the clock; gathered one by one, from memory that is touched first


BYTES_OF_RANKING = 40  # per state: fixed priorities, their order, and what it takes to sort them


def first_room(
    universe: Universe, sizes: IndexArray, grow: int, max_memory: int | None, *, scores_candidates: bool
) -> IndexArray:
    """Return (V,) the slots that first domains have room for: more than they need if they grow and memory allows it.

    Raises:
        MemoryLimitError: There is not even room for the first domains themselves.
    """

    def needed(room: IndexArray) -> int:
        return first_bytes(universe.compiled, room, scores_candidates=scores_candidates)

    if grow:
        room: IndexArray = np.minimum(universe.n_allowed, np.maximum(FIRST_ROOM, 2 * sizes))
        if not exceeds_memory(0, needed(room), max_memory):
            return room
    if exceeds_memory(0, needed(sizes), max_memory):
        check_first_domains(universe.compiled, sizes, needed(sizes), max_memory)
    return sizes.copy()


class SparseWorkspace:
    """Messages, tables and domains of a growing run.

    Attributes:
        layout: Topology.
        arrays: Messages and tables.
        domain: Domains and sources.
        journal: The way back to the last consistent state.
        universe: All states.
        log_scale: (F,) what to add to the log of a table's numbers.
        log_min: (F,) log of the smallest positive number of a table.
        candidates: Growth priorities that change.
        nbytes: Bytes allocated for tables and messages.
    """

    def __init__(
        self,
        universe: Universe,
        sizes: IndexArray,
        states: IndexArray,
        room: IndexArray,
        *,
        grow: int,
        mode: int,
        arithmetic: int,
    ) -> None:
        """Allocate everything for the first domains.

        Args:
            universe: All states.
            sizes: (V,) sizes of the first domains.
            states: Their states, variable after variable.
            room: (V,) slots that they have room for.
            grow: States a round; 0 if the domains never grow.
            mode: Where growth priorities come from.
            arithmetic: LINEAR or LOG.
        """
        compiled = universe.compiled
        self.compiled: CompiledGraph = compiled
        self.layout = compiled.arrays
        self.universe = universe
        extent = compiled.extent
        self.log_scale = np.where(np.isnan(extent.log_max), 0.0, extent.log_max)  # those of rules are found out
        self.log_min = np.where(np.isnan(extent.log_min), 0.0, extent.log_min - extent.log_max)
        self.domain = make_domain(universe, sizes, states, room, grow, self.log_scale, self.log_min)
        self.arrays = make_arrays(universe, sizes, room, arithmetic, self.log_min)
        self._message_room = room.copy()
        self._used = len(self.arrays.message)
        self._table_owner: dict[int, FloatArray] = {}
        self._address_tables()
        self._start_priors(sizes)
        self.journal = make_journal(self.layout, sizes, len(self.arrays.message))
        self.candidates = make_candidates(compiled, mode, len(self.arrays.message))
        ranking = BYTES_OF_RANKING * len(universe.log_prior) if mode == RANKED else 0
        self.nbytes = ranking + held_bytes(
            self.domain, self.arrays, self.journal, self.candidates, [universe.allowed, self._first_tables]
        )

    # ------------------------------------------------------------ set-up
    def _address_tables(self) -> None:
        """Give every factor a table in one buffer."""
        arrays, start = self.arrays, self.layout.factor_edge_start
        n_factors = len(start) - 1
        size = np.multiply.reduceat(arrays.edge_capacity, start[:-1]) if n_factors else np.empty(0, dtype=np.int64)
        self._first_tables = np.empty(int(size.sum()))
        self._first_place = np.cumsum(size) - size
        arrays.table_address[:] = self._first_tables.ctypes.data + 8 * self._first_place

    def _start_priors(self, sizes: IndexArray) -> None:
        """Fill the priors of the first slots, and the totals of hubs."""
        arrays, universe = self.arrays, self.universe
        slots = first_slots(universe.start, sizes)
        log_prior = universe.log_prior[np.repeat(universe.start[:-1], sizes) + self.domain.slot_state[slots]]
        arrays.prior[slots] = np.exp(log_prior) if arrays.arithmetic == LINEAR else log_prior
        if len(sizes):
            finite = np.where(log_prior > -np.inf, log_prior, 0.0)
            first = np.cumsum(sizes) - sizes
            arrays.prior_min[:] = np.exp(np.minimum.reduceat(finite, first))
            self.domain.is_impossible[:] = np.maximum.reduceat(log_prior, first) == -np.inf
        for hub, variable in enumerate(arrays.hub_variable.tolist()):
            place = slice(arrays.hub_start[hub], arrays.hub_start[hub] + sizes[variable])
            begin = universe.start[variable]
            own = universe.log_prior[begin + self.domain.slot_state[begin : begin + sizes[variable]]]
            arrays.hub_high[place] = np.where(own == -np.inf, 0.0, own)
            arrays.hub_zeros[place] = own == -np.inf

    def fill(self) -> Iterator[int]:
        """Fill the tables of dense factors over the first domains; yield the entries filled, a slice at a time."""
        factor, n_factors = 0, len(self.layout.factor_edge_start) - 1
        while factor < n_factors:
            factor, work = fill_tables(self.layout, self.arrays, self.domain, factor, SLICE_ENTRIES)
            yield work
        self.make_zero_queue()

    def make_zero_queue(self) -> None:
        """Make sure that there is room to follow zeros, if there are any."""
        if self.domain.zero_queue.shape[1] <= len(self.arrays.message) and self.arrays.table_has_zero.any():
            self.domain = self.domain._replace(zero_queue=np.empty((3, len(self.arrays.message) + 1), dtype=np.int64))

    # ------------------------------------------------------------ factors and their tables
    def states_of(self, variable: int) -> IndexArray:
        """Return the domain of a variable, in the order of its slots."""
        begin = self.universe.start[variable]
        return self.domain.slot_state[begin : begin + self.arrays.domain_size[variable]]

    def capacities(self, factor: int) -> tuple[int, ...]:
        """Return the lengths of the axes of a factor's table."""
        edges = self.compiled.edges(factor)
        return tuple(self.arrays.edge_capacity[edges.start : edges.stop].tolist())

    def sizes(self, factor: int) -> tuple[int, ...]:
        """Return the domain sizes of a factor's variables."""
        edges = self.compiled.edges(factor)
        return tuple(self.arrays.domain_size[self.layout.edge_variable[edges.start : edges.stop]].tolist())

    def table(self, factor: int) -> FloatArray:
        """Return a factor's table, room included; the numbers themselves, not a copy."""
        shape = self.capacities(factor)
        owner = self._table_owner.get(factor)
        if owner is None:
            start = int(self._first_place[factor])
            owner = self._first_tables[start : start + int(np.prod(shape))]
        return owner.reshape(shape)

    # ------------------------------------------------------------ room
    def room_bytes(self, variable: int) -> int:
        """Return about how many bytes more a larger room for a variable takes, with what has to be copied meanwhile."""
        edges = self.compiled.edges_of(variable)
        more = copied = 0.0
        slots = 2 * int(self._message_room[variable]) * len(edges)
        if self._used + slots > len(self.arrays.message):
            live = int(self._message_room[self.layout.edge_variable].sum())
            more += 48.0 * (live + slots)
        for edge in edges:
            factor = int(self.layout.edge_factor[edge])
            room = self.capacities(factor)
            table = 8.0 * np.prod(room, dtype=np.float64)
            parts = [table]
            if self.domain.source_kind[factor] == ASKED and self.candidates.mode >= DYNAMIC:
                source, _ = self.compiled.source(factor)
                own = edge - self.compiled.edges(factor).start
                parts += [table * source.shape[k] / room[k] for k in range(len(room)) if k != own]
            more += sum(parts)
            copied = max(copied, *parts)
        return int(more + copied)

    def make_room(self, variable: int) -> Iterator[tuple[int, int]]:
        """Make room for at least one more state of a variable; yield (factor, edge) of each table that is enlarged."""
        needed = int(self.arrays.domain_size[variable]) + 1
        limit = int(self.universe.n_allowed[variable])
        if self._message_room[variable] < needed:
            self._move_messages(variable, min(limit, max(needed, 2 * int(self._message_room[variable]))))
        for edge in self.compiled.edges_of(variable):
            if self.arrays.edge_capacity[edge] < needed:
                factor = int(self.layout.edge_factor[edge])
                self._enlarge_table(factor, edge, needed, limit)
                yield factor, edge
        self.domain.room[variable] = min(
            [
                int(self._message_room[variable]),
                *(int(self.arrays.edge_capacity[e]) for e in self.compiled.edges_of(variable)),
            ]
        )

    def _enlarge_table(self, factor: int, edge: int, needed: int, limit: int) -> None:
        """Double a table: its axes grow the slower, the more of them there are."""
        old, sizes = self.table(factor), self.sizes(factor)
        axis = edge - int(self.layout.factor_edge_start[factor])
        longer = int(np.ceil(old.shape[axis] * 2 ** (1 / (old.ndim - 1))))
        self.arrays.edge_capacity[edge] = min(limit, max(needed, longer))
        new = np.empty(self.capacities(factor))
        box = tuple(slice(0, n) for n in sizes)
        new[box] = old[box]
        self._table_owner[factor] = new.reshape(-1)
        self.arrays.table_address[factor] = new.ctypes.data
        self.nbytes += new.nbytes - old.nbytes
        if old.ndim > 2:  # noqa: PLR2004  (pairs need no scratch)
            levels = sum(int(np.prod(new.shape[: k + 1])) for k in range(1, new.ndim - 1))
            if levels > len(self.arrays.prefix):
                size = 2 * levels
                self.arrays = self.arrays._replace(
                    prefix=np.empty(size), dots=np.empty(size), row_start=np.empty(size, dtype=np.int64)
                )

    def _move_messages(self, variable: int, room: int) -> None:
        edges = self.compiled.edges_of(variable)
        if self._used + room * len(edges) > len(self.arrays.message):
            self._enlarge_arena(room * len(edges))
        size = int(self.arrays.domain_size[variable])
        for edge in edges:
            old = int(self.arrays.edge_slot_start[edge])
            for array in self._per_slot():
                array[self._used : self._used + size] = array[old : old + size]
            self.arrays.edge_slot_start[edge] = self._used
            self._used += room
        self._message_room[variable] = room

    def _per_slot(self) -> list[FloatArray]:
        kept = [self.arrays.message, self.journal.saved_message]
        return [*kept, self.candidates.seen] if len(self.candidates.seen) else kept

    def _enlarge_arena(self, more: int) -> None:
        """Copy all messages to a larger place, without the gaps that moves have left."""
        edge_room = self._message_room[self.layout.edge_variable]
        live = int(edge_room.sum())
        size = 2 * (live + more)
        old_start = self.arrays.edge_slot_start
        new_start = np.cumsum(edge_room) - edge_room
        edge_size = self.arrays.domain_size[self.layout.edge_variable]
        moved = []
        for old in self._per_slot():
            new = np.empty(size)
            copy_slots(edge_size, old_start, new_start, old, new)
            moved.append(new)
        self._take_per_slot(moved)
        self.arrays.edge_slot_start[:] = new_start
        self._used = live
        self.nbytes += 24 * (size - len(old))
        self.make_zero_queue()

    def _take_per_slot(self, moved: list[FloatArray]) -> None:
        self.arrays = self.arrays._replace(message=moved[0])
        self.journal = self.journal._replace(saved_message=moved[1])
        if len(self.candidates.seen):
            self.candidates = self.candidates._replace(seen=moved[2])

    # ------------------------------------------------------------ arithmetic
    def to_logs(self) -> None:
        """Go on in log arithmetic, with everything where it is."""
        arrays, journal = self.arrays, self.journal
        in_logs = must_be_logs(arrays.table_has_zero, self.log_min, LOG)
        with np.errstate(divide="ignore", invalid="ignore"):
            for values in (
                arrays.message,
                arrays.edge_scale,
                arrays.factor_total,
                journal.saved_message,
                journal.saved_scale,
                journal.saved_total,
            ):
                np.log(values, out=values)
        for factor in np.flatnonzero(in_logs).tolist():
            self._sum_by_logs(factor)
        sizes = arrays.domain_size
        slots = first_slots(self.universe.start, sizes)
        prior = np.empty(len(arrays.prior))  # a new one: snapshots go on reading the old
        prior[slots] = self.universe.log_prior[
            np.repeat(self.universe.start[:-1], sizes) + self.domain.slot_state[slots]
        ]
        self.arrays = arrays._replace(arithmetic=LOG, prior=prior)

    def shift_scale(self, factor: int, shift: float) -> None:
        """Keep what is in the scale of a factor's table, now and in the journal, in step with a new scale.

        The run turns to logs where one of these numbers would otherwise be lost.
        """
        arrays, journal = self.arrays, self.journal
        edges = slice(self.compiled.edges(factor).start, self.compiled.edges(factor).stop)
        parts = [values[factor : factor + 1] for values in (arrays.factor_total, journal.saved_total)]
        parts += [values[edges] for values in (arrays.edge_scale, journal.saved_scale)]
        if arrays.arithmetic == LINEAR:
            least = min(float(part[part > 0.0].min(initial=1.0)) for part in parts)
            if np.log(least) - shift < np.log(SAFE):
                self.to_logs()  # in place: the parts hold logs now
        for part in parts:
            if self.arrays.arithmetic == LOG:
                np.subtract(part, shift, out=part)
            else:
                np.multiply(part, np.exp(-shift), out=part)

    def sum_by_logs_if_needed(self, factor: int) -> None:
        """Turn a table to logs if the run is in logs and linear sums could lose something of it."""
        arrays = self.arrays
        wide = arrays.table_has_zero[factor] or self.log_min[factor] < -MAX_LINEAR_RANGE
        if wide and arrays.arithmetic == LOG:
            self._sum_by_logs(factor)

    def _sum_by_logs(self, factor: int) -> None:
        if not self.arrays.table_in_logs[factor]:
            table = self.table(factor)
            with np.errstate(divide="ignore", invalid="ignore"):
                np.log(table, out=table)
            self.arrays.table_in_logs[factor] = True

    # ------------------------------------------------------------ reading
    def frozen(self, *, settled: bool, unready: int = -1) -> WorkspaceArrays:
        """Return a copy of what reading beliefs needs: as it is, or as it was at the last consistent state.

        Args:
            settled: Whether to go back to the last consistent state.
            unready: A variable whose last slot has no messages yet, or -1.
        """
        arrays, journal = self.arrays, self.journal
        message, scale, total = (
            arrays.message[: self._used].copy(),
            arrays.edge_scale.copy(),
            arrays.factor_total.copy(),
        )
        smallest, sizes = arrays.edge_min.copy(), arrays.domain_size.copy()
        if unready >= 0:
            sizes[unready] -= 1
        if settled and (journal.counts[N_SAVED] or journal.counts[N_GROWN]):
            sizes = journal.settled_size.copy()
            factors = journal.saved_factor[: journal.counts[N_SAVED]]
            total[factors] = journal.saved_total[factors]
            edges = np.flatnonzero(np.isin(self.layout.edge_factor, factors))
            scale[edges], smallest[edges] = journal.saved_scale[edges], journal.saved_min[edges]
            start = arrays.edge_slot_start[edges]
            copy_slots(sizes[self.layout.edge_variable[edges]], start, start, journal.saved_message, message)
        return arrays._replace(
            message=message,
            edge_scale=scale,
            factor_total=total,
            edge_min=smallest,
            domain_size=sizes,
            variable_hub=np.full(len(arrays.variable_hub), -1, dtype=np.int64),  # totals go on changing
            edge_slot_start=arrays.edge_slot_start.copy(),
        )

    def slots(self, sizes: IndexArray) -> IndexArray:
        """Return the places of the slots of domains of these sizes, variable after variable."""
        return first_slots(self.universe.start, sizes)
