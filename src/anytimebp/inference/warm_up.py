"""Loading the compiled kernels, or compiling them, before a run's clock starts or while it stands still."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anytimebp.domains.domains import full_domains
from anytimebp.errors import MemoryLimitError
from anytimebp.exact.kept_tree import NOBODY
from anytimebp.exact.possible import ZEROS, possible_part
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree, is_forest, plan
from anytimebp.inference.active_exact import ActiveExactRun
from anytimebp.inference.adaptive.adaptive_run import AFTER_RELATIONS, BEYOND_MEMORY, RELATIONS, ROUNDS, AdaptiveRun
from anytimebp.inference.adaptive.choice import may_pay
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.auto_run import AutoRun
from anytimebp.inference.budget import InterruptFlag, Stopwatch
from anytimebp.inference.exact_run import ExactRun
from anytimebp.inference.kept_exact import KEPT, Evidence, KeptExactRun, make_kept_tree
from anytimebp.inference.method import FORESTS, LEAVES, LOGS, Method, Step, Task, new_task, steps
from anytimebp.inference.methods import FULL_METHODS, GROWING_METHODS, METHODS
from anytimebp.inference.one_by_one import OneByOne
from anytimebp.inference.options import RunOptions
from anytimebp.inference.part_sweeps import PARTS, sweep_all_parts
from anytimebp.inference.small_models import banded, related, with_leaf
from anytimebp.inference.staying import make_calibrated
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
    relevance,
    residual,
    setting_up,
)
from anytimebp.kernels.codes import LINEAR
from anytimebp.kernels.disk_cache import is_kept
from anytimebp.kernels.held_signals import LoadingStoppedError, hold_signals, let_signals_in
from anytimebp.kernels.setting_up import start_hubs
from anytimebp.kernels.structures import MODULES, is_loaded, load
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import Observation
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FactorSource
from anytimebp.tables.leaves import TreeOrder
from anytimebp.tables.making import BANDS
from anytimebp.tables.memory import factor_entries
from anytimebp.tables.workspace import Workspace

FIRST_KERNELS: dict[str, tuple[Any, ...]] = {
    "bp": (messages.sweep_slice,),
    "residual": (residual.residual_slice,),
    "adaptive": (lazy.lazy_slice,),
    "exact": (elimination.greedy_order, cliques.distribute_slice),
    ROUNDS: (active.look_outside, active_readout.read_leaves, lazy.settle_slice),
    RELATIONS: (relations.begin_relations, relations.settle_relations, relations.read_relations),
    AFTER_RELATIONS: (relations.hand_over,),
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
    LEAVES: (leaves.plan_tables, leaf_passes.pass_slice, leaves.fill_core),
    BANDS: (bands.fill_bands,),
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
    AFTER_RELATIONS: 1,
    BEYOND_MEMORY: 15,
    LOGS: 4,
    LEAVES: 4,
    BANDS: 2,
    "exact": 6,
    "auto": 1,
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
    wanted = _first_kernels(method, options)
    missing = [kernel for kernel in wanted if not getattr(kernel, "overloads", True)]
    if not missing and wanted not in _unfinished:  # loaded in this process, or compilation is switched off
        return
    compiled = [kernel for kernel in missing if not is_kept(kernel)]
    if compiled:
        more = not any(kernel in FIRST_KERNELS.get(method, (growth.growth_slice,)) for kernel in compiled)
        what = f"method {method!r}" if method in METHODS else method
        logger.warning(
            "compiling kernels for %s; this happens once per installation and takes about %d seconds",
            "evidence or factor marginals" if more else what,
            SECONDS_OF_MORE if more else SECONDS.get(method, SECONDS_OF_GROWTH),
        )
    _unfinished.add(wanted)
    with hold_signals(is_stopped):
        for _ in run_small_models(method, options):
            let_signals_in()
    _unfinished.discard(wanted)


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
                "compiling kernels for lists and structures; this happens once per installation and takes about "
                "%d seconds",
                SECONDS_OF_A_STRUCTURE * len(compiled),
            )
    for name in missing:
        load(name)


def _first_kernels(method: str, options: RunOptions) -> tuple[Any, ...]:
    """Return kernels that stand for all that a run needs."""
    kernels = list(FIRST_KERNELS.get(method, (growth.growth_slice,)))
    if options.factor_marginals and method not in {"exact", "auto", FORESTS, KEPT, ZEROS, PARTS}:
        kernels.append(readout.read_weights)
    if method == "exact" and options.targets is not None:
        kernels.append(relevance.find_part)
    if _cuts_tables(method, options):
        kernels.append(cutting.cut_tables_slice)
    return tuple(kernels)


def _cuts_tables(method: str, options: RunOptions) -> bool:
    """Tell whether a run may cut tables to what the evidence leaves."""
    return bool(options.observed) and method in {*FULL_METHODS, "adaptive", "exact"}


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


def make_method(task: Task) -> Method:
    """Return the method that a task asks for, about to begin."""
    method = task.options.method
    if method == "exact":
        try:
            return ExactRun(task)
        except MemoryLimitError:
            return ActiveExactRun(task)
    if method == "auto" and task.options.policy is None:
        return AutoRun(task)
    if method == "adaptive" and task.options.policy is None:
        return AdaptiveRun(task)
    return AllStates(task) if method in FULL_METHODS else OneByOne(task)


def run_small_models(method: str, options: RunOptions) -> Iterator[Step]:
    """Send every kernel of a method, or those of ROUNDS, LOGS or LEAVES, over small models, a step at a time."""
    cuts_tables = _cuts_tables(method, options)
    options = replace(
        options,
        method=_method_of(method, options),
        observed={},
        max_memory=None,
        rng=0,
        tolerance=1e-3,
        damping=0.0,
        grow=1,
        policy=None,
        parts=None,
        targets=None if options.targets is None else np.zeros(1, dtype=np.int64),
    )
    graph = FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=[[0.1, 0.0], [0.0, 0.2]])
    if method in {"auto", FORESTS}:
        _set_up(graph, looks_for_loops=method == FORESTS)
        return
    if method in SMALL_RUNS:
        yield from SMALL_RUNS[method](graph, options)
        return
    if method == BANDS:
        yield from _run_small(partial(AllStates, at_any_cost=True), new_task(banded(), options))
        return
    if method == LOGS:
        graph.add_factor([0, 1], log_table=[[0.0, -1000.0], [-np.inf, 0.0]])
        yield from _run_small(make_method, new_task(graph, options))
        return
    if method == LEAVES:
        yield from _run_small(partial(AllStates, at_any_cost=True), new_task(with_leaf(-np.inf), options))
        return
    _load_for_larger_models(graph, method)
    yield from _run_small(make_method, new_task(graph, options))
    if method == "adaptive":  # which begins as `bp` does on graphs as small as this
        yield from _run_small(partial(AllStates, at_any_cost=True), new_task(graph, options))
    if cuts_tables:
        yield from _run_observed(ExactRun if method == "exact" else AllStates, graph, options)
    if method in {"truncated", *GROWING_METHODS}:  # they share their kernels, of which each uses some
        for other in ("truncated", *GROWING_METHODS):
            yield from _run_small(OneByOne, new_task(graph, replace(options, method=other)))


def _set_up(graph: FactorGraph, *, looks_for_loops: bool) -> None:
    """Do what `auto` decides on; what it decides for is loaded afterwards."""
    compiled = compiled_graph(graph)
    full_domains(compiled, {})
    factor_entries(compiled.arrays, compiled.universe_sizes)
    if looks_for_loops:
        is_forest(compiled, compiled.universe_sizes)


def _method_of(kernels: str, options: RunOptions) -> str:
    """Return the method by which kernels are run."""
    if kernels in {LOGS, LEAVES, BANDS}:
        return "adaptive" if options.method == "auto" else options.method
    if kernels in {KEPT, ZEROS}:
        return "exact"
    if kernels == PARTS:
        return "bp"
    return "adaptive" if kernels in {ROUNDS, RELATIONS, AFTER_RELATIONS, BEYOND_MEMORY, FORESTS} else kernels


def _run_observed(make: Callable[[Task], Method], graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Run on a loop with a leaf that is observed."""
    graph.add_variables(1, 2)
    graph.add_factor([0, 3], log_table=[[0.1, 0.0], [0.0, 0.2]])
    observed = {3: Observation(np.zeros(1, dtype=np.int64), None)}  # the loop stays: a forest would need LEAVES
    yield from _run_small(make, new_task(graph, replace(options, observed=observed)))


