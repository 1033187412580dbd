"""Makes the tables of a run over fixed domains: kernels make dense ones, others are asked from each factor's source."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Generator, Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.bands import LEAST_ENTRIES, fill_bands, find_bands
from anytimebp.kernels.codes import LOG, SUM, TABLE
from anytimebp.kernels.cutting import (
    AS_THEY_ARE,
    CONVERTED,
    EXPONENTIATED,
    FACTOR,
    GIVEN,
    HAS_ZERO,
    HOW,
    IN_LOGS,
    IS_CUT,
    LISTED,
    LOG_MIN,
    LOG_SCALE,
    SIZE,
    TARGET,
    WIDE,
    WIDE_CONVERTED,
    cut_tables_slice,
    list_tables,
)
from anytimebp.kernels.exponentiate import exponentiate_slice, scale_tables_slice
from anytimebp.kernels.messages import link_bands
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout, MessageBlock
from anytimebp.model.factor import describe_factor
from anytimebp.model.source import ASKED_AT_ONCE, BoolArray, FloatArray, IndexArray, cut
from anytimebp.slices import AT_ONCE, parts
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.memory import table_entries
from anytimebp.tables.store import SLICE_ENTRIES, Tables

BANDS = "bands of tables with zeros"  # the kernels that only runs on such tables need
SMALL = 2**16  # entries of all tables, under which finding bands takes as long as some sweeps: most are over by then
LATER = 8  # sweeps before which small tables get no bands
NEVER = 2**62
MOST_ENTRIES = 2**22  # of tables with zeros that are looked through: more would take longer than a slice


def sweeps_before_bands(layout: GraphLayout, arrays: WorkspaceArrays) -> int:
    """Return after how many sweeps it is time to look for bands; NEVER where there are no zeros."""
    if arrays.semiring != SUM or not np.count_nonzero(arrays.table_has_zero):
        return NEVER
    return LATER if table_entries(layout, arrays.domain_size) < SMALL else 0


def make_bands(
    layout: GraphLayout, arrays: WorkspaceArrays, tables: Tables, load: Callable[[str], bool] = lambda _: True
) -> None:
    """Find the bands of the tables of a run over fixed domains.

    Args:
        layout: Topology, of the core or of the whole graph.
        arrays: What goes with it; `table_band` is overwritten.
        tables: Of the run, which keep the bands alive.
        load: Loads the kernels for that while the clock stands still; False if it is given up.
    """
    if arrays.semiring != SUM or not np.count_nonzero(arrays.table_has_zero):
        return
    size = arrays.domain_size[layout.edge_variable].astype(np.float64)
    entries = np.multiply.reduceat(size, layout.factor_edge_start[:-1])[arrays.table_has_zero]
    if entries.max() < LEAST_ENTRIES or entries.sum() > MOST_ENTRIES or not load(BANDS):
        return
    last = size[layout.factor_edge_start[1:] - 1][arrays.table_has_zero]
    width, start = np.empty(len(arrays.table_band), dtype=np.int64), np.empty(int((entries / last).sum()), np.int64)
    words = find_bands(layout, arrays, width, start)
    if words:
        link_bands(arrays)
        made = np.empty(int(words))
        fill_bands(layout, arrays, width, start, made, made.ctypes.data)
        tables.keep(made)


def make_dense_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Fill `tables` for all factors that have dense ones; pauses where that takes longer than a slice.

    Numbers that the run needs as the user gave them are used where they lie. All others go into one new buffer, because
    fresh memory costs page faults, and large pieces cost fewer.
    """
    n_factors = len(tables.address)
    listed, table_of = np.empty((LISTED, n_factors), dtype=np.int64), np.empty(n_factors, dtype=np.int64)
    state, given = np.zeros(9, dtype=np.int64), (compiled.rows, compiled.arrays.edge_variable, domains.sizes)
    while not list_tables(*given, tables.arithmetic, listed, table_of, state, AT_ONCE):
        yield
    n_tables, room, n_others = state[:3].tolist()
    if n_tables == 0:
        return
    if n_tables < n_factors:
        listed = np.ascontiguousarray(listed[:, :n_tables])  # kernels are compiled for such arrays alone
    making = _Making(compiled, domains, tables, listed, table_of, room)
    if n_others:
        yield from making.make_various()
    else:
        yield from making.exponentiate(slice(None))
        yield from making.note_addresses(making.target)


