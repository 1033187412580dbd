"""Asking growth policies, and checking what they answer."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.errors import OptionError
from anytimebp.inference.options import RunOptions
from anytimebp.kernels.codes import DYNAMIC, DYNAMIC_RAW, LEAST, POLLED, RANKED
from anytimebp.model.factor import row_items
from anytimebp.model.scores import NUMBERS
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.policy import GrowthPolicy, GrowthView
from anytimebp.paper.rankings import DynamicGrowth, FixedGrowth, RandomGrowth


def policy_of(options: RunOptions) -> GrowthPolicy:
    """Return the growth policy of a method, or the user's own."""
    if options.policy is not None:
        return options.policy
    if options.method == "random":
        return RandomGrowth()
    return DynamicGrowth() if options.method == "dynamic" else FixedGrowth()


def mode_of(policy: GrowthPolicy) -> int:
    """Return where the priorities of a policy come from; one of the user's that builds on ours is asked itself."""
    if isinstance(policy, DynamicGrowth) and type(policy) is DynamicGrowth:
        return DYNAMIC_RAW if policy.raw else DYNAMIC
    return POLLED if policy.rescores else RANKED


def part_of(universe: Universe, fraction: float) -> IndexArray:
    """Return how many states are a part of each universe, rounded up, and at least one."""
    sizes: IndexArray = np.maximum(1, np.ceil(fraction * universe.n_allowed - 1e-9)).astype(np.int64)
    return sizes  # 0.07 * 100 is above 7


def best_part(universe: Universe, priorities: FloatArray, sizes: IndexArray) -> IndexArray:
    """Return the best states of each universe by fixed priorities, so many of each."""
    ranked = universe.ranked(np.where(universe.allowed, np.maximum(priorities, LEAST), -np.inf))
    return ranked[row_items(universe.start[:-1], sizes)]


def first_states(policy: GrowthPolicy, view: GrowthView, universe: Universe) -> IndexArray:
    """Return the first state of each variable."""
    given: object = policy.first_states(view)
    n = len(universe.n_allowed)
    try:
        states = np.asarray(given)
    except ValueError:  # rows of different lengths
        states = np.empty(0, dtype=np.int64)
    if states.shape != (n,) or (n and states.dtype.kind not in "iu"):
        msg = f"policy: first_states must return {n} whole numbers, one per variable, got {states.dtype} {states.shape}"
        raise OptionError(msg)
    states = states.astype(np.int64)
    inside = (states >= 0) & (states < universe.compiled.universe_sizes)
    fine = inside & universe.allowed[universe.start[:-1] + np.where(inside, states, 0)] if n else inside
    if not fine.all():
        index = int(np.argmin(fine))
        name = universe.compiled.variables.name(index)
        msg = f"policy: first_states gave state {states[index]} for variable {name!r}, which it cannot have"
        raise OptionError(msg)
    return states


def scores_of(policy: GrowthPolicy, view: GrowthView, variable: int) -> FloatArray:
    """Return the scores of a variable's states."""
    given: object = policy.scores(view, variable)
    asked = view.variables[variable]
    try:
        scores = np.asarray(given)
        values = scores.astype(np.float64) if scores.dtype.kind in NUMBERS else np.empty(0)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (asked.n_states,) or np.isnan(values).any() or (values == np.inf).any():
        msg = (
            f"policy: scores must return {asked.n_states} numbers for variable {asked.name!r}, none of them NaN or +inf"
        )
        raise OptionError(msg)
    return values


def all_scores(policy: GrowthPolicy, view: GrowthView) -> FloatArray:
    """Return the scores of all states of all variables in a row."""
    if isinstance(policy, FixedGrowth | RandomGrowth) and type(policy) in {FixedGrowth, RandomGrowth}:
        return policy.all_scores(view)
    scores = [scores_of(policy, view, i) for i in range(len(view.variables))]
    return np.concatenate(scores) if scores else np.empty(0)
