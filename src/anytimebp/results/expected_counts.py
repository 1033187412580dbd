"""Sums of the marginals of many factors, with only some of these in memory at a time.

Factors that share one table T need no marginals of their own. With weights w_k(f) for the message from variable k to
factor f, the marginal of f is T * w_1(f) x w_2(f) x ... / z(f), so that the sum over factors is T times a product of
two matrices: of weights of all variables but the last, divided by z, and of weights of the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.model.factor import FactorBlock, FactorKey
from anytimebp.model.scores import NUMBERS
from anytimebp.model.source import BoolArray, FloatArray, IndexArray

AT_ONCE = 2**20  # numbers of marginals, or of products of weights, in memory at a time
IN_CACHE = 8  # times fewer products of weights at a time: they are read twice, the second time from the cache
LEAST_SUM = 1e-100  # smallest sum of products in linear arithmetic; below it, numbers that underflow could matter


def read_features(given: Any, n_factors: int) -> Any:
    """Return features as an array or a sparse matrix whose rows can be taken; raise OptionError for anything else."""
    features = given.tocsr() if hasattr(given, "tocsr") else np.asarray(given)
    if features.dtype.kind not in NUMBERS:
        msg = f"expected_log_table: features are an array or a sparse matrix of numbers, got {given!r:.80}"
        raise OptionError(msg)
    if features.ndim != 2 or features.shape[0] != n_factors:  # noqa: PLR2004
        msg = f"expected_log_table: features need a row for each of {n_factors} factors, got {features.shape}"
        raise OptionError(msg)
    return features


def dense_rows(
    values: FloatArray, first: IndexArray, states: IndexArray | None, sizes: IndexArray, width: int, empty: float
) -> FloatArray:
    """Return (n, width) numbers of slots, each in the place of its state.

    Args:
        values: A number per slot.
        first: (n,) where the slots of each row start.
        states: The states of all these slots, row after row; None where each row has all states in order.
        sizes: (n,) slots of each row.
        width: Number of states.
        empty: What stands in places of states without slots.
    """
    if states is None:
        found: FloatArray = values[first[:, np.newaxis] + np.arange(width)]
        return found
    rows = np.full((len(first), width), empty)
    before = np.cumsum(sizes) - sizes
    slots = np.arange(len(states)) + np.repeat(first - before, sizes)
    rows[np.repeat(np.arange(len(first)), sizes), states] = values[slots]
    return rows


def tied_sum(log_table: FloatArray, log_weights: Sequence[FloatArray]) -> tuple[FloatArray, BoolArray]:
    """Return the sum of the marginals of factors that share a table, and which factors are in it.

    Factors whose numbers are so small that they must be summed in logs are left out.

    Args:
        log_table: (a, b, ...) log scores, shared.
        log_weights: Per axis, (n, states) logs of the messages to the factors.
    """
    n, last = len(log_weights[0]), log_table.shape[-1]
    table = np.exp(log_table - log_table.max()).reshape(-1, last)
    with np.errstate(invalid="ignore"):  # of a row of -inf: such a factor is left out
        weights = [np.exp(own - own.max(axis=1, keepdims=True)) for own in log_weights]
    total, is_in = np.zeros(table.shape), np.zeros(n, dtype=np.bool_)
    for rows in parts(n, IN_CACHE * len(table)):
        others = weights[0][rows]
        for own in weights[1:-1]:
            others = (others[:, :, np.newaxis] * own[rows, np.newaxis, :]).reshape(len(others), -1)
        z = np.einsum("nc,nc->n", others @ table, weights[-1][rows])
        is_in[rows] = own_sums = z >= LEAST_SUM  # not where NaN
        if not own_sums.all():
            others, z = np.where(own_sums[:, np.newaxis], others, 0.0), np.where(own_sums, z, 1.0)
        total += others.T @ (np.where(own_sums[:, np.newaxis], weights[-1][rows], 0.0) / z[:, np.newaxis])
    total *= table
    return total.reshape(log_table.shape), is_in


def stacked_marginals(log_tables: FloatArray, log_weights: Sequence[FloatArray]) -> FloatArray:
    """Return (n, a, b, ...) marginals of factors; NaN where no joint state is possible.

    Args:
        log_tables: (n, a, b, ...) log scores; overwritten.
        log_weights: As for `tied_sum`.
    """
    log_belief, axes = log_tables, tuple(range(1, log_tables.ndim))
    for axis, own in enumerate(log_weights, 1):
        log_belief += own.reshape([n if k in {0, axis} else 1 for k, n in enumerate(log_tables.shape)])
    with np.errstate(invalid="ignore"):
        log_belief -= log_belief.max(axis=axes, keepdims=True)
    belief: FloatArray = np.exp(log_belief, out=log_belief)
    belief /= belief.sum(axis=axes, keepdims=True)
    return belief


def parts(n: int, entries: int) -> Iterator[slice]:
    """Cut n factors into parts whose marginals fit into memory together."""
    step = max(1, AT_ONCE // max(1, entries))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


class Summable(Protocol):
    """The part of `FactorMarginals` that is used here."""

    def located(self, key: FactorKey) -> tuple[FactorBlock, int]:
        """Return the block of a factor, and its position in it."""

    def stacked(self, block: FactorBlock, offsets: IndexArray) -> FloatArray:
        """Return (n, ...) marginals."""

    def summed(self, block: FactorBlock, offsets: IndexArray) -> FloatArray:
        """Return the sum of marginals."""


def stacks(marginals: Summable, factors: range) -> Iterator[tuple[slice, FloatArray]]:
    """Yield marginals of a range of factors, some at a time, (n, ...), and the positions of these in the range."""
    for block, offsets, start in _runs(marginals, factors):
        for part in parts(len(offsets), math.prod(block.source.shape)):
            yield slice(start + part.start, start + part.stop), marginals.stacked(block, offsets[part])


def expected_counts(marginals: Summable, factors: range, features: Any = None) -> FloatArray:
    """Return the sum of the marginals of a range of factors; with features, a sum for each, weighted by it.

    Args:
        marginals: Of all factors.
        factors: Not empty; all of one shape.
        features: (n, features) an array or a sparse matrix; the answer is (features, ...) then.
    """
    runs = list(_runs(marginals, factors))
    shape = runs[0][0].source.shape
    for block, _, start in runs:
        if block.source.shape != shape:
            msg = (
                f"expected_log_table: factor {factors[start]} has a table of shape {block.source.shape}, the others of "
                f"{shape}; only factors of one shape can share their scores"
            )
            raise OptionError(msg)
    if features is not None:
        total = np.zeros((features.shape[1], math.prod(shape)))
        for part, own in stacks(marginals, factors):
            total += features[part].T @ own.reshape(len(own), -1)
        return total.reshape(-1, *shape)
    total = np.zeros(shape)
    for block, offsets, _ in runs:
        if len(shape) > 1 and block.source.n_members == 1 and len(offsets) > 1 and block.source.tables is not None:
            total += marginals.summed(block, offsets)
            continue
        for part in parts(len(offsets), total.size):
            total += marginals.stacked(block, offsets[part]).sum(axis=0)
    return total


def _runs(marginals: Summable, factors: range) -> Iterator[tuple[FactorBlock, IndexArray, int]]:
    """Cut a range of factors where blocks begin: each block, the places in it, and how many factors came before."""
    done = 0
    while done < len(factors):
        block, offset = marginals.located(factors[done])
        end = block.first + len(block.scopes) if factors.step > 0 else block.first - 1
        count = min(len(range(factors[done], end, factors.step)), len(factors) - done)
        yield block, offset + factors.step * np.arange(count), done
        done += count
