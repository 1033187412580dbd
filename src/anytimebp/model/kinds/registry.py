"""All factor kinds: which one a way of stating scores gives, and which one a file means.

A new kind is a module next door and a line in `KINDS`; one that sums without a table has its sums in `kernels/`, and a
line in `kernels/structures.py`.
"""

from __future__ import annotations

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.kinds.at_most_one import AtMostOneSource
from anytimebp.model.kinds.dense import DenseSource
from anytimebp.model.kinds.difference import DifferenceSource
from anytimebp.model.kinds.listed import ListedSource, read_entries
from anytimebp.model.kinds.rule import Propose, Rule, RuleSource
from anytimebp.model.source import FactorSource, Structure

KINDS: list[type[FactorSource]] = [DenseSource, RuleSource, ListedSource, DifferenceSource, AtMostOneSource]


def kind_of_tag(tag: object) -> type[FactorSource] | None:
    """Return the kind that files call by a tag, if there is one."""
    return next((kind for kind in KINDS if tag in kind.tags), None)


def stated_source(
    shape: tuple[int, ...],
    what: str,
    *,
    rule: Rule | None,
    propose: Propose | None,
    entries: object,
    default: float | None,
    structure: Structure | None,
) -> FactorSource:
    """Return the source that a user states other than by a table; `what` names the factor in errors."""
    if structure is not None:
        if isinstance(structure, type) or not hasattr(structure, "source"):
            msg = f"the structure of {what} must be such as Equality() or AtMostOne(), got {structure!r:.80}"
            raise ModelError(msg)
        return structure.source(shape, what)
    if rule is not None:
        if not callable(rule):
            msg = f"the rule of {what} must be a function of state indices, got {rule!r}"
            raise ModelError(msg)
        return RuleSource(shape, rule, what, propose)
    return ListedSource(shape, *read_entries(entries, -np.inf if default is None else default, shape, what))
