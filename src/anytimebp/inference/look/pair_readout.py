"""The belief of pairs of states outside the domains, for rounds of `adaptive`."""

from __future__ import annotations

import numpy as np

from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.adaptive.whole_model import Candidates
from anytimebp.inference.look.outside_pairs import Sight, add_pairs
from anytimebp.inference.look.unexplored import log_odds
from anytimebp.model.source import FloatArray, IndexArray


def pairs_of_rounds(model: ActiveModel, candidates: Candidates, outside: FloatArray) -> None:
    """Raise `outside`, (V,), by pairs outside the active states of factors with hard zeros, or without tables.

    Constraints make pairs of states likely that are unlikely each; tables of positive scores hardly do.

    Args:
        model: Active states, and messages that have settled on them.
        candidates: What the last look has found; some of it may be active by now.
        outside: (V,) beliefs outside the domains.
    """
    whole, active, arrays = model.whole, model.active, model.arrays
    number: IndexArray = np.full(len(whole.graph.arrays.edge_variable), -1)
    number[whole.edge] = np.arange(len(whole.edge))
    weight, nothing = model.log_weights, np.empty(0, dtype=np.int64)
    is_undecided = np.zeros(len(outside), dtype=np.bool_) if model.undecided is None else model.undecided

    def domain(variable: int) -> IndexArray:
        if is_undecided[variable]:
            return nothing
        own = active.state[active.start[variable] : active.start[variable + 1]]
        return whole.domains.states_of(variable) if whole.is_leaf[variable] else own

    def log_weight(edge: int) -> FloatArray:
        if number[edge] < 0:  # of a leaf, which sends its prior
            leaf = whole.graph.arrays.edge_variable[edge]
            return whole.domains.log_prior[whole.domains.slot_start[leaf] : whole.domains.slot_start[leaf + 1]]
        start = arrays.edge_slot_start[number[edge]]
        return weight[start : start + arrays.domain_size[whole.graph.arrays.edge_variable[edge]]]

    def states_outside(variable: int) -> tuple[IndexArray, FloatArray]:
        own = slice(candidates.start[variable], candidates.start[variable + 1])
        is_outside = ~np.isin(candidates.state[own], domain(variable), assume_unique=True) & (
            candidates.belief[own] > 0.0
        )
        return candidates.state[own][is_outside], np.log(candidates.belief[own][is_outside])

    unknown = np.full(len(whole.sources.kind), np.nan)
    log_outside = log_odds(np.where(is_undecided, 0.0, outside))
    sight = Sight(whole.graph, domain, log_weight, unknown, states_outside, log_outside, whole.constrains)
    mass = np.exp(log_odds(outside))
    add_pairs(sight, mass)
    np.maximum(outside, mass / (1.0 + mass), out=outside)
