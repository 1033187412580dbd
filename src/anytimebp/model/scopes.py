"""The scopes of factors: names, handles and indices turned into indices, and the checks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError, UnknownVariableError
from anytimebp.model.source import MAX_ARITY, IndexArray
from anytimebp.model.variable import Variable, VariableKey, VariableTable

ROWS = 2  # dimensions of an array of scopes
WANTED = "scopes must be variables (indices, names or handles) of shape (factors, arity)"


def read_scope(
    variables: VariableTable, scope: Sequence[VariableKey], factor: str, most: float = MAX_ARITY
) -> list[int]:
    """Return the variable indices of one factor of at most `most` variables; `factor` names it in errors."""
    if isinstance(scope, str) or not isinstance(scope, Sequence | np.ndarray) or getattr(scope, "ndim", 1) == 0:
        msg = f"the scope of {factor} must be a list of variables, got {scope!r}"
        raise ModelError(msg)
    if not 1 <= len(scope) <= most:
        msg = f"{factor} must have 1 to {most} variables, got {len(scope)}"
        raise ModelError(msg)
    try:
        indices = [variables.index_of(key) for key in scope]
    except UnknownVariableError as error:
        names = ", ".join([key.name if isinstance(key, Variable) else str(key) for key in scope])
        msg = f"{factor} ({names}): {error}"
        raise ModelError(msg) from None
    if len(set(indices)) < len(indices):
        twice = next(i for i in indices if indices.count(i) > 1)
        names = ", ".join([variables.name(i) for i in indices[:MAX_ARITY]])
        msg = f"{factor} ({names}): variable {variables.name(twice)!r} is in the scope twice"
        raise ModelError(msg)
    return indices


def read_scopes(variables: VariableTable, scopes: Any, most: float = MAX_ARITY) -> IndexArray:
    """Return the variable indices of many factors as a new array of shape (factors, arity), `most` of each."""
    try:
        rows = np.array(scopes)
    except ValueError:
        msg = f"{WANTED}, got rows of different lengths"
        raise ModelError(msg) from None
    if rows.size == 0:
        return np.empty((0, 1), dtype=np.int64)
    if rows.ndim != ROWS or rows.dtype.kind not in "iuUO" or rows.shape[1] > most:
        msg = f"{WANTED}, got {rows.dtype} of shape {rows.shape}"
        raise ModelError(msg)
    if rows.dtype.kind in "UO":
        rows = _named_rows(variables, scopes)
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    n = len(variables)
    outside = (rows < 0) | (rows >= n)
    if outside.any():
        row = int(np.argwhere(outside)[0, 0])
        msg = f"row {row} of the scopes, {rows[row].tolist()}, is outside the variables 0 to {n - 1}"
        raise ModelError(msg)
    ordered = np.sort(rows, axis=1)
    twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if twice.size:
        row = int(twice[0])
        msg = f"row {row} of the scopes, {_shown(scopes[row])}, has a variable twice"
        raise ModelError(msg)
    return rows


def _named_rows(variables: VariableTable, scopes: Sequence[Sequence[VariableKey]]) -> npt.NDArray[np.int64]:
    """Return the indices of scopes given by names or handles; NumPy would have turned indices among them into text."""
    found: list[list[int]] = []
    for row, scope in enumerate(scopes):
        try:
            found.append([variables.index_of(key) for key in scope])
        except UnknownVariableError as error:
            msg = f"row {row} of the scopes, {_shown(scope)}: {error}"
            raise ModelError(msg) from None
    return np.array(found, dtype=np.int64)


def _shown(scope: Sequence[VariableKey] | npt.NDArray[Any]) -> list[object]:
    """Return a scope as the user wrote it, handles as names."""
    keys = scope.tolist() if isinstance(scope, np.ndarray) else scope
    return [key.name if isinstance(key, Variable) else key for key in keys]
