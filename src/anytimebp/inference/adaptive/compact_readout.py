"""From the outlooks of a round on compact tables to frozen records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.inference.adaptive.compact import CompactTables
from anytimebp.inference.adaptive.outlook import Outlook
from anytimebp.inference.figures import Figures
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.marginals import FactorMarginals, Marginals, NoFactorMarginals
from anytimebp.results.snapshot import Snapshot

MOST = 700.0  # nats, so that numbers stay finite

STILL_WAITING = NoFactorMarginals(
    "there are no factor marginals yet: some variables have no active states so far; run on, or take a later snapshot"
)


class Known(NamedTuple):
    """What is known at the end of a round; owns its arrays.

    Attributes:
        marginals: Over all states that were looked at.
        domain_sizes: (V,) of the domains; 1 for a variable that is waiting.
        outside: Largest, over variables, estimated belief outside the domain; NaN where nothing can be said.
        error: Estimated distance of the marginals to those of BP; infinite where nothing can be said.
        log_z: Bethe estimate on the domains; NaN while variables are waiting.
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


def read_outlooks(tables: CompactTables, outlooks: list[Outlook]) -> tuple[list[Outlook], FloatArray, Marginals]:
    """Return the outlooks with beliefs in place of their logs, (V,) the beliefs outside the domains, and marginals."""
    outside, beliefs = np.empty(len(outlooks)), []
    for variable, outlook in enumerate(outlooks):
        rest = _share_of_rest(outlook)
        beliefs.append(_normalised(outlook))
        outside[variable] = rest + (1.0 - rest) * _outside(tables, variable, beliefs[-1])
    start = np.zeros(len(outside) + 1, dtype=np.int64)
    np.cumsum([len(outlook.states) for outlook in beliefs], out=start[1:])
    belief = np.concatenate([outlook.log_belief for outlook in beliefs])
    states = np.concatenate([outlook.states for outlook in beliefs])
    return beliefs, outside, Marginals(tables.compiled.variables, belief, start, states)


def _outside(tables: CompactTables, variable: int, beliefs: Outlook) -> float:
    """Return the estimated belief outside a variable's domain: all of it, if it has none.

    NaN where nothing can be said: hard zeros shut states out that others, not active yet, may let in.
    """
    if tables.waiting[variable]:
        return 1.0
    is_inside = np.isin(beliefs.states, tables.states[variable], assume_unique=True)
    if beliefs.is_shut_out[~is_inside].any():
        return float("nan")
    return float(beliefs.log_belief[~is_inside].sum())


def _share_of_rest(outlook: Outlook) -> float:
    """Return the estimated belief of the states that were not looked at."""
    if outlook.log_rest == -np.inf:
        return 0.0
    peak = outlook.log_belief.max()
    seen = float(np.exp(outlook.log_belief - peak).sum())
    rest = float(np.exp(min(MOST, outlook.log_rest - peak)))
    return rest / (rest + seen)


def _normalised(outlook: Outlook) -> Outlook:
    """Return an outlook with beliefs in place of their logs."""
    belief = np.exp(outlook.log_belief - outlook.log_belief.max(initial=-np.inf))
    return outlook._replace(log_belief=belief / belief.sum())
