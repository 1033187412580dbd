"""Which states are active, and each variable's prior over them: unary factors and evidence folded together."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.setting_up import fold_priors
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import ARITY, ENTRIES, FACTORS, MEMBERS, SCOPES, TABLES, row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.slices import NUMBERS, at_one_go, parts

EVERY_STATE = np.empty(0, dtype=np.int64)  # in place of the states in all slots


class Domains(NamedTuple):
    """The active states of a run and their log priors.

    Attributes:
        sizes: (V,) number of states in each domain; written to where domains grow.
        slot_start: (V + 1,) where a variable's slots start; the first `sizes` of them are active, and what is behind
            them is room to grow.
        slot_state: The state in each slot; empty where every domain is the universe in order.
        log_prior: A number per slot, at most 0; the workspace makes its prior of it in place.
        log_prior_scale: (V,) what was subtracted to make each variable's largest log prior 0.
        log_prior_min: (V,) smallest finite log prior.
        scored: Scores that unary rules and lists were asked for.
    """

    sizes: IndexArray
    slot_start: IndexArray
    slot_state: IndexArray
    log_prior: FloatArray
    log_prior_scale: FloatArray
    log_prior_min: FloatArray
    scored: int

    @property
    def is_whole(self) -> bool:
        """Whether every domain is the universe in order."""
        return not len(self.slot_state)

    def active_slots(self) -> IndexArray:
        """Return the places of the slots of active states, variable after variable."""
        return row_items(self.slot_start[:-1], self.sizes)

    def states_of(self, variable: int) -> IndexArray:
        """Return the active states of a variable, in the order of its slots; not to be written to."""
        start, size = self.slot_start[variable], self.sizes[variable]
        return self.slot_state[start : start + size] if len(self.slot_state) else np.arange(size)


def domain_sizes(compiled: CompiledGraph, observed: dict[int, Observation]) -> IndexArray:
    """Return the number of states that the evidence allows, per variable."""
    sizes = compiled.universe_sizes
    left = {index: len(seen.states) for index, seen in observed.items() if seen.states is not None}
    if left:
        sizes = sizes.copy()
        sizes[[*left]] = [*left.values()]
    return sizes


def full_domains(
    compiled: CompiledGraph, observed: dict[int, Observation], unary: Mapping[int, FloatArray] = MappingProxyType({})
) -> Domains:
    """Return domains that hold every state that the evidence allows.

    Args:
        compiled: The graph.
        observed: The evidence.
        unary: Log scores over the universe, by variable, in place of what its unary factors say.
    """
    return at_one_go(fold_all(compiled, observed, unary))


def fold_all(
    compiled: CompiledGraph,
    observed: dict[int, Observation],
    unary: Mapping[int, FloatArray] = MappingProxyType({}),
    at_once: int = NUMBERS,
) -> Generator[None, None, Domains]:
    """Return what `full_domains` does; pauses after so many numbers. Topology is not needed."""
    states = {i: seen.states for i, seen in observed.items() if seen.states is not None}
    sizes = domain_sizes(compiled, observed)
    slot_start = row_starts(sizes)
    log_prior = np.zeros(int(slot_start[-1]))
    slot_state = yield from _slot_states(states, sizes, slot_start, at_once)
    scale, smallest, scored, rows = np.empty(len(sizes)), np.empty(len(sizes)), 0, compiled.rows
    is_special = compiled.asked_unary_blocks or unary or any(seen.log_scores is not None for seen in observed.values())
    if is_special or len(log_prior) > at_once:
        for some in _some_rows(rows, at_once):
            fold_priors(some, slot_start, slot_state, log_prior, scale[:0], smallest[:0])
            yield
        scored = _add_asked_factors(compiled, states, slot_start, log_prior)
        rows = rows[:0]
    for index, scores in unary.items():
        log_prior[slot_start[index] : slot_start[index + 1]] = scores[states[index]] if index in states else scores
    _add_soft_evidence(observed, slot_start, log_prior)
    for first, last in variable_parts(slot_start, at_once):
        given = rows, slot_start[first : last + 1], slot_state, log_prior
        impossible = fold_priors(*given, scale[first:last], smallest[first:last])
        if impossible >= 0:
            name = compiled.variables.name(first + impossible)
            msg = f"variable {name!r} has no possible state: its unary factors and evidence exclude each of them"
            raise InconsistentModelError(msg)
        if last < len(sizes):
            yield
    return Domains(sizes, slot_start, slot_state, log_prior, scale, smallest, scored)


def _add_soft_evidence(observed: dict[int, Observation], slot_start: IndexArray, log_prior: FloatArray) -> None:
    """Add the scores that evidence gives to states."""
    given = {index: seen.log_scores for index, seen in observed.items() if seen.log_scores is not None}
    indices = np.fromiter(given, dtype=np.int64, count=len(given))
    for start, end, scores in zip(
        slot_start[indices].tolist(), slot_start[indices + 1].tolist(), given.values(), strict=True
    ):
        log_prior[start:end] += scores


def variable_parts(slot_start: IndexArray, at_once: int = NUMBERS) -> Iterator[tuple[int, int]]:
    """Yield the first variable and the end of each part of all variables, with about so many slots."""
    n, n_slots = len(slot_start) - 1, int(slot_start[-1])
    if n_slots <= at_once:
        yield 0, n
        return
    ends = np.searchsorted(slot_start, np.arange(at_once, n_slots, at_once)).tolist()
    first = 0
    for last in [*ends, n]:
        if last > first:
            yield first, last
            first = last


def _some_rows(rows: IndexArray, at_once: int) -> Iterator[IndexArray]:
    """Yield rows of unary tables, each for a part of a block of factors, with about so many scores."""
    for row in rows[(rows[:, ARITY] == 1) & (rows[:, TABLES] != 0)]:
        for first, last in parts(int(row[FACTORS]), max(1, at_once // int(row[ENTRIES]))):
            some = row.copy()
            some[SCOPES] += 8 * first
            some[FACTORS] = last - first
            some[TABLES] += 8 * int(row[ENTRIES]) * first if row[MEMBERS] > 1 else 0
            yield some[np.newaxis]


def _add_asked_factors(
    compiled: CompiledGraph, states: dict[int, IndexArray], slot_start: IndexArray, log_prior: FloatArray
) -> int:
    """Add the scores of unary rules and lists to the log priors; return how many were asked for."""
    scored = 0
    for block in compiled.asked_unary_blocks:
        every = np.arange(block.source.shape[0])
        for offset, index in enumerate(block.scopes[:, 0].tolist()):
            scores = block.log_values(offset, [states.get(index, every)], compiled.variables)
            log_prior[slot_start[index] : slot_start[index + 1]] += scores
            scored += scores.size
    return scored


def _slot_states(
    states: dict[int, IndexArray], sizes: IndexArray, slot_start: IndexArray, at_once: int
) -> Generator[None, None, IndexArray]:
    """Return the state in each slot, given those of the variables that evidence restricts; empty if there are none."""
    if not states:
        return EVERY_STATE
    slot_state = np.empty(int(slot_start[-1]), dtype=np.int64)
    for first, last in variable_parts(slot_start, at_once):
        own = slot_state[slot_start[first] : slot_start[last]]
        own[:] = 1  # steps at first; in one array, as new memory is slow
        own[0] = 0
        own[slot_start[first + 1 : last] - slot_start[first]] -= sizes[first : last - 1]
        np.cumsum(own, out=own)
        yield
    slot_state[row_items(slot_start[[*states]], sizes[[*states]])] = np.concatenate([*states.values()])
    return slot_state


GROUP = 2**18  # states that are sorted at a time


class Universe:
    """The states that a growing run may use.

    Attributes:
        compiled: The graph.
        every: Domains of all states that the evidence allows.
        start: (V + 1,) where a variable's states start in arrays with a number per (variable, state) pair.
        log_prior: Per pair: unary factors and soft evidence, largest 0; -inf outside what the evidence allows.
        log_prior_scale: (V,) what was subtracted.
        log_prior_min: (V,) smallest finite log prior.
        allowed: Per pair: whether the evidence allows it.
        n_allowed: (V,) how many it does.
        has_scores: (V,) whether a unary factor or soft evidence tells states apart.
        scored: Scores that unary rules and lists were asked for.
    """

    def __init__(self, compiled: CompiledGraph, observed: dict[int, Observation]) -> None:
        """Put unary factors and evidence together."""
        self.compiled = compiled
        self.every = domains = full_domains(compiled, observed)
        sizes = compiled.universe_sizes
        self.start = row_starts(sizes)
        self.n_allowed: IndexArray = domains.sizes.copy()
        self.scored = domains.scored
        self.log_prior_scale = domains.log_prior_scale
        self.log_prior_min = domains.log_prior_min
        self.log_prior, self.allowed = self._spread(domains)
        self._every = np.arange(int(sizes.max(initial=0)))
        self.has_scores = np.zeros(len(sizes), dtype=np.bool_)
        for block in compiled.unary_blocks:
            self.has_scores[block.scopes[:, 0]] = True
        self.has_scores[[i for i, seen in observed.items() if seen.log_scores is not None]] = True

    def _spread(self, domains: Domains) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return priors and permission by state, from priors over the states that evidence leaves."""
        if domains.is_whole:
            return domains.log_prior, np.ones(len(domains.log_prior), dtype=np.bool_)
        position = domains.slot_state + np.repeat(self.start[:-1], domains.sizes)
        spread, allowed = np.full(int(self.start[-1]), -np.inf), np.zeros(int(self.start[-1]), dtype=np.bool_)
        spread[position] = domains.log_prior
        allowed[position] = True
        return spread, allowed

    def domains(self, sizes: IndexArray, states: IndexArray) -> Domains:
        """Return domains of some states each, with slots for all of them.

        Args:
            sizes: (V,) how many states each variable has at first; owned.
            states: These, variable after variable.
        """
        slots = row_items(self.start[:-1], sizes)
        slot_state, log_prior = np.zeros(len(self.log_prior), dtype=np.int64), np.empty(len(self.log_prior))
        slot_state[slots] = states
        log_prior[slots] = own = self.log_prior[np.repeat(self.start[:-1], sizes) + states]
        smallest = np.zeros(len(sizes))
        if len(sizes):
            np.minimum.reduceat(np.where(own > -np.inf, own, 0.0), np.cumsum(sizes) - sizes, out=smallest)
        return Domains(sizes, self.start, slot_state, log_prior, self.log_prior_scale, smallest, self.scored)

    def allowed_states(self, variable: int) -> IndexArray:
        """Return the states of a variable that the evidence allows; not to be written to."""
        start, end = self.start[variable], self.start[variable + 1]
        if self.n_allowed[variable] == end - start:
            return self._every[: end - start]
        return np.flatnonzero(self.allowed[start:end])

    def best(self, score: FloatArray) -> IndexArray:
        """Return each variable's best allowed state, ties by index; -inf counts as worst, not as excluded."""
        ranked = np.where(self.allowed, np.maximum(score, np.finfo(np.float64).min), -np.inf)
        if not len(self.n_allowed):
            return np.empty(0, dtype=np.int64)
        top = np.maximum.reduceat(ranked, self.start[:-1])
        is_top = np.flatnonzero(ranked == np.repeat(top, np.diff(self.start)))
        owner = np.searchsorted(self.start, is_top, side="right") - 1
        _, first = np.unique(owner, return_index=True)
        return is_top[first] - self.start[:-1]

    def ranked(self, score: FloatArray) -> IndexArray:
        """Return all states, each variable's own together and best first, lower states first among equals."""
        ranked = np.empty(len(score), dtype=np.int64)
        for first, last in self._groups():
            begin, end = self.start[first], self.start[last]
            sizes = np.diff(self.start[first : last + 1])
            keys = [np.repeat(np.arange(len(sizes)), sizes)] if len(sizes) > 1 else []
            order = np.lexsort([-score[begin:end], *keys])
            ranked[begin:end] = order - np.repeat(self.start[first:last] - begin, sizes)
        return ranked

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Cut the variables into groups with not too many states together."""
        first = 0
        while first < len(self.n_allowed):
            last = int(np.searchsorted(self.start, self.start[first] + GROUP, side="right")) - 1
            last = max(first + 1, last)
            yield first, last
            first = last
