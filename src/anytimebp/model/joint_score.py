"""The log score of a joint state, from the factors themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anytimebp.model.evidence import Observation
from anytimebp.model.factor import FactorBlock
from anytimebp.model.source import IndexArray
from anytimebp.model.variable import VariableTable


def joint_log_score(
    blocks: Sequence[FactorBlock], variables: VariableTable, observed: Mapping[int, Observation], states: IndexArray
) -> float:
    """Return the sum of all factors' log scores at a joint state, and of soft evidence; -inf where it is impossible.

    Args:
        blocks: All factors.
        variables: Of the graph.
        observed: The evidence; states that it excludes are impossible.
        states: (V,) a state of each variable.
    """
    total = 0.0
    for block in blocks:
        at, tables = states[block.scopes], block.source.tables
        if tables is not None:
            total += tables.score_at(at)
            continue
        scores = block.gather(np.arange(len(at)), [at[:, k : k + 1] for k in range(at.shape[1])], variables)
        total += float(scores.sum())
    for index, seen in observed.items():
        position = int(states[index])
        if seen.states is not None:
            found = np.flatnonzero(seen.states == position)
            if not len(found):
                return float("-inf")
            position = int(found[0])
        if seen.log_scores is not None:
            total += float(seen.log_scores[position])
    return total
