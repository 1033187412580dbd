"""A signed sum of states is a constant, modulo the universe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.kinds.group_source import GroupSource, check_universes, whole_numbers
from anytimebp.model.source import WHOLE, FactorSource, Field, IndexArray


@dataclass(frozen=True, eq=False)
class ModularSum:
    """The signed sum of the state indices is a constant, modulo the number of states of each variable.

    Attributes:
        signs: 1 or -1 for each variable. With (1, 1, -1), the last variable is the sum of the others.
        constant: The value of the sum.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in "abc":
        ...     _ = graph.add_variable(name, 12)
        >>> _ = graph.add_factor(["a", "b", "c"], structure=abp.ModularSum((1, 1, -1)))
        >>> abp.infer(graph, evidence={"a": 10, "b": 5}).top("c")
        [(3, 1.0)]
    """

    signs: Sequence[int]
    constant: int = 0

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the structure for these universes, checked."""
        check_universes(shape, "ModularSum", what)
        signs = whole_numbers(self.signs, len(shape), "signs of ModularSum", what)
        if (np.abs(signs) != 1).any():
            msg = f"{what}: the signs of ModularSum must be 1 or -1; got {signs.tolist()}"
            raise ModelError(msg)
        if isinstance(self.constant, bool) or not isinstance(self.constant, int | np.integer):
            msg = f"{what}: the constant of ModularSum must be a whole number, got {self.constant!r}"
            raise ModelError(msg)
        return ModularSumSource(shape, signs, int(self.constant))

    @property
    def is_symmetric(self) -> bool:
        """Whether the order of two variables does not matter."""
        return len(set(self.signs)) == 1 if isinstance(self.signs, Sequence) else False


class ModularSumSource(GroupSource):
    """Zero where the signed sum of states is the constant, impossible elsewhere.

    Attributes:
        signs: (arity,) 1 or -1.
        constant: Of the sum.
    """

    __slots__ = ("constant", "signs")
    tags = ("modular_sum",)
    fields = (Field("signs", "i"), Field("constant", WHOLE))

    def __init__(self, shape: tuple[int, ...], signs: IndexArray, constant: int) -> None:
        """Take signed indices for elements, less the constant for those of the first variable."""
        n, self.signs, self.constant = shape[0], signs, constant % shape[0]
        states, minus = np.arange(n), -np.arange(n) % n
        elements = [None if sign == 1 else minus for sign in signs.tolist()]
        if self.constant:
            elements[0] = (signs[0] * states - self.constant) % n
        super().__init__(shape, elements, is_xor=False)

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del tag  # there is but one
        return {"structure": ModularSum(**held)}
