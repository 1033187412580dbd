"""Scores that a user's function computes when they are needed, and checks of what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from anytimebp.errors import RuleError
from anytimebp.model.compiled_rule import fill_by_loop, is_compiled
from anytimebp.model.scores import LOG_RULE, MAX_SCORE, NUMBERS, out_of_range
from anytimebp.model.source import FactorSource, FloatArray, IndexArray, Naming, States, read_only

Rule: TypeAlias = Callable[..., Any]
Propose: TypeAlias = Callable[[tuple[IndexArray | None, ...], int], npt.ArrayLike]

FEW = 3  # states that errors list before they only count them
LONG = 300  # letters of a foreign error's text that ours repeats: those of Numba fill pages
WHOLE_ARRAYS = "a rule gets whole arrays of state indices, so use np.where rather than if"
SCALARS = "a rule that Numba compiles gets one state index per variable, or whole arrays if it takes no scalars"


class RuleSource(FactorSource):
    """A function of state indices: `rule(a, b, ...) -> log scores`, of arrays broadcast together or, compiled, scalars.

    Attributes:
        rule: The function.
        propose: Names likely states of one variable given those of the others, or None.
        scope: Names the factors in errors if it is not known which of them is meant.
    """

    __slots__ = ("propose", "rule", "scope", "shape")
    is_rule = True

    def __init__(self, shape: tuple[int, ...], rule: Rule, scope: str, propose: Propose | None = None) -> None:
        """Hold the functions."""
        self.shape = shape
        self.rule = rule
        self.propose = propose
        self.scope = scope

    @property
    def is_compiled(self) -> bool:
        """Whether Numba compiles the rule."""
        return is_compiled(self.rule)

    def prepare(self) -> None:
        """Have a rule that Numba compiles compiled, without asking it for anything."""
        if self.is_compiled:
            with suppress(Exception):  # what is wrong with it comes up when it is asked
                fill_by_loop(self.rule, [np.empty(0, dtype=np.int64)] * len(self.shape))

    @property
    def proposes(self) -> bool:
        """Whether there is a `propose`."""
        return self.propose is not None

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        return self.ask(member, states)

    def ask(self, member: int, states: States, naming: Callable[[], Naming] | None = None) -> FloatArray:
        """Return the same; `naming` says what errors call the factor."""
        del member  # tied
        try:
            return _in_range(self._scores(states), states)
        except _FaultError as fault:
            factor, asked = self._asked(states, naming)
            hint = f"; {fault.hint}" if fault.hint else ""
            msg = f"the rule of {factor} {fault}; it was asked for {asked}{hint}"
            raise RuleError(msg) from fault.__cause__

    def partners(self, states: States, axis: int, k: int, naming: Callable[[], Naming] | None = None) -> IndexArray:
        """Return likely states of one variable, given likely states of the others; none if there is no `propose`.

        Args:
            states: Likely states, an index array per axis; ignored at `axis`.
            axis: Of the variable in question.
            k: How many are wanted; of more, the first `k` different ones count.
            naming: Says what errors call the factor.

        Returns:
            State indices in ascending order, each once.
        """
        if self.propose is None:
            return np.empty(0, dtype=np.int64)
        given = tuple(None if i == axis else read_only(part) for i, part in enumerate(states))
        try:
            return _first_partners(_call(self.propose, given, k), self.shape[axis], k)
        except _FaultError as fault:
            factor, asked = self._asked([part if i != axis else None for i, part in enumerate(states)], naming)
            msg = (
                f"propose of {factor} {fault}; it was given {asked}, and must return a 1-d array of state indices "
                f"from 0 to {self.shape[axis] - 1}, likely partners"
            )
            raise RuleError(msg) from fault.__cause__

    def _scores(self, states: States) -> FloatArray:
        """Call the rule; return a new array."""
        hint = WHOLE_ARRAYS
        if is_compiled(self.rule):
            block = _call(fill_by_loop, self.rule, states)
            if block is not None:
                return cast("FloatArray", block)
            hint = SCALARS
        scores = _call(self.rule, *np.ix_(*[read_only(axis) for axis in states]), hint=hint)
        return _as_block(scores, tuple(len(axis) for axis in states))

    def stated(self, member: int) -> dict[str, Any]:
        """Return the functions."""
        del member  # tied
        return {"rule": self.rule} | ({} if self.propose is None else {"propose": self.propose})

    def _asked(self, states: Sequence[IndexArray | None], naming: Callable[[], Naming] | None) -> tuple[str, str]:
        """Return what to call the factor, and in words the states that its function was asked about."""
        named = naming() if naming else Naming(self.scope, [f"axis {i}" for i in range(len(states))])
        parts = [
            f"{_few_states(part)} of {name}"
            for name, part in zip(named.variables, states, strict=True)
            if part is not None
        ]
        if not parts:
            return named.factor, "no states"
        return named.factor, "states " + " and ".join([", ".join(parts[:-1])] * (len(parts) > 1) + parts[-1:])


class _FaultError(Exception):
    """What is wrong with a function of the user's, to be completed by whose it is."""

    def __init__(self, problem: str, hint: str = "") -> None:
        """Hold what completes "the rule of ...", and what may help."""
        super().__init__(problem)
        self.hint = hint


