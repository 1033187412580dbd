"""The XOR of the states of all variables is 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anytimebp.model.kinds.group_source import GroupSource, check_power_of_two, check_universes
from anytimebp.model.source import WHOLE, FactorSource, Field


@dataclass(frozen=True, eq=False)
class Xor:
    """The bitwise XOR of all state indices is 0. Of three variables, each is the XOR of the other two.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in ["key", "text", "mixed"]:
        ...     _ = graph.add_variable(name, 256)
        >>> _ = graph.add_factor(["key", "text", "mixed"], structure=abp.Xor())
        >>> abp.infer(graph, evidence={"text": 0x3A, "mixed": 0x99}).top("key")
        [(163, 1.0)]
    """

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
