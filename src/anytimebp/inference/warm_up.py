"""Loading the compiled kernels, or compiling them, before a run's clock starts or while it stands still."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from anytimebp.exact.possible import ZEROS
from anytimebp.inference.adaptive.adaptive_run import AFTER_RELATIONS, BEYOND_MEMORY, RELATIONS, ROUNDS
from anytimebp.inference.budget import InterruptFlag, Stopwatch
from anytimebp.inference.kept_exact import KEPT
from anytimebp.inference.method import FORESTS, LARGER, LEAVES, LOGS
from anytimebp.inference.methods import METHODS
from anytimebp.inference.options import RunOptions
from anytimebp.inference.part_sweeps import PARTS
from anytimebp.inference.small_runs import cuts_tables, run_small_models
from anytimebp.kernels import (
    active,
    active_readout,
    bands,
    bundle,
    calibrated,
    cliques,
    cutting,
    elimination,
    exponentiate,
    growth,
    impossible,
    junction_tree,
    kept_cliques,
    lazy,
    leaf_passes,
    leaves,
    log_sums,
    messages,
    parts,
    readout,
    relations,
    relations_look,
    relations_readout,
    relevance,
    residual,
    setting_up,
    through_table,
    to_factor,
)
from anytimebp.kernels.disk_cache import is_kept
from anytimebp.kernels.held_signals import LoadingStoppedError, hold_signals, let_signals_in
from anytimebp.kernels.structures import MODULES, is_loaded, load
from anytimebp.model.source import FactorSource
from anytimebp.tables.making import BANDS

FIRST_KERNELS: dict[str, tuple[Any, ...]] = {
    "bp": (messages.sweep_slice,),
    "residual": (residual.residual_slice,),
    "adaptive": (lazy.lazy_slice,),
    "exact": (elimination.greedy_order, cliques.distribute_slice),
    ROUNDS: (active.look_outside, active_readout.read_leaves, lazy.settle_slice),
    RELATIONS: (relations.begin_relations, relations.settle_relations, relations.read_relations),
    AFTER_RELATIONS: (relations.hand_over, relations_look.put_all, relations_readout.read_tied),
    BEYOND_MEMORY: (
        active.look_outside,
        active.weigh_outside,
        lazy.settle_slice,
        lazy.lazy_slice,
        readout.sum_bethe_terms,
    ),
    "auto": (setting_up.fill_topology, setting_up.fold_priors),
    FORESTS: (junction_tree.has_loop,),
    ZEROS: (impossible.exclude_states, cutting.cut_tables_slice),
    LOGS: (log_sums.sum_in_logs, exponentiate.scale_tables_slice),
    LARGER: (leaves.peel_slice, to_factor.gather_hub),
    LEAVES: (leaves.plan_tables, leaf_passes.pass_slice, leaves.fill_core),
    BANDS: (bands.fill_bands, through_table.band_linear),
    PARTS: (parts.sweep_parts,),
    KEPT: (kept_cliques.calibrate_slice, kept_cliques.answer, calibrated.add_observations),
}
"""Kernels that stand for all of their kind: once they are loaded, the rest is. Of some, other kinds load a part."""

SECONDS = {
    "bp": 8,
    "adaptive": 8,
    "residual": 9,
    ROUNDS: 15,
    RELATIONS: 3,
    AFTER_RELATIONS: 4,
    BEYOND_MEMORY: 15,
    LOGS: 4,
    LARGER: 2,
    LEAVES: 4,
    BANDS: 2,
    "exact": 6,
    "auto": 2,
    FORESTS: 1,
    ZEROS: 1,
    KEPT: 7,
    PARTS: 3,
}
"""Processor time that compiling takes, on a slow machine with nothing on disk; measured, for people who wait."""

SECONDS_OF_MORE = 1  # evidence, factor marginals
SECONDS_OF_GROWTH = 20
SECONDS_OF_A_STRUCTURE = 3

logger = logging.getLogger("anytimebp")

_unfinished: set[tuple[Any, ...]] = set()  # of runs whose loading was given up
_loaded_meanwhile: set[tuple[str, bool, bool, bool]] = set()


def load_kernels(
    options: RunOptions, is_stopped: Callable[[], bool] = lambda: False, kernels: str | None = None
) -> None:
    """Load the kernels that a run begins with, or compile them, by running small models; none that are there already.

    Says so if nothing compiled is on disk yet, so that nobody thinks the run hangs. Handlers of signals run between
    kernels, and what they raise comes through.

    Args:
        options: Of the run.
        is_stopped: Whether to give up between two kernels, with a LoadingStoppedError.
        kernels: Load these instead: ROUNDS, LOGS, LEAVES, or those of another method.
    """
    method = kernels or (options.method if options.policy is None else "dynamic")
    if method == "residual" and options.has_parts:
        method = "adaptive"  # lazy sweeps take the place of the heap
    wanted = _first_kernels(method, options)
    missing = [kernel for kernel in wanted if not getattr(kernel, "overloads", True)]
    if not missing and wanted not in _unfinished:  # loaded in this process, or compilation is switched off
        return
    compiled = [kernel for kernel in missing if not is_kept(kernel)]
    if compiled:
        more = not any(kernel in FIRST_KERNELS.get(method, (growth.growth_slice,)) for kernel in compiled)
        what = f"method {method!r}" if method in METHODS else method
        logger.warning(
            "compiling kernels for %s; this happens once per installation and takes about %d s",
            "evidence or factor marginals" if more else what,
            SECONDS_OF_MORE if more else _seconds(method),
        )
    _unfinished.add(wanted)
    with hold_signals(is_stopped):
        for _ in run_small_models(method, options):
            let_signals_in()
    _unfinished.discard(wanted)


def _seconds(method: str) -> int:
    """Return about how long compiling takes. Larger graphs need the kernels of `bp`, which may be there already."""
    with_updates = method == LARGER and not is_kept(messages.update)
    return SECONDS.get(method, SECONDS_OF_GROWTH) + (SECONDS["bp"] if with_updates else 0)


def load_structures(names: Iterable[str] = tuple(MODULES)) -> None:
    """Load what lists and structures are summed by, or compile it, unless it is loaded already."""
    stats = getattr(messages.sweep_slice, "stats", None)  # none where compilation is switched off
    missing = [name for name in names if not is_loaded(name)]
    if stats is not None and missing:
        folder = Path(stats.cache_path or ".")
        modules = [MODULES[name] for name in missing if not bundle.holds(MODULES[name], "send")]
        compiled = [module for module in modules if not any(folder.glob(f"{module}.send-*.nbi"))]
        if compiled:
            logger.warning(
                "compiling kernels for lists and structures; this happens once per installation and takes about %d s",
                SECONDS_OF_A_STRUCTURE * len(compiled),
            )
    for name in missing:
        load(name)


def _first_kernels(method: str, options: RunOptions) -> tuple[Any, ...]:
    """Return kernels that stand for all that a run needs."""
    kernels = list(FIRST_KERNELS.get(method, (growth.growth_slice,)))
    if options.factor_marginals and method not in {"exact", "auto", FORESTS, KEPT, ZEROS, PARTS, LARGER}:
        kernels.append(readout.read_weights)
    if method == "exact" and options.targets is not None:
        kernels.append(relevance.find_part)
    if cuts_tables(method, options):
        kernels.append(cutting.cut_tables_slice)
    return tuple(kernels)


def compile_rules(sources: list[FactorSource]) -> None:
    """Compile the loops of rules that Numba compiles."""
    compiled = [source for source in sources if source.is_compiled]
    if compiled:
        with hold_signals():
            for source in compiled:
                source.prepare()
                let_signals_in()


def load_meanwhile(watch: Stopwatch, interrupt: InterruptFlag, options: RunOptions, kernels: str) -> bool:
    """Load more kernels, while the clock stands still; return False if Ctrl-C came before the end.

    Knows the clock and the flag, not the inference: a run that led back to what owns it would keep its tables until the
    garbage collector comes.
    """
    known = kernels, bool(options.observed), options.factor_marginals, options.targets is None
    if known in _loaded_meanwhile:
        return True
    try:
        with watch.paused():
            load_kernels(options, lambda: interrupt.is_set, kernels)
    except LoadingStoppedError:
        return False
    _loaded_meanwhile.add(known)
    return True
