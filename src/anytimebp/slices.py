"""Work that pauses: generators that yield so that somebody can look at the clock, and return what they made."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def at_one_go(making: Generator[object, None, T]) -> T:
    """Return what is made, without a pause; inside other generators, `yield from` does it with its pauses."""
    while True:
        try:
            next(making)
        except StopIteration as end:
            made: T = end.value
            return made
