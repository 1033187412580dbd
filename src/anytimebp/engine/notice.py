"""Saying that kernels are being compiled, once, where nothing compiled is on disk yet."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from anytimebp.kernels import messages

logger = logging.getLogger("anytimebp")


def say_if_compiling() -> None:
    """Log a warning if the next kernel call compiles for a while, so that nobody thinks the run hangs."""
    dispatcher: Any = messages.sweep_slice
    if getattr(dispatcher, "overloads", True):  # compiled in this process, or compilation is switched off
        return
    folder = Path(dispatcher.stats.cache_path or ".")
    if not any(folder.glob(f"messages.{dispatcher.__name__}-*.nbi")):
        logger.warning("compiling the kernels; this happens once and takes some 20 seconds")
