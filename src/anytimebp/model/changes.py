"""Notices that a user has changed a table in place, in an array that the graph keeps by reference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anytimebp.model.source import FloatArray

MOST_WATCHED = 2**20
"""Entries of a graph's tables up to which changes are noticed: reading them costs a tenth of a millisecond per run."""

WIDTH = 1021  # sums that stand for a large table; a prime, so that rows and columns of tables do not fall on one sum
SMALL = 2 * WIDTH  # entries up to which a table is compared number by number


class TableWatch:
    """What the watched tables held when they were last checked.

    Small tables are kept as copies. Of a large one, entry i goes into sum i modulo `WIDTH`, as a whole number made of
    its bits: any change of one entry shows, and so do entries that are moved about.
    """

    __slots__ = ("_blocks", "_copies", "_large", "_n_entries", "_small", "_values")

    def __init__(self) -> None:
        """Watch nothing."""
        self._n_entries = 0
        self._values: list[tuple[int, FloatArray]] = []
        self._blocks: list[int] = []  # of the small tables
        self._small: list[memoryview] = []
        self._copies: list[bytes] = []
        self._large: list[tuple[int, npt.NDArray[np.uint64], bytes]] = []

    def add(self, block: int, values: FloatArray) -> None:
        """Watch the table of a block as it is now; beyond `MOST_WATCHED` entries in all, watch none of them."""
        self._n_entries += values.size
        if self._n_entries > MOST_WATCHED:
            self._values, self._blocks, self._small, self._copies, self._large = [], [], [], [], []
            return
        self._values.append((block, values))
        if values.size <= SMALL:
            view = memoryview(values.data).cast("B")
            self._blocks.append(block)
            self._small.append(view)
            self._copies.append(view.tobytes())
        else:
            words = values.reshape(-1).view(np.uint64)
            self._large.append((block, words, _digest(words)))

    def changed(self) -> list[int]:
        """Return the blocks whose tables have changed."""
        found = [block for block, words, digest in self._large if _digest(words) != digest]
        if len(self._copies) > 1:
            self._copies = [b"".join(self._copies)]
        if self._small and b"".join(self._small) != self._copies[0]:
            found += self._changed_small()
        return found

    def _changed_small(self) -> list[int]:
        found, end = [], 0
        for block, view in zip(self._blocks, self._small, strict=True):
            start, end = end, end + view.nbytes
            if view.tobytes() != self._copies[0][start:end]:
                found.append(block)
        return found

    def copy(self) -> TableWatch:
        """Return a watch of the same tables, to which others can be added apart; what has changed is not forgotten."""
        twin = TableWatch()
        twin._n_entries = self._n_entries
        twin._values, twin._blocks, twin._small = self._values.copy(), self._blocks.copy(), self._small.copy()
        twin._copies, twin._large = self._copies.copy(), self._large.copy()
        return twin

    def renewed(self) -> TableWatch:
        """Return a watch of the same tables as they are now."""
        return self.without(-1)

    def without(self, block: int) -> TableWatch:
        """Return the same, but for the table of a block."""
        if block >= 0 and all(other != block for other, _ in self._values):
            return self
        twin = TableWatch()
        for other, values in self._values:
            if other != block:
                twin.add(other, values)
        return twin


def _digest(words: npt.NDArray[np.uint64]) -> bytes:
    """Return sums over every `WIDTH`-th number, and the numbers that are left over.

    Some are always left over: were all signs to change, the sums over an even count of numbers would not.
    """
    n = (len(words) - 1) // WIDTH * WIDTH
    sums: npt.NDArray[np.uint64] = np.add.reduce(words[:n].reshape(-1, WIDTH), axis=0)
    return sums.tobytes() + words[n:].tobytes()


def is_shared(table: object, values: FloatArray) -> bool:
    """Tell whether a user could still change the numbers that were made of a table."""
    if isinstance(table, list | tuple):
        return False
    given = np.asarray(table)
    if given.flags.owndata and not given.flags.writeable:
        return False
    return np.may_share_memory(given, values)
