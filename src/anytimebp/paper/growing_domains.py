"""What a run with growing domains keeps beside its workspace: candidates, and a journal of the last consistent state.

Both hold numbers per slot. These move, change their scale and become logs together with the messages.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.kernels.codes import ASKED, DYNAMIC, LINEAR, LOG, MAX_LINEAR_RANGE, RANKED, SAFE
from anytimebp.kernels.journal import N_GROWN, N_SAVED
from anytimebp.kernels.sparse_tables import copy_slots, fill_tables
from anytimebp.model.source import Box, FloatArray, IndexArray
from anytimebp.paper.arrays import make_candidates, make_domain, make_journal
from anytimebp.tables.arrays import WorkspaceArrays, frozen
from anytimebp.tables.memory import check_first_domains, exceeds_memory, first_bytes, held_bytes
from anytimebp.tables.workspace import Workspace

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


class GrowingDomains:
    """Domains of a run that grow, and what may join them.

    Attributes:
        workspace: Messages and tables.
        universe: All states.
        domain: Domains, candidates and sources.
        journal: What restores the last consistent state.
        candidates: Growth priorities that change.
        nbytes: Bytes allocated for all that.
    """

    def __init__(self, universe: Universe, workspace: Workspace, *, grow: int, mode: int) -> None:
        """Allocate everything for the first domains.

        Args:
            universe: All states.
            workspace: With room for more than the first domains.
            grow: States a round; 0 if the domains never grow.
            mode: Where growth priorities come from.
        """
        self.universe, self.workspace = universe, workspace
        arrays = workspace.arrays
        self.domain = make_domain(universe, workspace, grow)
        self.journal = make_journal(workspace.layout, arrays.domain_size, len(arrays.message))
        self.candidates = make_candidates(universe.compiled, mode, len(arrays.message))
        ranking = BYTES_OF_RANKING * len(universe.log_prior) if mode == RANKED else 0
        held = held_bytes(self.domain, arrays, self.journal, self.candidates, [universe.allowed])
        self.nbytes = ranking + held + workspace.tables.nbytes

    def fill(self) -> Iterator[int]:
        """Fill the tables of dense factors over the first domains; yield the entries filled, a slice at a time."""
        workspace, factor = self.workspace, 0
        while factor < len(workspace.tables.kind):
            factor, work = fill_tables(workspace.layout, workspace.arrays, self.domain, factor, SLICE_ENTRIES)
            yield work
        self.make_zero_queue()

    def make_zero_queue(self) -> None:
        """Make sure that there is room to follow zeros, if there are any."""
        n_slots = len(self.workspace.arrays.message)
        if self.domain.zero_queue.shape[1] <= n_slots and self.workspace.tables.has_zero.any():
            self.domain = self.domain._replace(zero_queue=np.empty((3, n_slots + 1), dtype=np.int64))

    # ------------------------------------------------------------ room
    def room_bytes(self, variable: int) -> int:
        """Return about how many more bytes a larger room for a variable needs, copies made meanwhile included."""
        workspace, compiled = self.workspace, self.universe.compiled
        edges = compiled.edges_of(variable)
        more = copied = 0.0
        slots = 2 * int(workspace.room[variable]) * len(edges)
        if workspace.moves_all(slots):
            more += 48.0 * (workspace.n_slots + slots)
        for edge in edges:
            factor = int(workspace.layout.edge_factor[edge])
            room = workspace.tables.shape(factor)
            table = 8.0 * np.prod(room, dtype=np.float64)
            parts = [table]
            if self.domain.source_kind[factor] == ASKED and self.candidates.mode >= DYNAMIC:
                source, _ = compiled.source(factor)
                own = edge - compiled.edges(factor).start
                parts += [table * source.shape[k] / room[k] for k in range(len(room)) if k != own]
            more += sum(parts)
            copied = max(copied, *parts)
        return int(more + copied)

    def make_room(self, variable: int) -> Iterator[tuple[int, int]]:
        """Make room for at least one more state of a variable; yield (factor, edge) of each table that is enlarged."""
        workspace = self.workspace
        capacity, edges = workspace.arrays.edge_capacity, self.universe.compiled.edges_of(variable)
        needed, most = int(workspace.arrays.domain_size[variable]) + 1, int(self.universe.n_allowed[variable])
        if workspace.room[variable] < needed:
            self._move_messages(variable, min(most, max(needed, 2 * int(workspace.room[variable]))))
        for edge in edges:
            if capacity[edge] < needed:
                self.nbytes += workspace.enlarge_table(edge, needed, most)
                yield int(workspace.layout.edge_factor[edge]), edge
        self.domain.room[variable] = min([int(workspace.room[variable]), *capacity[edges].tolist()])

    def _move_messages(self, variable: int, room: int) -> None:
        workspace, before = self.workspace, len(self.workspace.arrays.message)
        seen = [self.candidates.seen] if len(self.candidates.seen) else []
        saved, *seen = workspace.move_messages(variable, room, [self.journal.saved_message, *seen])
        self.journal = self.journal._replace(saved_message=saved)
        if seen:
            self.candidates = self.candidates._replace(seen=seen[0])
        self.nbytes += 24 * (len(workspace.arrays.message) - before)
        self.make_zero_queue()

    # ------------------------------------------------------------ scale and arithmetic
    def to_logs(self) -> None:
        """Switch to log arithmetic; all numbers keep their places."""
        self.workspace.to_logs()
        with np.errstate(divide="ignore", invalid="ignore"):
            for values in (self.journal.saved_message, self.journal.saved_scale, self.journal.saved_total):
                np.log(values, out=values)

    def fill_box(self, factor: int, box: Box, log_scores: FloatArray) -> bool:
        """Write scores into a part of a factor's table; return whether its scale changes with them.

        The table, its scale and the journal are updated. The run switches to logs if one of these numbers would
        otherwise be lost.
        """
        workspace, tables = self.workspace, self.workspace.tables
        holds_nothing = factor in tables.unscaled
        change = tables.widen(factor, log_scores)
        scaled = [] if holds_nothing or change == 0.0 else self._scaled_by(factor)
        if workspace.arrays.arithmetic == LINEAR:
            least = min((float(values[values > 0.0].min(initial=1.0)) for values in scaled), default=1.0)
            if tables.log_min[factor] < -MAX_LINEAR_RANGE or (scaled and np.log(least) - change < np.log(SAFE)):
                self.to_logs()  # in place: what is scaled holds logs now
        tables.lower(factor, change if scaled else 0.0)
        for values in scaled:
            if workspace.arrays.arithmetic == LOG:
                np.subtract(values, change, out=values)
            else:
                np.multiply(values, np.exp(-change), out=values)
        workspace.arrays.table_min[factor] = np.exp(tables.log_min[factor])
        tables.fill_box(factor, box, log_scores)
        return change != 0.0

    def _scaled_by(self, factor: int) -> list[FloatArray]:
        """Return what is in the scale of a factor's table, now and in the journal; the numbers themselves."""
        arrays, journal, edges = self.workspace.arrays, self.journal, self.universe.compiled.edges(factor)
        found = [values[factor : factor + 1] for values in (arrays.factor_total, journal.saved_total)]
        return found + [values[edges.start : edges.stop] for values in (arrays.edge_scale, journal.saved_scale)]

    # ------------------------------------------------------------ reading
    def frozen(self, *, settled: bool, unready: int = -1) -> WorkspaceArrays:
        """Return a copy of what reading beliefs needs: as it is, or as it was at the last consistent state.

        Args:
            settled: Whether to go back to the last consistent state.
            unready: A variable whose last slot has no messages yet, or -1.
        """
        journal, layout = self.journal, self.workspace.layout
        found = frozen(self.workspace.in_use)
        if unready >= 0:
            found.domain_size[unready] -= 1
        if not settled or not (journal.counts[N_SAVED] or journal.counts[N_GROWN]):
            return found
        found.domain_size[:] = journal.settled_size
        factors = journal.saved_factor[: journal.counts[N_SAVED]]
        found.factor_total[factors] = journal.saved_total[factors]
        edges = np.flatnonzero(np.isin(layout.edge_factor, factors))
        found.edge_scale[edges], found.edge_min[edges] = journal.saved_scale[edges], journal.saved_min[edges]
        start = found.edge_slot_start[edges]
        sizes = found.domain_size[layout.edge_variable[edges]]
        copy_slots(sizes, start, start, journal.saved_message, found.message)
        return found._replace(variable_hub=np.full(len(found.variable_hub), -1, dtype=np.int64))  # totals are of now
