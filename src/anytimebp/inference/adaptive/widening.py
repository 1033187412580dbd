"""Domains that admit no joint state, and what they grow by until they do.

A factor that is zero on all its active states gets those of its best joint states, by its scores and the priors. Where
they are active already, so that several factors exclude each other, or where the factor is too large to be looked
through, the domains of its variables double, by their priors.
"""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from anytimebp.inference.adaptive.whole_model import Active, ActiveLists, WholeModel
from anytimebp.model.source import BoolArray, IndexArray

MOST_SCORES = 2**20  # that factors may have in all to be looked through
BEST = 64  # joint states of a factor that are let in at the most
NEAR = 2.0  # nats under the best, within which they are
FEW = 32  # states of each variable, those of the best priors, among which they are looked for at first
WIDER = 4  # times as many the next time, if none of these go together


def widened(whole: WholeModel, active: Active, factors: list[int]) -> Generator[int, None, ActiveLists | None]:
    """Return more active states, or None where there are no others.

    Args:
        whole: The graph.
        active: The states that admit no joint state.
        factors: Where that was found.

    Yields:
        How many scores were asked for, after each call.
    """
    is_active = np.zeros(len(whole.domains.log_prior), dtype=np.bool_)
    is_active[active.slot] = True
    left = MOST_SCORES
    for factor in factors:
        asked = _admit_best(whole, factor, left, is_active)
        left -= asked
        yield asked
    if np.count_nonzero(is_active) == len(active.slot):
        near = np.unique([v for factor in factors for v in _variables(whole, factor)])
        _double(whole, near, is_active)
    if np.count_nonzero(is_active) == len(active.slot):
        _double(whole, np.arange(len(whole.is_leaf)), is_active)
    return whole.listed(is_active) if np.count_nonzero(is_active) > len(active.slot) else None


def _variables(whole: WholeModel, factor: int) -> list[int]:
    """Return all variables of a factor, leaves included."""
    edges, layout = whole.graph.edges(factor), whole.graph.arrays
    variables: list[int] = layout.edge_variable[edges.start : edges.stop].tolist()
    return variables


def _admit_best(whole: WholeModel, factor: int, most: int, is_active: BoolArray) -> int:
    """Mark the states of a factor's best joint states, of those with good priors; return the scores asked for."""
    domains, variables, asked, n = whole.domains, _variables(whole, factor), 0, FEW
    while True:
        slots = [_best(whole, v, n) for v in variables]
        size = math.prod(len(own) for own in slots)
        asked += size
        if asked > most:
            return asked - size
        scores = np.array(
            whole.graph.log_values(factor, [_states(whole, own, v) for own, v in zip(slots, variables, strict=True)])
        )
        for axis, own in enumerate(slots):
            scores += domains.log_prior[own].reshape([-1 if k == axis else 1 for k in range(scores.ndim)])
        best = scores.max()
        if best > -np.inf or all(n >= domains.sizes[v] for v in variables):
            break
        n *= WIDER
    near = np.flatnonzero(scores >= max(best - NEAR, np.finfo(np.float64).min))
    near = near[np.argsort(-scores.reshape(-1)[near], kind="stable")[:BEST]]
    for v, own, positions in zip(variables, slots, np.unravel_index(near, scores.shape), strict=True):
        if not whole.is_leaf[v]:
            is_active[own[positions]] = True
    return asked


def _best(whole: WholeModel, variable: int, n: int) -> IndexArray:
    """Return the slots of a variable's best priors, lower ones of equals, in order."""
    start, end = whole.domains.slot_start[variable], whole.domains.slot_start[variable + 1]
    order = np.argsort(-whole.domains.log_prior[start:end], kind="stable")[:n]
    found: IndexArray = np.sort(order) + start
    return found


def _states(whole: WholeModel, slots: IndexArray, variable: int) -> IndexArray:
    """Return the states in some slots of a variable."""
    domains = whole.domains
    found: IndexArray = slots - domains.slot_start[variable] if domains.is_whole else domains.slot_state[slots]
    return found


def _double(whole: WholeModel, variables: IndexArray, is_active: BoolArray) -> None:
    """Mark as many states again of each variable as are marked, those of the best priors, lower ones of equals."""
    domains = whole.domains
    for v in variables[~whole.is_leaf[variables]].tolist():
        own = slice(domains.slot_start[v], domains.slot_start[v + 1])
        prior = np.where(is_active[own], -np.inf, domains.log_prior[own])
        order = np.argsort(-prior, kind="stable")[: np.count_nonzero(is_active[own])]
        is_active[own][order[prior[order] > -np.inf]] = True
