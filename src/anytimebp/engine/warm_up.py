"""Loading the compiled kernels, or compiling them, before a run's clock starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anytimebp.engine.options import RunOptions
from anytimebp.kernels import growth, helping, inner, messages, readout, residual
from anytimebp.workspace.crew import rehearse

FIRST_KERNEL = {"bp": messages.sweep_slice, "residual": residual.residual_slice, "adaptive": inner.full_sweep}

logger = logging.getLogger("anytimebp")


def warm_up(method: str, options: RunOptions, run_small_model: Callable[[], object]) -> None:
    """Make sure that the kernels of a run are loaded, by running a small model if they are not.

    Says so if nothing compiled is on disk yet, so that nobody thinks the run hangs.
    """
    kernels: list[Any] = [FIRST_KERNEL.get(method, growth.growth_slice)]
    if options.factor_marginals:
        kernels.append(readout.read_weights)
    if options.threads > 1:
        kernels.append(helping.help_slice)
    missing = [kernel for kernel in kernels if not getattr(kernel, "overloads", True)]
    if not missing:  # loaded in this process, or compilation is switched off
        return
    if not all(_is_on_disk(kernel) for kernel in missing):
        logger.warning(
            "compiling kernels for method %r; this happens once per installation and takes up to a minute",
            method,
        )
    run_small_model()
    if options.threads > 1:
        rehearse()


def _is_on_disk(kernel: Any) -> bool:
    folder = Path(kernel.stats.cache_path or ".")
    return any(folder.glob(f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}-*.nbi"))