def _call(function: Callable[..., object], *arguments: object, hint: str = "") -> object:
    """Call a function of the user's."""
    try:
        return function(*arguments)
    except Exception as error:
        problem = f"raised {type(error).__name__}: {str(error)[:LONG]}"
        is_about_arrays = isinstance(error, TypeError | ValueError | IndexError)
        raise _FaultError(problem, hint if is_about_arrays else "") from error


def _as_block(scores: object, wanted: tuple[int, ...]) -> FloatArray:
    """Return what a rule has returned as a new array of numbers."""
    if scores is None:
        msg = "must return log scores, it returned None"
        raise _FaultError(msg)
    try:
        given = np.asarray(scores)
        if given.dtype.kind == "b":
            msg = "must return log scores, it returned True or False"
            raise _FaultError(msg, "np.where(condition, 0.0, -np.inf) allows the states for which a condition holds")
        fits = given.dtype.kind in NUMBERS and given.ndim in {0, len(wanted)}  # of fewer axes, which would be meant?
        block = np.array(np.broadcast_to(given, wanted), dtype=np.float64) if fits else None
    except (TypeError, ValueError):
        block = None
    if block is None:
        shape = getattr(scores, "shape", type(scores).__name__)
        msg = f"must return real numbers that broadcast to {wanted}, with an axis per variable; it returned {shape}"
        raise _FaultError(msg)
    return block


def _in_range(block: FloatArray, states: States) -> FloatArray:
    """Return a block if all of it is log scores."""
    if block.max(initial=-MAX_SCORE) <= MAX_SCORE and block.min(initial=MAX_SCORE) >= -MAX_SCORE:
        return block  # no NaN would pass; only hard zeros need a closer look
    bad = out_of_range(block)
    if bad.any():
        where = tuple(int(axis[i]) for axis, i in zip(states, np.argwhere(bad)[0], strict=True))
        msg = f"returned {block[bad][0]} at states {where}"
        raise _FaultError(msg, LOG_RULE)
    return block


def _first_partners(answer: object, n: int, k: int) -> IndexArray:
    """Return the first `k` different states of an answer of `propose`, in ascending order."""
    try:
        given = np.asarray(answer)
    except (TypeError, ValueError) as error:
        msg = "returned something that is not an array"
        raise _FaultError(msg) from error
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        what = f"{given.dtype} of shape {given.shape}" if answer is not None else "None"
        msg = f"returned {what}"
        raise _FaultError(msg)
    outside = (given < 0) | (given >= n)
    if outside.any():
        msg = f"returned state {given[outside][0]}"
        raise _FaultError(msg)
    different, first = np.unique(given.astype(np.int64), return_index=True)
    return np.sort(different[np.argsort(first)[:k]])


def _few_states(states: IndexArray) -> str:
    """Return state indices in as few words as possible."""
    ordered = np.unique(states).tolist()
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:  # noqa: PLR2004
        return f"{ordered[0]} to {ordered[-1]}"
    if len(ordered) <= FEW:
        return ", ".join(map(str, ordered)) or "none"
    return f"{', '.join(map(str, ordered[:FEW]))}, ... ({len(ordered)} states)"
