"""Fixed growth priorities: a first guess of the marginals from every factor alone, computed once.

    raw(v)         =  sum over the factors f of the variable of log sum exp phi_f over all joint states with that v
    normalised(v)  =  raw(v) - log sum exp of raw over the variable's universe

Evidence counts: sums are over the states that it allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from anytimebp.domains.domains import Universe
from anytimebp.kernels.codes import MAX_LINEAR_RANGE
from anytimebp.kernels.table_sums import table_sums_slice
from anytimebp.layout.graph_layout import MessageBlock
from anytimebp.model.factor import FactorBlock
from anytimebp.model.kinds.dense import DenseSource
from anytimebp.model.scores import log_sum_exp, log_sum_exp_rows
from anytimebp.model.source import ASKED_AT_ONCE, FloatArray, IndexArray

DIGITS = 10  # of sums of structures, so that equal sums stay equal and ties are broken by index
SLICE_ENTRIES = 2**19  # read between two looks at the clock


class FixedPriorities:
    """Computes priorities in slices.

    Attributes:
        work: Entries read.
    """

    def __init__(self, universe: Universe, work: int = 0) -> None:
        """Start with the priors; `work` is the work that these took, if it is to be counted here."""
        self._universe = universe
        self.work = work

    @cached_property
    def raw(self) -> FloatArray:
        """(U,) per (variable, state) pair; -inf for what the evidence excludes."""
        universe = self._universe
        raw: FloatArray = np.repeat(universe.log_prior_scale, np.diff(universe.start))
        raw += universe.log_prior
        raw[~universe.allowed] = -np.inf
        return raw

    def compute(self, wanted: npt.NDArray[np.bool_], most: float = np.inf) -> Iterator[None]:
        """Add the sums over the factors of the wanted variables; a generator that pauses.

        Args:
            wanted: (V,) whose priorities are needed.
            most: Factors that must be asked for more scores than this are left out.
        """
        cut = self._universe.n_allowed < self._universe.compiled.universe_sizes
        for message_block in self._universe.compiled.message_blocks:
            scopes, tables = message_block.block.scopes, message_block.block.source.tables
            useful = wanted[scopes].any(axis=1)
            by_hand: npt.NDArray[np.bool_] = np.ones(len(scopes), dtype=np.bool_)
            if tables is not None and _is_narrow(tables):
                by_hand = np.asarray(cut[scopes].any(axis=1))
                yield from self._dense(message_block, tables, np.flatnonzero(useful & ~by_hand))
            for offset in np.flatnonzero(useful & by_hand).tolist():
                states = [self._universe.allowed_states(i) for i in scopes[offset].tolist()]
                if message_block.block.source.has_log_message:
                    self._add_sums(message_block.block, offset, states)
                    yield
                    continue
                if np.prod([float(len(s)) for s in states]) > most:
                    continue
                yield from self._by_hand(message_block.block, offset, states)

    def normalised(self) -> FloatArray:
        """Return the priorities less the logsumexp of each variable's."""
        start = self._universe.start
        total = log_sum_exp_rows(self.raw, start)
        scores: FloatArray = self.raw - np.repeat(np.where(total > -np.inf, total, 0.0), np.diff(start))
        return scores

    def _dense(self, message_block: MessageBlock, source: DenseSource, offsets: IndexArray) -> Iterator[None]:
        """Read the tables of whole factors of one shape."""
        if not len(offsets):
            return
        tied = source.n_members == 1
        members = np.zeros(1, dtype=np.int64) if tied else offsets
        address = np.array(source.member_addresses(), dtype=np.int64)[members]
        shift = source.range.log_max[members] if source.is_log else np.zeros(len(members))
        n = source.shape[-1]
        rows = int(np.prod(source.shape[:-1]))
        row_sum, column_sum = np.empty((len(members), rows)), np.zeros((len(members), n))
        table, row, line = 0, 0, np.empty(n)
        while table < len(members):
            table, row = table_sums_slice(
                address, shift, source.is_log, row_sum, column_sum, line, table, row, SLICE_ENTRIES
            )
            yield
        self.work += rows * n * len(members)
        lead = row_sum.reshape(len(members), *source.shape[:-1])
        axes = range(1, len(source.shape))
        sums = [lead.sum(axis=tuple(k for k in axes if k != axis)) for axis in axes] + [column_sum]
        with np.errstate(divide="ignore"):
            logs = [np.log(values) + shift[:, np.newaxis] for values in sums]
        scopes = message_block.block.scopes[offsets]
        for axis, values in enumerate(logs):
            position = self._universe.start[scopes[:, axis], np.newaxis] + np.arange(source.shape[axis])
            np.add.at(self.raw, position, np.broadcast_to(values, position.shape))

    def _add_sums(self, block: FactorBlock, offset: int, states: list[IndexArray]) -> None:
        """Ask a structure for its sums, which does not go through its joint states."""
        flat = [np.zeros(len(own)) for own in states]
        for axis, (variable, own) in enumerate(zip(block.scopes[offset].tolist(), states, strict=True)):
            sums = block.source.log_message(states, flat, axis, own)
            self.raw[self._universe.start[variable] + own] += np.round(sums, DIGITS)
        self.work += int(block.source.update_entries(np.array([[len(own) for own in states]], dtype=np.float64))[0])

    def _by_hand(self, block: FactorBlock, offset: int, states: list[IndexArray]) -> Iterator[None]:
        """Ask for the scores of one factor, a part at a time."""
        sums = [np.full(len(s), -np.inf) for s in states]
        for box, values in block.log_parts(offset, states, self._universe.compiled.variables, ASKED_AT_ONCE // 2):
            self.work += values.size
            for axis, position in enumerate(box):
                found = log_sum_exp(values, tuple(k for k in range(len(states)) if k != axis))
                sums[axis][position] = np.logaddexp(sums[axis][position], found)
            yield
        for variable, allowed, values in zip(block.scopes[offset].tolist(), states, sums, strict=True):
            self.raw[self._universe.start[variable] + allowed] += values


def _is_narrow(source: DenseSource) -> bool:
    """Tell whether exponentials of all scores can be added without losing any."""
    known = source.range
    if source.is_log:
        return bool((known.log_max - known.log_min < MAX_LINEAR_RANGE).all())
    return source.is_plain