def _run_cut(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Look for a state that zeros exclude, and run without a state."""
    narrow = FactorGraph()
    narrow.add_variables(2, 2)
    narrow.add_factor([0, 1], table=[[1.0, 1.0], [0.0, 0.0]])
    compiled = compiled_graph(narrow)
    possible_part(compiled, full_domains(compiled, {}), Part(compiled.arrays, compiled.universe_sizes))
    yield from _run_observed(ExactRun, graph, options)


def _load_for_larger_models(graph: FactorGraph, method: str) -> None:
    """Load what small models do without: sizes of tables, totals of hubs, a search for trees, and a look at priors."""
    compiled = compiled_graph(graph)
    factor_entries(compiled.arrays, compiled.universe_sizes)
    if method == "exact":
        return
    domains, nothing = full_domains(compiled, {}), np.empty(0, dtype=np.int64)
    start_hubs(nothing, nothing, domains.slot_start, domains.sizes, domains.log_prior, np.empty(0), nothing)
    TreeOrder(Workspace(compiled, full_domains(compiled, {}), LINEAR)).advance()
    if method == "adaptive":
        may_pay(compiled.arrays, domains)


def _run_stages(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Send `adaptive` through all its stages."""
    yield from _run_small(partial(AdaptiveRun, at_any_cost=True), new_task(graph, options))
    yield from _run_small(partial(AdaptiveRun, at_any_cost=True), new_task(with_leaf(0.0), options))


def _run_relations(_: FactorGraph, options: RunOptions, *, goes_on: bool = False) -> Iterator[Step]:
    """Make a first round on relations, and go on from there if need be."""
    for step in _run_small(partial(AdaptiveRun, at_any_cost=True), new_task(related(), options)):
        yield step
        if not goes_on:
            return


def _run_large(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Send `adaptive` through its rounds on models larger than memory, undamped and damped."""
    graph = FactorGraph()
    graph.add_variables(3, 40)
    graph.add_factors([[0], [1], [2]], log_table=np.linspace(0.0, -20.0, 40))
    graph.add_factors([[0, 1], [1, 2], [2, 0]], rule=lambda a, b: -0.1 * abs(a - b))
    for damping in (0.0, 0.5):
        task = new_task(graph, replace(options, damping=damping))
        yield from _run_small(partial(AdaptiveRun, is_large=True), task)


def _run_parts(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Sweep over a graph of one part."""
    compiled = compiled_graph(graph)
    sweep_all_parts(compiled, full_domains(compiled, {}), np.array([0, 3]), options.tolerance)
    return iter(())


def _run_kept(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Ask a kept junction tree."""
    compiled, task = compiled_graph(graph), new_task(graph, options)
    tree = plan(compiled, compiled.universe_sizes)
    assert isinstance(tree, Tree)  # noqa: S101  (it has three variables)
    kept, made = (yield from make_kept_tree(task, compiled, tree, {})), (yield from make_calibrated(task, compiled, {}))
    if made is not None:  # it is small
        made.answer({1: 1}, NOBODY, made.scratch)
    kept.set_unary(0, np.zeros(2))
    kept.answer([1], [1], NOBODY, kept.scratch, 1)
    kept.observe([1], [0])
    yield from _run_small(lambda task: KeptExactRun(task, compiled, kept, Evidence([1], [0]), None), task)


def _run_small(make: Callable[[Task], Method], task: Task) -> Iterator[Step]:
    method = make(task)
    for step in steps(method, task.figures):
        found = method.read(settled=False)
        if found is not None:
            found.marginals.read()
        yield step


SMALL_RUNS: dict[str, Callable[[FactorGraph, RunOptions], Iterator[Step]]] = {
    KEPT: _run_kept,
    ROUNDS: _run_stages,
    RELATIONS: _run_relations,
    AFTER_RELATIONS: partial(_run_relations, goes_on=True),
    BEYOND_MEMORY: _run_large,
    ZEROS: _run_cut,
    PARTS: _run_parts,
}
