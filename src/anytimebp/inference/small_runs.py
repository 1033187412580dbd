"""Runs on small models that send every kernel of a kind over some numbers, so that it is loaded or compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from anytimebp.domains.domains import full_domains
from anytimebp.exact.kept_tree import NOBODY
from anytimebp.exact.possible import ZEROS, possible_part
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree, is_forest, plan
from anytimebp.inference.adaptive.adaptive_run import AFTER_RELATIONS, BEYOND_MEMORY, RELATIONS, ROUNDS, AdaptiveRun
from anytimebp.inference.adaptive.choice import may_pay
from anytimebp.inference.adaptive.whole_model import MANY_TIED
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.exact_run import ExactRun
from anytimebp.inference.kept_exact import KEPT, Evidence, KeptExactRun, make_kept_tree
from anytimebp.inference.method import FORESTS, LARGER, LEAVES, LOGS, Method, Step, Task, new_task, steps
from anytimebp.inference.methods import FULL_METHODS, GROWING_METHODS
from anytimebp.inference.new_method import make_method
from anytimebp.inference.one_by_one import OneByOne
from anytimebp.inference.options import RunOptions
from anytimebp.inference.part_sweeps import PARTS, sweep_all_parts
from anytimebp.inference.small_models import banded, related, with_leaf
from anytimebp.inference.staying import make_calibrated
from anytimebp.kernels.codes import LINEAR
from anytimebp.kernels.messages import link_hubs
from anytimebp.kernels.setting_up import start_hubs
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import Observation
from anytimebp.model.graph import FactorGraph
from anytimebp.tables.leaves import TreeOrder
from anytimebp.tables.making import BANDS
from anytimebp.tables.memory import factor_entries
from anytimebp.tables.workspace import Workspace

ALL_STATES = partial(AllStates, at_any_cost=True)


def cuts_tables(method: str, options: RunOptions) -> bool:
    """Tell whether a run may cut tables to what the evidence leaves."""
    return bool(options.observed) and method in {*FULL_METHODS, "adaptive", "exact"}


def run_small_models(method: str, options: RunOptions) -> Iterator[Step]:
    """Send every kernel of a method, or those of ROUNDS, LOGS or LEAVES, over small models, a step at a time."""
    is_cut = cuts_tables(method, options)
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
    if method in SMALL_RUNS:
        yield from SMALL_RUNS[method](graph, options)
        return
    yield from _set_up(graph, options)
    if method in {"truncated", *GROWING_METHODS}:  # they share their kernels, of which each uses some
        yield from _load_for_larger_models(graph, options)
        for other in ("truncated", *GROWING_METHODS):
            yield from _run_small(OneByOne, new_task(graph, replace(options, method=other)))
        return
    yield from _run_small(make_method, new_task(graph, options))
    if method == "adaptive":  # which begins as `bp` does on graphs as small as this
        yield from _run_small(ALL_STATES, new_task(graph, options))
    if is_cut:
        yield from _run_observed(ExactRun if method == "exact" else AllStates, graph, options)


def _set_up(graph: FactorGraph, _: RunOptions) -> Iterator[Step]:
    """Do what `auto` decides on; what it decides for is loaded afterwards."""
    compiled = compiled_graph(graph)
    full_domains(compiled, {})
    factor_entries(compiled.arrays, compiled.universe_sizes)
    return iter(())


def _look_for_loops(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Do the same, and find out whether there are loops."""
    is_forest(compiled_graph(graph), compiled_graph(graph).universe_sizes)
    return _set_up(graph, options)


def _run_banded(_: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Sweep over a table that has a band."""
    return _run_small(ALL_STATES, new_task(banded(), options))


def _run_in_logs(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Sweep over a table of a wide range."""
    graph.add_factor([0, 1], log_table=[[0.0, -1000.0], [-np.inf, 0.0]])
    return _run_small(make_method, new_task(graph, options))


def _run_leaves(_: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Sum a leaf into a core."""
    return _run_small(ALL_STATES, new_task(with_leaf(-np.inf), options))


def _method_of(kernels: str, options: RunOptions) -> str:
    """Return the method by which kernels are run."""
    if kernels in {LOGS, LEAVES, BANDS, LARGER}:
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


def _load_for_larger_models(graph: FactorGraph, _: RunOptions) -> Iterator[Step]:
    """Load what small models do without: totals of hubs, a search for trees, and a look at priors."""
    compiled = compiled_graph(graph)
    domains, nothing = full_domains(compiled, {}), np.empty(0, dtype=np.int64)
    start_hubs(nothing, nothing, domains.slot_start, domains.sizes, domains.log_prior, np.empty(0), nothing)
    may_pay(compiled.arrays, domains, np.exp(domains.log_prior))
    workspace = Workspace(compiled, domains, LINEAR)
    link_hubs(workspace.arrays)
    TreeOrder(workspace).advance()
    return iter(())


def _run_stages(graph: FactorGraph, options: RunOptions) -> Iterator[Step]:
    """Send `adaptive` through all its stages."""
    yield from _run_small(partial(AdaptiveRun, at_any_cost=True), new_task(graph, options))
    yield from _run_small(partial(AdaptiveRun, at_any_cost=True), new_task(with_leaf(0.0), options))


def _run_relations(_: FactorGraph, options: RunOptions, *, goes_on: bool = False) -> Iterator[Step]:
    """Make a first round on relations, and go on from there if need be: without a look in kernels, and with one."""
    for n in (2, MANY_TIED) if goes_on else (2,):
        for step in _run_small(partial(AdaptiveRun, at_any_cost=True), new_task(related(n), options)):
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
    _load_for_larger_models(graph, options)
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
    LARGER: _load_for_larger_models,
    BANDS: _run_banded,
    LOGS: _run_in_logs,
    LEAVES: _run_leaves,
    FORESTS: _look_for_loops,
    "auto": _set_up,
}
