"""The queue of variables by a ranking that never changes."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.universe import Universe
from anytimebp.kernels.codes import EXHAUSTED, LEAST
from anytimebp.model.source import FloatArray
from anytimebp.paper.arrays import RankingArrays


def make_ranking(universe: Universe, scores: FloatArray) -> RankingArrays:
    """Return a ranking of all states by scores; states that have joined are passed over when they come up."""
    score = np.where(universe.allowed, np.maximum(scores, LEAST), -np.inf)
    state = universe.ranked(score)
    n = len(universe.n_allowed)
    best = score[universe.start[:-1] + state[universe.start[:-1]]] if n else np.empty(0)
    priority = np.where(universe.n_allowed > 0, best, EXHAUSTED)
    item = np.lexsort((np.arange(n), -priority))  # sorted, and so a heap
    place = np.empty(n, dtype=np.int64)
    place[item] = np.arange(n)
    return RankingArrays(score, state, np.zeros(n, dtype=np.int64), item, place, priority)
