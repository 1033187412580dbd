"""Targets: the variables whose marginals a run is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import TypeAlias

import numpy as np

from anytimebp.errors import OptionError, UnknownVariableError
from anytimebp.model.source import IndexArray
from anytimebp.model.variable import Variable, VariableKey, VariableTable

Targets: TypeAlias = "VariableKey | Iterable[VariableKey]"


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
        msg = "targets: there must be at least one; leave them out for the marginals of all variables"
        raise OptionError(msg)
    return found
