"""How long it takes to read the next answer: so much earlier the clock ends a call. Nothing else depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from time import perf_counter

import numpy as np

from anytimebp.domains.domains import Domains, full_domains, variable_parts
from anytimebp.inference.figures import Figures
from anytimebp.inference.method import Step, Task
from anytimebp.inference.readout import READ_AT_ONCE, fill_from_priors, part_of
from anytimebp.kernels.readout import read_beliefs
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_starts
from anytimebp.model.source import IndexArray
from anytimebp.tables.arrays import WorkspaceArrays

LARGE = 2**17  # states of all variables together, under which reading takes a few milliseconds
PER_STATE = 2e-8  # seconds that the priors of a state take, added up and read, as long as nothing was tried
AS_PRIORS = 1.5  # times as long as folding the priors takes reading them
PIECES = 8  # that are read in a try
CHECKS_OF_PRIORS = 1.5  # times as long as making beliefs of priors takes their snapshot, which checks them
TRIES, PART, RUN = 5, 256, 64  # one in so many variables is read in each try, always some that follow one another
SECONDS_PER_ENTRY = 2e-10  # of a look, at the least, by its cost: those of lines of tables in the processor's cache
WITH_CHECKS = 1.8  # times as long as reading beliefs takes a snapshot, with its checks and log Z
NEW_MEMORY = 1.6e-8  # seconds for a number in memory that is touched first


def first_domains(task: Task, compiled: CompiledGraph) -> Domains:
    """Return domains of all states that the evidence allows, made now unless they were made ahead."""
    began, domains = perf_counter(), task.ahead.take_domains()
    if domains is None:
        domains = full_domains(compiled, task.options.observed, task.unary)
        if len(domains.log_prior) > LARGE and not domains.scored:  # rules may take any time
            task.figures.reading = AS_PRIORS * (perf_counter() - began)
    task.figures.work_parts["priorities"] += domains.scored
    return domains


def expect_reading_priors(task: Task, domains: Domains) -> None:
    """Note how long reading all priors will take, by reading some of them; the quickest of a few tries counts."""
    room = task.ahead.room
    if room is None:
        room = np.empty(len(domains.log_prior))  # of which only what is read here is touched
    whole, quickest = [*variable_parts(domains.slot_start, READ_AT_ONCE)], inf
    for k in range(TRIES):
        some = whole[k % len(whole) :: len(whole) // PIECES + 1]
        began = perf_counter()
        for first, last in some:
            fill_from_priors(domains, room, first, last)
        quickest = min(quickest, (perf_counter() - began) / len(some))
    task.figures.reading = CHECKS_OF_PRIORS * quickest * len(whole)


def expect_another(task: Task, seconds: float) -> None:
    """Note that there is no other answer for some seconds: a call that ends before may as well end now."""
    if task.limits.has_deadline:
        task.figures.reading = seconds


def expect_look(task: Task, cost: float) -> Iterator[Step]:
    """Let the clock end the call, where there is no time for a look of some cost, and for reading what it says."""
    expect_another(task, 2.0 * SECONDS_PER_ENTRY * cost)
    yield Step.WORKING
    expect_another(task, SECONDS_PER_ENTRY * cost)


def expect_reading(
    figures: Figures, layout: GraphLayout, arrays: WorkspaceArrays, belief_start: IndexArray, *, has_room: bool
) -> None:
    """Note how long reading all beliefs will take, by reading some of them; the quickest of a few tries counts.

    Args:
        figures: Of the run.
        layout: Topology of the graph, or of its core.
        arrays: Messages.
        belief_start: (V + 1,) where each variable's belief starts.
        has_room: Whether the memory for the next answer has been touched.
    """
    figures.reading = 0.0
    if int(belief_start[-1]) > LARGE:
        n_variables = len(belief_start) - 1
        quickest = min(_seconds(layout, arrays, _some(n_variables, k / TRIES)) for k in range(TRIES))
        figures.reading = WITH_CHECKS * n_variables * quickest + NEW_MEMORY * (0 if has_room else int(belief_start[-1]))


def _some(n_variables: int, shift: float) -> IndexArray:
    """Return some runs of successive variables, spread evenly."""
    step = RUN * PART
    chosen: IndexArray = np.arange(int(shift * step), n_variables, step)[:, None] + np.arange(RUN)
    return chosen[chosen < n_variables]


def _seconds(layout: GraphLayout, arrays: WorkspaceArrays, variables: IndexArray) -> float:
    """Return the time that reading the belief of a variable takes, on the average over some of them."""
    layout, arrays = part_of(layout, arrays, variables)
    start = row_starts(arrays.domain_size)
    belief, log_normaliser = np.empty(int(start[-1])), np.empty(len(variables))
    began = perf_counter()
    read_beliefs(layout, arrays, start, belief, log_normaliser)
    return (perf_counter() - began) / max(1, len(variables))
