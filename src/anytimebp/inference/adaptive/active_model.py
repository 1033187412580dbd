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
from anytimebp.kernels.active import fill_active
from anytimebp.kernels.active_readout import place_beliefs, read_leaves
from anytimebp.kernels.active_states import carry_messages, plan_active, take_priors
from anytimebp.kernels.codes import ASKED, LINEAR, MAX_LINEAR_RANGE, OK
from anytimebp.kernels.readout import read_weights
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.scores import log_sum_exp
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.workspace import Workspace

BLOCK = 4096  # entries that a look picks up at a time
FILL_COST = 2**20  # entries that could be read between two looks at the clock


class ImpossibleRoundError(Exception):
    """No joint state of a factor's active states is possible, or its scores are too far apart."""


class Scratch(NamedTuple):
    """Room for kernels.

    Attributes:
        row_base: Where joint active states of a factor lie in its source.
        row_weight: The products of their weights.
        place: Where lines lie that are added up together.
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
    """Return room for factors of so many joint active states, and so many axes."""
    length = max(BLOCK, most)
    whole, real = np.empty(most + BLOCK + arity, dtype=np.int64), np.empty(most + 2 * length + 2 * arity)
    lines, axes = most + length, len(real) - 2 * arity
    return Scratch(
        row_base=whole[:most],
        row_weight=real[:most],
        place=whole[most : most + BLOCK],
        line=real[most:lines],
        told=real[lines:axes],
        offsets=whole[most + BLOCK :],
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
        take_priors(domains.slot_start, domains.slot_state, domains.log_prior, whole.is_leaf, active, prior, low, state)
        self.active = active
        own = Domains(size, start, state, prior, domains.log_prior_scale, low, scored=0)
        self.workspace = Workspace(compiled, own, LINEAR, structures=False)
        layout, n_factors = compiled.arrays, len(whole.sources.kind)
        self._table_start = np.empty(n_factors + 1, dtype=np.int64)
        most = plan_active(layout, size, self._table_start)
        self._pool = np.empty(int(self._table_start[-1]))
        tables = self.workspace.tables
        tables.keep(self._pool)
        tables.address[:] = self._pool.ctypes.data + 8 * self._table_start[:-1]
        tables.has_zero[:] = False
        tables.log_scale[:] = whole.sources.shift
        arity = int(np.diff(layout.factor_edge_start).max(initial=0))
        self.scratch = _scratch(most, arity)
        if before is not None:
            before.put_messages(self.layout, self.arrays, start, slot, np.arange(len(layout.edge_variable)))

    def put_messages(
        self, layout: GraphLayout, arrays: WorkspaceArrays, start: IndexArray, slot: IndexArray, edge: IndexArray
    ) -> None:
        """Put messages in place of those over more states, which get the smallest numbers.

        Nothing is put where there are hard zeros: of states outside, nobody knows which zeros they would lift.

        Args:
            layout: Topology of the messages over more states.
            arrays: These messages, in linear arithmetic; overwritten.
            start: (V + 1,) where each variable's states start.
            slot: Their slots; nothing where these are all.
            edge: (E,) numbers of the edges there.
        """
        if not self.arrays.table_has_zero.any():
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
            yield read
        yield from self._ask()
        np.log(arrays.table_min, out=tables.log_min)

    def _ask(self) -> Iterator[int]:
        """Fill the tables of factors that have no numbers in memory; yields after every call."""
        tables, arrays = self.workspace.tables, self.arrays
        for factor in np.flatnonzero(self.whole.sources.kind == ASKED).tolist():
            states = self.states_of(factor)
            scores = np.empty([len(own) for own in states])
            for box, part in self.whole.compiled.log_parts(factor, states):
                scores[box] = part
                yield part.size
            finite = scores[scores > -np.inf]
            if not finite.size or np.ptp(finite) > MAX_LINEAR_RANGE:
                raise ImpossibleRoundError
            tables.log_scale[factor] = high = finite.max()
            tables.has_zero[factor] = finite.size < scores.size
            arrays.table_min[factor] = np.exp(finite.min() - high)
            self._pool[self._table_start[factor] : self._table_start[factor + 1]] = np.exp(scores - high).ravel()

    def release(self) -> None:
        """Let go of the tables: messages have settled, and can still be read."""
        self._pool = np.empty(0)
        self.workspace.tables.release()

    def states_of(self, factor: int) -> list[IndexArray]:
        """Return the active states of each of a factor's variables."""
        layout, active = self.layout, self.active
        edges = slice(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1])
        variables = layout.edge_variable[edges].tolist()
        return [active.state[active.start[v] : active.start[v + 1]] for v in variables]

    def ask_outside(self, reach: Reach) -> Iterator[int]:
        """Add what factors without numbers in memory say of the states within reach; yields the scores of each call."""
        layout, arrays = self.layout, self.arrays
        asked = np.flatnonzero(self.whole.sources.kind == ASKED).tolist()
        log_weight = np.empty(len(arrays.message) if asked else 0)
        if asked:
            read_weights(layout, arrays, log_weight)
        for factor in asked:
            edges = range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1])
            for axis, edge in enumerate(edges):
                variable = int(layout.edge_variable[edge])
                outside = slice(reach.start[variable], reach.start[variable + 1])
                states = self.states_of(factor)
                states[axis] = reach.state[outside]
                if not len(states[axis]):
                    continue
                scores = np.empty([len(own) for own in states])
                for box, part in self.whole.compiled.log_parts(factor, states):
                    scores[box] = part
                    yield part.size
                for k, other in enumerate(edges):
                    if k != axis:
                        own = log_weight[arrays.edge_slot_start[other] :][: len(states[k])]
                        scores += own.reshape([-1 if k == m else 1 for m in range(len(edges))])
                told = log_sum_exp(scores, tuple(k for k in range(len(edges)) if k != axis))
                scale = np.log(arrays.edge_scale[edge]) + self.workspace.tables.log_scale[factor]
                reach.log_belief[outside] += told - scale

    @cached_property
    def domain_beliefs(self) -> tuple[FloatArray, FloatArray]:
        """The beliefs of active states, and (V,) the logs of what they were divided by, once messages have settled."""
        return beliefs_of(self.whole.compiled, self.layout, self.arrays, self.active.start)

    def beliefs(self, reach: Reach, outside: FloatArray, least: float) -> FloatArray:
        """Return the beliefs of all states of all variables, in order.

        Args:
            reach: States outside with their beliefs, in parts of what the domains hold.
            outside: (V,) their sums.
            least: Log weight under which a state outside does not count for leaves.
        """
        whole = self.whole
        found: FloatArray = np.zeros(int(whole.universe_start[-1]))
        place_beliefs(self.active, reach, outside, whole.is_leaf, self.domain_beliefs[0], found)
        if whole.has_leaves:
            given = self.layout, self.arrays, whole.sources, self.active, reach, self.scratch, least
            status, leaf = read_leaves(*given, found)
            if status != OK:
                raise no_belief(whole.compiled, leaf)
        return found
