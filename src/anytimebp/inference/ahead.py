"""Compiling kernels ahead of time, before anybody waits for them: in processes side by side."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from anytimebp.exact.possible import ZEROS
from anytimebp.inference.adaptive.adaptive_run import AFTER_RELATIONS, BEYOND_MEMORY, RELATIONS, ROUNDS
from anytimebp.inference.inference import Inference
from anytimebp.inference.kept_exact import KEPT
from anytimebp.inference.method import FORESTS, LARGER, LEAVES, LOGS
from anytimebp.inference.methods import GROWING_METHODS, METHODS
from anytimebp.inference.part_sweeps import PARTS
from anytimebp.inference.warm_up import load_kernels, load_structures
from anytimebp.kernels import bundle
from anytimebp.kernels.disk_cache import also_keep_in
from anytimebp.kernels.structures import MODULES
from anytimebp.model.graph import FactorGraph
from anytimebp.tables.making import BANDS

GROUPS: dict[str, tuple[str, ...]] = {
    "bp": ("bp", LARGER, LEAVES, LOGS, BANDS, PARTS),
    "exact": ("exact", FORESTS, ZEROS, KEPT),
    "adaptive": ("adaptive", LARGER, ROUNDS, RELATIONS, AFTER_RELATIONS, BEYOND_MEMORY, LEAVES, LOGS),
    "residual": ("residual", LARGER, LEAVES, LOGS),
    "dynamic": ("dynamic", LOGS),
    **{f"factors: {name}": (name,) for name in MODULES},
}
"""What one process compiles in a row, since these kernels have much in common."""


def groups_of(method: str) -> tuple[str, ...]:
    """Return the groups of kernels that runs of a method may need."""
    if method == "auto":
        return "adaptive", "exact"
    return ("dynamic",) if method in {"truncated", *GROWING_METHODS} else (method,)


def compile_group(group: str) -> str:
    """Compile a group of kernels, or load what is on disk; return its name."""
    if group not in METHODS:
        load_structures(GROUPS[group])
        return group
    graph = FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], log_table=[[0.1, 0.0], [0.0, 0.2]])
    plain = Inference(graph, group).options
    asked = Inference(graph, group, evidence={0: 1}, factor_marginals=True).options
    in_part = Inference(graph, group, targets=[1]).options
    for kernels in ("auto", *GROUPS[group]):
        for options in (plain, asked, in_part):
            load_kernels(options, kernels=kernels)
    return group


def compile_ahead(groups: Iterable[str] = tuple(GROUPS), jobs: int | None = None) -> Iterator[str]:
    """Compile groups of kernels in processes side by side; give the name of each group as it is done.

    Args:
        groups: Their names.
        jobs: Processes; by default one per core.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1, context) as pool:
        for done in as_completed([pool.submit(compile_group, group) for group in groups]):
            yield done.result()


def compile_bundle(folder: Path, jobs: int | None = None) -> Iterator[str]:
    """Compile all kernels for a wheel; give the name of each group as it is done.

    Args:
        folder: Where to write them.
        jobs: Processes; by default one per core.
    """
    features = ",".join(f"+{name}" for name in bundle.FEATURES)
    with tempfile.TemporaryDirectory() as cache:
        settings = {"NUMBA_CPU_NAME": bundle.LEVEL, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": cache}
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)  # read by Numba in the new processes
        try:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(jobs or os.cpu_count() or 1, context, also_keep_in, (folder,)) as pool:
                for done in as_completed([pool.submit(compile_group, group) for group in GROUPS]):
                    yield done.result()
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
