"""The states of all variables XOR to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anytimebp.model.kinds.group_source import GroupSource, check_power_of_two, check_universes
from anytimebp.model.source import WHOLE, FactorSource, Field


@dataclass(frozen=True, eq=False)
class Xor:
    """The state indices of all variables XOR to 0: with three of them, each is the XOR of the other two."""

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the structure for these universes, checked."""
        check_power_of_two(check_universes(shape, "Xor", what), "Xor", what)
        return XorSource(shape)

    @property
    def is_symmetric(self) -> bool:
        """Whether the order of two variables does not matter."""
        return True


class XorSource(GroupSource):
    """Zero where states XOR to 0, impossible elsewhere."""

    __slots__ = ()
    tags = ("xor",)
    fields = (Field("order", WHOLE, "number of states"),)

    def __init__(self, shape: tuple[int, ...]) -> None:
        """Take indices for elements."""
        super().__init__(shape, [None] * len(shape), is_xor=True)

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del tag, held
        return {"structure": Xor()}
