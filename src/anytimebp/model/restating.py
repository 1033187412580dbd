"""Replaces the numbers of factors in a block that has tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError
from anytimebp.model.factor import FactorBlock
from anytimebp.model.kinds.dense import DenseSource, read_table, refuse_booleans
from anytimebp.model.source import FloatArray


def restated_table(
    block: FactorBlock, offsets: range, log_table: npt.ArrayLike, what: Callable[[int], str]
) -> tuple[DenseSource, range]:
    """Return a source with other log scores for some factors of a block, and the positions of those that it changes.

    Args:
        block: The block.
        offsets: Places in it, one after the other. Where its factors share a table, all of them change.
        log_table: Log scores: one table, or one a factor, stacked along a first axis.
        what: Names a member in errors.

    Raises:
        ModelError: If the factors have no tables, or the scores are none, or of another shape.
    """
    name, source, n = what(offsets.start), block.source.tables, len(block.scopes)
    if source is None:
        msg = f"{name} has no table to replace: its scores are not given as a table"
        raise ModelError(msg)
    if not offsets or offsets.step != 1 or offsets.stop > n:
        msg = f"expected factors that were added together, one after the other, got positions {offsets} of {n}"
        raise ModelError(msg)
    refuse_booleans(log_table, name)
    given = read_table(log_table, name)
    is_tied, is_stacked = source.n_members == 1, given.shape == (len(offsets), *source.shape)
    if given.shape != source.shape and not (is_stacked and (not is_tied or len(offsets) == 1)):
        expected = f"{source.shape}" if is_tied else f"{source.shape}, or {(len(offsets), *source.shape)}"
        msg = f"the log table of {name} must have the shape {expected}, got {given.shape}"
        raise ModelError(msg)
    if is_tied:
        return DenseSource(np.array(given.reshape(1, *source.shape)), is_log=True, what=what), range(n)
    values: FloatArray = np.array(source.all_log_values(slice(None)))
    values[offsets.start : offsets.stop] = given
    return DenseSource(values, is_log=True, what=what), offsets
