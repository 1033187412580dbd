"""Loading the compiled kernels, or compiling them, before a run's clock starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anytimebp.kernels import messages

logger = logging.getLogger("anytimebp")


def warm_up(method: str, run_small_model: Callable[[], object]) -> None:
    """Make sure that the kernels of a method are loaded, by running a small model if they are not.

    Says so if nothing compiled is on disk yet, so that nobody thinks the run hangs.
    """
    kernel: Any = messages.residual_slice if method == "residual" else messages.sweep_slice
    if getattr(kernel, "overloads", True):  # loaded in this process, or compilation is switched off
        return
    folder = Path(kernel.stats.cache_path or ".")
    if not any(folder.glob(f"messages.{kernel.__name__}-*.nbi")):
        logger.warning("compiling the kernels; this happens once and takes some 20 seconds")
    run_small_model()
