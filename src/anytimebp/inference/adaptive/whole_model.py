"""What all rounds of `adaptive` on a graph have in common: where numbers come from, leaves, priors, candidates."""

from __future__ import annotations

from collections.abc import Generator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.kernels.active_states import choose_likely, find_candidates, join_likely, weigh_offers
from anytimebp.kernels.codes import ASKED, SCALED, STRUCTURED, WIDE_TABLE
from anytimebp.kernels.exponentiate import exponentiate_slice
from anytimebp.kernels.setting_up import find_leaves, find_sources, leave_edges
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_starts
from anytimebp.model.source import ASKED_AT_ONCE, BoolArray, FloatArray, IndexArray

MANY_TIED = 8  # factors that share a log table, from which on it is exponentiated once and for all of them
STEPS = 2  # of a nat, in which the depth of priors is measured
SAMPLE = 2048  # scores of a rule that are looked at to tell their range

ActiveLists = tuple[IndexArray, IndexArray, IndexArray]
"""(V,) how many active states a variable has, (V + 1,) where they start, and their slots."""


class Sources(NamedTuple):
    """Where the numbers of factors lie. F factors, E edges.

    Attributes:
        address: (F,) of dense factors, 0 for those that are asked from Python; of SCALED ones after `locate`.
        kind: (F,) LOG_TABLE, POTENTIALS, SCALED, WIDE_TABLE, ASKED or STRUCTURED.
        shift: (F,) what to subtract from log scores.
        size: (F,) entries at the address.
        edge_stride: (E,) entries between two states of the edge's variable.
        leaf: (F,) the variable that is summed out, or -1.
        leaf_stride: (F,) entries between two of its states.
    """

    address: IndexArray
    kind: IndexArray
    shift: FloatArray
    size: IndexArray
    edge_stride: IndexArray
    leaf: IndexArray
    leaf_stride: IndexArray


class Active(NamedTuple):
    """Active states. Of a leaf that is summed out, one stands for all.

    Attributes:
        start: (V + 1,) where each variable's start.
        slot: Their slots among those of all states that the evidence allows.
        state: The states.
        universe_start: (V + 1,) where each variable's states start in a row of all of them.
        leaf_weight: Priors in that row, zero where evidence excludes a state; nothing where there are no leaves.
        shift: (F,) what was subtracted from the log scores of tables over them.
    """

    start: IndexArray
    slot: IndexArray
    state: IndexArray
    universe_start: IndexArray
    leaf_weight: FloatArray
    shift: FloatArray


class Candidates(NamedTuple):
    """States outside the domains that a look takes in.

    Attributes:
        start: (V + 1,) where each variable's start.
        slot: Their slots among those of all states that the evidence allows.
        state: The states.
        log_belief: Log prior and log messages, as far as added up.
        belief: In parts of what the domain holds.
        cut: (V,) sum of the priors of states that are neither active nor candidates.
        edge_start: (E,) where the messages of each edge to these states start.
        told: The logs of these messages, where they are needed for the beliefs of leaves.
    """

    start: IndexArray
    slot: IndexArray
    state: IndexArray
    log_belief: FloatArray
    belief: FloatArray
    cut: FloatArray
    edge_start: IndexArray
    told: FloatArray


