"""Domains of variables that have none yet, where universes are too large for whole tables.

A variable gets a domain once its likely states are few: those that unary scores or evidence tell most of first, and
then, group after group, those that messages out of their neighbours' domains tell most of. Until then it is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.model.source import FloatArray, IndexArray

FIRST_DOMAIN = 5.0  # nats under the best, within which states are in a variable's first domain
GROUP = 2.0  # times the smallest first domain that others may be as large as, to join in the same group
SMALL = 64  # states that a first domain may have in any group
OPEN = 0.5  # part of the universe that a first domain may be of, or the variable had better wait
DRAWN = 300  # states of a first domain that are drawn, where a variable's own scores make more of them likely

Beliefs = Mapping[int, tuple[IndexArray, FloatArray]]
"""By variable: slots, rising, and the logs of their beliefs up to a constant."""


def first_domains_of(
    whole: WholeModel, beliefs: Beliefs, sizes: IndexArray, fits: Callable[[IndexArray], bool]
) -> dict[int, IndexArray]:
    """Return the slots of the variables that get domains, by variable; empty if there is no room for any.

    Args:
        whole: The graph.
        beliefs: Of the undecided variables.
        sizes: (V,) active states; 1 for undecided variables.
        fits: Whether there is memory for domains of given sizes.
    """
    likely = {variable: _likely(*known) for variable, known in beliefs.items()}
    is_open = {v for v, (slot, _) in likely.items() if _is_open(len(slot), int(whole.domains.sizes[v]))}
    drawn = {v: _drawn(whole, v, *known) for v, known in likely.items()}
    in_order = sorted(drawn, key=lambda v: (len(drawn[v]), v))
    if not in_order:
        return {}
    most = max(SMALL, DRAWN, GROUP * len(drawn[in_order[0]]))
    group = [v for v in in_order if len(drawn[v]) <= most and v not in is_open]
    chosen = group[: _most_that_fit(group, drawn, sizes, fits)]
    if not chosen:
        chosen = next(([v] for v in in_order if _most_that_fit([v], drawn, sizes, fits)), [])
    return {v: drawn[v] for v in chosen}


def smallest_domain(beliefs: Beliefs, sizes: IndexArray, fits: Callable[[IndexArray], bool]) -> dict[int, IndexArray]:
    """Return as many states as there is room for of one variable, drawn by their beliefs; at least one."""
    variable = min(beliefs, key=lambda v: (len(_likely(*beliefs[v])[0]), v))
    slot, log_belief = _likely(*beliefs[variable])
    n, sizes = len(slot), sizes.copy()
    while n > 1:
        n //= 2
        sizes[variable] = n
        if fits(sizes):
            break
    return {variable: _draw(variable, slot, log_belief, n)}


def _likely(slot: IndexArray, log_belief: FloatArray) -> tuple[IndexArray, FloatArray]:
    """Return the states within FIRST_DOMAIN nats of the best."""
    near = log_belief > log_belief.max() - FIRST_DOMAIN
    return slot[near], log_belief[near]


def _is_open(n_likely: int, n_states: int) -> bool:
    """Tell whether so many states are likely that the variable had better wait."""
    return n_likely > SMALL and n_likely > OPEN * n_states


def _drawn(whole: WholeModel, variable: int, slot: IndexArray, log_belief: FloatArray) -> IndexArray:
    """Return some of a variable's likely states; all if they are few, or it has no scores of its own."""
    if len(slot) <= DRAWN or not whole.domains.log_prior_min[variable] < 0.0:
        return slot
    return _draw(variable, slot, log_belief, DRAWN)


def _draw(variable: int, slot: IndexArray, log_belief: FloatArray, n: int) -> IndexArray:
    """Draw states by their beliefs."""
    share = np.exp(log_belief - log_belief.max())
    rng = np.random.default_rng(variable)
    return slot[np.sort(rng.choice(len(slot), n, replace=False, p=share / share.sum()))]


def _most_that_fit(
    variables: list[int], drawn: dict[int, IndexArray], sizes: IndexArray, fits: Callable[[IndexArray], bool]
) -> int:
    """Return how many variables, from the first one on, there is memory for."""
    low, high = 0, len(variables)
    while low < high:
        middle = (low + high + 1) // 2
        larger = sizes.copy()
        larger[variables[:middle]] = [len(drawn[v]) for v in variables[:middle]]
        low, high = (middle, high) if fits(larger) else (low, middle - 1)
    return low
