"""The arrays that a growing run starts with."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.universe import Universe
from anytimebp.kernels.codes import ASKED, LINEAR, LOG_TABLE, MAX_LINEAR_RANGE, POTENTIALS, SUM
from anytimebp.kernels.journal import EPOCH, ROUND
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.arrays import BoolArray, DomainArrays, JournalArrays
from anytimebp.tables.workspace import WorkspaceArrays, allocate


def make_domain(
    universe: Universe,
    sizes: IndexArray,
    states: IndexArray,
    room: IndexArray,
    grow: int,
    log_scale: FloatArray,
    log_min: FloatArray,
) -> DomainArrays:
    """Return the first domains.

    Args:
        universe: All states.
        sizes: (V,) sizes of the domains.
        states: Their states, variable after variable.
        room: (V,) slots to have room for.
        grow: States a round.
        log_scale: (F,) of the tables; set to 0 for potentials that are used as they are.
        log_min: (F,) of the tables, set accordingly.
    """
    compiled, layout = universe.compiled, universe.compiled.arrays
    n_factors, n_variables = len(layout.factor_edge_start) - 1, len(sizes)
    kind, address = np.full(n_factors, ASKED), np.zeros(n_factors, dtype=np.int64)
    stride = np.zeros(len(layout.edge_variable), dtype=np.int64)
    for first, block in compiled.message_blocks:
        tables, n = block.source.tables, len(block.scopes)
        if tables is None:
            continue
        factors = slice(first, first + n)
        kind[factors] = LOG_TABLE if tables.is_log else POTENTIALS
        if tables.is_plain:
            log_scale[factors] = 0.0
            log_min[factors] = tables.range.log_min
        address[factors] = np.array(tables.member_addresses(), dtype=np.int64)
        edges = slice(layout.factor_edge_start[first], layout.factor_edge_start[first + n])
        steps = np.cumprod([1, *tables.shape[:0:-1]])[::-1]
        stride[edges] = np.tile(steps, n)
    slot_state = np.zeros(len(universe.log_prior), dtype=np.int64)
    slot_state[first_slots(universe.start, sizes)] = states
    is_open = universe.allowed.copy()
    is_open[np.repeat(universe.start[:-1], sizes) + states] = False
    asked = np.zeros(n_variables, dtype=np.bool_)
    asked[layout.edge_variable[kind[layout.edge_factor] == ASKED]] = True
    widest = int(compiled.universe_sizes.max(initial=1))
    return DomainArrays(
        universe_start=universe.start,
        log_prior=universe.log_prior,
        is_open=is_open,
        n_open=universe.n_allowed - sizes,
        slot_state=slot_state,
        room=room.copy(),
        source_address=address,
        source_kind=kind,
        table_scale=log_scale,
        edge_stride=stride,
        is_asked=asked,
        is_impossible=np.zeros(n_variables, dtype=np.bool_),
        chosen_variable=np.zeros(max(1, grow), dtype=np.int64),
        chosen_state=np.zeros(max(1, grow), dtype=np.int64),
        line=np.empty(widest),
        zero_queue=np.empty((3, 0), dtype=np.int64),
    )


def make_arrays(
    universe: Universe, sizes: IndexArray, room: IndexArray, arithmetic: int, log_min: FloatArray
) -> WorkspaceArrays:
    """Return messages and tables for the first domains, with room to grow; tables have no addresses yet."""
    compiled, has_zero = universe.compiled, universe.compiled.extent.has_zero.copy()
    return allocate(
        compiled.arrays,
        arithmetic=arithmetic,
        semiring=SUM,
        room=room,
        widest=compiled.universe_sizes,
        domain_size=sizes.copy(),
        slot_start=universe.start,
        prior=np.empty(len(universe.log_prior)),
        prior_min=np.ones(len(sizes)),
        factor_kind=np.zeros(len(has_zero), dtype=np.int64),
        structure_work=np.zeros(len(has_zero), dtype=np.int64),
        table_address=np.zeros(len(has_zero), dtype=np.int64),
        table_in_logs=must_be_logs(has_zero, log_min, arithmetic),
        table_scaled=np.zeros(len(has_zero), dtype=np.int64),
        table_min=np.exp(log_min),
        table_has_zero=has_zero,
    )


def must_be_logs(has_zero: BoolArray, log_min: FloatArray, arithmetic: int) -> BoolArray:
    """Tell which tables hold logs: in log arithmetic, those of which linear sums could lose something."""
    if arithmetic == LINEAR:
        return np.zeros(len(has_zero), dtype=np.bool_)
    return has_zero | (log_min < -MAX_LINEAR_RANGE)


def make_journal(layout: GraphLayout, sizes: IndexArray, n_slots: int) -> JournalArrays:
    """Return an empty journal."""
    n_edges, n_factors, n_variables = len(layout.edge_variable), len(layout.factor_edge_start) - 1, len(sizes)
    counts = np.zeros(5, dtype=np.int64)
    counts[EPOCH] = counts[ROUND] = 1
    return JournalArrays(
        keep=1,
        counts=counts,
        saved_message=np.empty(n_slots),
        saved_scale=np.ones(n_edges),
        saved_min=np.empty(n_edges),
        saved_total=np.ones(n_factors),
        factor_epoch=np.zeros(n_factors, dtype=np.int64),
        saved_factor=np.empty(n_factors, dtype=np.int64),
        factor_round=np.zeros(n_factors, dtype=np.int64),
        touched_factor=np.empty(n_factors, dtype=np.int64),
        settled_size=sizes.copy(),
        variable_epoch=np.zeros(n_variables, dtype=np.int64),
        grown_variable=np.empty(n_variables, dtype=np.int64),
    )


def first_slots(start: IndexArray, sizes: IndexArray) -> IndexArray:
    """Return start[i], start[i] + 1, ..., sizes[i] of them, for all i."""
    before = np.cumsum(sizes) - sizes
    slots: IndexArray = np.arange(int(sizes.sum())) + np.repeat(start[:-1] - before, sizes)
    return slots
