"""Domains that grow in batches, and tables over them: every entry is asked for once.

A variable may be *undecided*: too little tells its states apart, so it has no domain and takes no part. Its factors
stand still, as if they scored everything alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.domains.universe import Universe
from anytimebp.kernels.codes import LINEAR, LOG, MAX_LINEAR_RANGE, TABLE
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.kinds.listed import flat_list
from anytimebp.model.source import ASKED_AT_ONCE, FloatArray, IndexArray, cut
from anytimebp.tables.boxes import new_boxes
from anytimebp.tables.sizes import factor_entries
from anytimebp.tables.workspace import Workspace


class ImpossibleError(Exception):
    """No joint state of a factor's domains is possible."""


class GrownTable:
    """One factor's table over its domains, in a scale in which the largest number is 1 (0 in logs).

    Attributes:
        values: The numbers.
        log_scale: What to add to their logs.
        log_min: Log of the smallest positive one.
        has_zero: Whether there are zeros.
        in_logs: Whether they are logs.
    """

    def __init__(self, arity: int) -> None:
        """Start without entries."""
        self.values = np.empty((0,) * arity)
        self.log_scale, self.log_min = -np.inf, 0.0
        self.has_zero = self.in_logs = False

    def enlarge(self, shape: tuple[int, ...]) -> None:
        """Make room for more entries, with those that are there in the first places."""
        old = self.values
        self.values = np.empty(shape)
        self.values[tuple(slice(0, n) for n in old.shape)] = old

    def put(self, box: tuple[slice, ...], log_scores: FloatArray, filled: list[tuple[slice, ...]]) -> None:
        """Write entries into a box; `filled` are the boxes that hold something already."""
        finite = log_scores[log_scores > -np.inf]
        self.has_zero |= len(finite) < log_scores.size
        low, high = (finite.min(), finite.max()) if len(finite) else (np.inf, -np.inf)
        by = float(high) - self.log_scale if high > self.log_scale > -np.inf else 0.0
        if self.log_min - by < -MAX_LINEAR_RANGE:
            self.turn(filled, in_logs=True)  # before numbers are scaled down to nothing
        if high > self.log_scale:
            self._shift(by, filled)
            self.log_scale = float(high)
        if len(finite):
            self.log_min = min(self.log_min, float(low) - self.log_scale)
        if self.log_min < -MAX_LINEAR_RANGE:
            self.turn(filled, in_logs=True)
        scale = self.log_scale if self.log_scale > -np.inf else 0.0
        self.values[box] = log_scores - scale if self.in_logs else np.exp(log_scores - scale)

    def _shift(self, by: float, filled: list[tuple[slice, ...]]) -> None:
        for box in filled:
            if self.in_logs:
                self.values[box] -= by
            else:
                self.values[box] *= np.exp(-by)
        self.log_min -= by

    def turn(self, filled: list[tuple[slice, ...]], *, in_logs: bool) -> None:
        """Turn numbers to logs, or back."""
        if in_logs != self.in_logs:
            with np.errstate(divide="ignore"):
                for box in filled:
                    (np.log if in_logs else np.exp)(self.values[box], out=self.values[box])
            self.in_logs = in_logs


