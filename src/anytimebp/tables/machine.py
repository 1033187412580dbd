"""How much memory the machine has. This is not in `memory.py`, which imports kernels."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


@cache
def total_memory() -> int:
    """Return the bytes that this machine has, 0 where it does not say; asked once in a process."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def available_memory() -> int | None:
    """Return the bytes that can still be allocated on this machine, or None where it does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return total_memory() or None
