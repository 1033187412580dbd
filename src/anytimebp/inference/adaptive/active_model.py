"""A graph cut down to its active states: which they are, and the workspace of messages over them.

Every round of `adaptive` has such a model of its own; nothing of it changes afterwards but its messages. Leaves of
dense factors are summed out as the tables are filled (`kernels/active.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.active import (
    carry_messages,
    choose_likely,
    fill_active,
    find_leaves,
    find_reach,
    join_likely,
    plan_active,
    read_summed,
    take_priors,
)
from anytimebp.kernels.codes import ASKED, LINEAR, LOG_TABLE, MAX_LINEAR_RANGE, OK, POTENTIALS, SCALED
from anytimebp.kernels.readout import read_weights
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import FactorBlock
from anytimebp.model.rows import row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.workspace import Workspace

MANY_TIED = 8  # factors that share a log table, from which on it is exponentiated once and for all of them
BLOCK = 4096  # entries that a look picks up at a time
FILL_COST = 2**20  # entries that could be read between two looks at the clock


class ImpossibleRoundError(Exception):
    """No joint state of a factor's active states is possible, or its scores are too far apart."""


class Sources(NamedTuple):
    """Where the numbers of factors lie. F factors, E edges.

    Attributes:
        address: (F,) of dense factors, 0 for those that are asked from Python.
        kind: (F,) LOG_TABLE, POTENTIALS, SCALED or ASKED.
        shift: (F,) what to subtract from log scores.
        size: (F,) entries at the address.
        edge_stride: (E,) entries between two states of the edge's variable.
        leaf_edge: (F,) the edge to the leaf that is summed out, or -1.
    """

    address: IndexArray
    kind: IndexArray
    shift: FloatArray
    size: IndexArray
    edge_stride: IndexArray
    leaf_edge: IndexArray


class Active(NamedTuple):
    """Active states. Of a leaf that is summed out, one stands for all.

    Attributes:
        start: (V + 1,) where each variable's start.
        slot: Their slots among those of all states that the evidence allows.
        state: The states.
        universe_start: (V + 1,) where each variable's states start in a row of all of them.
        leaf_weight: Priors in that row, zero where evidence excludes a state; nothing where there are no leaves.
    """

    start: IndexArray
    slot: IndexArray
    state: IndexArray
    universe_start: IndexArray
    leaf_weight: FloatArray


class Reach(NamedTuple):
    """States outside the domains that a look takes in.

    Attributes:
        start: (V + 1,) where each variable's start.
        slot: Their slots among those of all states that the evidence allows.
        state: The states.
        log_belief: Log prior and log messages, as far as added up.
        belief: In parts of what the domain holds.
        cut: (V,) sum of the priors of states that are neither active nor within reach.
    """

    start: IndexArray
    slot: IndexArray
    state: IndexArray
    log_belief: FloatArray
    belief: FloatArray
    cut: FloatArray


class Scratch(NamedTuple):
    """Room for kernels: a number per joint active state of a factor, and one per axis."""

    row_base: IndexArray
    row_weight: FloatArray
    line: FloatArray
    offsets: IndexArray


