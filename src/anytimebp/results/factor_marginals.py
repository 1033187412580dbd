"""Marginals of factors over the joint states of their variables, made from frozen arrays when asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

import numpy as np

from anytimebp.errors import InconsistentModelError, InternalError, OptionError, UnknownFactorError
from anytimebp.model.factor import FactorBlock, FactorKey, describe_factor
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.expected_counts import stacked_marginals, tied_sum
from anytimebp.results.marginals import REPORT_IT, Marginals


class FactorMarginals(Mapping[int, FloatArray]):
    """A read-only mapping from factor index to the factor's marginal over the joint states of its variables.

    A factor that was added under a name is found by that name as well.
    """

    __slots__ = ("_blocks", "_factor_edge", "_firsts", "_log_weight", "_marginals", "_slot_start")

    def __init__(
        self,
        marginals: Marginals,
        blocks: tuple[FactorBlock, ...],
        factor_edge: IndexArray,
        slot_start: IndexArray,
        log_weight: FloatArray,
    ) -> None:
        """Hold the messages from variables to factors; they and the tables make the marginals.

        Args:
            marginals: Of the variables, which are also those of unary factors.
            blocks: The factors.
            factor_edge: The first edge of each factor, -1 for unary ones.
            slot_start: The first slot of each edge.
            log_weight: Log messages from variables to factors, per edge slot.
        """
        self._marginals = marginals
        self._blocks = blocks
        self._firsts = [block.first for block in blocks]
        self._factor_edge = factor_edge
        self._slot_start = slot_start
        self._log_weight = log_weight

    def __getitem__(self, key: FactorKey) -> FloatArray:
        """Return the marginal of a factor, its axes in the order of its scope."""
        block, offset = self.located(key)
        index, scope = block.first + offset, block.scopes[offset].tolist()
        if len(scope) == 1:
            return self._marginals[scope[0]]
        domains = [self._marginals.domain(i) for i in scope]
        states = [np.arange(n) if d is None else d for d, n in zip(domains, block.source.shape, strict=True)]
        log_belief = np.array(block.log_values(offset, states, self._marginals.variables))
        for axis, allowed in enumerate(states):
            start = self._slot_start[self._factor_edge[index] + axis]
            weight = self._log_weight[start : start + len(allowed)]
            log_belief += weight.reshape([-1 if k == axis else 1 for k in range(len(scope))])
        marginal = np.zeros(block.source.shape)
        marginal[np.ix_(*states)] = self._normalised(log_belief, index)
        return marginal

    def stacked(self, block: FactorBlock, offsets: IndexArray) -> FloatArray:
        """Return (n, ...) the marginals of some factors of a block, by their places in it."""
        if block.scopes.shape[1] == 1:
            return self._marginals.rows(block.scopes[offsets, 0])
        states = [np.broadcast_to(np.arange(k), (len(offsets), k)) for k in block.source.shape]
        log_tables = block.gather(offsets, states, self._marginals.variables)
        found = stacked_marginals(log_tables, self._log_weights(block, offsets))
        odd = np.flatnonzero(np.isnan(found.reshape(len(found), -1)[:, 0]))
        for k in odd.tolist():  # says why
            found[k] = self[block.first + int(offsets[k])]
        return found

    def summed(self, block: FactorBlock, offsets: IndexArray) -> FloatArray:
        """Return the sum of the marginals of some factors of a block that share one table."""
        shared = block.log_values(0, [np.arange(k) for k in block.source.shape], self._marginals.variables)
        total, is_in = tied_sum(shared, self._log_weights(block, offsets))
        for offset in offsets[~is_in].tolist():
            total += self[block.first + offset]
        return total

    def _log_weights(self, block: FactorBlock, offsets: IndexArray) -> list[FloatArray]:
        """Return per axis (n, states) the log messages to some factors of a block."""
        edges, scopes = self._factor_edge[block.first + offsets], block.scopes[offsets]
        first = [self._slot_start[edges + axis] for axis in range(scopes.shape[1])]
        return [
            self._marginals.spread(own, self._log_weight, k, -np.inf) for own, k in zip(scopes.T, first, strict=True)
        ]

    def located(self, key: FactorKey) -> tuple[FactorBlock, int]:
        """Return the block of a factor, and its position in it."""
        index = self._index_of(key)
        block = self._blocks[bisect_right(self._firsts, index) - 1]
        return block, index - block.first

    def _index_of(self, key: FactorKey) -> int:
        if isinstance(key, str):
            for block in self._blocks:
                if block.name == key:
                    return block.first
            msg = f"there is no factor named {key!r}"
            raise UnknownFactorError(msg)
        if not isinstance(key, int | np.integer) or not 0 <= key < len(self):
            msg = f"expected the index of a factor, 0 to {len(self) - 1}, or its name, got {key!r}"
            raise UnknownFactorError(msg)
        return int(key)

    def _normalised(self, log_belief: FloatArray, index: int) -> FloatArray:
        """Return beliefs from their logs; raise if there are none."""
        highest = log_belief.max()
        if highest == -np.inf:
            name = describe_factor(self._blocks, self._marginals.variables, index)
            msg = f"{name} has no marginal: no joint state of the active states of its variables is possible"
            raise InconsistentModelError(msg)
        belief: FloatArray = np.exp(log_belief - highest)
        belief /= belief.sum()
        if not belief.min() >= 0.0:  # NaN
            name = describe_factor(self._blocks, self._marginals.variables, index)
            msg = f"internal error: the marginal of {name} holds {belief.min()}; {REPORT_IT}"
            raise InternalError(msg)
        return belief

    def __iter__(self) -> Iterator[int]:
        """Go through the factors in order."""
        return iter(range(len(self)))

    def __len__(self) -> int:
        """Return the number of factors."""
        return len(self._factor_edge)


class NoFactorMarginals(FactorMarginals):
    """Replaces the marginals of factors in a snapshot without them: false, and raises an OptionError on every use."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        """Hold what errors say."""
        self._reason = reason

    def __getitem__(self, key: FactorKey) -> FloatArray:
        """Raise OptionError."""
        raise OptionError(self._reason)

    def located(self, key: FactorKey) -> tuple[FactorBlock, int]:  # noqa: ARG002  (of a mapping without keys)
        """Raise OptionError."""
        raise OptionError(self._reason)

    def __iter__(self) -> Iterator[int]:
        """Raise OptionError."""
        raise OptionError(self._reason)

    def __len__(self) -> int:
        """Return 0, so that it is false."""
        return 0

    def __repr__(self) -> str:
        """Return the reason."""
        return f"<no factor marginals: {self._reason}>"


NOT_ASKED_FOR = NoFactorMarginals(
    "factor marginals were not asked for: pass `factor_marginals=True` to `infer` or `Inference`"
)
