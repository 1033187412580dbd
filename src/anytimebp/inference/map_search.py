"""The search for the best joint state of a graph: exactly on a junction tree, or by passes and single moves.

The second kind repeats: a pass lowers the bound (`kernels/log_maxima.py`), states are chosen one variable after the
other against the way of the pass, and single variables move to better states until none can. It ends where the bound is
reached, or neither the bound nor the state has improved for some passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError, InternalError
from anytimebp.exact.best_passes import BestPasses
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree
from anytimebp.inference.figures import SLICE_COST, UNLIMITED
from anytimebp.kernels.codes import OK
from anytimebp.kernels.log_maxima import (
    MaximaArrays,
    bound_after_pass,
    choose_states,
    improve_slice,
    pass_slice,
    score_states,
)
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import row_starts
from anytimebp.model.joint_score import joint_log_score
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.results.marginals import REPORT_IT
from anytimebp.results.stop import StopReason
from anytimebp.tables.log_tables import make_log_tables

REACHED = 1e-9  # gap, relative to the score, that counts as none: what rounding leaves
STALLED = 1e-6  # the part of the gap by which the bound must fall in a pass, or it has not improved
MOST_IDLE_PASSES = 12  # without an improvement, after which the search ends; fewer miss late gains of hard models
MOST_PASSES = 2_000
FOR_BLOCKS = (32, 256)  # passes without a better state, after which blocks are moved
BY_CERTAINTY = 4  # passes after one of which states are also chosen in order of certainty
DISAGREEMENT = 1e-6  # between the score of a state and what the tree says of it, relative, that is a defect


class MapSearch:
    """A search, in slices: iterate over `steps`.

    Attributes:
        log_score: Of the best joint state so far, from the factors themselves.
        states: (V,) that state.
        upper_bound: On the log scores of all joint states.
        ending: Why the search is over, or None.
    """

    def __init__(self, compiled: CompiledGraph, domains: Domains, observed: Mapping[int, Observation]) -> None:
        """Start with the best state of each variable by its prior."""
        self._compiled, self._domains, self._observed = compiled, domains, observed
        self.log_score, self.upper_bound = float("-inf"), float("inf")
        self.ending: StopReason | None = None
        self._start = row_starts(domains.sizes)
        self._belief: FloatArray = np.exp(domains.log_prior)
        first = (
            [int(np.argmax(own)) for own in np.split(domains.log_prior, self._start[1:-1])]
            if len(domains.sizes)
            else []
        )
        self.states = self._states_of(np.array(first, dtype=np.int64))
        self._offered: IndexArray | None = None
        self.offer(self.states)

    def _states_of(self, slots: IndexArray) -> IndexArray:
        if self._domains.is_whole:
            return slots.copy()
        states: IndexArray = self._domains.slot_state[self._start[:-1] + slots]
        return states

    def offer(self, states: IndexArray) -> bool:
        """Keep a joint state if it is better than the best so far; return whether it is."""
        if self._offered is not None and np.array_equal(states, self._offered):
            return False
        self._offered = states = states.copy()
        score = joint_log_score(self._compiled.blocks, self._compiled.variables, self._observed, states)
        if score <= self.log_score:
            return False
        self.log_score, self.states = score, states
        self.upper_bound = max(self.upper_bound, score)
        return True

    @property
    def is_best(self) -> bool:
        """Whether the bound is reached."""
        gap = self.upper_bound - self.log_score
        return bool(self.log_score > -np.inf and gap <= REACHED * max(1.0, abs(self.log_score)))

    def max_marginals(self) -> dict[str, FloatArray]:
        """Return (estimated) max-marginals over the universe, by name."""
        found = {}
        for index in range(len(self._domains.sizes)):
            own = self._belief[self._start[index] : self._start[index + 1]]
            whole = np.zeros(int(self._compiled.universe_sizes[index]))
            whole[self._domains.states_of(index)] = own
            found[self._compiled.variables.name(index)] = whole
        return found

    def _inconsistent(self) -> InconsistentModelError:
        given = " under this evidence" if self._observed else ""
        return InconsistentModelError(f"no joint state is possible{given}: every one has a factor that excludes it")

    # ------------------------------------------------------------ on a junction tree
    def exactly(self, tree: Tree) -> Iterator[int | None]:
        """Find the best joint state and all max-marginals on a tree of cliques."""
        domains = self._domains
        tables = yield from make_potentials(self._compiled, domains)
        passes = BestPasses(self._compiled, domains, Part(self._compiled.arrays, domains.sizes), tree, tables)
        while not passes.is_up:
            passes.advance(UNLIMITED, SLICE_COST)
            if not passes.is_possible:
                raise self._inconsistent()
            yield None
        if tree.n == 0:
            passes.state = np.zeros(len(domains.sizes), dtype=np.int64)
        self.offer(self._states_of(passes.state))
        best = float(passes.log_total + np.add.reduce(tables.log_scale) + np.add.reduce(domains.log_prior_scale))
        if not abs(self.log_score - best) <= DISAGREEMENT * max(1.0, abs(best)):
            msg = f"internal error: the best joint state scores {self.log_score}, not {best}; {REPORT_IT}"
            raise InternalError(msg)
        self.upper_bound = self.log_score
        while not passes.is_done:
            passes.advance(UNLIMITED, SLICE_COST)
            yield None
        self._belief, self.ending = passes.belief, StopReason.OPTIMAL

    # ------------------------------------------------------------ by passes
    def by_passes(self, blocks: Callable[[], Iterator[None]] | None = None) -> Iterator[None]:
        """Lower the bound and raise the score, until they meet or neither moves.

        Args:
            blocks: Other moves that may raise the score: made when passes have not raised it for a while.
        """
        tables = yield from make_log_tables(self._compiled, self._domains)
        at = self._arrays(tables.address)
        finite = np.where(at.log_prior > -np.inf, at.log_prior, 0.0)
        floor = -1.0 - tables.span - abs(float(finite.min(initial=0.0))) * len(at.size)
        way, quiet, stale, layout = 1, 0, 0, self._compiled.arrays
        for number in range(MOST_PASSES):
            yield from self._pass(at, way)
            bound = bound_after_pass(layout, at) + float(np.add.reduce(self._domains.log_prior_scale))
            gap = self.upper_bound - self.log_score
            has_fallen = bound < self.upper_bound - (STALLED * gap if gap < np.inf else 0.0)
            self.upper_bound = max(self.log_score, min(self.upper_bound, bound))
            self._read_beliefs(at)
            orders, is_better = [at.order[::-1].copy() if way > 0 else at.order], False
            if number % BY_CERTAINTY == BY_CERTAINTY - 1:
                orders.append(self._by_certainty())
            for order in orders:
                choose_states(layout, at, order, floor)
                yield from self._improve(at, floor)
                is_better |= self._may_be_better(at) and self.offer(self._states_of(at.state))
            quiet, stale = 0 if is_better or has_fallen else quiet + 1, 0 if is_better else stale + 1
            if self.is_best or (blocks is None and quiet >= MOST_IDLE_PASSES):
                break
            if blocks is not None and self.log_score > -np.inf and (quiet >= MOST_IDLE_PASSES or stale in FOR_BLOCKS):
                before = self.log_score
                yield from blocks()
                if self.is_best or (quiet >= MOST_IDLE_PASSES and self.log_score == before):
                    break
            way = -way

    def end(self) -> None:
        """Say how the search has ended, of which nothing more is to come."""
        if self.is_best:
            self.ending = StopReason.OPTIMAL
        else:
            found = self.log_score > -np.inf
            self.ending = StopReason.NO_BETTER_STATE if found else StopReason.NO_POSSIBLE_STATE

    def _arrays(self, address: IndexArray) -> MaximaArrays:
        layout, domains = self._compiled.arrays, self._domains
        edge_start = row_starts(domains.sizes[layout.edge_variable])
        n, largest = len(domains.sizes), int(domains.sizes.max(initial=1))
        log_prior, order = domains.log_prior.copy(), np.arange(n)
        owner = np.repeat(layout.edge_variable, domains.sizes[layout.edge_variable])
        prior_slot = (
            np.arange(int(edge_start[-1])) - np.repeat(edge_start[:-1], np.diff(edge_start)) + self._start[owner]
        )
        arity = int(np.diff(layout.factor_edge_start).max(initial=1))
        return MaximaArrays(
            address=address,
            size=domains.sizes,
            slot_start=self._start,
            log_prior=log_prior,
            order=order,
            rank=order.copy(),
            edge_slot_start=edge_start[:-1].copy(),
            message=np.zeros(int(edge_start[-1])),
            to_factor=np.where(log_prior[prior_slot] > -np.inf, 0.0, -np.inf),
            total=np.empty(largest),
            best=np.empty(largest),
            index=np.empty((3, arity), dtype=np.int64),
            state=np.zeros(n, dtype=np.int64),
        )

    def _pass(self, at: MaximaArrays, way: int) -> Iterator[None]:
        position = 0
        while position < len(at.order):
            status, position, _ = pass_slice(self._compiled.arrays, at, way, position, SLICE_COST)
            if status != OK:
                raise self._inconsistent()
            yield

    def _improve(self, at: MaximaArrays, floor: float) -> Iterator[None]:
        is_pending, is_over = np.ones(len(at.size), dtype=np.bool_), False
        while not is_over:
            is_over, _, _ = improve_slice(self._compiled.arrays, at, is_pending, floor, SLICE_COST)
            yield

    def _may_be_better(self, at: MaximaArrays) -> bool:
        """Tell whether the chosen states may score more than the best so far: tables say so, but for rounding."""
        score = score_states(self._compiled.arrays, at) + float(np.add.reduce(self._domains.log_prior_scale))
        return bool(score > -np.inf and score >= self.log_score - REACHED * max(1.0, abs(score)))

    def _by_certainty(self) -> IndexArray:
        """Return all variables, those first whose best state is the farthest from the next one."""
        if not len(self._domains.sizes):
            return np.empty(0, dtype=np.int64)
        first = self._start[:-1]
        is_best = self._belief >= 1.0
        second = np.maximum.reduceat(np.where(is_best, 0.0, self._belief), first)
        second[np.add.reduceat(is_best.astype(np.int64), first) > 1] = 1.0
        order: IndexArray = np.argsort(second, kind="stable")
        return order

    def _read_beliefs(self, at: MaximaArrays) -> None:
        """Estimate max-marginals by what variables hold."""
        layout = self._compiled.arrays
        held = at.log_prior.copy()
        sizes = at.size[layout.edge_variable]
        edge_start = at.edge_slot_start
        if len(edge_start):
            slot = np.repeat(self._start[layout.edge_variable] - edge_start, sizes) + np.arange(len(at.message))
            np.add.at(held, slot, at.message)
        if len(held):
            held -= np.repeat(np.maximum.reduceat(held, self._start[:-1]), np.diff(self._start))
        self._belief = np.exp(held)


def slots_of(domains: Domains, states: IndexArray) -> BoolArray:
    """Return which slots hold the given state of their variable."""
    every = domains.slot_state
    if domains.is_whole:
        every = np.arange(int(domains.slot_start[-1])) - np.repeat(domains.slot_start[:-1], domains.sizes)
    held: BoolArray = every == np.repeat(states, domains.sizes)
    return held
