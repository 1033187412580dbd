"""How many examples a property is tried on: kernels as plain Python are a hundred times slower than compiled ones."""

import os

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def examples(count, uncompiled=15):
    """Return a number of examples, at most `uncompiled` where kernels run as plain Python."""
    return min(count, uncompiled) if UNCOMPILED else count
