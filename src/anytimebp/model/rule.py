"""Scores that a function of the user's computes when they are needed, and the checks of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from anytimebp.errors import RuleError
from anytimebp.model.source import LOG_RULE, NUMBERS, FloatArray, IndexArray, States, out_of_range

Rule: TypeAlias = Callable[..., Any]


class RuleSource:
    """A vectorised function of state indices: `rule(a, b, ...) -> log scores`, broadcast together."""

    __slots__ = ("n_members", "rule", "scope", "shape")

    def __init__(self, shape: tuple[int, ...], rule: Rule, scope: str) -> None:
        """Hold the function; `scope` names the factor in errors."""
        self.shape = shape
        self.n_members = 1
        self.rule = rule
        self.scope = scope

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        wanted = tuple(len(axis) for axis in states)
        try:
            scores = self.rule(*np.ix_(*[_read_only(axis) for axis in states]))
        except Exception as error:
            msg = (
                f"the rule of {self.scope} raised {type(error).__name__}: {error} (asked for {wanted} states; "
                "a rule gets whole arrays of state indices, so use np.where rather than if)"
            )
            raise RuleError(msg) from error
        if scores is None:
            msg = f"the rule of {self.scope} must return log scores, it returned None"
            raise RuleError(msg)
        try:
            given = np.asarray(scores)
            block = np.array(np.broadcast_to(given, wanted), dtype=np.float64) if given.dtype.kind in NUMBERS else None
        except (TypeError, ValueError):
            block = None
        if block is None:
            shape = getattr(scores, "shape", type(scores).__name__)
            msg = f"the rule of {self.scope} must return real numbers that broadcast to {wanted}, it returned {shape}"
            raise RuleError(msg)
        bad = out_of_range(block)
        if bad.any():
            where = tuple(int(axis[i]) for axis, i in zip(states, np.argwhere(bad)[0], strict=True))
            msg = f"the rule of {self.scope} returned {block[bad][0]} at states {where}; {LOG_RULE}"
            raise RuleError(msg)
        return block


def _read_only(states: IndexArray) -> IndexArray:
    """Return a view that a rule cannot change the run's domains through."""
    view = states.view()
    view.flags.writeable = False
    return view
