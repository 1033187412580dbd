"""Memory that runs leave to the next one.

The operating system has to clear new pages. A run of half a millisecond spends more time waiting for that than on
everything else that it does with them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anytimebp.model.source import FloatArray, IndexArray

MOST_KEPT = 2**20  # numbers that are kept for the next run: 8 MB
NO_NUMBERS = np.empty(0)


class SpareMemory:
    """Room for numbers, taken from one piece; the piece of an earlier run, if that is not in use any more.

    Whoever takes room must hold this object for as long as anybody reads or writes there.

    Attributes:
        address: Where the piece lies.
    """

    __slots__ = ("_numbers", "_used", "address")

    _spare: ClassVar[list[FloatArray]] = []  # at most one, of at most MOST_KEPT numbers

    def __init__(self, n: int) -> None:
        """Take room for so many numbers."""
        try:
            numbers = self._spare.pop()  # nobody else has it now
        except IndexError:
            numbers = NO_NUMBERS
        self._numbers = numbers if len(numbers) >= n else np.empty(n)
        self._used = 0
        self.address: int = self._numbers.__array_interface__["data"][0]

    def real(self, n: int) -> FloatArray:
        """Return room for so many numbers; new memory if there is too little left."""
        start, self._used = self._used, self._used + n
        return self._numbers[start : self._used] if self._used <= len(self._numbers) else np.empty(n)

    def whole(self, n: int) -> IndexArray:
        """Return room for so many whole numbers."""
        return self.real(n).view(np.int64)

    def reserve(self, n: int) -> int:
        """Return the address of room for so many numbers, which must be there."""
        start, self._used = self._used, self._used + n
        return self.address + 8 * start

    def __del__(self) -> None:
        """Leave the memory to the next run."""
        if not self._spare and len(self._numbers) <= MOST_KEPT:
            self._spare.append(self._numbers)
