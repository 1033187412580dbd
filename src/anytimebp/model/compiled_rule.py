"""Rules that Numba compiles: the loop over a block of joint states, with the user's function inside it.

Such a rule is a function of scalar state indices, which is fast only if compiled code calls it. This is the one module
outside the kernels that uses Numba, and it imports Numba only when it meets such a rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from anytimebp.model.source import FloatArray, States

MOST_LOOPS = 256  # compiled loops that are kept; a rule beyond them is compiled again on its next use


def is_compiled(rule: object) -> bool:
    """Tell whether a rule is a function that Numba compiles."""
    return hasattr(rule, "py_func")


def fill_by_loop(rule: object, states: States) -> FloatArray | None:
    """Return the scores on the product of the given states, or None if the rule does not compile for scalars.

    Whatever the rule raises comes through.
    """
    from numba.core.errors import NumbaError  # noqa: PLC0415  (a rule has brought Numba along)

    loop = _loop_of(rule)
    if loop.fill is None:
        return None
    block = np.empty([len(axis) for axis in states])
    own = tuple(np.array(axis, dtype=np.int64) for axis in states)  # of one type, so that it is compiled once
    try:
        loop.fill(own, (0,) * len(own), block.reshape(-1))
    except NumbaError:
        loop.fill = None
        return None
    return block


class _Loop:
    """A compiled loop, or None for a rule that does not take scalars."""

    __slots__ = ("fill",)

    def __init__(self, fill: Any) -> None:
        """Hold the loop."""
        self.fill = fill


@lru_cache(maxsize=MOST_LOOPS)
def _loop_of(rule: Any) -> _Loop:
    """Return the loop with a rule in it; it is compiled when it is first called, per number of axes."""
    from numba import njit  # noqa: PLC0415
    from numba.cpython.unsafe.tuple import tuple_setitem  # noqa: PLC0415

    with_item: Any = tuple_setitem  # (tuple, place, item) -> tuple

    @njit(nogil=True)
    def fill(states: Any, index: Any, scores: Any) -> None:
        """Fill the scores, row by row along the last axis; `index` is a tuple of as many zeros as there are axes."""
        last = len(index) - 1
        n = states[last].size
        for row in range(scores.size // max(1, n)):
            rest = row
            for axis in range(last - 1, -1, -1):
                part = states[axis]
                index = with_item(index, axis, part[rest % part.size])
                rest //= part.size
            for k in range(n):
                scores[row * n + k] = rule(*with_item(index, last, states[last][k]))

    return _Loop(fill)
