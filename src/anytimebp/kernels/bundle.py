"""Compiled kernels that come with a wheel: used where processor, Python and Numba fit, ignored silently elsewhere.

They are compiled for a level of processors, x86-64-v3, instead of one model, and each is a file of its own. A file's
name says what it is good for, so there is no index that could go out of date.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite import binding

FOLDER = Path(__file__).parent / "compiled"
LEVEL = "x86-64-v3"
BASE = ("sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf")
FEATURES = (*BASE, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
"""What processors of this level can do, by LLVM's names."""

CHANGED_BY_USERS = ("CPU_NAME", "CPU_FEATURES", "BOUNDSCHECK", "DEBUG", "DEBUGINFO_DEFAULT")
"""Settings of Numba that compile other code, if they are set."""


@cache
def is_usable() -> bool:
    """Tell whether there are compiled kernels, and this process can use them."""
    if not FOLDER.is_dir() or sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    if any(getattr(numba.config, name, None) for name in CHANGED_BY_USERS):
        return False
    try:
        found = binding.get_host_cpu_features()
    except (AttributeError, RuntimeError):
        return False
    return all(found.get(feature, False) for feature in FEATURES)


def file_of(function: Any, signature: Any) -> str:
    """Return the name of the file for a kernel compiled for these types, by this Python and this Numba."""
    digest = [cell.cell_contents for cell in function.__closure__ or ()]
    versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, LEVEL
    text = repr((digest, versions, str(signature)))
    return f"{_short_name(function)}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def read(function: Any, signature: Any) -> bytes | None:
    """Return what is kept of a kernel; None where there is nothing that fits."""
    if not is_usable():
        return None
    try:
        return (FOLDER / file_of(function, signature)).read_bytes()
    except OSError:
        return None


def holds(module: str, name: str) -> bool:
    """Tell whether there is a version of a kernel that could be used, by the names of its module and its own."""
    return is_usable() and any(FOLDER.glob(f"{module}.{name}-*"))


def _short_name(function: Any) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__.replace('<locals>.', '')}"
