"""Notices that a user has changed a table in place, in an array that the graph keeps by reference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anytimebp.model.source import FloatArray

MOST_WATCHED = 2**20
"""Entries of a graph's tables up to which changes are noticed: reading them costs a tenth of a millisecond per run."""

WIDTH = 1021  # sums that stand for a large table; a prime number, so that rows and columns spread over all sums
SMALL = 2**15  # entries up to which a table is compared number by number; for larger ones, sums are faster
GROUP = 2**12  # bytes of tiny tables that are compared in one call; larger tables are compared one by one


class _Group:
    """Small tables, and copies of them."""

    __slots__ = ("_blocks", "_copies", "_views", "nbytes")

    def __init__(self) -> None:
        """Hold nothing."""
        self.nbytes = 0
        self._blocks: list[int] = []
        self._views: list[memoryview] = []
        self._copies: list[bytes] = []

    def add(self, block: int, view: memoryview) -> None:
        """Copy a table of a block."""
        self.nbytes += view.nbytes
        self._blocks.append(block)
        self._views.append(view)
        self._copies.append(view.tobytes())

    def changed(self) -> list[int]:
        """Return the blocks whose tables differ from the copies."""
        if len(self._views) == 1:
            return [] if self._copies[0].startswith(self._views[0]) else self._blocks  # which copies nothing
        if len(self._copies) > 1:
            self._copies = [b"".join(self._copies)]
        if b"".join(self._views) == self._copies[0]:
            return []
        found, end = [], 0
        for block, view in zip(self._blocks, self._views, strict=True):
            start, end = end, end + view.nbytes
            if view.tobytes() != self._copies[0][start:end]:
                found.append(block)
        return found

    def copy(self) -> _Group:
        """Return a copy of the group, to which tables can be added independently."""
        twin = _Group()
        twin.nbytes = self.nbytes
        twin._blocks, twin._views, twin._copies = self._blocks.copy(), self._views.copy(), self._copies.copy()
        return twin


class TableWatch:
    """What the watched tables held when they were last checked.

    Small tables are kept as copies. Of a large one, entry i goes into sum i modulo `WIDTH`, as a whole number made of
    its bits: any change of one entry shows, and so does any exchange of entries. The entries that are left over are
    kept as a small table. There are always some, because sums over an even number of entries do not show that all
    signs have changed.
    """

    __slots__ = ("_large", "_n_entries", "_small", "_values")

    def __init__(self) -> None:
        """Watch nothing."""
        self._n_entries = 0
        self._values: list[tuple[int, FloatArray]] = []
        self._small: list[_Group] = []
        self._large: list[tuple[int, npt.NDArray[np.uint64], bytes]] = []

    def add(self, block: int, values: FloatArray) -> None:
        """Watch the table of a block as it is now; beyond `MOST_WATCHED` entries in all, watch none of them."""
        self._n_entries += values.size
        if self._n_entries > MOST_WATCHED:
            self._values, self._small, self._large = [], [], []
            return
        self._values.append((block, values))
        words, n = values.reshape(-1).view(np.uint64), 0
        if values.size > SMALL:
            n = (values.size - 1) // WIDTH * WIDTH
            rows = words[:n].reshape(-1, WIDTH)
            self._large.append((block, rows, np.add.reduce(rows, axis=0).tobytes()))
        view = memoryview(words[n:].data).cast("B")
        if not self._small or self._small[-1].nbytes + view.nbytes > GROUP:
            self._small.append(_Group())
        self._small[-1].add(block, view)

    def changed(self) -> list[int]:
        """Return the blocks whose tables have changed."""
        found: list[int] = []
        sums = np.empty(WIDTH, dtype=np.uint64) if self._large else None
        for block, rows, before in self._large:
            if np.add.reduce(rows, axis=0, out=sums).tobytes() != before:
                found.append(block)
        for group in self._small:
            found += group.changed()
        return list(dict.fromkeys(found)) if found else found

    def copy(self) -> TableWatch:
        """Return a copy of the watch, to which tables can be added independently; it still knows what has changed."""
        twin = TableWatch()
        twin._n_entries = self._n_entries
        twin._values, twin._large = self._values.copy(), self._large.copy()
        twin._small = [group.copy() for group in self._small]
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


def is_shared(table: object, values: FloatArray) -> bool:
    """Tell whether a user could still change the numbers that a table was made of."""
    if isinstance(table, list | tuple):
        return False
    given = np.asarray(table)
    if given.flags.owndata and not given.flags.writeable:
        return False
    return np.may_share_memory(given, values)
