"""A graph cut down to its active states: which they are, and the workspace of messages over them.

Every round of `adaptive` has such a model of its own; nothing of it changes afterwards but its messages. Leaves of
dense factors are summed out as the tables are filled (`kernels/active.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.inference.adaptive.whole_model import Active, ActiveLists, Reach, WholeModel
from anytimebp.inference.beliefs import beliefs_of, no_belief
from anytimebp.inference.look.asking import ask_message
from anytimebp.kernels.active import fill_active
from anytimebp.kernels.active_readout import place_beliefs, read_leaves
from anytimebp.kernels.active_states import carry_messages, plan_active, take_priors
from anytimebp.kernels.active_wide import fill_wide
from anytimebp.kernels.codes import LINEAR, LOG, MAX_LINEAR_RANGE, OK, TABLE
from anytimebp.kernels.readout import read_weights
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.workspace import Workspace

BLOCK = 4096  # entries that a look picks up at a time
FILL_COST = 2**20  # entries that could be read between two looks at the clock


class ImpossibleRoundError(Exception):
    """No joint state of the active states is possible.

    Attributes:
        factors: Those where that was found.
    """

    def __init__(self, factors: list[int]) -> None:
        """Name the factors."""
        super().__init__()
        self.factors = factors


class OutOfRangeError(Exception):
    """Scores or priors of active states are too far apart for linear arithmetic."""


class Scratch(NamedTuple):
    """Room for kernels.

    Attributes:
        row_base: Where joint active states of a factor lie in its source.
        row_weight: The products of their weights.
        place: Where entries lie that are picked up together, or lines that are added up together.
        line: Entries that are picked up together, or weights of such lines.
        told: Sums of them.
        offsets: By axis of a factor, where its weights start.
        peak: By axis, what they were divided by.
        log_peak: By axis, the log of what they were divided by besides.
    """

    row_base: IndexArray
    row_weight: FloatArray
    place: IndexArray
    line: FloatArray
    told: FloatArray
    offsets: IndexArray
    peak: FloatArray
    log_peak: FloatArray


def _scratch(most: int, arity: int) -> Scratch:
    """Return room for factors of so many joint active states, and so many axes; none for none."""
    block = BLOCK if most else 0
    length = max(block, most)
    whole, real = np.empty(most + length + arity, dtype=np.int64), np.empty(most + 2 * length + 2 * arity)
    lines, axes = most + length, len(real) - 2 * arity
    return Scratch(
        row_base=whole[:most],
        row_weight=real[:most],
        place=whole[most : most + length],
        line=real[most:lines],
        told=real[lines:axes],
        offsets=whole[most + length :],
        peak=real[axes : axes + arity],
        log_peak=real[axes + arity :],
    )


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
        lists: ActiveLists,
        before: ActiveModel | None = None,
        arithmetic: int = LINEAR,
    ) -> None:
        """Allocate everything; `fill` makes the tables.

        Args:
            whole: The graph.
            lists: Sizes, starts and slots of the active states.
            before: A model of fewer states to take messages from.
            arithmetic: LINEAR or LOG; no leaves are summed out in logs.

        Raises:
            OutOfRangeError: Where priors are too far apart for linear arithmetic.
        """
        size, start, slot = lists
        self.whole, self.size = whole, size
        domains, compiled = whole.domains, whole.compiled
        prior, low, state = np.empty(len(slot)), np.empty(len(size)), np.empty(len(slot), dtype=np.int64)
        shift = whole.sources.shift.copy()
        active = Active(start, slot, state, whole.universe_start, whole.leaf_weight, shift)
        take_priors(domains.slot_start, domains.slot_state, domains.log_prior, whole.is_leaf, active, prior, low, state)
        self.active = active
        if arithmetic == LINEAR and low.min(initial=0.0) < -MAX_LINEAR_RANGE:
            raise OutOfRangeError
        own = Domains(size, start, state, prior, domains.log_prior_scale, low, scored=0)
        self.workspace = Workspace(compiled, own, arithmetic)
        layout, n_factors = compiled.arrays, len(whole.sources.kind)
        self._table_start = np.empty(n_factors + 1, dtype=np.int64)
        self._room = plan_active(layout, whole.sources.address, size, self._table_start)
        self._pool = np.empty(int(self._table_start[-1]))
        tables = self.workspace.tables
        tables.keep(self._pool)
        tables.address[:] = self._pool.ctypes.data + 8 * self._table_start[:-1]
        tables.has_zero[:] = False
        tables.log_scale = shift
        self.scratch = _scratch(*self._room)
        if before is not None:
            before.put_messages(self.layout, self.arrays, start, slot, np.arange(len(layout.edge_variable)))

    def put_messages(
        self, layout: GraphLayout, arrays: WorkspaceArrays, start: IndexArray, slot: IndexArray, edge: IndexArray
    ) -> None:
        """Put messages in place of those over more states, which get the smallest numbers.

        Nothing is put in place of linear numbers where these are logs, of which some may be too small.

        Args:
            layout: Topology of the messages over more states.
            arrays: These messages; overwritten.
            start: (V + 1,) where each variable's states start.
            slot: Their slots; nothing where these are all.
            edge: (E,) numbers of the edges there.
        """
        if arrays.arithmetic == LOG or self.arrays.arithmetic == LINEAR:
            own = self.active
            carry_messages(self.layout, self.arrays, own.start, own.slot, layout, arrays, start, slot, edge)

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
            ImpossibleRoundError: Where a table is zero on all active states.
            OutOfRangeError: Where one is too wide for linear arithmetic.
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
                raise ImpossibleRoundError([impossible])
            yield read
        np.log(arrays.table_min, out=tables.log_min)
        yield from self._fill_wide()
        yield from self._ask()
        if tables.arithmetic == LINEAR and (tables.log_min[[*whole.wide, *whole.asked]] < -MAX_LINEAR_RANGE).any():
            raise OutOfRangeError

    def _fill_wide(self) -> Iterator[int]:
        """Fill the tables of dense factors of which some may have to stay in logs."""
        whole, tables, in_logs = self.whole, self.workspace.tables, self.arrays.arithmetic == LOG
        found = np.empty(4)
        for factor in whole.wide:
            table = self._pool[self._table_start[factor] : self._table_start[factor + 1]]
            fill_wide(self.layout, whole.sources, self.active, factor, self.scratch.row_base, in_logs, table, found)
            if found[0] == -np.inf:
                raise ImpossibleRoundError([factor])
            tables.log_scale[factor], tables.log_min[factor] = found[:2]
            tables.has_zero[factor], tables.in_logs[factor] = found[2] > 0.0, found[3] > 0.0 and in_logs
            self.arrays.table_min[factor] = np.exp(found[1])
        if whole.wide:
            yield int(sum(self._table_start[f + 1] - self._table_start[f] for f in whole.wide))

    def _ask(self) -> Iterator[int]:
        """Fill the tables of factors that have no numbers in memory, or what they sum instead; yields after each."""
        tables, compiled, asked = self.workspace.tables, self.whole.compiled, self.whole.asked
        for factor in asked:
            states = self.states_of(factor)
            if tables.kind[factor] != TABLE:
                packed = compiled.source(factor)[0].packed(states)
                if packed.range.log_max[0] == -np.inf:
                    raise ImpossibleRoundError([factor])
                tables.place_structure(factor, packed)
                yield packed.work
                continue
            scores = np.empty([1, *(len(own) for own in states)])
            for box, part in compiled.log_parts(factor, states):
                scores[0][box] = part
                yield part.size
            if scores.max() == -np.inf:
                raise ImpossibleRoundError([factor])
            tables.place_log_values(slice(factor, factor + 1), scores)
        self.arrays.table_min[asked] = np.exp(tables.log_min[asked])

    def release(self) -> None:
        """Let go of the tables: messages have settled, and can still be read."""
        self._pool = np.empty(0)
        self.workspace.tables.release()
        self.scratch = _scratch(0, 0)

    def states_of(self, factor: int) -> list[IndexArray]:
        """Return the active states of each of a factor's variables."""
        layout, active = self.layout, self.active
        edges = slice(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1])
        variables = layout.edge_variable[edges].tolist()
        return [active.state[active.start[v] : active.start[v + 1]] for v in variables]

    def ask_outside(self, reach: Reach) -> Iterator[int]:
        """Add what factors without numbers in memory say of the states within reach; yields the scores of each call."""
        layout, arrays, tables = self.layout, self.arrays, self.workspace.tables
        log_weight = np.empty(len(arrays.message) if self.whole.asked else 0)
        if self.whole.asked:
            read_weights(layout, arrays, log_weight)
        for factor in self.whole.asked:
            edges = range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1])
            states = self.states_of(factor)
            weights = [
                log_weight[arrays.edge_slot_start[edge] :][: len(own)] for edge, own in zip(edges, states, strict=True)
            ]
            for axis, edge in enumerate(edges):
                variable = int(layout.edge_variable[edge])
                outside = slice(reach.start[variable], reach.start[variable + 1])
                if outside.start == outside.stop:
                    continue
                told = yield from ask_message(self.whole.compiled, factor, states, weights, axis, reach.state[outside])
                scale = arrays.edge_scale[edge] if arrays.arithmetic == LOG else np.log(arrays.edge_scale[edge])
                reach.log_belief[outside] += told - (scale + tables.log_scale[factor])

    @cached_property
    def active_sizes(self) -> IndexArray:
        """(V,) the active states; all of those of a leaf that was summed out are."""
        return read_only(np.where(self.whole.is_leaf, self.whole.domains.sizes, self.size))

    @cached_property
    def domain_beliefs(self) -> tuple[FloatArray, FloatArray]:
        """The beliefs of active states, and (V,) the logs of what they were divided by, once messages have settled."""
        return beliefs_of(self.whole.compiled, self.layout, self.arrays, self.active.start)

    def beliefs(self, reach: Reach, outside: FloatArray, least: float) -> FloatArray:
        """Return the beliefs of all states of all variables, in order; with scratch of its own, as a look may be on.

        Args:
            reach: States outside with their beliefs, in parts of what the domains hold.
            outside: (V,) their sums.
            least: Log weight under which a state outside does not count for leaves.
        """
        whole = self.whole
        found = np.empty(int(whole.universe_start[-1]))
        place_beliefs(self.active, reach, outside, whole.is_leaf, self.domain_beliefs[0], found)
        if whole.has_leaves:
            arrays = self.arrays._replace(incoming=np.empty(len(self.arrays.incoming)))
            given = self.layout, arrays, whole.sources, self.active, reach, _scratch(*self._room), least
            status, leaf = read_leaves(*given, found)
            if status != OK:
                raise no_belief(whole.compiled, leaf)
        return found
