"""Which states are active, and each variable's prior over them: unary factors and evidence folded together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from anytimebp.errors import InconsistentModelError
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.rows import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray

MANY = 1024  # states from which on unary factors are added one by one, without copies of all of them


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
    restricted = {i: len(seen.states) for i, seen in observed.items() if seen.states is not None}
    if restricted:
        sizes = sizes.copy()
        sizes[list(restricted)] = list(restricted.values())
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
    states = {i: seen.states for i, seen in observed.items() if seen.states is not None}
    sizes = domain_sizes(compiled, observed)
    slot_start = row_starts(sizes)
    log_prior = np.zeros(int(slot_start[-1]))
    scored = _add_unary_factors(compiled, states, slot_start, log_prior)
    for index, scores in unary.items():
        log_prior[slot_start[index] : slot_start[index + 1]] = scores[states[index]] if index in states else scores
    for index, seen in observed.items():
        if seen.log_scores is not None:
            log_prior[slot_start[index] : slot_start[index + 1]] += seen.log_scores
    scale, smallest = _normalise(compiled, sizes, slot_start, log_prior)
    slot_state = _slot_states(states, sizes, slot_start)
    return Domains(sizes, slot_start, slot_state, log_prior, scale, smallest, scored)


def _slot_states(states: dict[int, IndexArray], sizes: IndexArray, slot_start: IndexArray) -> IndexArray:
    """Return the state in each slot, given those of the variables that evidence restricts; empty if there are none."""
    if not states:
        return np.empty(0, dtype=np.int64)
    slot_state: IndexArray = np.arange(int(slot_start[-1])) - np.repeat(slot_start[:-1], sizes)
    for index, left in states.items():
        slot_state[slot_start[index] : slot_start[index + 1]] = left
    return slot_state


def _add_unary_factors(
    compiled: CompiledGraph, states: dict[int, IndexArray], slot_start: IndexArray, log_prior: FloatArray
) -> int:
    """Add the scores of unary factors to the log priors; return how many rules and lists were asked for."""
    scored = 0
    for block in compiled.unary_blocks:
        source, tables, scope = block.source, block.source.tables, block.scopes[:, 0]
        offsets: Iterable[int] = range(len(scope))
        if tables is not None and len(scope) > 1 and source.shape[0] < MANY:
            # all at once, but for the variables that evidence cuts
            whole = ~np.isin(scope, list(states)) if states else np.ones(len(scope), dtype=np.bool_)
            slots = slot_start[scope[whole], np.newaxis] + np.arange(source.shape[0])
            scores = tables.all_log_values(whole if source.n_members > 1 else slice(None))
            if np.bincount(scope).max() == 1:
                log_prior[slots] += scores
            else:
                np.add.at(log_prior, slots, scores)
            offsets = np.flatnonzero(~whole).tolist()
        for offset in offsets:
            index = int(scope[offset])
            if tables is not None and index not in states:
                scores = tables.all_log_values(block.member(offset))
            else:
                scores = block.log_values(offset, [states.get(index, np.arange(source.shape[0]))], compiled.variables)
                scored += scores.size if tables is None else 0
            log_prior[slot_start[index] : slot_start[index + 1]] += scores
    return scored


def _normalise(
    compiled: CompiledGraph, sizes: IndexArray, slot_start: IndexArray, log_prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Subtract each variable's largest log prior, in place; return it and the smallest finite one that is left."""
    if not sizes.size:
        return np.empty(0), np.empty(0)
    scale = np.maximum.reduceat(log_prior, slot_start[:-1])
    if not (scale > -np.inf).all():
        name = compiled.variables.name(int(np.argmin(scale)))
        msg = f"variable {name!r} has no possible state: its unary factors and evidence exclude each of them"
        raise InconsistentModelError(msg)
    log_prior -= np.repeat(scale, sizes)
    smallest = np.minimum.reduceat(np.where(log_prior > -np.inf, log_prior, 0.0), slot_start[:-1])
    return scale, smallest
