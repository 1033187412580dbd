"""What the domains say of all states: one round of messages out of them, asked for in blocks and kept nowhere.

    log b(x)  =  log p(x) + sum over factors f of log o_f(x),   o_f summed over the domains of f's other variables

Factors are asked in the order of their cost, and only about states that can still count: those that fall more than CUT
nats behind the best are left where they are, which is above where they belong, and are taken up again should the best
come down to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.row_sums import log_sum_rows
from anytimebp.model.listed import ListedSource
from anytimebp.model.rule import RuleSource
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.structures import AtMostOneSource
from anytimebp.workspace.compact import CompactTables

CUT = 30.0  # nats behind the best at which a state is not asked about any more
LIGHT = 25.0  # nats behind the best at which a state's weight is left out of sums
MOST_PROPOSED = 64  # states that a rule is asked to propose for a variable


class Outlook(NamedTuple):
    """What is known of one variable's states.

    Attributes:
        states: Those that were looked at; all that the evidence allows unless candidates are proposed.
        log_belief: Of each, up to a constant.
    """

    states: IndexArray
    log_belief: FloatArray


class Lookout:
    """Asks for the outlooks of variables.

    Attributes:
        asked: Scores asked for so far.
    """

    def __init__(self, tables: CompactTables, block: int) -> None:
        """Look out from some domains.

        Args:
            tables: The domains.
            block: Scores to ask for at a time.
        """
        self._tables, self.block = tables, block
        self.asked = 0

    def look(self, variable: int, log_weights: dict[int, FloatArray]) -> Iterator[Outlook | None]:
        """Look at a variable's states; gives None while it works, and the outlook at last.

        Args:
            variable: The variable.
            log_weights: By edge: the log message from its variable to its factor, over the domain, largest 0.
        """
        universe = self._tables.universe
        edges = sorted(self._speaking(variable), key=self._cost)
        states = self._candidates(variable, edges)
        total = universe.log_prior[universe.start[variable] + states]
        heard = np.zeros(len(states), dtype=np.int64)
        shift: dict[int, float] = {}
        while True:
            best = total[heard == len(edges)].max(initial=-np.inf)
            open_now = (heard < len(edges)) & (total >= best - CUT) & (total > -np.inf)
            if not open_now.any():
                break
            for k, edge in enumerate(edges):
                top = total[open_now].max(initial=-np.inf)
                some = np.flatnonzero(open_now & (heard == k) & (total >= top - CUT) & (total > -np.inf))
                if not len(some):
                    continue
                found = np.empty(len(some))
                yield from self._hear(edge, states[some], log_weights, found)
                shift.setdefault(edge, _finite(found.max()))
                total[some] += found - shift[edge]
                heard[some] = k + 1
        yield Outlook(states, total)

    # ------------------------------------------------------------ who speaks, and of what
    def _speaking(self, variable: int) -> list[int]:
        """Return a variable's edges at factors whose other variables have domains."""
        compiled, waiting = self._tables.compiled, self._tables.waiting
        layout, found = compiled.arrays, []
        for edge in compiled.edges_of(variable):
            others = [int(layout.edge_variable[e]) for e in compiled.edges(int(layout.edge_factor[edge])) if e != edge]
            if not waiting[others].any():
                found.append(edge)
        return found

    def _cost(self, edge: int) -> tuple[float, int]:
        compiled = self._tables.compiled
        factor = int(compiled.arrays.edge_factor[edge])
        source, _ = compiled.source(factor)
        if isinstance(source, ListedSource | AtMostOneSource):
            return 0.0, edge
        others = [int(compiled.arrays.edge_variable[e]) for e in compiled.edges(factor) if e != edge]
        return math.prod(float(len(self._tables.states[v])) for v in others), edge

    def _candidates(self, variable: int, edges: list[int]) -> IndexArray:
        """Return the states to look at: all of them, or the domain and what rules propose, if they all can."""
        compiled, universe = self._tables.compiled, self._tables.universe
        found = [self._tables.states[variable]]
        for edge in edges:
            factor = int(compiled.arrays.edge_factor[edge])
            block, offset = compiled.locate(factor)
            if not isinstance(block.source, RuleSource) or block.source.propose is None:
                return universe.allowed_states(variable)
            scope = compiled.edges(factor)
            states = [self._tables.states[int(compiled.arrays.edge_variable[e])] for e in scope]
            found.append(block.partners(offset, states, edge - scope.start, MOST_PROPOSED, compiled.variables))
        if not edges:
            return universe.allowed_states(variable)
        start, end = universe.start[variable], universe.start[variable + 1]
        own = universe.log_prior[start:end]
        if universe.has_scores[variable]:
            found.append(np.argpartition(own, -min(MOST_PROPOSED, len(own)))[-MOST_PROPOSED:])
        candidates = np.unique(np.concatenate(found))
        left: IndexArray = candidates[universe.allowed[start + candidates]]
        return left

    # ------------------------------------------------------------ one factor
    def _hear(
        self, edge: int, states: IndexArray, log_weights: dict[int, FloatArray], found: FloatArray
    ) -> Iterator[None]:
        """Fill the log of what a factor sends to some states of an edge's variable."""
        compiled = self._tables.compiled
        factor = int(compiled.arrays.edge_factor[edge])
        source, _ = compiled.source(factor)
        scope, axis = compiled.edges(factor), edge - compiled.edges(factor).start
        others, weights = [], []
        for e in scope:
            own, weight = self._tables.states[int(compiled.arrays.edge_variable[e])], log_weights[e]
            heavy = weight >= weight.max(initial=-np.inf) - LIGHT if e != edge else np.zeros(len(own), dtype=np.bool_)
            others.append(own[heavy])
            weights.append(weight[heavy])
        if isinstance(source, ListedSource):
            found[:] = _from_list(source, others, weights, axis, states)
            self.asked += len(states)
        elif isinstance(source, AtMostOneSource):
            found[:] = _from_at_most_one(source, others, weights, axis, states)
            self.asked += len(states)
        else:
            yield from self._from_blocks(factor, others, weights, axis, states, found)

    def _from_blocks(
        self,
        factor: int,
        others: list[IndexArray],
        weights: list[FloatArray],
        axis: int,
        states: IndexArray,
        found: FloatArray,
    ) -> Iterator[None]:
        weight = np.zeros(1)
        for k, own in enumerate(weights):
            if k != axis:
                weight = np.add.outer(weight, own).reshape(-1)
        step = max(1, self.block // len(weight))
        for start in range(0, len(states), step):
            chosen = [states[start : start + step] if k == axis else own for k, own in enumerate(others)]
            scores = np.moveaxis(self._tables.compiled.log_values(factor, chosen), axis, 0)
            rows = np.ascontiguousarray(scores.reshape(len(chosen[axis]), -1))
            log_sum_rows(rows, weight, found[start : start + step])
            self.asked += rows.size
            yield


def _from_list(
    source: ListedSource, others: list[IndexArray], weights: list[FloatArray], axis: int, states: IndexArray
) -> FloatArray:
    """Return log o over some states, from the listed entries on the others' domains and the default's share."""
    entries, places = source.inside([states if k == axis else own for k, own in enumerate(others)])
    weight = np.zeros(len(entries))
    total = 0.0
    for k, own in enumerate(weights):
        if k != axis:
            weight += own[places[k]]
            total += math.log(np.exp(own).sum())
    scores = source.log_scores[entries]
    peak = float((scores + weight).max(initial=-np.inf))
    peak = max(peak, source.default + total)
    if peak == -np.inf:
        return np.full(len(states), -np.inf)
    n = len(states)
    listed = np.bincount(places[axis], weights=np.exp(scores + weight - peak), minlength=n)
    share = np.bincount(places[axis], weights=np.exp(weight - total), minlength=n)
    rest = np.exp(source.default + total - peak) * np.maximum(0.0, 1.0 - share)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(listed + rest) + peak)


def _from_at_most_one(
    source: AtMostOneSource, others: list[IndexArray], weights: list[FloatArray], axis: int, states: IndexArray
) -> FloatArray:
    """Return log o over some states: of "on", that no other is on; of the rest, that at most one is."""
    none, one = 1.0, 0.0
    for k, own in enumerate(weights):
        if k != axis:
            share = np.exp(own)
            on = float(share[others[k] == source.states[k]].sum())
            none, one = none * (share.sum() - on), one * (share.sum() - on) + none * on
    with np.errstate(divide="ignore"):
        return np.log(np.where(states == source.states[axis], none, none + one))


def _finite(value: float) -> float:
    return float(value) if value > -np.inf else 0.0
