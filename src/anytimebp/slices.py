"""Work that pauses: generators that yield so that somebody can look at the clock, and return what they made."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 2**16
"""Variables, factors and edges that are looked at in a slice of setting up; each may touch new memory, or some trips to
it."""

NUMBERS = 2**18
"""Numbers that are written between two looks at the clock: four milliseconds where memory is touched first, which costs
up to 16 ns each."""


def parts(n: int, at_once: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the end of each part of n things; nothing if there are none."""
    for first in range(0, n, at_once):
        yield first, min(n, first + at_once)


def at_one_go(making: Generator[object, None, T]) -> T:
    """Return what is made, without a pause; inside other generators, `yield from` does it with its pauses."""
    while True:
        try:
            next(making)
        except StopIteration as end:
            made: T = end.value
            return made
