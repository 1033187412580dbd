"""The belief of pairs of states outside the domains, for rounds of `adaptive`."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.adaptive.compact import CompactTables
from anytimebp.inference.adaptive.compact_look import Seen
from anytimebp.inference.adaptive.whole_model import Reach
from anytimebp.inference.control.estimated_error import TINY
from anytimebp.inference.look.outside_pairs import Sight, add_pairs
from anytimebp.inference.look.unexplored import log_odds
from anytimebp.kernels.readout import read_weights
from anytimebp.model.source import FloatArray, IndexArray


def pairs_of_compact(
    tables: CompactTables, beliefs: list[Seen], log_weights: dict[int, FloatArray], outside: FloatArray
) -> Iterator[int]:
    """Raise `outside`, (V,), by pairs outside compact tables; yield the scores asked for, now and then.

    Args:
        tables: The domains.
        beliefs: By variable, with beliefs in place of their logs.
        log_weights: By edge: the log message from its variable to its factor, over the domain.
        outside: (V,) beliefs outside the domains; NaN where nothing can be said.
    """

    def states_outside(variable: int) -> tuple[IndexArray, FloatArray]:
        seen = beliefs[variable]
        is_outside = ~np.isin(seen.states, tables.states[variable], assume_unique=True) & (seen.log_belief > 0.0)
        inside = seen.log_belief[np.isin(seen.states, tables.states[variable], assume_unique=True)].sum()
        return seen.states[is_outside], np.log(seen.log_belief[is_outside]) - math.log(max(inside, TINY))

    def domain(variable: int) -> IndexArray:
        return tables.states[variable]

    known = np.where(tables.undecided | np.isnan(outside), 0.0, outside)
    unknown = np.full(len(tables.compiled.extent.log_max), np.nan)
    sight = Sight(tables.compiled, domain, log_weights.__getitem__, unknown, states_outside, log_odds(known))
    yield from _raised(sight, outside)


def pairs_of_rounds(model: ActiveModel, reach: Reach, outside: FloatArray) -> None:
    """Raise `outside`, (V,), by pairs outside the active states of factors with hard zeros, or without tables.

    Constraints make pairs of states likely that are unlikely each; tables of positive scores hardly do.

    Args:
        model: Active states, and messages that have settled on them.
        reach: What the last look has found; some of it may be active by now.
        outside: (V,) beliefs outside the domains.
    """
    whole, active, arrays = model.whole, model.active, model.arrays
    number: IndexArray = np.full(len(whole.graph.arrays.edge_variable), -1)
    number[whole.edge] = np.arange(len(whole.edge))
    weight = np.empty(len(arrays.message))
    read_weights(model.layout, arrays, weight)

    def domain(variable: int) -> IndexArray:
        own = active.state[active.start[variable] : active.start[variable + 1]]
        return whole.domains.states_of(variable) if whole.is_leaf[variable] else own

    def log_weight(edge: int) -> FloatArray:
        if number[edge] < 0:  # of a leaf, which sends its prior
            leaf = whole.graph.arrays.edge_variable[edge]
            return whole.domains.log_prior[whole.domains.slot_start[leaf] : whole.domains.slot_start[leaf + 1]]
        start = arrays.edge_slot_start[number[edge]]
        return weight[start : start + arrays.domain_size[whole.graph.arrays.edge_variable[edge]]]

    def states_outside(variable: int) -> tuple[IndexArray, FloatArray]:
        own = slice(reach.start[variable], reach.start[variable + 1])
        is_outside = ~np.isin(reach.state[own], domain(variable), assume_unique=True) & (reach.belief[own] > 0.0)
        return reach.state[own][is_outside], np.log(reach.belief[own][is_outside])

    unknown = np.full(len(whole.sources.kind), np.nan)
    sight = Sight(whole.graph, domain, log_weight, unknown, states_outside, log_odds(outside), whole.constrains)
    for _ in _raised(sight, outside):
        pass


def _raised(sight: Sight, outside: FloatArray) -> Iterator[int]:
    """Raise beliefs outside the domains by those of pairs."""
    mass = np.exp(log_odds(np.nan_to_num(outside, nan=0.0)))
    yield from add_pairs(sight, mass)
    outside[:] = np.where(np.isnan(outside), outside, np.maximum(np.nan_to_num(outside), mass / (1.0 + mass)))
