"""Rows of unequal length in one array: where they start, and where their items lie."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anytimebp.model.source import IndexArray


def row_starts(lengths: npt.ArrayLike) -> IndexArray:
    """Return (n + 1,) where each of n rows starts, and where the last one ends."""
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = np.zeros(len(ends) + 1, dtype=np.int64)
    starts[1:] = ends
    return starts


def row_items(first: IndexArray, counts: IndexArray) -> IndexArray:
    """Return first[i], first[i] + 1, ..., counts[i] of them, for all i in order."""
    before = np.cumsum(counts) - counts
    items: IndexArray = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    return items