class WholeModel:
    """What all rounds on a graph have in common.

    Attributes:
        graph: The graph.
        compiled: The same, with a layout without the leaves that are summed out.
        edge: (E,) numbers in the graph of the edges that are left.
        domains: All states that the evidence allows.
        sources: Where numbers come from.
        asked: Factors that are asked from Python.
        n_structures: How many of these are lists or structures.
        wide: Dense factors whose range may need logs.
        log_entries: Of all tables that are log scores, which full BP exponentiates.
        constrains: (F,) factors that have hard zeros, as far as is known, or no table.
        is_constrained: Whether there are any of these.
        is_leaf: (V,) variables that are summed out.
        has_leaves: Whether there are any.
        can_wait: Whether beliefs may be made when somebody reads them: leaves have our own tables, and cannot vanish.
        universe_start: (V + 1,) where each variable's states start in a row of all of them.
        leaf_weight: Priors in that row, if there are leaves.
        block: Scores that rules are asked for at a time.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        domains: Domains,
        *,
        sum_out: bool,
        prior: FloatArray | None = None,
        owner: object = None,
    ) -> None:
        """Find where numbers come from, and the leaves, if they are to be summed out.

        Args:
            compiled: The graph.
            domains: All states that the evidence allows; log priors of leaves that are summed out may be missing.
            sum_out: Whether leaves are to be summed out.
            prior: The exponentials of log priors, if they are there.
            owner: Of the memory that priors are in; held.
        """
        self.block = ASKED_AT_ONCE
        self.graph = self.compiled = compiled
        self.domains = domains
        layout, extent, n_variables = compiled.arrays, compiled.extent, len(domains.sizes)
        n_factors, n_edges = len(extent.log_max), len(layout.edge_variable)
        self.universe_start = domains.slot_start if domains.is_whole else row_starts(compiled.universe_sizes)
        numbers, edges = np.empty((5, n_factors), dtype=np.int64), np.empty((2, n_edges), dtype=np.int64)
        kind, address, size, leaf, leaf_stride = numbers
        self.sources = Sources(address, kind, np.empty(n_factors), size, edges[1], leaf, leaf_stride)
        found = find_sources(compiled.rows, extent.log_max, extent.log_min, MANY_TIED, self.sources)
        n_asked, n_wide = found[:2]
        self.log_entries: int = found[2]
        self.asked: list[int] = np.flatnonzero(kind == ASKED).tolist() if n_asked else []
        self.n_structures = self._find_structures() if n_asked else 0
        self.constrains = extent.has_zero | (kind == ASKED) | (kind == STRUCTURED) if n_asked else extent.has_zero
        self.wide: list[int] = np.flatnonzero(kind == WIDE_TABLE).tolist() if n_wide else []
        self.is_leaf = np.empty(n_variables, dtype=np.bool_)
        n_left, n_others = find_leaves(layout, compiled.universe_sizes, sum_out, edges[0], self.sources, self.is_leaf)
        self.edge, self.has_leaves = edges[0, :n_left], n_left < n_edges
        if self.has_leaves:
            self.compiled = compiled.with_topology(_without_leaves(layout, self.edge))
            self.sources = self.sources._replace(edge_stride=edges[1, :n_left])
        self.is_constrained = bool(self.constrains.any())
        self.can_wait = self.has_leaves and n_others == 0 and not self.is_constrained
        self._owners = [np.empty(0)]
        self._prior = np.exp(domains.log_prior) if prior is None else prior
        self._owner = owner
        self._nowhere = np.empty(0, dtype=np.int64)
        self.leaf_weight = self._prior

    def _find_structures(self) -> int:
        """Tell lists and structures from others that are asked; return how many there are."""
        kind = self.sources.kind
        for first, block in self.compiled.message_blocks:
            if block.source.sums is not None:
                own = kind[first : first + len(block.scopes)]
                own[own == ASKED] = STRUCTURED
        return int(np.count_nonzero(kind == STRUCTURED))

    def locate(self) -> None:
        """Exponentiate tables that many factors share, once rounds are to be made."""
        address, kind, shift = self.sources.address, self.sources.kind, self.sources.shift
        for first, block in self.compiled.message_blocks:
            if kind[first] == SCALED:
                made = np.empty(int(self.sources.size[first]))
                given, size = address[first : first + 1].copy(), self.sources.size[first : first + 1]
                address[first : first + len(block.scopes)] = made.__array_interface__["data"][0]
                exponentiate_slice(given, address[first:], size, shift[first : first + 1], 0, 0, len(made))
                self._owners.append(made)
        if self.has_leaves and not self.domains.is_whole:
            self.leaf_weight = np.zeros(int(self.universe_start[-1]))
            first_slot = np.repeat(self.universe_start[:-1], self.domains.sizes)
            self.leaf_weight[first_slot + self.domains.slot_state] = self._prior

    def release(self) -> None:
        """Let go of tables that were exponentiated, unless the beliefs of leaves are read from them."""
        if not self.has_leaves:
            self._owners.clear()

    def likely(self, nats: float) -> tuple[ActiveLists, float]:
        """Return sizes, starts and slots of the states within some nats of the best prior.

        The number beside them is the part of the priors that they hold, on average over variables that are not summed
        out.
        """
        size, start, slot = self._lists()
        domains = self.domains
        total, held = choose_likely(
            domains.slot_start, domains.log_prior, self._prior, self.is_leaf, nats, size, start, slot
        )
        return (size, start, slot[:total].copy()), held

    def offers(self, nats: FloatArray) -> list[tuple[IndexArray, float]]:
        """Return the sizes and the part of the priors of the same, for each of some nats."""
        size, held = np.empty((len(nats), len(self.is_leaf)), dtype=np.int64), np.empty(len(nats))
        weigh_offers(self.domains.slot_start, self.domains.log_prior, self._prior, self.is_leaf, nats, size, held)
        return list(zip(size, held.tolist(), strict=True))

    def joined(self, active: Active, candidates: Candidates, threshold: float) -> tuple[ActiveLists, FloatArray]:
        """Return the same of the active states and those candidates of a belief above a threshold.

        The second number per variable is the belief of those that do not join.
        """
        size, start, slot = self._lists()
        left = np.empty(len(size))
        total = join_likely(active, candidates, threshold, left, size, start, slot)
        return (size, start, slot[:total].copy()), left

    def _lists(self) -> ActiveLists:
        """Return room for sizes, starts and slots of all states."""
        n = len(self.is_leaf)
        numbers = np.empty(2 * n + 1 + len(self.domains.log_prior), dtype=np.int64)
        return numbers[:n], numbers[n : 2 * n + 1], numbers[2 * n + 1 :]

    def listed(self, is_active: BoolArray) -> ActiveLists:
        """Return the same of the slots that are marked."""
        size: IndexArray = np.add.reduceat(is_active, self.domains.slot_start[:-1], dtype=np.int64)
        return size, row_starts(size), np.flatnonzero(is_active)

    def ranges(self) -> Generator[int, None, FloatArray]:
        """Return (F,) the range of each factor's finite log scores, from a sample where nobody knows it.

        Yields:
            How many scores were asked for, after each call.
        """
        extent = self.compiled.extent
        log_range: FloatArray = extent.log_max - extent.log_min
        unknown = np.isnan(log_range)
        for first, block in self.compiled.message_blocks if unknown.any() else ():
            if unknown[first]:
                each = max(2, int(SAMPLE ** (1.0 / len(block.source.shape))))
                states = [np.unique(np.linspace(0, n - 1, each).astype(np.int64)) for n in block.source.shape]
                scores = block.log_values(0, states, self.compiled.variables)
                finite = scores[scores > -np.inf]
                log_range[first : first + len(block.scopes)] = np.ptp(finite) if finite.size else 0.0
                yield scores.size
        return log_range

    def spread(self, log_range: FloatArray) -> FloatArray:
        """Return (V,) the standard deviation of what messages may say of a variable's states, in nats.

        If a table's N log scores were normal, their range would be about 2 sqrt(2 log N) standard deviations; sums of
        independent messages spread with the root of their number.
        """
        layout = self.compiled.arrays
        deviation = 0.5 * log_range / np.sqrt(2.0 * np.log(np.maximum(self.sources.size, 2)))
        variance = np.bincount(layout.edge_variable, deviation[layout.edge_factor] ** 2, minlength=len(self.is_leaf))
        return np.sqrt(variance)

    def excluded(self, candidates: Candidates, log_range: FloatArray) -> FloatArray:
        """Return (V,) what states may weigh that a look has found to be impossible.

        Hard zeros exclude them with the active states of others. With other states, they may be worth their prior, and
        as much more as the ranges of their factors allow.

        Args:
            candidates: Candidates, with what a look has found.
            log_range: (F,) of the factors' scores.
        """
        outside = np.zeros(len(self.is_leaf))
        found = np.flatnonzero(candidates.log_belief == -np.inf)
        if len(found):
            owner = np.searchsorted(candidates.start, found, side="right") - 1
            layout = self.compiled.arrays
            most = np.bincount(layout.edge_variable, log_range[layout.edge_factor], minlength=len(outside))
            weight = np.exp(np.minimum(0.0, self.domains.log_prior[candidates.slot[found]] + most[owner]))
            np.add.at(outside, owner, weight)
        return outside

    def candidates(self, active: Active, nats: FloatArray) -> Candidates:
        """Return the states outside the domains within some nats, (V,), of the best prior."""
        domains, n = self.domains, len(self.is_leaf)
        start, cut = np.empty(n + 1, dtype=np.int64), np.empty(n)
        slot = np.empty(len(domains.log_prior), dtype=np.int64)
        total = find_candidates(
            domains.slot_start, domains.log_prior, self._prior, self.is_leaf, active, nats, start, slot, cut
        )
        return self.candidates_of(start, slot[:total].copy(), cut)

    def nearest(self, active: Active, candidates: Candidates, later: float) -> Candidates:
        """Return those of some candidates, before a look, that hold all but a part of the prior of all of them.

        Args:
            active: The active states.
            candidates: Of which some are returned.
            later: That part, at the most.
        """
        depth = (STEPS * -candidates.log_belief).astype(np.int64)
        beyond = np.bincount(depth, np.exp(candidates.log_belief))[::-1].cumsum()[::-1]
        nats = np.count_nonzero(beyond > later * beyond[0]) / STEPS
        return self.candidates(active, np.full(len(self.is_leaf), nats))

    def candidates_of(self, start: IndexArray, slot: IndexArray, cut: FloatArray) -> Candidates:
        """Return some states outside the domains, with their log priors for beliefs.

        Args:
            start: (V + 1,) where those of each variable start.
            slot: Their slots.
            cut: (V,) sum of the priors of other states outside.
        """
        domains = self.domains
        if domains.is_whole:
            state = slot - np.repeat(domains.slot_start[:-1], start[1:] - start[:-1])
        else:
            state = domains.slot_state[slot]
        edge_start, n_told = self._nowhere, 0
        if self.has_leaves:
            edge_start = row_starts((start[1:] - start[:-1])[self.compiled.arrays.edge_variable])
            n_told = int(edge_start[-1])
        return Candidates(
            start, slot, state, domains.log_prior[slot], np.empty(len(slot)), cut, edge_start, np.empty(n_told)
        )

    @cached_property
    def nothing(self) -> Candidates:
        """No candidates."""
        start, nothing = np.zeros(len(self.is_leaf) + 1, dtype=np.int64), np.empty(0)
        return Candidates(start, self._nowhere, self._nowhere, nothing, nothing, nothing, self._nowhere, nothing)


def _without_leaves(layout: GraphLayout, edge: IndexArray) -> GraphLayout:
    """Return the layout of some edges."""
    n, n_factors, n_variables = len(edge), len(layout.factor_edge_start) - 1, len(layout.variable_edge_start) - 1
    numbers = np.empty(n_factors + 1 + 3 * n + n_variables + 1, dtype=np.int64)
    first, last = n_factors + 1, len(numbers) - n
    left = GraphLayout(
        factor_edge_start=numbers[:first],
        edge_variable=numbers[first : first + n],
        edge_factor=numbers[first + n : first + 2 * n],
        variable_edge_start=numbers[first + 2 * n : last],
        variable_edge=numbers[last:],
    )
    leave_edges(layout, edge, left)
    return left
