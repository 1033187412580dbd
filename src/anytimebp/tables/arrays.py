"""The arrays of a run as kernels see them, and how they are allocated.

Slots come in the same state order on all edges of a variable, and the domain is always the first `domain_size` of them:
an edge's slots start at `edge_slot_start`, so a domain can have room to grow without any kernel noticing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.kernels.codes import LINEAR
from anytimebp.kernels.messages import CALLS, link_calls, link_hubs
from anytimebp.kernels.setting_up import place_slots, scratch_sizes
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.slices import AT_ONCE, NUMBERS, parts
from anytimebp.tables.store import Tables

HUB_DEGREE = 16
"""Variables with more edges keep totals; below, multiplying all messages anew is faster and loses no digits."""

NONE, NO_NUMBERS = np.empty(0, dtype=np.int64), np.empty(0)

READ = (
    "domain_size",
    "edge_slot_start",
    "message",
    "edge_scale",
    "edge_min",
    "factor_total",
    "hub_high",
    "hub_low",
    "hub_zeros",
)
"""What beliefs are read from, and runs change."""


class WorkspaceArrays(NamedTuple):
    """What kernels read and write. V variables, F factors, E edges, H hubs (variables of high degree).

    Attributes:
        arithmetic: LINEAR or LOG; which of the two all numbers marked * are in.
        semiring: SUM or MAX.
        domain_size: (V,) active states.
        variable_slot_start: (V + 1,) first slot of a variable in `prior`.
        edge_slot_start: (E,) first slot of an edge in `message`.
        edge_capacity: (E,) length of the table's axis; a domain that grows leaves room behind its states.
        prior: * per variable slot, largest 1.
        prior_min: (V,) smallest positive prior.
        message: * per edge slot, factor to variable, largest 1.
        edge_min: (E,) smallest positive number of the message (linear).
        edge_scale: (E,) * what the message was divided by.
        edge_residual: (E,) by how much the last update moved the message, in nats.
        factor_total: (F,) * Z_f of the last update.
        factor_kind: (F,) TABLE, or which structure it is.
        structure_work: (F,) entries read to update a factor that is no table.
        table_address: (F,) where the factor's numbers lie, in the order of its axes.
        table_in_logs: (F,) whether they are logarithms.
        table_scaled: (F,) where the linear numbers of a table in logs lie, scaled per state, or 0.
        table_band: (F,) where the band of a linear table lies (`kernels/bands.py`), or 0.
        table_min: (F,) smallest positive number of the table (linear).
        table_has_zero: (F,) whether the table has zeros.
        variable_hub: (V,) number of the hub, or -1.
        hub_variable: (H,) the variable.
        hub_start: (H,) first slot in the three hub arrays.
        hub_high: Sum of the finite logs of the prior and all messages, per hub slot.
        hub_low: What rounding took from that sum.
        hub_zeros: How many of those logs are -inf.
        incoming: Scratch: messages to one factor, axis after axis.
        outgoing: Scratch: messages from one factor.
        weight: Scratch: messages to one factor, linear where all others are in logs; empty in linear arithmetic.
        prefix: Scratch: products of incoming messages over the leading axes.
        dots: Scratch: tables with the trailing axes summed out.
        peak: Scratch: two numbers per state of one variable, four per variable of a factor.
        row_start: Scratch: where the rows of a table with room to grow start.
        structure_inputs: Where structures find what they need, see `kernels/structures.py`; empty where there are none.
        calls: Addresses of kernels that others call, see `kernels/messages.py`.
    """

    arithmetic: int
    semiring: int
    domain_size: IndexArray
    variable_slot_start: IndexArray
    edge_slot_start: IndexArray
    edge_capacity: IndexArray
    prior: FloatArray
    prior_min: FloatArray
    message: FloatArray
    edge_min: FloatArray
    edge_scale: FloatArray
    edge_residual: FloatArray
    factor_total: FloatArray
    factor_kind: IndexArray
    structure_work: IndexArray
    table_address: IndexArray
    table_in_logs: BoolArray
    table_scaled: IndexArray
    table_band: IndexArray
    table_min: FloatArray
    table_has_zero: BoolArray
    variable_hub: IndexArray
    hub_variable: IndexArray
    hub_start: IndexArray
    hub_high: FloatArray
    hub_low: FloatArray
    hub_zeros: IndexArray
    incoming: FloatArray
    outgoing: FloatArray
    weight: FloatArray
    prefix: FloatArray
    dots: FloatArray
    peak: FloatArray
    row_start: IndexArray
    structure_inputs: IndexArray
    calls: IndexArray


def allocate(
    layout: GraphLayout,
    domains: Domains,
    tables: Tables,
    semiring: int,
    room: IndexArray,
    widest: IndexArray,
) -> Generator[None, None, WorkspaceArrays]:
    """Return the arrays of a run with messages as they start; pauses where there are many of them.

    `WorkspaceArrays` says what each is.

    Args:
        layout: Topology.
        domains: The active states; their sizes and log priors become those of the run.
        tables: Of the run.
        semiring: SUM or MAX.
        room: (V,) slots that each variable has room for.
        widest: (V,) slots that it may ever have; `room` itself if domains do not grow.
    """
    n_edges, n_factors = len(layout.edge_variable), len(layout.factor_edge_start) - 1
    linear = tables.arithmetic == LINEAR
    slot_start, capacity = np.empty((2, n_edges), dtype=np.int64)
    variable_hub = np.empty(len(room), dtype=np.int64)
    placed = np.zeros(4, dtype=np.int64)
    given = layout.variable_edge_start, layout.edge_variable, room, HUB_DEGREE, slot_start, capacity, variable_hub
    while not place_slots(*given, placed, 2 * AT_ONCE):
        yield
    n_slots, n_hubs, largest = int(placed[2]), int(placed[3]), int(np.maximum.reduce(room, initial=1))
    factor_slots, levels, most_edges = 0, 0.0, 0
    for first, last in parts(n_factors, 2 * AT_ONCE):
        found = scratch_sizes(layout.factor_edge_start[first : last + 1], capacity, tables.kind[first:last])
        factor_slots, levels = max(factor_slots, found[0]), max(levels, found[1])
        most_edges = max(most_edges, found[2])
        if last < n_factors:
            yield
    if widest is not room:
        largest = int(widest.max(initial=1))
        wide = scratch_sizes(layout.factor_edge_start, widest[layout.edge_variable], tables.kind)
        factor_slots = max(largest, wide[0])
        levels = max(levels, float(largest))
    hub_variable = np.flatnonzero(variable_hub >= 0) if n_hubs else NONE
    hub_end = np.cumsum(widest[hub_variable]) if n_hubs else NONE
    n_hub_slots = int(hub_end[-1]) if n_hubs else 0
    start = np.empty(n_slots + n_edges + n_factors)
    least = np.empty(n_edges + n_factors)
    yield from fill_in_parts(start, 1.0 if linear else 0.0)
    yield from fill_in_parts(least, 1.0)
    prior_min = np.empty(len(domains.log_prior_min))
    for first, last in parts(len(prior_min), NUMBERS):
        np.exp(domains.log_prior_min[first:last], out=prior_min[first:last])
        if last < len(prior_min):
            yield
    arrays = WorkspaceArrays(
        arithmetic=tables.arithmetic,
        semiring=semiring,
        domain_size=domains.sizes,
        variable_slot_start=domains.slot_start,
        edge_slot_start=slot_start,
        edge_capacity=capacity,
        prior=domains.log_prior,
        prior_min=prior_min,
        message=start[:n_slots],
        edge_min=least[:n_edges],
        edge_scale=start[n_slots : n_slots + n_edges],
        edge_residual=np.zeros(n_edges),
        factor_total=start[n_slots + n_edges :],
        factor_kind=tables.kind,
        structure_work=tables.structure_work,
        table_address=tables.address,
        table_in_logs=tables.in_logs,
        table_scaled=tables.scaled,
        table_band=np.zeros(n_factors, dtype=np.int64),
        table_min=least[n_edges:],
        table_has_zero=tables.has_zero,
        variable_hub=variable_hub,
        hub_variable=hub_variable,
        hub_start=hub_end - widest[hub_variable] if n_hubs else NONE,
        hub_high=np.zeros(n_hub_slots) if n_hubs else NO_NUMBERS,
        hub_low=np.zeros(n_hub_slots) if n_hubs else NO_NUMBERS,
        hub_zeros=np.zeros(n_hub_slots, dtype=np.int64) if n_hubs else NONE,
        incoming=np.empty(factor_slots),
        outgoing=np.empty(factor_slots),
        weight=NO_NUMBERS if linear and widest is room else np.empty(factor_slots),
        prefix=np.empty(int(levels)),
        dots=np.empty(int(levels)),
        peak=np.empty(2 * largest + 2 + 4 * most_edges),
        row_start=NONE if widest is room else np.empty(int(levels), dtype=np.int64),
        structure_inputs=NONE,
        calls=CALLS,
    )
    link_calls(layout, arrays, in_logs=not linear or widest is not room)
    if n_hubs:
        link_hubs(arrays)
    return arrays


def may_have_hubs(layout: GraphLayout) -> bool:
    """Tell whether a graph has so many factors that a variable may have a high degree."""
    return len(layout.factor_edge_start) - 1 > HUB_DEGREE


def fill_in_parts(array: FloatArray | IndexArray, value: float) -> Iterator[None]:
    """Write one number everywhere; pauses where that takes long."""
    array[:NUMBERS] = value
    for first in range(NUMBERS, len(array), NUMBERS):
        yield
        array[first : first + NUMBERS] = value


def touched(n: int) -> Generator[None, None, FloatArray]:
    """Return room for so many numbers, which the system has handed out already; pauses on the way."""
    room = np.empty(n)
    yield from fill_in_parts(room, 0.0)
    return room


def frozen(arrays: WorkspaceArrays) -> WorkspaceArrays:
    """Return the arrays with copies of all that beliefs are read from, which nothing changes any more."""
    return arrays._replace(**{name: getattr(arrays, name).copy() for name in READ})