class _Making:
    """The tables of one run, on their way.

    Attributes:
        target: (tables,) where in memory each goes.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        domains: Domains,
        tables: Tables,
        listed: IndexArray,
        table_of: IndexArray,
        room: int,
    ) -> None:
        """Find room for what `list_tables` has listed."""
        self._compiled, self._domains, self._tables = compiled, domains, tables
        self._listed, self._table_of = listed, table_of
        self._made = np.empty(room)
        self.target: IndexArray = 8 * listed[TARGET]
        self.target += self._made.ctypes.data
        log_max, is_plain = compiled.extent.log_max, listed.shape[1] == len(compiled.extent.log_max)
        self._log_max: FloatArray = log_max if is_plain else log_max[listed[FACTOR]]  # plain: a table for each factor
        tables.keep(self._made)

    def make_various(self) -> Iterator[None]:
        """Make tables that evidence cuts, or that are not all of one kind."""
        tables, how, is_whole = self._tables, self._listed[HOW], self._listed[IS_CUT] == 0
        if tables.arithmetic == LOG:
            self._set(tables.in_logs, how >= WIDE)
        yield from self.exponentiate(is_whole & (how == EXPONENTIATED))
        self._convert(is_whole & ((how == CONVERTED) | (how == WIDE_CONVERTED)))
        if not is_whole.all():
            yield from self._cut(~is_whole)
        stays = is_whole & ((how == AS_THEY_ARE) | (how == WIDE))
        yield from self.note_addresses(np.where(stays, self._listed[GIVEN], self.target))
        if stays.any():
            self._borrow(stays)
        if tables.arithmetic == LOG and tables.in_logs.any():
            yield from self._scale_per_state()

    def exponentiate(self, some: BoolArray | slice) -> Iterator[None]:
        """Exponentiate log scores over whole universes."""
        given, size, log_max = self._listed[GIVEN, some], self._listed[SIZE, some], self._log_max[some]
        target, position, entry = self.target[some], 0, 0
        while position < len(given):
            position, entry = exponentiate_slice(given, target, size, log_max, position, entry, SLICE_ENTRIES)
            if position < len(given):
                yield

    def _convert(self, some: BoolArray) -> None:
        """Write down potentials over whole universes that have to be scaled, or as logs: those of extreme scale."""
        for table in np.flatnonzero(some).tolist():
            size, given = int(self._listed[SIZE, table]), int(self._listed[GIVEN, table])
            with np.errstate(divide="ignore"):  # read by their address, as graphs that are merged have no blocks
                values = np.log(np.ctypeslib.as_array((ctypes.c_double * size).from_address(given)))
            values -= self._log_max[table]
            first = self._listed[TARGET, table]
            is_wide = self._listed[HOW, table] == WIDE_CONVERTED
            self._made[first : first + len(values)] = values if is_wide else np.exp(values)

    def _cut(self, is_cut: BoolArray) -> Iterator[None]:
        """Make the tables that evidence cuts."""
        domains, tables, listed = self._domains, self._tables, self._listed
        found: FloatArray = np.empty((4, listed.shape[1]))
        position = 0
        while position < listed.shape[1]:
            position, culprit = cut_tables_slice(
                self._compiled.arrays.edge_variable,
                self._compiled.universe_sizes,
                domains.sizes,
                domains.slot_start,
                domains.slot_state,
                listed,
                self._made,
                found,
                position,
                SLICE_ENTRIES,
            )
            if culprit >= 0:
                raise impossible(self._compiled, culprit)
            if position < listed.shape[1]:
                yield
        factors = listed[FACTOR, is_cut]
        tables.log_scale[factors], tables.log_min[factors] = found[LOG_SCALE, is_cut], found[LOG_MIN, is_cut]
        tables.has_zero[factors] = found[HAS_ZERO, is_cut] > 0.0
        tables.in_logs[factors] = found[IN_LOGS, is_cut] > 0.0

    def note_addresses(self, address: IndexArray) -> Iterator[None]:
        """Tell where each factor's numbers lie: those of each table are at an address."""
        for first, last in parts(len(self._table_of), AT_ONCE):
            self._set(self._tables.address, address, slice(first, last))
            if last < len(self._table_of):
                yield

    def _set(
        self,
        per_factor: IndexArray | BoolArray,
        per_table: IndexArray | BoolArray,
        some: slice = slice(None),
    ) -> None:
        """Fill in what is known of tables for some of the factors, as far as they have them."""
        own, table_of = per_factor[some], self._table_of[some]
        if self._compiled.has_tables_only:
            own[:] = per_table[table_of]
        else:
            is_dense = table_of >= 0
            own[is_dense] = per_table[table_of[is_dense]]

    def _borrow(self, stays: BoolArray) -> None:
        """Take note of the numbers that stay where they are: nothing divides them."""
        tables = self._tables
        is_borrowed = np.zeros(len(tables.address), dtype=np.bool_)
        self._set(is_borrowed, stays)
        tables.log_scale[is_borrowed] = 0.0
        is_plain = is_borrowed & ~tables.in_logs
        tables.log_min[is_plain] = self._compiled.extent.log_min[is_plain]
        tables.borrow(self._compiled)

    def _scale_per_state(self) -> Iterator[None]:
        """Make linear tables beside those that hold logs, scaled per state (`kernels/log_sums.py`)."""
        tables, layout = self._tables, self._compiled.arrays
        wide = np.flatnonzero(tables.in_logs[self._listed[FACTOR]])
        factors, start = self._listed[FACTOR, wide], layout.factor_edge_start
        edge_size = self._domains.sizes[layout.edge_variable]
        size = self._listed[SIZE, wide] + np.add.reduceat(edge_size, start[:-1])[factors]
        made = np.empty(int(size.sum()))
        target = made.ctypes.data + 8 * (np.cumsum(size) - size)
        tables.keep(made)
        given, position = tables.address[factors], 0
        while position < len(factors):
            position = scale_tables_slice(start, edge_size, factors, given, target, position, SLICE_ENTRIES // 4)
            if position < len(factors):
                yield
        scaled = np.zeros(self._listed.shape[1] + 1, dtype=np.int64)  # the last is for factors without a table here
        scaled[wide] = target
        tables.scaled[:] = scaled[self._table_of]


def impossible(compiled: CompiledGraph, message_factor: int) -> InconsistentModelError:
    """Return the error for a factor without a possible joint state."""
    if compiled.message_blocks:
        name = describe_factor(compiled.blocks, compiled.variables, compiled.graph_factor(message_factor))
    else:  # graphs that are merged: a run on the graph itself will name the factor
        name = "a factor"
    return InconsistentModelError(f"{name} is zero on all the states that are allowed")


def make_tables(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Fill `tables` for all message factors; pauses now and then so that the caller can look at the clock.

    Factors of variables whose domains are empty get none: they are left out of what is solved (`exact/relevance.py`).
    """
    if not compiled.has_tables_only:
        yield from _make_others(compiled, domains, tables)
    yield from make_dense_tables(compiled, domains, tables)


def _make_others(compiled: CompiledGraph, domains: Domains, tables: Tables) -> Iterator[None]:
    """Make what factors need that have no dense tables: rules, lists and structures."""
    kind, is_cut = tables.kind.copy(), domains.sizes < compiled.universe_sizes
    for message_block in compiled.message_blocks:
        first, block = message_block
        if block.source.tables is not None:
            continue
        own_cut, is_needed = is_cut[block.scopes].any(axis=1), (domains.sizes[block.scopes] > 0).all(axis=1)
        offsets = np.flatnonzero(own_cut & is_needed)
        if not own_cut.all():
            own = kind[first : first + len(block.scopes)][~own_cut]
            yield from _whole_block(message_block, tables, compiled, as_table=bool((own == TABLE).all()))
        if len(offsets):
            tables.kind[first + offsets] = kind[first + offsets]
            is_table = kind[first + offsets] == TABLE
            yield from _cut_tables(message_block, offsets[is_table].tolist(), domains, tables, compiled)
            yield from _cut_structures(message_block, offsets[~is_table], domains, tables, compiled)


def reuse_tables(compiled: CompiledGraph, tables: Tables, made: Tables) -> Iterator[None]:
    """Fill `tables` with what another run has made over all states.

    Counts what that cost, and pauses wherever it did, so that work does not depend on which run came first.
    """
    done = 0
    for first, block in compiled.message_blocks:
        if block.source.tables is not None:
            continue
        if made.kind[first] == TABLE:
            for box in cut(tuple(slice(0, n) for n in block.source.shape), ASKED_AT_ONCE):
                tables.scored += math.prod(side.stop - side.start for side in box)
                yield
        else:
            tables.scored += int(made.structure_work[first])
        last = first + len(block.scopes)
        tables.log_scale[done:last] = made.log_scale[done:last]  # log Z is known once all are there
        done = last
        yield
    yield from tables.take_over(made)


def _whole_block(
    message_block: MessageBlock, tables: Tables, compiled: CompiledGraph, *, as_table: bool
) -> Iterator[None]:
    """Make the tables of a block over whole universes; those of factors that evidence cuts are made anew afterwards."""
    first, block = message_block
    factors = slice(first, first + len(block.scopes))
    source = block.source
    every = [np.arange(n) for n in source.shape]
    if not as_table:
        tables.place_structure(factors, source.packed(every))
        yield
        return
    tables.kind[factors] = TABLE
    values = yield from _ask(message_block, 0, every, tables, compiled)
    _check_possible(message_block, 0, values, compiled)
    tables.place_log_values(factors, values)
    yield


def _cut_tables(
    message_block: MessageBlock, offsets: list[int], domains: Domains, tables: Tables, compiled: CompiledGraph
) -> Iterator[None]:
    """Make the tables of single factors, on the states that evidence leaves."""
    first, block = message_block
    for offset in offsets:
        states = [domains.states_of(index) for index in block.scopes[offset].tolist()]
        values = yield from _ask(message_block, offset, states, tables, compiled)
        _check_possible(message_block, offset, values, compiled)
        tables.place_log_values(slice(first + offset, first + offset + 1), values)
        yield


def _cut_structures(
    message_block: MessageBlock, offsets: IndexArray, domains: Domains, tables: Tables, compiled: CompiledGraph
) -> Iterator[None]:
    """Make what factors sum over without a table, on the states that evidence leaves: many at once where that goes."""
    first, block = message_block
    scopes = block.scopes[offsets]
    sizes, state = domains.sizes[scopes], domains.slot_state[domains.slot_start[scopes]]
    packed_rows = block.source.packed_rows(sizes, state) if len(offsets) else None
    if packed_rows is not None:
        tables.place_rows(first + offsets[packed_rows.rows], packed_rows)
        left = np.ones(len(offsets), dtype=np.bool_)
        left[packed_rows.rows] = False
        offsets, sizes, state = offsets[left], sizes[left], state[left]
        yield
    for same in _alike(sizes, state, np.array(block.source.shape)):
        offset = int(offsets[same[0]])
        packed = block.source.packed([domains.states_of(index) for index in block.scopes[offset].tolist()])
        _check_possible(message_block, offset, packed.range.log_max, compiled)
        tables.place_structure(first + offsets[same], packed)
        yield


def _alike(sizes: IndexArray, state: IndexArray, universe: IndexArray) -> list[IndexArray]:
    """Group rows whose domains are the same: a state where that is all, or all states; rows with others are alone."""
    plain = np.flatnonzero(((sizes == 1) | (sizes == universe)).all(axis=1))
    others = np.setdiff1d(np.arange(len(sizes)), plain)
    found = [others[k : k + 1] for k in range(len(others))]
    if len(plain):
        key = np.where(sizes[plain] == 1, state[plain], -1)
        _, group = np.unique(key, axis=0, return_inverse=True)
        order = np.argsort(group.reshape(-1), kind="stable")
        found += np.split(plain[order], np.cumsum(np.bincount(group.reshape(-1)))[:-1])
    return found


def _ask(
    message_block: MessageBlock, offset: int, states: list[IndexArray], tables: Tables, compiled: CompiledGraph
) -> Generator[None, None, FloatArray]:
    """Return the log scores of one factor that is no table, shape (1, ...); asks for them a part at a time."""
    values = np.empty([1, *(len(own) for own in states)])
    for box, scores in message_block.block.log_parts(offset, states, compiled.variables):
        values[0][box] = scores
        tables.scored += scores.size
        yield
    return values


def _check_possible(message_block: MessageBlock, offset: int, values: FloatArray, compiled: CompiledGraph) -> None:
    """Raise InconsistentModelError for a factor without a possible joint state."""
    if values.max() == -np.inf:
        raise impossible(compiled, message_block.first + offset)
