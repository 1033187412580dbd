"""Joint states that are outside the domains of two variables of a factor at once: an estimate of their belief.

One round of messages out of the domains changes one variable at a time, so it is blind to two states that are unlikely
each and likely together. With r(x) the belief of an outside state x, relative to that of the domain, and o, n, Z_f as
in `messages`, the belief of a pair of them, relative to that of the domains, is

    r_i(x) r_j(y) * t(x, y) * Z_f / (o_i(x) o_j(y)),   summed over the domains of f's other variables, weighted by n

All pairs of a factor are looked at if they are few, otherwise pairs of states drawn by r, which may miss a lone pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.scores import log_sum_exp
from anytimebp.model.source import BoolArray, FloatArray, IndexArray

MOST_PAIRS = 100_000  # scores of a factor that are asked for at the most
MOST_SCORES = 2**20  # and of all factors together; each may ask for LEAST_PAIRS all the same
LEAST_PAIRS = 4096
PROPOSED_PAIRS = 1024  # the most of a rule that proposes candidates, so that few have to be looked at
BLOCK = 4096  # scores that are asked for at a time
MOST_FACTORS = 4096  # that are looked at, those of which pairs may count most first; of others the most is taken
UNKNOWN_RANGE = 1e6  # nats; factors of unknown range come first
NEGLIGIBLE = 1e-3  # part of what is outside anyway: pairs that cannot add so much are not looked at
LARGEST_LOG = 700.0  # nats, so that numbers stay finite


class Sight(NamedTuple):
    """What is known of the domains and of the states outside them.

    Attributes:
        compiled: The graph.
        domain: The active states of a variable.
        log_weight: By edge: the log message from its variable to its factor, over the domain.
        log_total: (F,) log Z_f over the domains, in the scale of the scores; NaN where it is not known.
        outside: States of a variable outside its domain, and the logs of their r.
        log_outside: (V,) the log of the sum of all r; -inf where there is nothing.
        counts: (F,) factors that are looked at; None for all.
    """

    compiled: CompiledGraph
    domain: Callable[[int], IndexArray]
    log_weight: Callable[[int], FloatArray]
    log_total: FloatArray
    outside: Callable[[int], tuple[IndexArray, FloatArray]]
    log_outside: FloatArray
    counts: BoolArray | None = None


def add_pairs(sight: Sight, mass: FloatArray) -> None:
    """Add to `mass`, (V,), the estimated belief of pairs outside."""
    factors, bound = _worth_a_look(sight, NEGLIGIBLE * float(np.mean(mass)) if len(mass) else 0.0)
    factors, others = factors[:MOST_FACTORS], factors[MOST_FACTORS:]
    for factor in others:
        edges = sight.compiled.edges(factor)
        mass[sight.compiled.arrays.edge_variable[edges.start : edges.stop]] += np.exp(min(LARGEST_LOG, bound[factor]))
    limit = min(MOST_PAIRS, max(LEAST_PAIRS, MOST_SCORES // max(1, len(factors))))
    rng = np.random.default_rng(0)
    for factor in factors:
        edges = sight.compiled.edges(factor)
        variables = [int(sight.compiled.arrays.edge_variable[edge]) for edge in edges]
        source, _ = sight.compiled.source(factor)
        most = min(limit, PROPOSED_PAIRS) if source.proposes else limit
        for a, b in combinations(range(len(edges)), 2):
            if sight.log_outside[variables[a]] > -np.inf and sight.log_outside[variables[b]] > -np.inf:
                found = _pair(sight, factor, (a, b), most, rng)
                mass[variables[a]] += found
                mass[variables[b]] += found


def _worth_a_look(sight: Sight, least: float) -> tuple[list[int], FloatArray]:
    """Return the factors of which pairs may count, those that may count most first, and (F,) the log of the most."""
    layout, extent = sight.compiled.arrays, sight.compiled.extent
    bound = np.full(len(extent.log_max), -np.inf)
    for first, block in sight.compiled.message_blocks:
        outside = np.sort(sight.log_outside[block.scopes], axis=1)
        bound[first : first + len(block.scopes)] = outside[:, -1] + outside[:, -2]
    spread = np.where(np.isnan(extent.log_max), UNKNOWN_RANGE, extent.log_max - extent.log_min)
    # t Z_f / (o o) <= exp(2 spread) times the summed weights of two domains
    log_size = np.log([max(1, len(sight.domain(v))) for v in range(len(sight.log_outside))])
    edge_size = log_size[layout.edge_variable]
    size = np.add.reduceat(edge_size, layout.factor_edge_start[:-1]) if len(bound) else np.empty(0)
    bound += 2.0 * spread + size
    if sight.counts is not None:
        bound[~sight.counts] = -np.inf
    order = np.argsort(-bound, kind="stable")
    found: list[int] = order[bound[order] > (math.log(least) if least > 0.0 else -np.inf)].tolist()
    return found, bound


def _pair(sight: Sight, factor: int, axes: tuple[int, int], limit: int, rng: np.random.Generator) -> float:
    """Return the estimated belief of the pairs on two axes of a factor."""
    edges = sight.compiled.edges(factor)
    variables = [int(sight.compiled.arrays.edge_variable[edge]) for edge in edges]
    states = [sight.domain(v) for v in variables]
    if not all(len(own) for own in states):
        return 0.0  # a variable that has no active states yet is unexplored anyway
    factor_view = _Factor(sight, factor, [sight.log_weight(edge) for edge in edges])
    rest = math.prod(len(own) for k, own in enumerate(states) if k not in axes)
    chosen = _chosen([sight.outside(variables[axis]) for axis in axes], limit // max(1, rest), rng)
    single = [[chosen[axes.index(axis)][0] if k == axis else own for k, own in enumerate(states)] for axis in axes]
    if max(_size(states), *(_size(one) for one in single)) > 4 * limit or not all(len(own) for own, _ in chosen):
        return 0.0  # domains as wide as this hold what counts
    log_total = float(sight.log_total[factor])
    if math.isnan(log_total):
        log_total = float(log_sum_exp(factor_view.summed(states, axes[0]) + factor_view.weights[axes[0]]))
    ratios = []
    for axis, one, (_, log_ratio) in zip(axes, single, chosen, strict=True):
        sums = factor_view.summed(one, axis)
        ratios.append(np.where(sums > -np.inf, log_ratio - sums, -np.inf))
    both = [chosen[axes.index(k)][0] if k in axes else own for k, own in enumerate(states)]
    return math.exp(min(LARGEST_LOG, factor_view.log_mass(both, axes, ratios) + log_total))


class _Factor(NamedTuple):
    """Asks for a factor's scores, a few at a time.

    Attributes:
        sight: The domains.
        factor: Its number.
        weights: By axis, log messages over the domain.
    """

    sight: Sight
    factor: int
    weights: list[FloatArray]

    def summed(self, states: list[IndexArray], axis: int) -> FloatArray:
        """Return the logs of the scores, summed with the weights over all axes but one."""
        return np.concatenate([self._sums(part, (axis,)) for part in _cut(states, axis)])

    def log_mass(self, states: list[IndexArray], axes: tuple[int, int], log_ratio: list[FloatArray]) -> float:
        """Return the log of the sum over two axes of scores times ratios, the others summed with the weights."""
        total, begin = -np.inf, 0
        for part in _cut(states, axes[0]):
            end = begin + len(part[axes[0]])
            terms = self._sums(part, axes) + np.add.outer(log_ratio[0][begin:end], log_ratio[1])
            total, begin = float(np.logaddexp(total, log_sum_exp(terms))), end
        return total

    def _sums(self, states: list[IndexArray], kept: tuple[int, ...]) -> FloatArray:
        terms = np.array(self.sight.compiled.log_values(self.factor, states))
        for axis, weight in enumerate(self.weights):
            if axis not in kept:
                terms += weight.reshape([-1 if k == axis else 1 for k in range(terms.ndim)])
        gone = tuple(axis for axis in range(terms.ndim) if axis not in kept)
        return log_sum_exp(terms, gone) if gone else terms


def _size(states: list[IndexArray]) -> int:
    return math.prod(len(own) for own in states)


def _cut(states: list[IndexArray], axis: int) -> Iterator[list[IndexArray]]:
    """Cut a product of states along an axis, so that a part has about BLOCK joint states."""
    step = max(1, BLOCK * len(states[axis]) // max(1, _size(states)))
    for begin in range(0, len(states[axis]), step):
        yield [own[begin : begin + step] if k == axis else own for k, own in enumerate(states)]


def _chosen(
    outside: list[tuple[IndexArray, FloatArray]], limit: int, rng: np.random.Generator
) -> list[tuple[IndexArray, FloatArray]]:
    """Return states of two variables and the logs of what each stands for: all of them, or draws up to the limit."""
    sizes = [len(states) for states, _ in outside]
    if math.prod(sizes) <= limit:
        return outside
    few = math.isqrt(limit)
    most = [few if min(sizes) > few else limit // max(1, min(sizes)) if n == max(sizes) else n for n in sizes]
    return [_drawn(*own, n, rng) if len(own[0]) > n else own for own, n in zip(outside, most, strict=True)]


def _drawn(
    states: IndexArray, log_ratio: FloatArray, n: int, rng: np.random.Generator
) -> tuple[IndexArray, FloatArray]:
    """Draw states by their ratio; return each once, with the log of what its draws stand for."""
    total = log_sum_exp(log_ratio)
    share = np.exp(log_ratio - total)
    positions, counts = np.unique(rng.choice(len(states), size=n, p=share / share.sum()), return_counts=True)
    return states[positions], total + np.log(counts / n) if n else log_ratio[:0]
