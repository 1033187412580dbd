"""The workspace of a run: messages, priors, tables and scratch, laid out for the kernels.

Slots come in the same state order on all edges of a variable, and the domain is always the first `domain_size` of them:
an edge's slots start at `edge_slot_start`, so a domain can have room to grow without any kernel noticing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anytimebp.domains.domains import Domains
from anytimebp.kernels.codes import LINEAR, LOG, MAX, MAX_LINEAR_RANGE, SUM, TABLE
from anytimebp.kernels.messages import CALLS, link_calls
from anytimebp.kernels.sizes import scratch_sizes
from anytimebp.kernels.structures import StructureInputs, structures
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.log_tables import make_log_tables
from anytimebp.tables.sizes import factor_kinds
from anytimebp.tables.store import SHARED_BYTES, Tables, make_tables, needs_log, reuse_tables

HUB_DEGREE = 16
"""Variables with more edges keep totals; below, multiplying all messages anew is faster and loses no digits."""


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
        tail: Per edge slot, what states outside the domain add to the unscaled message; empty where none do (linear).
        factor_total: (F,) * Z_f of the last update.
        factor_kind: (F,) TABLE, or which structure it is.
        structure_work: (F,) entries read to update a factor that is no table.
        table_address: (F,) where the factor's numbers lie, in the order of its axes.
        table_in_logs: (F,) whether they are logarithms.
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
    tail: FloatArray
    factor_total: FloatArray
    factor_kind: IndexArray
    structure_work: IndexArray
    table_address: IndexArray
    table_in_logs: npt.NDArray[np.bool_]
    table_min: FloatArray
    table_has_zero: npt.NDArray[np.bool_]
    variable_hub: IndexArray
    hub_variable: IndexArray
    hub_start: IndexArray
    hub_high: FloatArray
    hub_low: FloatArray
    hub_zeros: IndexArray
    incoming: FloatArray
    outgoing: FloatArray
    prefix: FloatArray
    dots: FloatArray
    peak: FloatArray
    row_start: IndexArray
    structure_inputs: IndexArray
    calls: IndexArray


class Workspace:
    """The arrays of one run over fixed domains, in one arithmetic.

    Attributes:
        layout: Topology.
        arrays: What kernels write; tables are in place once `prepare` is through.
        tables: Addresses and scales of the tables.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        domains: Domains,
        arithmetic: int,
        *,
        semiring: int = SUM,
        structures: bool = True,
    ) -> None:
        """Allocate everything but tables.

        Args:
            compiled: The graph.
            domains: The states that take part; owned.
            arithmetic: LINEAR or LOG.
            semiring: SUM or MAX.
            structures: Whether factors that have a structure go by it; all are tables otherwise, and where the semiring
                is MAX.
        """
        self.compiled = compiled
        self.domains = domains
        self.layout = compiled.arrays
        n_factors = len(compiled.extent.log_max)
        self._as_tables = semiring == MAX or not structures
        kind = np.full(n_factors, TABLE) if self._as_tables else factor_kinds(compiled, domains.sizes)
        self.tables = Tables(compiled.extent, arithmetic, kind)
        self.arrays = allocate(
            self.layout,
            arithmetic=arithmetic,
            semiring=semiring,
            room=domains.sizes,
            widest=domains.sizes,
            domain_size=domains.sizes,
            slot_start=domains.slot_start,
            prior=domains.log_prior,
            prior_min=np.exp(domains.log_prior_min),
            factor_kind=self.tables.kind,
            structure_work=self.tables.structure_work,
            table_address=self.tables.address,
            table_in_logs=self.tables.in_logs,
            table_min=np.ones(len(self.tables.address)),
            table_has_zero=self.tables.has_zero,
        )
        if (kind != TABLE).any():
            self.arrays = self.arrays._replace(structure_inputs=make_structure_inputs(self.layout, self.arrays))
        _start_hubs(self.arrays, domains)
        if arithmetic == LINEAR:
            np.exp(self.arrays.prior, out=self.arrays.prior)

    def prepare(self) -> Iterator[None]:
        """Make the tables, pausing now and then; reuse those that an earlier run left with the graph."""
        shared = self._shared_tables
        if shared is not None:
            yield from reuse_tables(self.compiled, self.tables, shared)
        else:
            if not make_log_tables(self.compiled, self.domains, self.tables):
                yield from make_tables(self.compiled, self.domains, self.tables)
            if not (self.domains.states or self._as_tables) and self.tables.nbytes <= SHARED_BYTES:
                self.compiled.shared_tables[self.tables.arithmetic] = self.tables
        np.exp(self.tables.log_min, out=self.arrays.table_min)

    @property
    def tables_are_there(self) -> bool:
        """Whether an earlier run has left the tables with the graph."""
        return self._shared_tables is not None

    @property
    def _shared_tables(self) -> Tables | None:
        if self.domains.states or self._as_tables:
            return None
        shared = self.compiled.shared_tables.get(self.tables.arithmetic)
        return shared if isinstance(shared, Tables) else None

    @property
    def out_of_range(self) -> bool:
        """Whether a table turned out too wide for linear arithmetic."""
        return self.tables.arithmetic == LINEAR and needs_log(self.tables)


