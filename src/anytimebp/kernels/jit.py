"""How kernels are compiled, and how they see tables that live outside the workspace."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import carray, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

FAST = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered. `nnan` and `ninf` are left out: they would let the compiler drop our checks of both."""

FAST_WITHOUT_NAN = FAST | {"nnan"}
"""For loops that cannot meet NaN: without `nnan`, minima and maxima are not vectorised."""


def kernel(fastmath: set[str] | bool = False) -> Callable[[Function], Function]:
    """Compile for any thread, with the result kept on disk where a folder for it can be written."""

    def compile_it(function: Function) -> Function:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
        try:
            return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # no writable place for the cache: compile in every process
            return numba.njit(**options)(function)  # type: ignore[no-any-return]

    return compile_it


if numba.config.DISABLE_JIT:

    def table_view(address: int, size: int) -> np.ndarray:
        """Return the float64 numbers at an address as an array."""
        return np.ctypeslib.as_array((ctypes.c_double * size).from_address(int(address)))

else:

    @intrinsic
    def _as_pointer(_context: Any, _address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(types.float64)(types.int64), build

    @kernel()
    def table_view(address: int, size: int) -> np.ndarray:
        """Return the float64 numbers at an address as an array. The workspace keeps their owner alive."""
        return carray(_as_pointer(address), (size,))
