"""Whether a command shows how far it is."""

from __future__ import annotations

import os
import stat
import sys


def wants_bar() -> bool:
    """Tell whether standard error is a terminal that nothing else is about to draw on."""
    try:
        piped = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        piped = False
    return sys.stderr.isatty() and not piped
