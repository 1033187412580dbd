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
from anytimebp.inference.adaptive.whole_model import Active, ActiveLists, Candidates, WholeModel
from anytimebp.inference.look.asking import ask_message, ask_table, heaviest
from anytimebp.inference.readout import beliefs_of, no_belief
from anytimebp.kernels.active import fill_active
from anytimebp.kernels.active_readout import place_beliefs, read_leaves
from anytimebp.kernels.active_states import carry_messages, plan_active, take_priors
from anytimebp.kernels.active_wide import fill_wide
from anytimebp.kernels.codes import LINEAR, LOG, MAX_LINEAR_RANGE, OK, TABLE
from anytimebp.kernels.readout import read_weights
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.kinds.listed import flat_list
from anytimebp.model.source import BoolArray, FloatArray, IndexArray, States, read_only
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.workspace import Workspace

BLOCK = 1024  # entries that a look picks up at a time
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
        position: Where entries lie that are picked up together, or lines that are added up together.
        line: Entries that are picked up together, or weights of such lines.
        told: Sums of them.
        offsets: By axis of a factor, where its weights start.
        peak: By axis, what they were divided by.
        log_peak: By axis, the log of what they were divided by besides.
    """

    row_base: IndexArray
    row_weight: FloatArray
    position: IndexArray
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
        position=whole[most : most + length],
        line=real[most:lines],
        told=real[lines:axes],
        offsets=whole[most + length :],
        peak=real[axes : axes + arity],
        log_peak=real[axes + arity :],
    )


class ActiveModel:
    """One round's states, tables and messages.

    A variable may be *undecided*: too little tells its states apart, so one of them stands for all. Its factors say
    nothing, as if they scored everything alike.

    Attributes:
        undecided: (V,) which variables are; None if there are none.
        sources: Where the numbers of factors lie; nowhere for those that say nothing.
        asked: Factors that are asked from Python, and those that say nothing.
        scores: The tables of those that were asked for, by factor, until the next round has taken them over.
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
        undecided: BoolArray | None = None,
    ) -> None:
        """Allocate everything; `fill` makes the tables.

        Args:
            whole: The graph.
            lists: Sizes, starts and slots of the active states.
            before: A model of fewer states to take messages from, and scores that rules were asked for.
            arithmetic: LINEAR or LOG; no leaves are summed out in logs.
            undecided: (V,) variables of one state that stands for all.

        Raises:
            OutOfRangeError: Where priors are too far apart for linear arithmetic.
        """
        size, start, slot = lists
        self.whole, self.size, self.undecided = whole, size, undecided
        self.sources, self.asked, self._wide = whole.sources, whole.asked, whole.wide
        self._is_silent = np.zeros(len(whole.sources.kind), dtype=np.bool_)
        if undecided is not None:
            self._silence(undecided)
        self.scores: dict[int, FloatArray] = {}
        self._before = before
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
        self._room = plan_active(layout, self.sources.address, size, self._table_start)
        self._pool = np.empty(int(self._table_start[-1]))
        tables = self.workspace.tables
        tables.keep(self._pool)
        tables.address[:] = self._pool.__array_interface__["data"][0] + 8 * self._table_start[:-1]
        tables.has_zero[:] = False
        tables.log_scale = shift
        self.scratch = _scratch(*self._room)
        if before is not None:
            before.put_messages(self.layout, self.arrays, start, slot, np.arange(len(layout.edge_variable)))

    def _silence(self, undecided: BoolArray) -> None:
        """Have the factors of undecided variables say nothing."""
        whole, layout = self.whole, self.whole.compiled.arrays
        self._is_silent = np.logical_or.reduceat(undecided[layout.edge_variable], layout.factor_edge_start[:-1])
        self.sources = whole.sources._replace(address=np.where(self._is_silent, 0, whole.sources.address))
        self.asked = np.union1d(whole.asked, np.flatnonzero(self._is_silent)).astype(np.int64).tolist()
        self._wide = [factor for factor in whole.wide if not self._is_silent[factor]]

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
                self.sources,
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
        unknown = [*self._wide, *self.asked]
        if unknown:
            yield from self._fill_wide()
            yield from self._ask()
            if tables.arithmetic == LINEAR and (tables.log_min[unknown] < -MAX_LINEAR_RANGE).any():
                raise OutOfRangeError
        self._before = None

    def _fill_wide(self) -> Iterator[int]:
        """Fill the tables of dense factors of which some may have to stay in logs."""
        whole, tables, in_logs = self.whole, self.workspace.tables, self.arrays.arithmetic == LOG
        found = np.empty(4)
        for factor in self._wide:
            table = self._pool[self._table_start[factor] : self._table_start[factor + 1]]
            fill_wide(self.layout, whole.sources, self.active, factor, self.scratch.row_base, in_logs, table, found)
            if found[0] == -np.inf:
                raise ImpossibleRoundError([factor])
            tables.log_scale[factor], tables.log_min[factor] = found[:2]
            tables.has_zero[factor], tables.in_logs[factor] = found[2] > 0.0, found[3] > 0.0 and in_logs
            self.arrays.table_min[factor] = np.exp(found[1])
        if self._wide:
            yield int(sum(self._table_start[f + 1] - self._table_start[f] for f in self._wide))

    def _ask(self) -> Iterator[int]:
        """Fill the tables of factors that have no numbers in memory, or what they sum instead; yields after each."""
        tables, compiled = self.workspace.tables, self.whole.compiled
        for factor in self.asked:
            states = self.states_of(factor)
            if tables.kind[factor] != TABLE:
                is_silent, sizes = self._is_silent[factor], np.array([len(own) for own in states])
                packed = flat_list(sizes) if is_silent else compiled.source(factor)[0].packed(states)
                if packed.range.log_max[0] == -np.inf:
                    raise ImpossibleRoundError([factor])
                tables.place_structure(factor, packed)
                yield packed.work
            elif self._is_silent[factor]:
                tables.place_log_values(slice(factor, factor + 1), np.zeros((1, *(len(own) for own in states))))
            else:
                scores = yield from ask_table(compiled, factor, states, self._known_scores(factor), self.whole.block)
                if scores.max() == -np.inf:
                    raise ImpossibleRoundError([factor])
                tables.place_log_values(slice(factor, factor + 1), scores)
                self.scores[factor] = scores[0]
        self.arrays.table_min[self.asked] = np.exp(tables.log_min[self.asked])

    def _known_scores(self, factor: int) -> tuple[States, FloatArray] | None:
        """Return the states of a factor, and its scores on them, as far as the round before has asked for them."""
        before = self._before
        if before is None or factor not in before.scores:
            return None
        values, tables = before.scores.pop(factor), before.workspace.tables
        with np.errstate(divide="ignore"):
            known: FloatArray = values.copy() if tables.in_logs[factor] else np.log(values)
        known += tables.log_scale[factor]
        return before.states_of(factor), known

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

    @cached_property
    def log_weights(self) -> FloatArray:
        """The logs of messages from variables to factors, per edge slot, once they have settled."""
        found = np.empty(len(self.arrays.message))
        read_weights(self.layout, self.arrays, found)
        return found

    def heavy(self, edge: int, left_out: float) -> tuple[IndexArray, FloatArray]:
        """Return the states of an edge's variable that have most of its weight, and the logs of their weights."""
        variable, start = int(self.layout.edge_variable[edge]), self.arrays.edge_slot_start[edge]
        states = self.active.state[self.active.start[variable] : self.active.start[variable + 1]]
        return heaviest(states, self.log_weights[start : start + len(states)], left_out)

    def ask_outside(
        self, candidates: Candidates, left_out: float = 0.0, skipped: BoolArray | None = None
    ) -> Iterator[int]:
        """Add what factors without numbers in memory say of the candidates; yields the scores of each call.

        Args:
            candidates: States outside.
            left_out: Part of the weight of each variable that sums may leave out.
            skipped: (V,) variables of which nothing is asked; None for none.
        """
        layout, arrays, tables = self.layout, self.arrays, self.workspace.tables
        for factor in self.asked:
            edges = range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1])
            listeners = [
                edge for edge in self.listeners(edges) if skipped is None or not skipped[layout.edge_variable[edge]]
            ]
            weighed = [self.heavy(edge, left_out) for edge in edges] if listeners else []
            states, weights = [own for own, _ in weighed], [weight for _, weight in weighed]
            for edge in listeners:
                variable = int(layout.edge_variable[edge])
                outside, axis = slice(candidates.start[variable], candidates.start[variable + 1]), edge - edges.start
                if outside.start == outside.stop:
                    continue
                given = factor, states, weights, axis, candidates.state[outside], self.whole.block
                told = yield from ask_message(self.whole.compiled, *given)
                scale = arrays.edge_scale[edge] if arrays.arithmetic == LOG else np.log(arrays.edge_scale[edge])
                candidates.log_belief[outside] += told - (scale + tables.log_scale[factor])

    def speaking(self, factors: list[int]) -> list[int]:
        """Return those of some factors that say something."""
        return [factor for factor in factors if not self._is_silent[factor]]

    def listeners(self, edges: range) -> list[int]:
        """Return the edges of a factor to which it can send: those beside which no variable is undecided."""
        if self.undecided is None:
            return list(edges)
        waits = [edge for edge in edges if self.undecided[self.layout.edge_variable[edge]]]
        return list(edges) if not waits else waits if len(waits) == 1 else []

    def unheard(self) -> float:
        """Return what undecided variables add to log Z by the priors of all their states, beside the one for all."""
        domains, added = self.whole.domains, 0.0
        for v in np.flatnonzero(self.undecided).tolist() if self.undecided is not None else ():
            own = domains.log_prior[domains.slot_start[v] : domains.slot_start[v + 1]]
            added += float(np.log(np.exp(own).sum()) - domains.log_prior[self.active.slot[self.active.start[v]]])
        return added

    @cached_property
    def active_sizes(self) -> IndexArray:
        """(V,) the active states; all of those of a leaf that was summed out are."""
        return read_only(np.where(self.whole.is_leaf, self.whole.domains.sizes, self.size))

    @cached_property
    def domain_beliefs(self) -> tuple[FloatArray, FloatArray]:
        """The beliefs of active states, and (V,) the logs of what they were divided by, once messages have settled."""
        return beliefs_of(self.whole.compiled, self.layout, self.arrays, self.active.start)

    def beliefs(self, candidates: Candidates, outside: FloatArray, left_out: float, least: float) -> FloatArray:
        """Return the beliefs of all states of all variables, in order; with scratch of its own, as a look may be on.

        Args:
            candidates: States outside with their beliefs, in parts of what the domains hold.
            outside: (V,) their sums.
            left_out: Part of the weight of a factor's joint active states that leaves do not count.
            least: Log weight under which a state outside does not count for leaves.
        """
        whole = self.whole
        found = np.empty(int(whole.universe_start[-1]))
        belief = self.domain_beliefs[0]
        if self.undecided is not None:  # what a look has found is all that is known of these
            belief = np.where(np.repeat(self.undecided, self.size), 0.0, belief)
        place_beliefs(self.active, candidates, outside, whole.is_leaf, read_only(belief), found)  # always of one type
        if whole.has_leaves:
            arrays = self.arrays._replace(incoming=np.empty(len(self.arrays.incoming)))
            given = self.layout, arrays, whole.sources, self.active, candidates, _scratch(*self._room)
            status, leaf = read_leaves(*given, left_out, least, found)
            if status != OK:
                raise no_belief(whole.compiled, leaf)
        return found
