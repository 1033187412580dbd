"""The belief of pairs of states outside the domains, for rounds of `adaptive` that whole tables do not follow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.inference.adaptive.compact import CompactTables
from anytimebp.inference.adaptive.outlook import Outlook
from anytimebp.inference.look.outside_pairs import Sight, add_pairs
from anytimebp.inference.look.unexplored import log_odds
from anytimebp.model.source import FloatArray, IndexArray


def pairs_of_outlooks(
    tables: CompactTables, beliefs: list[Outlook], log_weights: dict[int, FloatArray], outside: FloatArray
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
        return seen.states[is_outside], np.log(seen.log_belief[is_outside] / inside)

    def domain(variable: int) -> IndexArray:
        return tables.states[variable]

    known = np.where(tables.waiting | np.isnan(outside), 0.0, outside)
    unknown = np.full(len(tables.compiled.extent.log_max), np.nan)
    sight = Sight(tables.compiled, domain, log_weights.__getitem__, unknown, states_outside, log_odds(known))
    yield from _raised(sight, outside)


def _raised(sight: Sight, outside: FloatArray) -> Iterator[int]:
    """Raise beliefs outside the domains by those of pairs."""
    mass = np.exp(log_odds(np.nan_to_num(outside, nan=0.0)))
    yield from add_pairs(sight, mass)
    outside[:] = np.where(np.isnan(outside), outside, np.maximum(np.nan_to_num(outside), mass / (1.0 + mass)))
