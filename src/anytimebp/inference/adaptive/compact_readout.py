"""From what a round on compact tables has seen to frozen records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.inference.adaptive.compact import CompactTables
from anytimebp.inference.adaptive.compact_look import Seen
from anytimebp.inference.figures import Figures
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.marginals import FactorMarginals, Marginals, NoFactorMarginals
from anytimebp.results.snapshot import Snapshot

MOST = 700.0  # nats, so that numbers stay finite

STILL_UNDECIDED = NoFactorMarginals(
    "there are no factor marginals yet: some variables have no active states so far; run on, or take a later snapshot"
)


class Known(NamedTuple):
    """What is known at the end of a round; owns its arrays.

    Attributes:
        marginals: Over all states that were looked at.
        domain_sizes: (V,) of the domains; 1 for a variable that is undecided.
        outside: Largest, over variables, estimated belief outside the domain; NaN where nothing can be said.
        error: Estimated distance of the marginals to those of BP; infinite where nothing can be said.
        log_z: Bethe estimate on the domains; NaN while variables are undecided.
        arithmetic: Of the messages.
        factor_marginals: On the domains, if asked for.
        figures: What goes with it.
    """

    marginals: Marginals
    domain_sizes: IndexArray
    outside: float
    error: float
    log_z: float
    arithmetic: str
    factor_marginals: FactorMarginals
    figures: Figures

    def snapshot(self) -> Snapshot:
        """Return it as a snapshot."""
        return Snapshot(
            marginals=self.marginals,
            log_z=self.log_z,
            outside=self.outside,
            error=self.error,
            domain_sizes=read_only(self.domain_sizes),
            arithmetic=self.arithmetic,
            factor_marginals=self.factor_marginals,
            **self.figures.shown(),
        )


def read_seen(tables: CompactTables, seen: list[Seen]) -> tuple[list[Seen], FloatArray, Marginals]:
    """Return what was seen with beliefs in place of their logs, (V,) the beliefs outside the domains, and marginals."""
    outside, beliefs = np.empty(len(seen)), []
    for variable, found in enumerate(seen):
        rest = _share_of_rest(found)
        beliefs.append(_normalised(found))
        outside[variable] = rest + (1.0 - rest) * _outside(tables, variable, beliefs[-1])
    start = np.zeros(len(outside) + 1, dtype=np.int64)
    np.cumsum([len(found.states) for found in beliefs], out=start[1:])
    belief = np.concatenate([found.log_belief for found in beliefs])
    states = np.concatenate([found.states for found in beliefs])
    return beliefs, outside, Marginals(tables.compiled.variables, belief, start, states)


def _outside(tables: CompactTables, variable: int, beliefs: Seen) -> float:
    """Return the estimated belief outside a variable's domain: all of it, if it has none.

    NaN where nothing can be said: hard zeros shut states out that others, not active yet, may let in.
    """
    if tables.undecided[variable]:
        return 1.0
    is_inside = np.isin(beliefs.states, tables.states[variable], assume_unique=True)
    if beliefs.is_shut_out[~is_inside].any():
        return float("nan")
    return float(beliefs.log_belief[~is_inside].sum())


def _share_of_rest(found: Seen) -> float:
    """Return the estimated belief of the states that were not looked at."""
    if found.log_rest == -np.inf:
        return 0.0
    peak = found.log_belief.max()
    seen = float(np.exp(found.log_belief - peak).sum())
    rest = float(np.exp(min(MOST, found.log_rest - peak)))
    return rest / (rest + seen)


def _normalised(found: Seen) -> Seen:
    """Return what was seen of a variable with beliefs in place of their logs."""
    belief = np.exp(found.log_belief - found.log_belief.max(initial=-np.inf))
    return found._replace(log_belief=belief / belief.sum())
