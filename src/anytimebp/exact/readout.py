"""Marginals of factors out of the joint marginals of cliques."""

from __future__ import annotations

import numpy as np

from anytimebp.exact.passes import Joints
from anytimebp.model.factor import FactorBlock, FactorKey
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.expected_counts import parts
from anytimebp.results.factor_marginals import FactorMarginals
from anytimebp.results.marginals import Marginals


class CliqueMarginals(FactorMarginals):
    """A read-only mapping from factor index or name to the factor's marginal, summed out of a clique when asked for."""

    __slots__ = ("_joints",)

    def __init__(self, marginals: Marginals, blocks: tuple[FactorBlock, ...], joints: Joints) -> None:
        """Hold the joint marginals of all cliques."""
        none = np.empty(sum(len(block.scopes) for block in blocks), dtype=np.int64)
        super().__init__(marginals, blocks, none, none, np.empty(0))
        self._joints = joints

    def __getitem__(self, key: FactorKey) -> FloatArray:
        """Return the marginal of a factor, its axes in the order of its scope."""
        block, offset = self.located(key)
        scope = block.scopes[offset].tolist()
        if len(scope) == 1:
            return self._marginals[scope[0]]
        domains = [self._marginals.domain(i) for i in scope]
        states = [np.arange(n) if d is None else d for d, n in zip(domains, block.source.shape, strict=True)]
        marginal = np.zeros(block.source.shape)
        found = self._joints.marginal(scope)
        marginal[np.ix_(*states)] = found / found.sum()
        return marginal

    def stacked(self, block: FactorBlock, offsets: IndexArray) -> FloatArray:
        """Return (n, ...) the marginals of some factors of a block, by their places in it."""
        scopes = block.scopes[offsets]
        if scopes.shape[1] == 1:
            return self._marginals.rows(scopes[:, 0])
        if self._marginals.are_whole:
            found = self._joints.marginals(scopes)
            found /= found.sum(axis=tuple(range(1, found.ndim)), keepdims=True)
            return found
        return np.stack([self[block.first + offset] for offset in offsets.tolist()])

    def summed(self, block: FactorBlock, offsets: IndexArray) -> FloatArray:
        """Return the sum of the marginals of some factors of a block."""
        total = np.zeros(block.source.shape)
        for part in parts(len(offsets), total.size):
            total += self.stacked(block, offsets[part]).sum(axis=0)
        return total
