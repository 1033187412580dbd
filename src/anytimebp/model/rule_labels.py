"""Finds rules that compare states with labels: a rule gets state indices, so such a comparison is never true.

A rule is tried only if a label of its variables occurs as text in its code. It is then called once, with arrays that
detect a comparison with text. A rule may look labels up by index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

import numpy as np

from anytimebp.errors import ModelWarning, warn_caller
from anytimebp.model.compiled_rule import is_compiled
from anytimebp.model.variable import Variable

MOST_LABELS = 1000  # of a variable; in more, looking for a text would cost more than adding the factor
MOST_TEXTS = 100  # of a rule


def warn_of_labels(rule: Callable[..., Any] | None, scope: Sequence[Variable], what: str) -> None:
    """Warn if a rule compares state indices with text; `what` names the factor."""
    named = [variable for variable in scope if isinstance(variable.labels, tuple)]
    if rule is None or not named or is_compiled(rule):
        return
    known = {text for text, _ in zip(_texts(rule), range(MOST_TEXTS), strict=False)}
    if not any(text in variable.labels[:MOST_LABELS] for text in known for variable in named):
        return
    text = _compared_text(rule, len(scope))
    if text is None:
        return
    owner = next((variable for variable in named if text in variable.labels), None)
    hint = f": state {text!r} of variable {owner.name!r} is {owner.state_index(text)}" if owner else ""
    warn_caller(
        f"the rule of {what} compares states with {text!r}; a rule gets state indices, not labels, so this is "
        f"never true{hint}",
        ModelWarning,
    )


def _texts(rule: Callable[..., Any]) -> Iterator[str]:
    """Give the texts that occur in a function: constants, defaults, and variables that it sees."""
    code = getattr(rule, "__code__", None)
    if not isinstance(code, CodeType):
        return
    yield from _flat([_constants(code), getattr(rule, "__defaults__", None)])
    for cell in getattr(rule, "__closure__", None) or ():
        try:
            yield from _flat([cell.cell_contents])
        except ValueError:  # not assigned yet
            continue
    scope = getattr(rule, "__globals__", {})
    yield from _flat([scope.get(name) for name in code.co_names])


def _constants(code: CodeType) -> list[object]:
    """Return the constants of a function and of functions inside it."""
    return [_constants(item) if isinstance(item, CodeType) else item for item in code.co_consts]


def _flat(values: Sequence[object]) -> Iterator[str]:
    """Give the texts in short collections."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple | set | frozenset) and len(value) <= MOST_TEXTS:
            yield from _flat(list(value))


class _ComparedError(Exception):
    """A state was compared with a text."""


def _refuse_text(other: object) -> None:
    """Raise _ComparedError if a state is compared with text, or with some among other things."""
    for text in _flat([other.tolist() if isinstance(other, np.ndarray) else other]):
        raise _ComparedError(text)


class _WatchedStates(np.ndarray[Any, Any]):
    """State indices that notice being compared with text."""

    __hash__ = None

    def __eq__(self, other: object) -> Any:
        _refuse_text(other)
        return super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        _refuse_text(other)
        return super().__ne__(other)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.isin:
            _refuse_text(args[1] if len(args) > 1 else kwargs.get("test_elements"))
        return super().__array_function__(func, types, args, kwargs)


def _compared_text(rule: Callable[..., Any], arity: int) -> str | None:
    """Return the text that a rule compares a state with, if it does. Other errors are left for later calls."""
    states = [np.zeros((1,) * arity, dtype=np.int64).view(_WatchedStates) for _ in range(arity)]
    try:
        rule(*states)
    except _ComparedError as found:
        return str(found)
    except Exception:  # noqa: BLE001
        return None
    return None
