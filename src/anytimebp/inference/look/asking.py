"""What a factor without numbers in memory says of some states: asked for in blocks and kept nowhere."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from anytimebp.kernels.row_sums import log_sum_rows
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import ASKED_AT_ONCE, FloatArray, IndexArray, States


def ask_message(
    compiled: CompiledGraph,
    factor: int,
    others: States,
    log_weights: Sequence[FloatArray],
    axis: int,
    states: IndexArray,
    block: int = ASKED_AT_ONCE,
) -> Generator[int, None, FloatArray]:
    """Return the log of what a factor sends to some states, from some states of its other variables.

    Args:
        compiled: The graph.
        factor: The message factor.
        others: States of the other variables, an index array per axis; ignored at `axis`.
        log_weights: Of these states; ignored at `axis`.
        axis: Of the variable to which the message goes.
        states: Its states.
        block: Scores to ask for at a time.

    Yields:
        How many scores were asked for, after each call.
    """
    source, _ = compiled.source(factor)
    if source.speaks:
        yield len(states)
        return source.log_message(others, log_weights, axis, states)
    found, weight = np.empty(len(states)), np.zeros(1)
    for k, own in enumerate(log_weights):
        if k != axis:
            weight = np.add.outer(weight, own).reshape(-1)
    step = max(1, block // len(weight))
    for start in range(0, len(states), step):
        chosen = [states[start : start + step] if k == axis else own for k, own in enumerate(others)]
        scores = np.moveaxis(compiled.log_values(factor, chosen), axis, 0)
        rows = np.ascontiguousarray(scores.reshape(len(chosen[axis]), -1))
        log_sum_rows(rows, weight, found[start : start + step])
        yield rows.size
    return found