class CompactTables:
    """The domains of a run that grows in batches, with their tables.

    Attributes:
        universe: All states.
        states: (V,) the domain of each variable, in the order in which its states joined.
        undecided: (V,) which variables have no domain yet.
        arithmetic: In which sums are to be done.
        asked: Scores asked for so far.
    """

    def __init__(self, universe: Universe, block: int = ASKED_AT_ONCE) -> None:
        """Start with all variables undecided; ask for `block` scores at a time."""
        n = len(universe.n_allowed)
        self.universe, self._block = universe, block
        self.compiled: CompiledGraph = universe.compiled
        self.states: list[IndexArray] = [np.empty(0, dtype=np.int64)] * n
        self.undecided = np.ones(n, dtype=np.bool_)
        self.arithmetic = LINEAR
        self.asked = 0
        self._tables: dict[int, GrownTable] = {}
        self._ones = np.ones(1)

    def join(self, variable: int, states: IndexArray) -> None:
        """Let states join a domain, which none of them is in."""
        self.states[variable] = np.concatenate([self.states[variable], states])
        self.undecided[variable] = False

    @property
    def sizes(self) -> IndexArray:
        """(V,) domain sizes; 1 for a variable that is undecided, in whose place one state stands still."""
        return np.array([max(1, len(own)) for own in self.states], dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.values.nbytes for table in self._tables.values())

    def entries(self, sizes: IndexArray) -> FloatArray:
        """Return (F,) the numbers of each factor's table or list over domains of these sizes."""
        numbers = factor_entries(self.compiled.arrays, sizes)
        for first, block in self.compiled.message_blocks:
            each = sizes[block.scopes].astype(np.float64)
            listed = np.flatnonzero(block.source.is_structured(each))
            numbers[first + listed] = block.source.most_words(each[listed])
        return numbers

    def domains(self) -> Domains:
        """Return the domains as a run over fixed domains wants them; it owns its arrays."""
        universe, sizes = self.universe, self.sizes
        slot_start = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=slot_start[1:])
        states = [own if len(own) else universe.allowed_states(v)[:1] for v, own in enumerate(self.states)]
        slot_state = np.concatenate([*states, np.empty(0, dtype=np.int64)])
        log_prior = np.zeros(int(slot_start[-1]))
        scale, low = np.zeros(len(sizes)), np.zeros(len(sizes))
        for variable, own in enumerate(self.states):
            if len(own):
                prior = universe.log_prior[universe.start[variable] + own]
                scale[variable] = prior.max()
                prior = prior - scale[variable] if scale[variable] > -np.inf else prior
                log_prior[slot_start[variable] : slot_start[variable + 1]] = prior
                low[variable] = prior[prior > -np.inf].min(initial=0.0)
        return Domains(sizes, slot_start, slot_state, log_prior, scale + universe.log_prior_scale, low, scored=0)

    def fill(self, workspace: Workspace) -> Iterator[None]:
        """Give a run its tables; asks for the entries that are new."""
        tables, layout = workspace.tables, self.compiled.arrays
        self.arithmetic, before = tables.arithmetic, self.asked
        tables.are_borrowed = True  # they move when the domains grow
        for factor in range(len(tables.kind)):
            variables = layout.edge_variable[layout.factor_edge_start[factor] : layout.factor_edge_start[factor + 1]]
            source, _ = self.compiled.source(factor)
            states = [self.states[v] for v in variables.tolist()]
            if self.undecided[variables].any():
                self._stand_still(workspace, factor, variables)
            elif tables.kind[factor] != TABLE:
                packed = source.packed(states)
                if packed.range.log_max[0] == -np.inf:
                    raise ImpossibleError
                tables.place_structure(factor, packed)
            else:
                table = self._tables.setdefault(factor, GrownTable(len(states)))
                for _ in self._grow(table, factor, states):
                    tables.scored += self.asked - before
                    before = self.asked
                    yield
                self._place(workspace, factor, table)
        np.exp(tables.log_min, out=workspace.arrays.table_min)
        yield

    def _grow(self, table: GrownTable, factor: int, states: list[IndexArray]) -> Iterator[None]:
        """Ask for the entries that are not there yet, a block at a time."""
        old, new = table.values.shape, tuple(len(own) for own in states)
        if old == new:
            return
        table.enlarge(new)
        filled = [tuple(slice(0, n) for n in old)]
        for box in new_boxes(old, new):
            for part in cut(box, self._block):
                chosen = [own[place] for own, place in zip(states, part, strict=True)]
                table.put(part, self.compiled.log_values(factor, chosen), filled)
                filled.append(part)
                self.asked += table.values[part].size
                yield

    def _place(self, workspace: Workspace, factor: int, table: GrownTable) -> None:
        if table.log_scale == -np.inf:
            raise ImpossibleError
        tables = workspace.tables
        wide = table.log_min < -MAX_LINEAR_RANGE
        everything = [tuple(slice(0, n) for n in table.values.shape)]
        if tables.arithmetic == LOG or table.log_min >= -MAX_LINEAR_RANGE:
            table.turn(everything, in_logs=tables.arithmetic == LOG and wide)
        tables.kind[factor] = TABLE
        tables.address[factor] = table.values.ctypes.data
        tables.log_scale[factor] = table.log_scale
        tables.log_min[factor], tables.has_zero[factor] = table.log_min, table.has_zero
        tables.in_logs[factor] = table.in_logs

    def _stand_still(self, workspace: Workspace, factor: int, variables: IndexArray) -> None:
        """Give a factor a table of ones, or what stands for one where a table was never meant to be."""
        if workspace.tables.kind[factor] != TABLE:
            workspace.tables.place_structure(factor, flat_list(workspace.arrays.domain_size[variables]))
            return
        size = int(np.prod(workspace.arrays.domain_size[variables]))
        if len(self._ones) < size:
            self._ones = np.ones(2 * size)
        tables = workspace.tables
        tables.keep(self._ones)
        tables.kind[factor], tables.address[factor] = TABLE, self._ones.ctypes.data
        tables.log_scale[factor] = tables.log_min[factor] = 0.0
        tables.has_zero[factor] = tables.in_logs[factor] = False
