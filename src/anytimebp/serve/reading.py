"""Requests, checked: JSON of a known shape, or a problem that names what is wrong. Nothing here is ever evaluated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import numpy as np

from anytimebp.errors import EvidenceError
from anytimebp.model.variable import Variable, VariableTable
from anytimebp.serve.limits import Limits
from anytimebp.serve.problems import Problem, bad

MOST_DIGITS = 20  # of a whole number
LONGEST_NAME = 10_000
FEW = 4096  # states of a universe up to which allowed states are a set, which costs runs less than scores
MOST_READ = 20_000_000  # states of all variables whose evidence is more than one label
MOST_STATES = 100_000  # of one variable in an answer


def parse(data: bytes | str) -> dict[str, Any]:
    """Read a JSON object; no name may occur twice in an object."""
    try:
        found = json.loads(data, object_pairs_hook=_once, parse_int=_whole, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # also of text that is no UTF-8
        msg = f"the request is not JSON: {error}"
        raise bad(msg) from None
    if not isinstance(found, dict):
        msg = f"a request is a JSON object, got {_kind(found)}"
        raise bad(msg)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        msg = f"the name {twice[:80]!r} stands twice in one object"
        raise bad(msg)
    return found


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        msg = f"a number of {len(text):,} digits"
        raise bad(msg)
    return int(text)


def _no_number(text: str) -> None:
    msg = f"{text} is no JSON number"
    raise bad(msg)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


class Fields:
    """The members of a JSON object, taken one by one."""

    def __init__(self, given: Mapping[str, Any], what: str = "the request") -> None:
        """Take none yet."""
        self._left, self._what = dict(given), what

    def number(self, name: str, default: float | None, most: float = math.inf) -> float | None:
        """Take a number above zero; a number above the maximum is replaced by the maximum."""
        value = self._left.pop(name, default)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value < 0:
            raise self._wrong(name, "a number of at least 0", value)
        return min(float(value), most)

    def whole(self, name: str, default: int | None, most: int) -> int | None:
        """Take a whole number of at least 0."""
        value = self._left.pop(name, default)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most):
            raise self._wrong(name, f"a whole number from 0 to {most:,}", value)
        return value

    def text(self, name: str, default: str, most: int = 200) -> str:
        """Take a text."""
        value = self._left.pop(name, default)
        if not isinstance(value, str) or len(value) > most:
            raise self._wrong(name, f"text of at most {most:,} characters", value)
        return value

    def some(self, name: str, kind: type, default: Any = None) -> Any:
        """Take an object or a list."""
        value = self._left.pop(name, default)
        if value is not default and not isinstance(value, kind):  # null included
            raise self._wrong(name, "an object" if kind is dict else "a list", value)
        return value

    def end(self) -> None:
        """Refuse members that have not been taken."""
        for name in self._left:
            msg = f"{self._what} has an unknown member {name[:80]!r}"
            raise bad(msg)

    def _wrong(self, name: str, expected: str, value: object) -> Exception:
        shown = repr(value)[:80] if isinstance(value, int | float | str) else _kind(value)
        return bad(f"{self._what}: {name!r} must be {expected}, got {shown}")


class Shown(NamedTuple):
    """How much of a variable's marginal is shown.

    Attributes:
        variable: Its index.
        states: Number of its likeliest states.
        also: States that are shown in any case.
    """

    variable: int
    states: int
    also: list[int]


def read_variable(key: Any, variables: VariableTable) -> int:
    """Return the index of a variable, given by its name or index."""
    if isinstance(key, bool) or not isinstance(key, str | int) or (isinstance(key, str) and len(key) > LONGEST_NAME):
        msg = f"a variable is given by its name or its index, got {_kind(key)}"
        raise bad(msg)
    return variables.index_of(key)


def read_variables(keys: Iterable[Any], variables: VariableTable) -> list[int]:
    """Return the indices of variables."""
    return [read_variable(key, variables) for key in keys]


def read_shown(given: list[Any], variables: VariableTable, most: int) -> list[Shown]:
    """Return which marginals are to be shown."""
    found = []
    if len(given) > most:
        msg = f"'show' lists {len(given):,} variables, more than {most:,}"
        raise bad(msg)
    for each in given:
        fields = Fields(each if isinstance(each, dict) else {"variable": each}, "'show'")
        key = fields.some("variable", object)
        index = read_variable(key, variables)
        count = fields.whole("states", 1, MOST_STATES)
        also = _read_states(fields.some("also", list, []), variables[index])
        fields.end()
        found.append(Shown(index, count or 0, also))
    return found


def read_evidence(given: Mapping[str, Any], variables: VariableTable) -> dict[str | int, Any]:
    """Return evidence as `Session.query` takes it.

    A value is a label, a list of allowed labels, or an object with one member: `states` or `not_states` (indices),
    `labels` or `not` (labels), or `log_scores` (a number, or null for minus infinity, per state).
    """
    found: dict[str | int, Any] = {}
    left = MOST_READ
    for name, value in given.items():
        if len(name) > LONGEST_NAME:
            msg = f"evidence: no variable has a name of {len(name):,} characters"
            raise EvidenceError(msg)
        index = variables.find(name)
        if index is None:
            found[name] = None  # the library says so in its own words
            break
        variable = variables[index]
        if isinstance(value, dict | list):
            left -= variable.n_states
            if left < 0:
                msg = f"evidence: allowed states of variables with more than {MOST_READ:,} states together"
                raise EvidenceError(msg)
        found[name] = _read_value(value, variable)
    return found


def _read_value(value: Any, variable: Variable) -> Any:
    if isinstance(value, list):
        return frozenset(_labels(value, variable))
    if not isinstance(value, dict):
        return value
    fields = Fields(value, f"evidence on {variable.name[:80]!r}")
    if len(value) != 1:
        msg = f"evidence on {variable.name[:80]!r}: an object has one member, not {len(value)}"
        raise bad(msg)
    scores = fields.some("log_scores", list)
    if scores is not None:
        return _read_scores(scores, variable)
    lists = {name: fields.some(name, list) for name in ("states", "labels", "not_states", "not")}
    fields.end()
    name, given = next((name, given) for name, given in lists.items() if given is not None)
    if name == "labels":
        return frozenset(_labels(given, variable))
    states = variable.state_indices(_labels(given, variable)) if name == "not" else _read_states(given, variable)
    return _allowed(states, variable, is_excluded=name.startswith("not"))


def _labels(labels: list[Any], variable: Variable) -> list[Any]:
    for label in labels:
        if isinstance(label, dict | list):
            msg = f"evidence on {variable.name[:80]!r}: {_kind(label)} is no label"
            raise bad(msg)
    return labels


def _read_states(states: list[Any], variable: Variable) -> list[int]:
    n_states = variable.n_states
    for state in states:
        if type(state) is not int or not 0 <= state < n_states:
            msg = f"variable {variable.name[:80]!r} has the states 0 to {n_states - 1}, not {str(state)[:40]}"
            raise bad(msg)
    return states


def _read_scores(scores: list[Any], variable: Variable) -> np.ndarray:
    for score in scores:
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
            msg = f"evidence on {variable.name[:80]!r}: log scores are numbers or null, got {_kind(score)}"
            raise bad(msg)
    return np.array([-math.inf if score is None else float(score) for score in scores])


def _allowed(states: list[int], variable: Variable, *, is_excluded: bool = False) -> Any:
    """Return evidence that allows some states, or all but some."""
    n_states = variable.n_states
    if n_states > FEW and is_excluded:
        scores = np.zeros(n_states)
        scores[states] = -np.inf
        return scores
    left = sorted({*range(n_states)} - {*states} if is_excluded else {*states})
    if len(left) == 1:
        return variable.labels[left[0]]
    return frozenset([variable.labels[state] for state in left])


class Query(NamedTuple):
    """A query, read.

    Attributes:
        evidence: As `Session.query` takes it.
        targets: Variables that are asked for; None for all.
        shown: How much of their marginals the answer has.
        budget: Of the run.
    """

    evidence: dict[str | int, Any]
    targets: list[int] | None
    shown: list[Shown]
    budget: dict[str, Any]


def read_query(given: dict[str, Any], variables: VariableTable, limits: Limits) -> Query:
    """Read a query; refuse one whose answer would be too large."""
    fields = Fields(given)
    budget = {
        "seconds": fields.number("seconds", limits.seconds, limits.seconds),
        "max_updates": fields.whole("max_updates", None, 2**53),
        "target_error": fields.number("target_error", None),
    }
    listed, states = fields.some("targets", list), fields.whole("states", None, MOST_STATES)
    asked = fields.some("evidence", dict, {})
    fields.end()
    targets = None if listed is None else [read_variable(key, variables) for key in listed]
    indices = np.arange(len(variables)) if targets is None else np.unique(np.array(targets, dtype=np.int64))
    counts = np.minimum(variables.sizes()[indices], MOST_STATES if states is None else states)
    if counts.sum() > limits.numbers:
        msg = f"the answer has {counts.sum():,} probabilities, more than {limits.numbers:,}; give 'targets' or 'states'"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, msg)
    shown = [Shown(index, count, []) for index, count in zip(indices.tolist(), counts.tolist(), strict=True) if count]
    return Query(read_evidence(asked, variables), targets, shown, budget)