def make_structure_inputs(layout: GraphLayout, arrays: WorkspaceArrays) -> IndexArray:
    """Return where structures find what they need; kernels write to these very arrays, which the workspace holds."""
    found = StructureInputs(
        layout.factor_edge_start,
        layout.edge_variable,
        arrays.domain_size,
        arrays.factor_kind,
        arrays.table_address,
        arrays.incoming,
        arrays.outgoing,
        arrays.peak,
    )
    places = [number for array in found for number in (array.ctypes.data, len(array))]
    return np.array([structures().address, 0, 0, *places], dtype=np.int64)


def frozen(arrays: WorkspaceArrays) -> WorkspaceArrays:
    """Return the arrays with copies of all that beliefs are read from, which nothing changes any more."""
    names = ("message", "edge_scale", "edge_min", "factor_total", "hub_high", "hub_low", "hub_zeros")
    return arrays._replace(**{name: getattr(arrays, name).copy() for name in names})


def first_arithmetic(compiled: CompiledGraph, log_prior_min: FloatArray) -> int:
    """Return the arithmetic a run starts with: linear unless a table's or a prior's range rules it out."""
    extent = compiled.extent
    wide = (extent.log_max - extent.log_min > MAX_LINEAR_RANGE).any()
    return LOG if wide or (log_prior_min < -MAX_LINEAR_RANGE).any() else LINEAR


