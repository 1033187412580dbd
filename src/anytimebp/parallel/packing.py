"""Pickles many graphs with each large array once, however many of them share it."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

LARGE = 2**15  # bytes of an array that is looked for in other graphs; smaller ones travel with each

Array = npt.NDArray[Any]


class _Pickler(pickle.Pickler):
    """Leaves out large arrays, and gathers them: one for all that lie in the same place in memory."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.found: list[Array] = []
        self._positions: dict[tuple[Any, ...], int] = {}

    def persistent_id(self, item: object) -> int | None:
        if type(item) is not np.ndarray or item.nbytes < LARGE or item.dtype.hasobject:
            return None
        key = item.__array_interface__["data"][0], item.shape, item.strides, item.dtype.str
        if key not in self._positions:
            self._positions[key] = len(self.found)
            self.found.append(item)  # which keeps the memory from being used for another
        return self._positions[key]


class _Unpickler(pickle.Unpickler):
    """Puts the large arrays back."""

    def __init__(self, packed: bytes, arrays: list[Array]) -> None:
        super().__init__(io.BytesIO(packed))
        self._arrays = arrays

    def persistent_load(self, position: Any) -> Any:
        return self._arrays[position]


def pack(what: object) -> tuple[bytes, list[Array]]:
    """Pickle something; return the bytes, and the large arrays in it, each once."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(what)
    return file.getvalue(), pickler.found


def unpack(packed: bytes, arrays: list[Array]) -> Any:
    """Return what was packed."""
    return _Unpickler(packed, arrays).load()
