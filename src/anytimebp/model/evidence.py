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
from anytimebp.model.scores import LOG_RULE, out_of_range
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import Variable, VariableKey, VariableTable

EvidenceLike: TypeAlias = Mapping[Any, Any]
"""By variable (name, handle or index). Keys of a mapping are invariant to type checkers, hence Any."""

Targets: TypeAlias = "VariableKey | Iterable[VariableKey]"

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
    found: dict[int, Observation] = {}
    if evidence is not None and not isinstance(evidence, Mapping):
        got = type(evidence).__name__
        msg = f"evidence must be a mapping from variables to labels, sets of labels or log scores, got {got}"
        raise EvidenceError(msg)
    for key, value in (evidence or {}).items():
        try:
            index = variables.index_of(key)
        except UnknownVariableError as error:
            msg = f"evidence: {error}"
            raise EvidenceError(msg) from None
        variable = variables[index]
        if index in found:
            msg = f"evidence: variable {variable.name!r} is given twice"
            raise EvidenceError(msg)
        found[index] = _read_value(variable, value)
    return found


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
