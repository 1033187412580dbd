"""The growth policies of the paper: any remaining state, priorities computed once, priorities kept up to date.

Also calls policies, these or the user's own, and checks what they return.
"""

from __future__ import annotations

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.errors import OptionError
from anytimebp.kernels.codes import DYNAMIC, DYNAMIC_RAW, EXHAUSTED, LEAST, POLLED, RANKED
from anytimebp.model.factor import row_items
from anytimebp.model.scores import NUMBERS
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.paper.arrays import RankingArrays
from anytimebp.paper.policy import GrowthPolicy, GrowthView


def make_ranking(universe: Universe, scores: FloatArray) -> RankingArrays:
    """Return a ranking of all states by scores; states that have joined are skipped."""
    score = np.where(universe.allowed, np.maximum(scores, LEAST), -np.inf)
    state = universe.ranked(score)
    n = len(universe.n_allowed)
    best = score[universe.start[:-1] + state[universe.start[:-1]]] if n else np.empty(0)
    priority = np.where(universe.n_allowed > 0, best, EXHAUSTED)
    item = np.lexsort((np.arange(n), -priority))  # sorted, and so a heap
    position = np.empty(n, dtype=np.int64)
    position[item] = np.arange(n)
    return RankingArrays(score, state, np.zeros(n, dtype=np.int64), item, position, priority)


class RandomGrowth:
    """States join in random order, uniform over all (variable, state) pairs. The first states are random, too.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> abp.infer(graph, "random", policy=abp.RandomGrowth(), rng=0).stop_reason.name
        'CONVERGED'
    """

    rescores = False

    def first_states(self, view: GrowthView) -> IndexArray:
        """Return a random allowed state of each variable."""
        return view.best(view.rng.random(int(view.variables.sizes().sum())))

    def scores(self, view: GrowthView, variable: int) -> FloatArray:
        """Return random numbers."""
        return view.rng.random(view.variables[variable].n_states)

    def all_scores(self, view: GrowthView) -> FloatArray:
        """Return random numbers for all states of all variables in a row, independent of the first states."""
        return np.asarray(view.rng.random(int(view.variables.sizes().sum())))


class FixedGrowth:
    """States join in the order of fixed priorities: a guess of the marginals from each factor alone.

    Args:
        raw: Whether to use the sums printed in the paper instead of normalising them per variable. The raw sums depend
            on constants in the tables and can hardly be compared between variables.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> abp.infer(graph, "fixed", policy=abp.FixedGrowth(raw=True)).stop_reason.name
        'CONVERGED'
    """

    rescores = False

    def __init__(self, *, raw: bool = False) -> None:
        """Choose between raw and normalised priorities."""
        self.raw = raw

    def first_states(self, view: GrowthView) -> IndexArray:
        """Return the best states by priority."""
        return view.best(view.all_priorities(raw=self.raw))

    def scores(self, view: GrowthView, variable: int) -> FloatArray:
        """Return the priorities of a variable's states."""
        return view.priorities(variable, raw=self.raw)

    def all_scores(self, view: GrowthView) -> FloatArray:
        """Return the priorities of all states of all variables in a row."""
        return view.all_priorities(raw=self.raw)


class DynamicGrowth:
    """States join in the order of their estimated belief, relative to that of their variable's domain.

    The kernel computes these scores itself, and only those that can still win (`kernels/candidates.py`).

    Args:
        raw: Whether to use the formula printed in the paper, the sum of log messages plus the number of factors,
            instead of the ratio to the belief of the domain. Messages are scaled to a maximum of 1 over the domain.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> abp.infer(graph, "dynamic", policy=abp.DynamicGrowth(raw=True)).stop_reason.name
        'CONVERGED'
    """

    rescores = True

    def __init__(self, *, raw: bool = False) -> None:
        """Choose between raw and relative priorities."""
        self.raw = raw

    def first_states(self, view: GrowthView) -> IndexArray:
        """Return the best states by unary scores, by fixed priorities for variables without any."""
        return view.best(view.first_guess())

    def scores(self, view: GrowthView, variable: int) -> FloatArray:
        """Return the estimated log belief ratios of a variable's states."""
        return view.estimates(variable)


# ------------------------------------------------------------ asking a policy
def policy_of(method: str) -> GrowthPolicy:
    """Return the growth policy of a method."""
    if method == "random":
        return RandomGrowth()
    return DynamicGrowth() if method == "dynamic" else FixedGrowth()


def mode_of(policy: GrowthPolicy) -> int:
    """Return where the priorities of a policy come from; a user's subclass of ours computes its own."""
    if isinstance(policy, DynamicGrowth) and type(policy) is DynamicGrowth:
        return DYNAMIC_RAW if policy.raw else DYNAMIC
    return POLLED if policy.rescores else RANKED


def part_of(n_allowed: IndexArray, fraction: float) -> IndexArray:
    """Return how many states are a part of each universe, rounded up, and at least one."""
    sizes: IndexArray = np.maximum(1, np.ceil(fraction * n_allowed - 1e-9)).astype(np.int64)
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
