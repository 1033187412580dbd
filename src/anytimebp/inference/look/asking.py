"""What a factor without numbers in memory says of some states, asked for in blocks: a message, or a table."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np

from anytimebp.kernels.table_sums import log_sum_rows
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import ASKED_AT_ONCE, Box, FloatArray, IndexArray, States, cut


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
    if source.has_log_message:
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


def ask_table(
    compiled: CompiledGraph,
    factor: int,
    states: States,
    known: tuple[States, FloatArray] | None = None,
    block: int = ASKED_AT_ONCE,
) -> Generator[int, None, FloatArray]:
    """Return a factor's log scores on the product of some states; shape (1, ...).

    Args:
        compiled: The graph.
        factor: The message factor.
        states: An index array per axis.
        known: Some of these states, in the same order, and the scores on their product, which are not asked for again.
        block: Scores to ask for at a time.

    Yields:
        How many scores were asked for, after each call.
    """
    shape = tuple(len(own) for own in states)
    scores = np.empty((1, *shape))
    order, old = [np.arange(n) for n in shape], (0,) * len(shape)
    if known is not None:
        is_known = [np.isin(own, before, assume_unique=True) for own, before in zip(states, known[0], strict=True)]
        order, old = [np.argsort(~own, kind="stable") for own in is_known], known[1].shape
        scores[0][np.ix_(*(own[:n] for own, n in zip(order, old, strict=True)))] = known[1]
    for box in _new_boxes(old, shape):
        for part in cut(box, block):
            positions = [own[position] for own, position in zip(order, part, strict=True)]
            found = compiled.log_values(factor, [own[k] for own, k in zip(states, positions, strict=True)])
            scores[0][np.ix_(*positions) if known is not None else part] = found
            yield found.size
    return scores


def _new_boxes(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[Box]:
    """Cut what a larger table has beyond a smaller one into boxes that do not overlap.

    The first axis beyond its old size decides the box: those before are within their old sizes, those behind anywhere.
    """
    for beyond in range(len(new)):
        box = [slice(0, n if k > beyond else o) for k, (o, n) in enumerate(zip(old, new, strict=True))]
        box[beyond] = slice(old[beyond], new[beyond])
        if all(position.stop > position.start for position in box):
            yield tuple(box)


def heaviest(states: IndexArray, log_weight: FloatArray, left_out: float) -> tuple[IndexArray, FloatArray]:
    """Return the states of most weight, heaviest first, and the logs of their weights.

    Args:
        states: Of one variable.
        log_weight: Of each.
        left_out: Part of the whole weight that the others may have.
    """
    if left_out <= 0.0 or len(states) == 1:
        return states, log_weight
    weight = np.exp(log_weight - log_weight.max())
    order = np.argsort(-weight, kind="stable")
    share = np.cumsum(weight[order])
    order = order[: 1 + int(np.searchsorted(share, (1.0 - left_out) * share[-1]))]
    return states[order], log_weight[order]
