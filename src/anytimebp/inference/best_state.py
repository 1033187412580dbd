"""`infer_map`: the best joint state of a graph, with a clock, Ctrl-C and a record of improvements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from anytimebp.domains.domains import domain_sizes, full_domains
from anytimebp.errors import OptionError
from anytimebp.exact.cost import plan_within
from anytimebp.exact.possible import restricted
from anytimebp.exact.tree import Tree, plan
from anytimebp.inference.auto_run import choose
from anytimebp.inference.block_moves import BlockMoves
from anytimebp.inference.budget import InterruptFlag, Stopwatch
from anytimebp.inference.caveats import warn_of_cache
from anytimebp.inference.inference import Inference
from anytimebp.inference.likely_map import CHOICE, LOOSE, LikelySearch
from anytimebp.inference.map_search import MapSearch
from anytimebp.inference.method import Task, new_task
from anytimebp.inference.methods import MAP_METHODS
from anytimebp.inference.options import check_budget
from anytimebp.inference.warm_up import compile_rules, load_meanwhile, logger
from anytimebp.kernels import cliques, cutting, joint_states, log_maxima
from anytimebp.kernels.disk_cache import is_kept
from anytimebp.kernels.held_signals import hold_signals, let_signals_in
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.model.evidence import EvidenceLike
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import IndexArray
from anytimebp.results.map_result import MapMoment, MapResult, MapTrace
from anytimebp.results.stop import StopReason
from anytimebp.tables.log_tables import log_table_bytes
from anytimebp.tables.memory import check_axes, check_universe, memory_limit

HALF = 0.5  # of the time that BP on active states may take
SECONDS = 8  # processor time that compiling takes, for people who wait


def infer_map(
    graph: FactorGraph,
    method: str = "auto",
    *,
    evidence: EvidenceLike | None = None,
    seconds: float | None = None,
    max_memory: int | None = None,
    callback: Callable[[MapMoment], object] | None = None,
) -> MapResult:
    """Return the most probable joint state of a factor graph, or the best one that is found.

    Ctrl-C ends the search and returns the best joint state so far (`stop_reason` is INTERRUPTED).

    Args:
        graph: The model. It is not changed.
        method: "exact" uses a junction tree. "bp" uses max-product messages, which also give an upper bound on the
            score, and moves of single variables and of blocks. If the tables of all factors do not fit into memory, it
            searches among likely states, without a bound (`MapResult.choice` says so). "auto" takes "exact" if that is
            cheap, as in `infer`, and "bp" otherwise.
        evidence: As for `infer`.
        seconds: Time budget; None for no limit.
        max_memory: Number of bytes that the search may allocate.
        callback: Called when the state or the bound has improved. The search stops if it returns a true value.

    Returns:
        The joint state, its score, and an upper bound on the score of every joint state.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("sky", ["clear", "grey"])
        >>> _ = graph.add_variable("ground", ["dry", "wet"])
        >>> _ = graph.add_factor(["sky", "ground"], log_table=[[1.0, -2.0], [0.0, 0.5]])
        >>> abp.infer_map(graph, evidence={"ground": "wet"}).assignment["sky"]
        'grey'

    Raises:
        InconsistentModelError: If no joint state is possible.
        MemoryLimitError: If `method` is "exact" and no junction tree fits into memory, or if there is no room for a few
            numbers per state.
    """
    if method not in MAP_METHODS:
        msg = f"method must be one of {', '.join(map(repr, MAP_METHODS))}, got {method!r}"
        raise OptionError(msg)
    check_budget(seconds, None, None, None, callback, None)
    inference = Inference(graph, "exact", evidence=evidence, max_memory=max_memory, tolerance=LOOSE)
    inference.load()
    load_map_kernels()
    compile_rules(graph.asked_sources)
    warn_of_cache()
    clock, options = Stopwatch(), inference.options.for_method("adaptive")
    with InterruptFlag() as interrupt, np.errstate(under="ignore"):
        clock.start()
        graph.take_changes()
        compiled = compiled_graph(graph)
        tree = _tree(compiled, method, domain_sizes(compiled, options.observed), seconds, max_memory)
        task = new_task(graph, options, partial(load_meanwhile, clock, interrupt, options))
        late = np.inf if seconds is None else HALF * seconds
        search, steps, choice = _begun(task, compiled, tree, lambda: clock.seconds >= late)
        reason, trace = _drive(search, steps, clock, interrupt, seconds, callback)
    labels = {v.name: v.labels[int(s)] for v, s in zip(compiled.variables, search.states, strict=True)}
    if search.log_score == -np.inf:
        reason = StopReason.NO_POSSIBLE_STATE
    return MapResult(
        assignment=labels,
        log_score=search.log_score,
        upper_bound=search.upper_bound,
        max_marginals=search.max_marginals(),
        exact=search.is_best,
        method="bp" if tree is None else "exact",
        choice=choice,
        stop_reason=reason,
        trace=MapTrace(trace),
        seconds=clock.seconds,
    )


def _begun(
    task: Task, compiled: CompiledGraph, tree: Tree | None, is_late: Callable[[], bool]
) -> tuple[MapSearch, Iterator[int | None], str]:
    """Return a search, its steps, and what it has to do without.

    Args:
        task: Of a run of `adaptive`, if there is one.
        compiled: The graph.
        tree: To be exact on, or None.
        is_late: Whether such a run has to end.
    """
    observed, max_memory = task.options.observed, task.options.max_memory
    is_likely = tree is None and not _fits(compiled, domain_sizes(compiled, observed), max_memory)
    if is_likely:
        check_universe(compiled, max_memory)
    domains = full_domains(compiled, observed)
    search = MapSearch(compiled, domains, observed)
    if tree is not None:
        return search, search.exactly(tree), ""
    if is_likely:
        return search, _ended(search, LikelySearch(search, task, domains, is_late).by_rounds()), CHOICE
    return search, _ended(search, search.by_passes(BlockMoves(search, compiled, domains, observed))), ""


def _tree(
    compiled: CompiledGraph, method: str, sizes: IndexArray, seconds: float | None, max_memory: int | None
) -> Tree | None:
    """Return the tree to be exact on, or None; check the memory."""
    if method == "exact":
        return plan_within(compiled, sizes, max_memory)
    check_axes(compiled, "bp")
    if method == "bp":
        return None
    return choose(compiled, sizes, has_budget=seconds is not None, max_memory=max_memory).tree


def _fits(compiled: CompiledGraph, sizes: IndexArray, max_memory: int | None) -> bool:
    """Tell whether log tables over all states fit into memory."""
    needed = log_table_bytes(compiled, sizes)
    limit = memory_limit(needed, max_memory)
    return limit is None or needed <= limit


def _ended(search: MapSearch, steps: Iterator[None]) -> Iterator[None]:
    """Take all steps, and say how the search has ended."""
    yield from steps
    search.end()


def _drive(
    search: MapSearch,
    steps: Iterator[int | None],
    clock: Stopwatch,
    interrupt: InterruptFlag,
    seconds: float | None,
    callback: Callable[[MapMoment], object] | None,
) -> tuple[StopReason, list[MapMoment]]:
    """Run a search to its end or that of its budget; return why it stopped, and its improvements."""
    trace: list[MapMoment] = []
    while True:
        if not trace or trace[-1][1:] != (search.log_score, search.upper_bound):
            trace.append(MapMoment(clock.seconds, search.log_score, search.upper_bound))
            if callback is not None:
                with clock.paused():
                    is_enough = bool(callback(trace[-1]))
                if is_enough:
                    return StopReason.CALLBACK, trace
        if search.ending is not None:
            return search.ending, trace
        if interrupt.is_set:
            return StopReason.INTERRUPTED, trace
        if seconds is not None and clock.seconds >= seconds:
            return StopReason.OUT_OF_TIME, trace
        next(steps, None)


def load_map_kernels() -> None:
    """Load the kernels of searches, or compile them, unless they are loaded."""
    wanted = (
        cliques.distribute_slice,
        cutting.cut_tables_slice,
        joint_states.choose_best,
        log_maxima.score_states,
    )
    if all(getattr(kernel, "overloads", True) for kernel in wanted):
        return
    if any(not is_kept(kernel) for kernel in wanted):
        logger.warning(
            "compiling kernels for the best joint state; this happens once per installation and takes about %d s",
            SECONDS,
        )
    graph = FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=[[0.1, 0.0], [0.0, 0.2]])
    compiled = compiled_graph(graph)
    tree = plan(compiled, compiled.universe_sizes)
    smaller = plan(compiled, np.array([1, 2, 2]))
    assert isinstance(tree, Tree)  # noqa: S101  (it has three variables)
    assert isinstance(smaller, Tree)  # noqa: S101  (it has two)
    some = restricted(full_domains(compiled, {}), np.array([True, False, True, True, True, True]))
    with hold_signals():
        for domains in (full_domains(compiled, {}), some):
            for _ in MapSearch(compiled, domains, {}).exactly(tree if domains is not some else smaller):
                let_signals_in()
        for _ in MapSearch(compiled, some, {}).by_passes():
            let_signals_in()
