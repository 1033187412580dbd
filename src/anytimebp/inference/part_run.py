"""BP on one part of a graph: its messages stay between calls, and what other parts say comes in as priors.

Variables that several parts hold are *shared*. A part is told, for each of them, the product of the messages of all
other parts, and answers with the product of the messages of its own factors and of its own unary scores. At a fixed
point of all parts, the messages are a fixed point of BP on the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from time import perf_counter
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import full_domains
from anytimebp.errors import InconsistentModelError
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.inference import Inference
from anytimebp.inference.method import Step, new_task
from anytimebp.inference.options import RunOptions
from anytimebp.inference.schedule.sweeps import LazySchedule
from anytimebp.inference.warm_up import load_kernels
from anytimebp.kernels.codes import LOG, MAX_LINEAR_RANGE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import VariableTable
from anytimebp.results.stop import StopReason
from anytimebp.tables.carry_over import messages_in, set_priors


class Report(NamedTuple):
    """What a part answers.

    Attributes:
        messages: Log of what it sends to its shared variables, over their universes, one after the other.
        residual: Largest residual of the last sweep, in nats.
        is_settled: Whether no message of the part would move by more than the tolerance.
        is_hopeless: Whether it has given up on converging.
        updates: Factor updates so far.
        work: Table entries read so far.
    """

    messages: FloatArray
    residual: float
    is_settled: bool
    is_hopeless: bool
    updates: int
    work: int


class Reading(NamedTuple):
    """What is known of a part.

    Attributes:
        belief: Marginals of its variables over their universes, one after the other.
        log_z: Bethe estimate of the part with its present priors; NaN before its first sweep.
        error: Estimated error of the marginals.
        states: Active states.
        arithmetic: "linear" or "log".
        damping: In force.
        mean_residual: Over its factors, in nats.
    """

    belief: FloatArray
    log_z: float
    error: float
    states: int
    arithmetic: str
    damping: float
    mean_residual: float


class PartStates(AllStates):
    """Lazy sweeps over all states of a part, on priors that can be replaced. So nothing is summed out beforehand."""

    may_be_quick = False

    def _peel(self) -> Iterator[Step]:
        """Keep leaves and trees: what they send depends on priors that may change."""
        return iter(())

    def set_priors(self, variables: IndexArray, log_prior: FloatArray, tolerance: float) -> None:
        """Replace the priors of some variables, and let the run go on to a tolerance.

        Args:
            variables: Whose domains are their universes.
            log_prior: Log priors over the universes, row after row; also in the `unary` scores of the task.
            tolerance: To which messages are to settle.
        """
        schedule, figures = self._schedule, self._figures
        assert isinstance(schedule, LazySchedule)  # noqa: S101  (of `adaptive`, where it may not be quick)
        _, moved = set_priors(self.workspace, variables, log_prior)
        schedule.disturb(variables, moved)
        schedule.tolerance, figures.ending = tolerance, None


class PartRun:
    """A part and its messages."""

    def __init__(
        self, graph: FactorGraph, shared: IndexArray, options: RunOptions, evidence: Mapping[int, Observation]
    ) -> None:
        """Compile the part; nothing is sent yet.

        Args:
            graph: The part.
            shared: Variables that other parts hold, too.
            options: Of a run on the whole graph.
            evidence: On variables of the part. On shared variables, `settle` is told of it.
        """
        is_shared = set(shared.tolist())
        observed = {index: seen for index, seen in evidence.items() if index not in is_shared}
        self._options = options.for_part(observed)
        self._graph, self._shared = graph, shared
        Inference(graph, self._options.method).load()
        self._compiled = compiled_graph(graph)
        domains = full_domains(self._compiled, observed)
        sizes = self._compiled.universe_sizes[shared]
        self._first, self._sizes = row_starts(sizes), sizes
        own = domains.log_prior[row_items(domains.slot_start[shared], sizes)]
        self._own: FloatArray = own + np.repeat(domains.log_prior_scale[shared], sizes)
        self._unary: dict[int, FloatArray] = {}
        self._task = new_task(graph, self._options, self._load, self._unary)
        self._method: PartStates | None = None
        self._priors = self._own

    def _load(self, kernels: str) -> bool:
        load_kernels(self._options, kernels=kernels)
        return True

    @property
    def variables(self) -> VariableTable:
        """The variables of the part."""
        return self._graph.variables

    @property
    def arity(self) -> int:
        """The most variables of a message factor."""
        return int(np.max(np.diff(self._compiled.arrays.factor_edge_start), initial=1))

    # ------------------------------------------------------------ messages
    def settle(self, outside: FloatArray, tolerance: float, sweeps: int, seconds: float) -> Report:
        """Take in what other parts say, and sweep until messages have settled, at the most so often or so long.

        Args:
            outside: Log of what all other parts send to the shared variables, and of the evidence on these, one after
                the other.
            tolerance: To which messages are to settle.
            sweeps: After which to answer in any case.
            seconds: After which to answer in any case.
        """
        deadline, figures = perf_counter() + seconds, self._task.figures
        method = self._take_in(outside, tolerance)
        while sweeps and figures.ending is None:
            for _ in method.settle():
                if perf_counter() > deadline:
                    return self._report(method)
            for _ in method.look():
                pass
            sweeps -= 1
            if perf_counter() > deadline:
                break
        return self._report(method)

    def _take_in(self, outside: FloatArray, tolerance: float) -> PartStates:
        priors = self._priors = self._own + outside
        shared, first = self._shared, self._first
        for position, index in enumerate(shared.tolist()):
            row = self._unary[index] = priors[first[position] : first[position + 1]]
            if row.max() == -inf:
                name = self._graph.variables.name(index)
                msg = f"no joint state is possible: messages exclude every state of variable {name!r}"
                raise InconsistentModelError(msg)
        method = self._method
        if method is None:
            method = PartStates(self._task)
            for _ in method.begin():
                pass
        elif method.workspace.arrays.arithmetic != LOG and self._widest() > MAX_LINEAR_RANGE:
            for _ in method.go_on_in_logs():
                pass
        method.set_priors(shared, priors, tolerance)
        self._method = method
        return method

    def _widest(self) -> float:
        """Return the largest range of a shared variable's priors, in nats."""
        if not len(self._shared):
            return 0.0
        high = np.maximum.reduceat(self._priors, self._first[:-1])
        low = np.minimum.reduceat(np.where(self._priors > -inf, self._priors, inf), self._first[:-1])
        return float((high - low).max())

    def _report(self, method: PartStates) -> Report:
        figures = self._task.figures
        return Report(
            self._own + messages_in(method.workspace, self._shared),
            figures.max_residual,
            figures.ending is StopReason.CONVERGED,
            figures.ending is StopReason.NOT_CONVERGED,
            figures.updates,
            figures.work,
        )

    # ------------------------------------------------------------ reading
    def read(self) -> Reading:
        """Return what is known now."""
        method = self._method
        assert method is not None  # noqa: S101  (nobody reads before the first call of `settle`)
        found = method.read(settled=False)
        assert found is not None  # noqa: S101  (there is always a present state)
        log_z, shared = found.log_z, self._shared
        if len(shared):  # priors have been scaled anew since log Z learned of their scales
            scale = np.maximum.reduceat(self._priors, self._first[:-1])
            log_z += float(np.sum(scale - method.workspace.domains.log_prior_scale[shared]))
        states = int(found.domain_sizes.sum())
        about = found.arithmetic, found.damping, found.mean_residual
        return Reading(found.marginals.concatenated(), log_z, found.estimated_error, states, *about)
