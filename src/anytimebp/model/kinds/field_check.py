"""A linear check over a finite field: non-binary codes; the group of its addition sums it (`kernels/groups.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.kinds.group_source import GroupSource, check_universes, whole_numbers
from anytimebp.model.source import WHOLE, FactorSource, Field, IndexArray

POLYNOMIALS = {
    2**m: p
    for m, p in enumerate(
        (0x3, 0x7, 0xB, 0x13, 0x25, 0x43, 0x89, 0x11D, 0x211, 0x409, 0x805, 0x1053, 0x201B, 0x4443, 0x8003, 0x1100B),
        start=1,
    )
}
"""Primitive polynomials, as bits, by the order of their field: those in common use for codes."""


@dataclass(frozen=True, eq=False)
class FieldCheck:
    """The sum of all states, each multiplied by a coefficient, is zero in a finite field.

    In GF(2^m), the bits of a state index are the coefficients of a polynomial. In GF(p), the index is the number.

    Attributes:
        field: Order of the field: a power of two up to 65,536, or a prime number.
        coefficients: A field element other than 0 for each variable.
        polynomial: For GF(2^m), the irreducible polynomial of degree m, as bits. If None, a primitive polynomial in
            common use.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in "abc":
        ...     _ = graph.add_variable(name, 7)
        >>> _ = graph.add_factor(["a", "b", "c"], structure=abp.FieldCheck(7, [1, 2, 1]))  # a + 2 b + c = 0 in GF(7)
        >>> abp.infer(graph, evidence={"a": 3, "b": 5}).top("c")
        [(1, 1.0)]
    """

    field: int
    coefficients: Sequence[int]
    polynomial: int | None = None

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the structure for these universes, checked."""
        n, order = check_universes(shape, "FieldCheck", what), self.field
        if isinstance(order, bool) or not isinstance(order, int | np.integer):
            msg = f"{what}: the field of FieldCheck must be a whole number, its order; got {order!r}"
            raise ModelError(msg)
        if order != n:
            msg = f"{what}: FieldCheck over GF({order}) needs universes of {order} states, got {n}"
            raise ModelError(msg)
        if not _is_order(n):
            msg = f"{what}: FieldCheck takes fields of prime order, or of 2, 4, 8, ... 65,536 elements; got {n}"
            raise ModelError(msg)
        coefficients = whole_numbers(self.coefficients, len(shape), "coefficients of FieldCheck", what)
        wrong = (coefficients <= 0) | (coefficients >= n)
        if wrong.any():
            msg = (
                f"{what}: the coefficient {coefficients[wrong][0]} of FieldCheck has no inverse in GF({n}): "
                f"coefficients must be from 1 to {n - 1}"
            )
            raise ModelError(msg)
        polynomial = POLYNOMIALS.get(n, 0) if self.polynomial is None else self.polynomial
        if n in POLYNOMIALS and not _is_irreducible(polynomial, n):
            degree = n.bit_length() - 1
            msg = f"{what}: the polynomial of FieldCheck must be irreducible, of degree {degree}; got {polynomial!r}"
            raise ModelError(msg)
        return FieldCheckSource(shape, coefficients, int(polynomial))


class FieldCheckSource(GroupSource):
    """Zero where the check holds, impossible elsewhere.

    Attributes:
        coefficients: (arity,) of the variables.
        polynomial: Of GF(2^m); 0 of GF(p).
    """

    __slots__ = ("coefficients", "polynomial")
    tags = ("field_check",)
    fields = (Field("order", WHOLE, "order of the field"), Field("coefficients", "i"), Field("polynomial", WHOLE))

    def __init__(self, shape: tuple[int, ...], coefficients: IndexArray, polynomial: int) -> None:
        """Take products with the coefficients for elements."""
        n, self.coefficients, self.polynomial = shape[0], coefficients, polynomial
        states, is_binary = np.arange(n), n in POLYNOMIALS
        products = {
            c: multiplied(states, c, polynomial, n) if is_binary else states * c % n for c in set(coefficients.tolist())
        }
        elements = [None if c == 1 else products[c] for c in coefficients.tolist()]
        super().__init__(shape, elements, is_xor=is_binary)

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del tag  # there is but one
        polynomial = held["polynomial"] or None
        return {"structure": FieldCheck(held["order"], held["coefficients"], polynomial)}


def multiplied(states: IndexArray, by: int, polynomial: int, order: int) -> IndexArray:
    """Return the products of elements of GF(2^m) with one of them."""
    found, shifted = np.zeros_like(states), states.copy()
    while by:
        if by & 1:
            found = found ^ shifted
        shifted = shifted << 1
        shifted = np.where(shifted >= order, shifted ^ polynomial, shifted)
        by >>= 1
    return found


def _is_order(order: int) -> bool:
    """Tell whether there is a field of this order that is supported."""
    if order in POLYNOMIALS:
        return True
    return order > 1 and all(order % k for k in range(2, int(order**0.5) + 1))


def _is_irreducible(polynomial: object, order: int) -> bool:
    """Tell whether a polynomial over GF(2), as bits, is irreducible and of the degree of a field."""
    if isinstance(polynomial, bool) or not isinstance(polynomial, int | np.integer):
        return False
    if int(polynomial).bit_length() != order.bit_length():
        return False
    return all(
        _remainder(int(polynomial), divisor)
        for divisor in range(2, 1 << (order.bit_length() // 2 + 1))
        if divisor < order
    )


def _remainder(a: int, b: int) -> int:
    while a.bit_length() >= b.bit_length():
        a ^= b << (a.bit_length() - b.bit_length())
    return a