class WholeModel:
    """What all rounds on a graph have in common.

    Attributes:
        compiled: The graph.
        domains: All states that the evidence allows.
        sources: Where numbers come from.
        is_leaf: (V,) variables that are summed out.
        has_leaves: Whether there are any.
        universe_start: (V + 1,) where each variable's states start in a row of all of them.
        leaf_weight: Priors in that row, if there are leaves.
    """

    def __init__(self, compiled: CompiledGraph, domains: Domains, *, sum_out: bool) -> None:
        """Find the leaves, if they are to be summed out."""
        self.compiled, self.domains = compiled, domains
        layout, n_factors = compiled.arrays, len(compiled.arrays.factor_edge_start) - 1
        self.universe_start = row_starts(compiled.universe_sizes)
        kind = source_kinds(compiled)
        is_dense = (kind != ASKED) & sum_out
        edge_stride = np.empty(len(layout.edge_variable), dtype=np.int64)
        leaf_edge, self.is_leaf = np.empty(n_factors, dtype=np.int64), np.zeros(len(domains.sizes), dtype=np.bool_)
        find_leaves(layout, compiled.universe_sizes, is_dense, edge_stride, leaf_edge, self.is_leaf)
        log_max = compiled.extent.log_max
        shift = np.where(np.isnan(log_max), 0.0, log_max)
        address, self._owners = np.zeros(n_factors, dtype=np.int64), [np.empty(0)]
        first_edge = layout.factor_edge_start[:-1]
        size = edge_stride[first_edge] * compiled.universe_sizes[layout.edge_variable[first_edge]]
        self.sources = Sources(address, kind, shift, size, edge_stride, leaf_edge)
        self.has_leaves = bool(self.is_leaf.any())
        self._prior = self.leaf_weight = np.empty(0)

    def locate(self) -> None:
        """Find where tables lie, once rounds are to be made; those that many factors share are exponentiated."""
        address, kind = self.sources.address, self.sources.kind
        for first, block in self.compiled.message_blocks:
            tables, factors = block.source.tables, slice(first, first + len(block.scopes))
            if tables is not None and kind[first] == SCALED:
                made = tables.values[0] - tables.range.log_max[0]
                self._owners.append(np.exp(made, out=made))
                address[factors] = self._owners[-1].ctypes.data
            elif tables is not None:
                address[factors] = tables.member_addresses()
        self._prior = self.leaf_weight = np.exp(self.domains.log_prior)
        if self.has_leaves and not self.domains.is_whole:
            self.leaf_weight = np.zeros(int(self.universe_start[-1]))
            first_slot = np.repeat(self.universe_start[:-1], self.domains.sizes)
            self.leaf_weight[first_slot + self.domains.slot_state] = self._prior

    @property
    def fits_linear(self) -> bool:
        """Whether no table's range is beyond linear arithmetic."""
        extent = self.compiled.extent
        return not (extent.log_max - extent.log_min > MAX_LINEAR_RANGE).any()

    def likely(self, nats: float) -> tuple[IndexArray, IndexArray, IndexArray]:
        """Return sizes, starts and slots of the states within some nats of the best prior."""
        return self._listed(
            lambda *lists: choose_likely(self.domains.slot_start, self.domains.log_prior, self.is_leaf, nats, *lists)
        )

    def joined(self, active: Active, reach: Reach, threshold: float) -> tuple[IndexArray, IndexArray, IndexArray]:
        """Return the same of the active states and those within reach of a belief above a threshold."""
        return self._listed(lambda *lists: join_likely(self.domains.slot_start, active, reach, threshold, *lists))

    def _listed(self, choose: object) -> tuple[IndexArray, IndexArray, IndexArray]:
        n = len(self.is_leaf)
        size, start = np.empty(n, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
        slot = np.empty(len(self.domains.log_prior), dtype=np.int64)
        total = choose(size, start, slot)  # type: ignore[operator]
        return size, start, slot[:total]

    def reach(self, active: Active, nats: float) -> Reach:
        """Return the states outside the domains within some nats of the best prior."""
        domains, n = self.domains, len(self.is_leaf)
        start, cut = np.empty(n + 1, dtype=np.int64), np.empty(n)
        slot = np.empty(len(domains.log_prior), dtype=np.int64)
        total = find_reach(
            domains.slot_start, domains.log_prior, self._prior, self.is_leaf, active, nats, start, slot, cut
        )
        slot = slot[:total].copy()
        if domains.is_whole:
            state = slot - np.repeat(domains.slot_start[:-1], np.diff(start))
        else:
            state = domains.slot_state[slot]
        return Reach(start, slot, state, domains.log_prior[slot], np.zeros(total), cut)


class ActiveModel:
    """One round's states, tables and messages.

    Attributes:
        active: The states.
        size: (V,) how many of each variable.
        workspace: Messages over them.
        scratch: For kernels.
    """

    def __init__(
        self,
        whole: WholeModel,
        lists: tuple[IndexArray, IndexArray, IndexArray],
        before: ActiveModel | None = None,
    ) -> None:
        """Allocate everything; `fill` makes the tables.

        Args:
            whole: The graph.
            lists: Sizes, starts and slots of the active states.
            before: A model of fewer states to take messages from.
        """
        size, start, slot = lists
        self.whole, self.size = whole, size
        domains, compiled = whole.domains, whole.compiled
        prior, low, state = np.empty(len(slot)), np.empty(len(size)), np.empty(len(slot), dtype=np.int64)
        active = Active(start, slot, state, whole.universe_start, whole.leaf_weight)
        take_priors(
            domains.slot_start, domains.slot_state, domains.log_prior, whole.is_leaf, active, prior, low, state
        )
        self.active = active
        own = Domains(size, start, state, prior, domains.log_prior_scale, low, scored=0)
        self.workspace = Workspace(compiled, own, LINEAR, structures=False)
        layout, n_factors = compiled.arrays, len(whole.sources.kind)
        self._table_start = np.empty(n_factors + 1, dtype=np.int64)
        most = plan_active(layout, size, whole.sources.leaf_edge, self._table_start)
        self._pool = np.empty(int(self._table_start[-1]))
        tables = self.workspace.tables
        tables.keep(self._pool)
        tables.address[:] = self._pool.ctypes.data + 8 * self._table_start[:-1]
        tables.has_zero[:] = False
        tables.log_scale[:] = whole.sources.shift
        arity = int(np.diff(layout.factor_edge_start).max(initial=0))
        self.scratch = Scratch(
            np.empty(most, dtype=np.int64), np.empty(most), np.empty(max(BLOCK, most)), np.empty(arity, dtype=np.int64)
        )
        if before is not None:
            before.put_messages(self.arrays, start, slot)

    def put_messages(self, arrays: WorkspaceArrays, start: IndexArray, slot: IndexArray) -> None:
        """Put messages in place of those over more states, which get the smallest numbers.

        Nothing is put where there are hard zeros: of states outside, nobody knows which zeros they would lift.

        Args:
            arrays: Messages over more states, in linear arithmetic; overwritten.
            start: (V + 1,) where each variable's states start.
            slot: Their slots; nothing where these are all.
        """
        if not self.arrays.table_has_zero.any():
            own, is_leaf = self.active, self.whole.is_leaf
            carry_messages(self.layout, self.arrays, own.start, own.slot, arrays, start, slot, is_leaf)

    @property
    def layout(self) -> GraphLayout:
        """Topology."""
        return self.workspace.layout

    @property
    def arrays(self) -> WorkspaceArrays:
        """Messages."""
        return self.workspace.arrays

    def fill(self) -> Iterator[int]:
        """Make the tables; yields how many entries were read, now and then.

        Raises:
            ImpossibleRoundError: Where a table is zero on all active states, or too wide for linear arithmetic.
        """
        whole, arrays, tables = self.whole, self.arrays, self.workspace.tables
        position, n_factors = 0, len(whole.sources.kind)
        while position < n_factors:
            position, read, impossible = fill_active(
                self.layout,
                whole.sources,
                self.active,
                self._table_start,
                self._pool,
                arrays.table_min,
                tables.has_zero,
                self.scratch.row_base,
                position,
                FILL_COST,
            )
            if impossible >= 0:
                raise ImpossibleRoundError
            if position < n_factors:
                yield read
            else:
                yield from self._ask(read)
        np.log(arrays.table_min, out=tables.log_min)

    def _ask(self, read: int) -> Iterator[int]:
        """Fill the tables of factors that have no numbers in memory."""
        tables, arrays = self.workspace.tables, self.arrays
        for factor in np.flatnonzero(self.whole.sources.kind == ASKED).tolist():
            scores = self.whole.compiled.log_values(factor, self.states_of(factor))
            finite = scores[scores > -np.inf]
            if not finite.size or np.ptp(finite) > MAX_LINEAR_RANGE:
                raise ImpossibleRoundError
            tables.log_scale[factor] = high = finite.max()
            tables.has_zero[factor] = finite.size < scores.size
            arrays.table_min[factor] = np.exp(finite.min() - high)
            self._pool[self._table_start[factor] : self._table_start[factor + 1]] = np.exp(scores - high).ravel()
            read += scores.size
            if read > FILL_COST:
                yield read
                read = 0
        yield read

    def states_of(self, factor: int) -> list[IndexArray]:
        """Return the active states of each of a factor's variables."""
        layout, active = self.layout, self.active
        edges = slice(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1])
        variables = layout.edge_variable[edges].tolist()
        return [active.state[active.start[v] : active.start[v + 1]] for v in variables]

    def ask_outside(self, factor: int, reach: Reach) -> int:
        """Add what a factor without numbers in memory says of the states within reach; return the scores asked for."""
        layout, arrays, asked = self.layout, self.arrays, 0
        edges = range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1])
        log_weight = np.empty(len(arrays.message))
        read_weights(layout, arrays, log_weight)
        for axis, edge in enumerate(edges):
            variable = int(layout.edge_variable[edge])
            outside = slice(reach.start[variable], reach.start[variable + 1])
            if outside.start == outside.stop:
                continue
            states = self.states_of(factor)
            states[axis] = reach.state[outside]
            scores = np.array(self.whole.compiled.log_values(factor, states))
            asked += scores.size
            for other_axis, other in enumerate(edges):
                if other != edge:
                    start = arrays.edge_slot_start[other]
                    weight = log_weight[start : start + arrays.domain_size[layout.edge_variable[other]]]
                    scores += weight.reshape([-1 if k == other_axis else 1 for k in range(len(edges))])
            scores = np.moveaxis(scores, axis, 0).reshape(outside.stop - outside.start, -1)
            high = scores.max(axis=1)
            finite = np.where(high > -np.inf, high, 0.0)
            with np.errstate(divide="ignore"):
                told = finite + np.log(np.exp(scores - finite[:, None]).sum(axis=1))
            scale = np.log(arrays.edge_scale[edge]) + self.workspace.tables.log_scale[factor]
            reach.log_belief[outside] += told - scale
        return asked

    def add_leaves(self, belief: FloatArray) -> None:
        """Fill the beliefs of leaves in a row of all states of all variables."""
        whole = self.whole
        status, leaf = read_summed(self.layout, self.arrays, whole.sources, self.active, self.scratch, belief)
        if status != OK:
            name = whole.compiled.variables.name(leaf)
            msg = f"no joint state is possible: messages exclude every state of variable {name!r}"
            raise InconsistentModelError(msg)


def source_kinds(compiled: CompiledGraph) -> IndexArray:
    """Return (F,) what the factors' sources are; SCALED where many share a log table."""
    kinds = [_source_kind(block) for _, block in compiled.message_blocks]
    return np.repeat(np.array(kinds, dtype=np.int64), [len(block.scopes) for _, block in compiled.message_blocks])


def _source_kind(block: FactorBlock) -> int:
    tables = block.source.tables
    if tables is None:
        return ASKED
    if not tables.is_log:
        return POTENTIALS
    return SCALED if tables.n_members == 1 and len(block.scopes) >= MANY_TIED else LOG_TABLE
