"""All factor kinds: which one the arguments of `add_factor` mean, and which one a file means.

A new kind is a module in this folder and a line in `KINDS`. If it is summed without a table, its sums are in
`kernels/`, with a line in `kernels/structures.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.kinds.at_most_one import AtMostOneSource
from anytimebp.model.kinds.bitwise import BitwiseSource
from anytimebp.model.kinds.cardinality import CardinalitySource
from anytimebp.model.kinds.dense import DenseSource, read_table, refuse_booleans
from anytimebp.model.kinds.difference import DifferenceSource
from anytimebp.model.kinds.field_check import FieldCheckSource
from anytimebp.model.kinds.listed import ListedSource, read_entries
from anytimebp.model.kinds.low_rank import LowRankSource
from anytimebp.model.kinds.modular_sum import ModularSumSource
from anytimebp.model.kinds.noisy_or import NoisyOrSource
from anytimebp.model.kinds.rule import Propose, Rule, RuleSource
from anytimebp.model.kinds.xor import XorSource
from anytimebp.model.source import MAX_ARITY, FactorSource, Structure

KINDS: list[type[FactorSource]] = [
    *(DenseSource, RuleSource, ListedSource, DifferenceSource, AtMostOneSource),
    *(XorSource, BitwiseSource, ModularSumSource, FieldCheckSource),
    *(CardinalitySource, NoisyOrSource, LowRankSource),
]
WAYS = ("log_table", "table", "rule", "entries", "structure")


def kind_of_tag(tag: object) -> type[FactorSource] | None:
    """Return the kind that files call by a tag, if there is one."""
    return next((kind for kind in KINDS if tag in kind.tags), None)


class Stated(NamedTuple):
    """The ways in which a user can give the scores of factors; one of the first five, and what goes with it."""

    log_table: object = None
    table: object = None
    rule: Rule | None = None
    entries: object = None
    structure: Structure | None = None
    default: float | None = None
    propose: Propose | None = None

    def check(self, what: str) -> None:
        """Raise ModelError unless there is exactly one way, with what goes with it; `what` names the factors."""
        given = [way for way in WAYS if getattr(self, way) is not None]
        if len(given) != 1:
            msg = f"{what} needs exactly one of {', '.join(WAYS)}; got {' and '.join(given) or 'none'}"
            raise ModelError(msg)
        if self.default is not None and self.entries is None:
            msg = f"{what}: `default` can only be combined with entries"
            raise ModelError(msg)
        if self.propose is not None and self.rule is None:
            msg = f"{what}: `propose` can only be combined with a rule"
            raise ModelError(msg)
        if self.propose is not None and not callable(self.propose):
            msg = f"propose of {what} must be a function of likely states and a count, got {self.propose!r:.80}"
            raise ModelError(msg)

    @property
    def given_table(self) -> object:
        """The table, of log scores or potentials, if that is the way."""
        return self.table if self.log_table is None else self.log_table

    def source(
        self, shape: tuple[int, ...], what: str, name_of: Callable[[int], str], stack: int | None = None
    ) -> FactorSource:
        """Return the source of scores.

        Args:
            shape: Universes of a factor's variables.
            what: Names the factors in errors.
            name_of: Names one of a stack.
            stack: How many factors there may be a table for each of; None if only one table fits.
        """
        if self.given_table is not None:
            return self._dense(shape, what, name_of, stack)
        if self.structure is not None:
            if isinstance(self.structure, type) or not hasattr(self.structure, "source"):
                msg = f"the structure of {what} must be such as Equality() or AtMostOne(), got {self.structure!r:.80}"
                raise ModelError(msg)
            source = self.structure.source(shape, what)
            if len(shape) > MAX_ARITY and not source.any_arity:
                msg = f"{what}: {type(self.structure).__name__} takes at most {MAX_ARITY} variables, got {len(shape)}"
                raise ModelError(msg)
            return source
        if self.rule is not None:
            if not callable(self.rule):
                msg = f"the rule of {what} must be a function of state indices, got {self.rule!r}"
                raise ModelError(msg)
            return RuleSource(shape, self.rule, what, self.propose)
        default = -np.inf if self.default is None else self.default
        return ListedSource(shape, *read_entries(self.entries, default, shape, what))

    def _dense(
        self, shape: tuple[int, ...], what: str, name_of: Callable[[int], str], stack: int | None
    ) -> DenseSource:
        values = read_table(self.given_table, what)
        if self.log_table is not None:
            refuse_booleans(self.log_table, what)
        if values.shape == shape:
            return DenseSource(values[np.newaxis], is_log=self.log_table is not None, what=lambda _: what)
        if stack is not None and values.shape == (stack, *shape):
            return DenseSource(values, is_log=self.log_table is not None, what=name_of)
        hint = "; are its axes in another order?" if sorted(values.shape) == sorted(shape) else ""
        wanted = f"{shape}, the universes of its variables; got {values.shape}{hint}"
        if stack is not None:
            wanted = f"{shape} (shared) or {(stack, *shape)} (stacked), got {values.shape}"
        msg = f"the table of {what} must have shape {wanted}"
        raise ModelError(msg)
