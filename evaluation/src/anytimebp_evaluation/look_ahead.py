"""Residual BP as the paper prints it: the priority of a factor is by how much its messages would move now.

To know that, the messages of a factor are computed whenever one that comes in has changed, and most of what is computed
is never sent. The library's `residual` goes by how far incoming messages have moved since the last update, which takes
no reading of tables. This is the printed one, on models of pairs, to tell what it costs: every table that is read for a
priority counts as work, and passing the messages that were computed for it costs nothing more.
"""

from __future__ import annotations

import numpy as np

from anytimebp import Snapshot
from anytimebp_evaluation.families import FloatArray
from anytimebp_evaluation.pairs import PairModel, dynamic_range


class LookAhead:
    """A run of residual BP with look-ahead.

    Attributes:
        updates: Factors whose messages have been passed.
        work: Table entries read.
        residual: (pairs,) priority of every factor, in nats.
    """

    def __init__(self, model: PairModel) -> None:
        """Compute the priorities of all factors."""
        self._model = model
        n_pairs, n_states = len(model.scopes), model.unary.shape[1]
        self._message = np.zeros((n_pairs, 2, n_states))
        self._pending = np.zeros((n_pairs, 2, n_states))
        self._total = model.unary.copy()
        self._of_variable = [np.flatnonzero((model.scopes == i).any(axis=1)).tolist() for i in range(len(model.unary))]
        self.updates = self.work = 0
        self.residual = np.zeros(n_pairs)
        for pair in range(n_pairs):
            self._look_ahead(pair)

    def update(self) -> None:
        """Pass the messages of the factor with the largest residual, and bring the priorities around it up to date."""
        pair = int(self.residual.argmax())
        scope = self._model.scopes[pair].tolist()
        for axis, variable in enumerate(scope):
            self._total[variable] += self._pending[pair, axis] - self._message[pair, axis]
        self._message[pair] = self._pending[pair]
        self.residual[pair] = 0.0
        self.updates += 1
        for other in sorted({near for variable in scope for near in self._of_variable[variable]} - {pair}):
            self._look_ahead(other)

    def marginals(self) -> FloatArray:
        """Return (variables, states) the marginals of now."""
        weights: FloatArray = np.exp(self._total - self._total.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def distances(self, reference: Snapshot) -> tuple[float, float]:
        """Return the L2 and the total variation distance to a reference, as `Snapshot.distance` has them."""
        gap = self.marginals() - np.array([reference.marginals[i] for i in range(len(self._total))])
        return float(np.linalg.norm(gap, axis=1).mean()), float(np.abs(gap).sum(axis=1).mean() / 2)

    def _look_ahead(self, pair: int) -> None:
        """Compute the messages that a factor would send now."""
        a, b = self._model.scopes[pair]
        incoming = self._total[a] - self._message[pair, 0], self._total[b] - self._message[pair, 1]
        self._pending[pair] = self._model.sent(pair, incoming, None)
        self.residual[pair] = max(map(dynamic_range, self._pending[pair], self._message[pair]))
        self.work += self._model.weights[pair].size
