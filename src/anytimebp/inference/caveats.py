"""What a run warns of: variables that nothing is said of, messages that do not settle, answers that know little."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from anytimebp.errors import (
    FailedRunError,
    KernelCacheWarning,
    NotConvergedWarning,
    UncertainResultWarning,
    UnconnectedVariableWarning,
    warn_caller,
)
from anytimebp.kernels.disk_cache import newly_unusable
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import Observation
from anytimebp.model.graph import FactorGraph
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason

ASKED_FOR = (
    StopReason.CALLBACK,
    StopReason.INTERRUPTED,
    StopReason.TARGET_REACHED,
    StopReason.OUT_OF_TIME,
    StopReason.OUT_OF_UPDATES,
    StopReason.OUT_OF_WORK,
)
"""Stops that somebody asked for, or set a budget for: `consistent` says whether messages had settled."""

BUDGETS = (StopReason.OUT_OF_TIME, StopReason.OUT_OF_UPDATES, StopReason.OUT_OF_WORK)

LARGE_ERROR = 0.5  # mean L2 distance; a uniform marginal is about 0.7 to 1 away from a certain one
NEARLY_ALL = 0.9  # of the belief of a variable, outside its domain
MANY = 15.0  # nats; on peaked models messages to unlikely states move by up to twelve at a fair estimate of 0.1
FEW_STATES = (
    0.5  # of all states: with fewer than that active, a run that memory has ended may have missed the likely ones
)
FEW = 3  # variables that a warning names
MOST_READ = 2**18  # entries, some milliseconds, to find out whether a run on growing domains knows anything
PER_EDGE = 2**11  # entries that are read in the time that an edge takes besides


def warn_of_cache() -> None:
    """Warn, once in a process, that kernels cannot be kept on disk."""
    for problem in newly_unusable():
        warn_caller(problem, KernelCacheWarning)


def warn_of_unconnected(graph: FactorGraph, observed: dict[int, Observation]) -> None:
    """Warn once per graph of variables with more than one state, no factor and no evidence."""
    compiled = compiled_graph(graph)
    if graph.warned_of_unconnected or not len(compiled.unconnected):
        return
    alone = np.setdiff1d(compiled.unconnected, list(observed), assume_unique=True)
    if not alone.size:
        return
    graph.warned_of_unconnected = True
    names = ", ".join(repr(compiled.variables.name(int(i))) for i in alone[:FEW])
    more = ", ..." if alone.size > FEW else ""
    warn_caller(
        f"{alone.size:,} of {len(compiled.universe_sizes):,} variables have neither a factor nor evidence, so "
        f"their marginals are uniform: {names}{more}",
        UnconnectedVariableWarning,
    )


def warn_of_divergence(reason: StopReason) -> None:
    """Warn that the marginals are not at a fixed point."""
    warn_caller(f"the marginals are not at a fixed point: {reason}", NotConvergedWarning)


def warn_of_end(graph: FactorGraph, result: Result, *, may_estimate: bool = True) -> None:
    """Warn of what a result may be wrongly taken for; texts are fixed, so that a loop shows each of them once.

    Args:
        graph: The model.
        result: Of a run on it.
        may_estimate: Whether the error may be estimated for this, which takes memory of its own.
    """
    reason = result.stop_reason
    if reason is StopReason.NOT_CONVERGED or (not result.consistent and reason not in ASKED_FOR):
        warn_of_divergence(reason)
    elif result.consistent and result.method == "exact" and not result.exact:
        warn_caller(
            "cliques over all states do not fit into memory, so the marginals are exact only for the model restricted "
            "to its likely states; belief propagation judged which states are likely, and may be wrong on loops (see "
            "`estimated_error` and `choice`); allow more memory (`max_memory`), or observe more variables",
            UncertainResultWarning,
        )
    elif result.consistent and result.method == "adaptive" and not callable(result.error) and result.error == np.inf:
        warn_caller(
            "the run was stopped after its first answer, on the states with the best unary scores; it has not looked "
            "at the other states yet, so the error is unknown; allow more time",
            UncertainResultWarning,
        )
    elif result.consistent and _knows_little(graph, result):
        warn_caller(
            "messages have settled on the active states, but most of the belief may lie on other states, so the "
            "marginals are little more than a guess (see `estimated_error` and `unexplored_mass`); allow more time, "
            'memory or states (`grow`, `fraction`), or try method="bp"',
            UncertainResultWarning,
        )
    elif reason in BUDGETS and _is_far_off(result, may_estimate=may_estimate):
        warn_caller(
            f"the run was stopped so early that its marginals may be far off: their estimated distance to "
            f"{result.estimated_to} is more than 0.5 (see `estimated_error`); allow more time or updates",
            UncertainResultWarning,
        )
    elif reason is StopReason.TARGET_REACHED and not result.max_residual <= MANY:
        warn_caller(
            "the estimated distance to BP is at most `target_error`, but messages still move by many nats (see "
            "`max_residual`), so the estimate may be far too small; use a smaller `target_error`, or none",
            UncertainResultWarning,
        )


def _is_far_off(result: Result, *, may_estimate: bool) -> bool:
    """Tell whether the estimated error is large, unless it would take rules or memory to know."""
    if callable(result.outside) or (callable(result.error) and not may_estimate):
        return False
    return result.estimated_error > LARGE_ERROR


def _knows_little(graph: FactorGraph, result: Result) -> bool:
    """Tell whether the run's own figures, where they are known or cheap, make the answer a guess."""
    if callable(result.outside) and _is_cheap(graph, result):
        with suppress(FailedRunError):  # a rule that fails now has no part in the answer
            return result.estimated_error > LARGE_ERROR or result.unexplored_mass > NEARLY_ALL
    if callable(result.outside) and result.stop_reason is StopReason.OUT_OF_MEMORY:  # no memory is left to look with
        return bool(result.domain_sizes.sum() < FEW_STATES * result.n_states)
    error, outside = result.error, result.outside
    return (not callable(error) and error > LARGE_ERROR) or (not callable(outside) and outside > NEARLY_ALL)


def _is_cheap(graph: FactorGraph, result: Result) -> bool:
    """Tell whether scoring the states outside the domains is.

    Not where a caller may go on by small budgets, nor where rules would be asked by a run that had all it wanted, nor
    where memory has come to an end.
    """
    has_rules = any(block.source.is_rule for block in graph.blocks)
    if result.stop_reason in (*ASKED_FOR, StopReason.OUT_OF_MEMORY) or (
        has_rules and result.stop_reason is StopReason.CONVERGED
    ):
        return False
    compiled = compiled_graph(graph)
    layout = compiled.arrays
    if not len(layout.edge_variable) or PER_EDGE * len(layout.edge_variable) > MOST_READ:
        return not len(layout.edge_variable)
    active = result.domain_sizes[layout.edge_variable].astype(np.float64)
    joint = np.multiply.reduceat(active, layout.factor_edge_start[:-1])
    read = joint[layout.edge_factor] / active * compiled.universe_sizes[layout.edge_variable]
    return bool(read.sum() + PER_EDGE * len(active) <= MOST_READ)
