"""Evidence and targets: what is known about single variables in one run, and which marginals are wanted.

Both are checked, and turned into indices and scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from anytimebp.errors import (
    EvidenceError,
    InconsistentModelError,
    ModelWarning,
    OptionError,
    UnknownStateError,
    UnknownVariableError,
    warn_caller,
)
from anytimebp.model.scores import LOG_RULE, MAX_SCORE, out_of_range
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import Variable, VariableKey, VariableTable

EvidenceLike: TypeAlias = Mapping[Any, Any]
"""By variable (name, handle or index). Keys of a mapping are invariant to type checkers, hence Any."""

Targets: TypeAlias = "VariableKey | Iterable[VariableKey]"

MANY = 16  # observed variables, from which on what they have in common is read at once
EMPTY = np.empty(0, dtype=np.int64)
DOUBLE = np.dtype(np.float64)  # of which there is but one; its twins of other byte orders are read one by one
PROBABILITY_SUM = 1e-6  # by which a sum of rounded probabilities may differ from 1


class Observation(NamedTuple):
    """What evidence says of one variable.

    Attributes:
        states: The allowed states in rising order, shape (allowed,); None where all are allowed.
        log_scores: Scores to add on the allowed states (or on all of them), or None.
    """

    states: IndexArray | None
    log_scores: FloatArray | None


def read_evidence_mapping(evidence: EvidenceLike | None, variables: VariableTable) -> dict[int, Observation]:
    """Check evidence against the variables and return what it says by variable index."""
    if evidence is not None and not isinstance(evidence, Mapping):
        got = type(evidence).__name__
        msg = f"evidence must be a mapping from variables to labels, sets of labels or log scores, got {got}"
        raise EvidenceError(msg)
    if not evidence:
        return {}
    indices = _read_keys(evidence, variables)
    given = dict(zip(indices, evidence.values(), strict=True))
    found = _read_many(given, variables) if len(given) >= MANY else {}
    for index, value in given.items():
        if index not in found:
            found[index] = _read_value(variables[index], value)
    return found if len(given) < MANY else {index: found[index] for index in given}


def _read_keys(evidence: Mapping[Any, Any], variables: VariableTable) -> list[int]:
    """Return the variables that evidence is about, each once."""
    named = variables.find_all(evidence)
    if named is not None:
        return named
    indices, seen = list[int](), set[int]()
    for key in evidence:
        try:
            index = variables.index_of(key)
        except UnknownVariableError as error:
            msg = f"evidence: {error}"
            raise EvidenceError(msg) from None
        if index in seen:
            msg = f"evidence: variable {variables.name(index)!r} is given twice"
            raise EvidenceError(msg)
        seen.add(index)
        indices.append(index)
    return indices


def _read_many(given: Mapping[int, Any], variables: VariableTable) -> dict[int, Observation]:
    """Read simple evidence on many variables at once: state numbers, or arrays of finite doubles of one length.

    Everything else, and everything that may be wrong, is left to be read one by one.
    """
    whole, scores = list[int](), dict[int, list[int]]()
    for index, value in given.items():
        if type(value) is int:
            whole.append(index)
        elif type(value) is np.ndarray and value.dtype is DOUBLE and value.ndim == 1:
            own = scores.get(len(value))
            if own is None:
                scores[len(value)] = own = []
            own.append(index)
    found = _read_states(whole, [given[index] for index in whole], variables) if whole else {}
    sizes = variables.sizes() if scores else EMPTY
    for n, own in scores.items():
        rows = np.stack([given[index] for index in own])
        lowest, highest = rows.min(axis=1, initial=np.inf), rows.max(axis=1, initial=-np.inf)
        fine = (sizes[own] == n) & (lowest >= -MAX_SCORE) & (highest <= MAX_SCORE)  # NaN is neither
        fine &= ~((lowest >= 0.0) & (highest <= 1.0))  # which may be probabilities
        found |= {own[k]: Observation(None, rows[k]) for k in np.flatnonzero(fine).tolist()}
    return found


def _read_states(indices: list[int], states: list[int], variables: VariableTable) -> dict[int, Observation]:
    """Read numbers of states of variables that have no other labels."""
    try:
        own = np.array(states, dtype=np.int64)
    except OverflowError:
        return {}
    n = [len(labels) if isinstance(labels := variables.labels(index), range) else 0 for index in indices]
    fine = (own >= 0) & (own < np.array(n))
    return {indices[k]: Observation(own[k : k + 1], None) for k in np.flatnonzero(fine).tolist()}


def _read_value(variable: Variable, value: Any) -> Observation:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Hashable):
        try:
            return Observation(np.array([variable.state_index(value)]), None)
        except UnknownStateError as error:
            if not isinstance(value, AbstractSet):
                msg = f"evidence: {error}"
                raise EvidenceError(msg) from None
    if isinstance(value, AbstractSet):
        return _read_set(variable, value)
    return _read_scores(variable, value)


def _read_set(variable: Variable, allowed: AbstractSet[Any]) -> Observation:
    if not allowed:
        msg = f"evidence: variable {variable.name!r}: the set of allowed states is empty"
        raise EvidenceError(msg)
    try:
        states = sorted(variable.state_indices(allowed))
    except UnknownStateError as error:
        msg = f"evidence: {error}"
        raise EvidenceError(msg) from None
    return Observation(np.array(states, dtype=np.int64), None)


def _read_scores(variable: Variable, value: Any) -> Observation:
    start = f"evidence: variable {variable.name!r}: "
    try:
        given = np.asarray(value)
    except ValueError:
        given = np.array(None)
    if isinstance(value, np.ma.MaskedArray):  # a mask may mean that a state is excluded, or that nothing is known
        msg = f"{start}the log scores are a masked array; fill it first, with -inf for states that are excluded"
        raise EvidenceError(msg)
    if given.dtype.kind not in "fiu":  # booleans are a mask, not log scores
        msg = f"{start}expected a label, a set of allowed labels, or an array of log scores, got {value!r}"
        raise EvidenceError(msg)
    scores = np.array(given, dtype=np.float64)
    if scores.shape != (variable.n_states,):
        msg = (
            f"{start}log scores must have shape ({variable.n_states},), got {scores.shape}; "
            "for allowed states give a set of labels"
        )
        raise EvidenceError(msg)
    if _looks_like_probabilities(scores):
        warn_caller(
            f"{start}the numbers lie between 0 and 1 and sum to 1, as probabilities do, but they are taken for log "
            "scores; for probabilities p, give np.log(p)",
            ModelWarning,
        )
    bad = out_of_range(scores)
    if bad.any():
        state = int(bad.argmax())
        msg = f"{start}the log score of state {variable.labels[state]!r} is {scores[state]}; {LOG_RULE}"
        raise EvidenceError(msg)
    states = np.flatnonzero(scores > -np.inf)
    if not states.size:
        msg = f"{start}every state has the log score -inf"
        raise InconsistentModelError(msg)
    if states.size == variable.n_states:
        return Observation(None, scores)
    return Observation(states, scores[states])


def _looks_like_probabilities(scores: FloatArray) -> bool:
    """Tell whether numbers are a distribution other than the uniform one; log scores rarely are."""
    lowest, highest = scores.min(), scores.max()
    return bool(0.0 <= lowest < highest <= 1.0 and abs(scores.sum() - 1.0) <= PROBABILITY_SUM)


def read_targets(targets: Targets | None, variables: VariableTable) -> IndexArray | None:
    """Return the indices of the targets, each once and rising; None for all variables.

    Raises:
        OptionError: If there are none, or they are no variables.
        UnknownVariableError: If one of them is no variable of the graph.
    """
    if targets is None:
        return None
    if isinstance(targets, str | Variable | Integral):
        targets = [targets]
    elif not isinstance(targets, Iterable):
        msg = f"targets: expected variables, by name or index, got {targets!r}"
        raise OptionError(msg)
    try:
        found = np.array(sorted({variables.index_of(key) for key in targets}), dtype=np.int64)
    except UnknownVariableError as error:
        msg = f"targets: {error}"
        raise UnknownVariableError(msg) from None
    if not len(found):
        msg = "targets: give at least one, or leave `targets` out for the marginals of all variables"
        raise OptionError(msg)
    return found