def allocate(
    layout: GraphLayout,
    *,
    arithmetic: int,
    semiring: int,
    room: IndexArray,
    widest: IndexArray,
    domain_size: IndexArray,
    slot_start: IndexArray,
    prior: FloatArray,
    prior_min: FloatArray,
    factor_kind: IndexArray,
    structure_work: IndexArray,
    table_address: IndexArray,
    table_in_logs: npt.NDArray[np.bool_],
    table_min: FloatArray,
    table_has_zero: npt.NDArray[np.bool_],
) -> WorkspaceArrays:
    """Return the arrays of a run with messages as they start; `WorkspaceArrays` says what each is.

    Args:
        layout: Topology.
        arithmetic: LINEAR or LOG.
        semiring: SUM or MAX.
        room: (V,) slots that each variable has room for.
        widest: (V,) slots that it may ever have.
        domain_size: (V,) active states.
        slot_start: (V + 1,) first slot of a variable in `prior`.
        prior: Priors.
        prior_min: (V,) of them.
        factor_kind: (F,) what the factors are.
        structure_work: (F,) of those that are no tables.
        table_address: (F,) of the tables.
        table_in_logs: (F,) of the tables.
        table_min: (F,) of the tables.
        table_has_zero: (F,) of the tables.
    """
    n_edges, n_factors, linear = len(layout.edge_variable), len(layout.factor_edge_start) - 1, arithmetic == LINEAR
    capacity = room[layout.edge_variable]
    edge_slot_end = np.cumsum(capacity)
    n_slots = int(edge_slot_end[-1]) if n_edges else 0
    factor_slots, levels, most_edges = _scratch_sizes(layout, capacity, factor_kind)
    largest = int(widest.max(initial=1))
    if widest is not room:
        factor_slots = max(largest, _scratch_sizes(layout, widest[layout.edge_variable], factor_kind)[0])
    hub_variable, variable_hub = _hubs(layout)
    hub_sizes = widest[hub_variable]
    n_hub_slots = int(hub_sizes.sum())
    arrays = WorkspaceArrays(
        arithmetic=arithmetic,
        semiring=semiring,
        domain_size=domain_size,
        variable_slot_start=slot_start,
        edge_slot_start=edge_slot_end - capacity,
        edge_capacity=capacity,
        prior=prior,
        prior_min=prior_min,
        message=np.ones(n_slots) if linear else np.zeros(n_slots),
        edge_min=np.ones(n_edges),
        edge_scale=np.ones(n_edges) if linear else np.zeros(n_edges),
        edge_residual=np.zeros(n_edges),
        tail=np.empty(0),
        factor_total=np.ones(n_factors) if linear else np.zeros(n_factors),
        factor_kind=factor_kind,
        structure_work=structure_work,
        table_address=table_address,
        table_in_logs=table_in_logs,
        table_min=table_min,
        table_has_zero=table_has_zero,
        variable_hub=variable_hub,
        hub_variable=hub_variable,
        hub_start=np.cumsum(hub_sizes) - hub_sizes,
        hub_high=np.zeros(n_hub_slots),
        hub_low=np.zeros(n_hub_slots),
        hub_zeros=np.zeros(n_hub_slots, dtype=np.int64),
        incoming=np.empty(factor_slots),
        outgoing=np.empty(factor_slots),
        prefix=np.empty(levels),
        dots=np.empty(levels),
        peak=np.empty(2 * largest + 2 + 4 * most_edges),
        row_start=np.empty(0 if widest is room else levels, dtype=np.int64),
        structure_inputs=np.empty(0, dtype=np.int64),
        calls=CALLS,
    )
    link_calls(layout, arrays)
    return arrays


def _hubs(layout: GraphLayout) -> tuple[IndexArray, IndexArray]:
    """Return the variables of high degree, and for every variable its number among them or -1."""
    degree = layout.variable_edge_start[1:] - layout.variable_edge_start[:-1]
    hub_variable = np.flatnonzero(degree > HUB_DEGREE)
    variable_hub = np.full(len(degree), -1, dtype=np.int64)
    variable_hub[hub_variable] = np.arange(len(hub_variable))
    return hub_variable, variable_hub


def _scratch_sizes(layout: GraphLayout, edge_size: IndexArray, factor_kind: IndexArray) -> tuple[int, int, int]:
    """Return the most slots that one factor has, the most entries of its levels, and the most variables."""
    slots, levels, edges = scratch_sizes(layout.factor_edge_start, edge_size, factor_kind)
    return slots, int(levels), edges


def _start_hubs(arrays: WorkspaceArrays, domains: Domains) -> None:
    """Fill the totals of hubs with their priors; messages start at 1 and add nothing."""
    for hub, variable in enumerate(arrays.hub_variable.tolist()):
        start, n = arrays.hub_start[hub], domains.sizes[variable]
        prior = domains.log_prior[domains.slot_start[variable] : domains.slot_start[variable + 1]]
        zero = prior == -np.inf
        arrays.hub_high[start : start + n] = np.where(zero, 0.0, prior)
        arrays.hub_zeros[start : start + n] = zero
