"""Which states are active, and each variable's prior over them: unary factors and evidence folded together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.priors import fold_priors
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.rows import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray

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
    slot_state = _slot_states(states, sizes, slot_start)
    scale, smallest, scored, rows = np.empty(len(sizes)), np.empty(len(sizes)), 0, compiled.rows
    if compiled.asked_unary_blocks or unary or any(seen.log_scores is not None for seen in observed.values()):
        fold_priors(rows, slot_start, slot_state, log_prior, scale[:0], smallest[:0])
        scored = _add_asked_factors(compiled, states, slot_start, log_prior)
        rows = rows[:0]
    for index, scores in unary.items():
        log_prior[slot_start[index] : slot_start[index + 1]] = scores[states[index]] if index in states else scores
    for index, seen in observed.items():
        if seen.log_scores is not None:
            log_prior[slot_start[index] : slot_start[index + 1]] += seen.log_scores
    impossible = fold_priors(rows, slot_start, slot_state, log_prior, scale, smallest)
    if impossible >= 0:
        name = compiled.variables.name(impossible)
        msg = f"variable {name!r} has no possible state: its unary factors and evidence exclude each of them"
        raise InconsistentModelError(msg)
    return Domains(sizes, slot_start, slot_state, log_prior, scale, smallest, scored)


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


def _slot_states(states: dict[int, IndexArray], sizes: IndexArray, slot_start: IndexArray) -> IndexArray:
    """Return the state in each slot, given those of the variables that evidence restricts; empty if there are none."""
    if not states:
        return EVERY_STATE
    slot_state: IndexArray = np.arange(int(slot_start[-1])) - np.repeat(slot_start[:-1], sizes)
    for index, left in states.items():
        slot_state[slot_start[index] : slot_start[index + 1]] = left
    return slot_state
