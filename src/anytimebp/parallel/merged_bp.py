"""Many small graphs settled by BP as one graph of many parts; each gets the result of a run on it alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from anytimebp.domains.domains import full_domains
from anytimebp.errors import InternalError
from anytimebp.exact.order import Shape
from anytimebp.exact.tree import predicted_entries
from anytimebp.inference.all_states import QUICK_SWEEPS
from anytimebp.inference.caveats import warn_of_divergence
from anytimebp.inference.control.estimated_error import BeliefHistory, SweepError, share_of_core
from anytimebp.inference.options import RunOptions
from anytimebp.inference.part_sweeps import (
    MOST_SWEEPS,
    PartSweeps,
    sweep_all_cores,
    sweep_all_parts,
)
from anytimebp.inference.readout import LaterBeliefs
from anytimebp.kernels.codes import OK
from anytimebp.kernels.readout import read_beliefs, sum_bethe_terms
from anytimebp.model.factor import row_starts
from anytimebp.model.source import FloatArray, read_only
from anytimebp.parallel.merged import Item, Merged, merged_evidence
from anytimebp.results.factor_marginals import NOT_ASKED_FOR
from anytimebp.results.marginals import REPORT_IT, Marginals
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace


def sweep_together(
    items: Sequence[Item], options: RunOptions, choices: Sequence[str] | None = None
) -> list[Result | None]:
    """Return a result for each of some small graphs; None where one has to be solved by itself.

    Args:
        items: The graphs, each of which `can_merge`, and evidence.
        options: Of all runs; without evidence.
        choices: How `adaptive` works on each of them, where it makes the same sweeps as `bp`; None for `bp`.

    Raises:
        InconsistentModelError: If unary factors and evidence exclude all states of a variable of any graph.
    """
    began = perf_counter()
    merged = Merged([item.graph for item in items])
    domains = full_domains(merged.compiled, merged_evidence(items, merged.first))
    most_sweeps = MOST_SWEEPS if choices is None else QUICK_SWEEPS
    swept = sweep_all_parts(merged.compiled, domains, merged.first, options.tolerance, most_sweeps)
    return _results(items, merged, swept, options, choices, began)


def sweep_cores_together(
    items: Sequence[Item], options: RunOptions, choices: Sequence[str] | None = None
) -> list[Result | None]:
    """Do the same with graphs of which leaves are summed out of large tables; those of one table at once.

    Args:
        items: The graphs, which `has_large_ties`, and evidence.
        options: Of all runs; without evidence.
        choices: What `auto` says of each of them; None for `bp`.

    Raises:
        InconsistentModelError: If unary factors and evidence exclude all states of a variable of any graph.
    """
    began = perf_counter()
    merged = Merged([item.graph for item in items])
    domains = full_domains(merged.compiled, merged_evidence(items, merged.first))
    is_free = choices is not None
    swept = sweep_all_cores(merged.compiled, domains, merged.first, options.tolerance, is_free=is_free)
    if isinstance(swept, PartSweeps):
        return _results(items, merged, swept, options, choices, began)
    found: list[Result | None] = [None] * len(items)
    chosen = np.flatnonzero(swept).tolist()
    if 0 < len(chosen) < len(items):  # without those that stand in the way
        own = None if choices is None else [choices[k] for k in chosen]
        for k, result in zip(chosen, sweep_cores_together([items[k] for k in chosen], options, own), strict=True):
            found[k] = result
    return found


def _results(
    items: Sequence[Item],
    merged: Merged,
    swept: PartSweeps,
    options: RunOptions,
    choices: Sequence[str] | None,
    began: float,
) -> list[Result | None]:
    """Return the results of parts that have settled, or never will."""
    layout, arrays = swept.messages.layout, swept.messages.arrays
    start = row_starts(arrays.domain_size)
    belief, log_normaliser = np.empty(int(start[-1])), np.empty(len(arrays.domain_size))
    status, _ = read_beliefs(layout, arrays, start, belief, log_normaliser)
    if status != OK:  # in a part that has not settled
        return [None] * len(items)
    split = _Split(items, merged, swept, options.tolerance, (belief, log_normaliser), choices)
    split.seconds = (perf_counter() - began) / len(items)
    for _ in np.flatnonzero(swept.is_over & ~swept.is_settled):
        warn_of_divergence(StopReason.NOT_CONVERGED)
    return [split.result(k) if is_over else None for k, is_over in enumerate(swept.is_over.tolist())]


class _Split:
    """The results of single graphs out of that of all.

    Attributes:
        seconds: Of each.
    """

    def __init__(
        self,
        items: Sequence[Item],
        merged: Merged,
        swept: PartSweeps,
        tolerance: float,
        read: tuple[FloatArray, FloatArray],
        choices: Sequence[str] | None,
    ) -> None:
        workspace, messages, domains = swept.workspace, swept.messages, swept.workspace.domains
        arrays, leaves = messages.arrays, swept.leaves
        self._of = [(item.graph.variables.copy(), item.targets) for item in items]
        self._layout, self._whole, self._parts, self._tolerance = messages.layout, swept.whole, swept.parts, tolerance
        self._topology, self._universe_sizes = workspace.layout, workspace.compiled.universe_sizes
        self._core_belief, self._log_normaliser = read
        self._core_start = row_starts(arrays.domain_size)
        self._sizes, self._slot_start, self._states = domains.sizes, domains.slot_start, domains.slot_state
        self._log_scales = workspace.tables.log_scale.copy(), domains.log_prior_scale
        self._arithmetic, self._factor_total = arrays.arithmetic, arrays.factor_total
        self._edge_scale, self._residual = arrays.edge_scale, arrays.edge_residual
        self._figures, self._is_settled, self._pending = swept.figures, swept.is_settled, swept.pending
        self._passed, self._constant, self._damping = swept.passed, swept.constant, swept.damping
        self.seconds, together = 0.0, f"swept together with {len(items) - 1:,} other graphs"
        self._method = "bp" if choices is None else "adaptive"
        self._choices = [f"{choice}; {together}" if choice else together for choice in choices or [""] * len(items)]
        self._later: Callable[[], FloatArray] | None = None
        if leaves is not None:
            self._later = later = _Once(LaterBeliefs(leaves, self._slot_start, is_over=True), merged)
            if workspace.tables.are_borrowed:  # the user may change those before leaves are read
                later()

    def result(self, k: int) -> Result:
        """Return the result of a graph, which is made when it is first read."""
        known = {"exact": False, "choice": self._choices[k], "factor_marginals": NOT_ASKED_FOR}
        return Result.later(partial(self._fields, k), cost=partial(self._cost, k), **known)

    def _cost(self, k: int) -> float:
        """Return the entries of the cliques that exact inference on a graph would need."""
        own = slice(self._whole.variables[k], self._whole.variables[k + 1])
        shape = Shape(self._whole.layout(self._topology, k), self._universe_sizes[own], {})
        return predicted_entries(shape, self._sizes[own])

    def _log_z(self, k: int) -> float:
        """Return the Bethe estimate of a graph."""
        variables, factors, edges = (slice(start[k], start[k + 1]) for start in self._parts)
        total: float = sum_bethe_terms(
            self._parts.layout(self._layout, k).factor_edge_start,
            self._arithmetic,
            self._factor_total[factors],
            self._edge_scale[edges],
            self._log_normaliser[variables],
        )
        variables, factors, _ = (slice(start[k], start[k + 1]) for start in self._whole)
        found = self._constant[k] + total + self._log_scales[0][factors].sum() + self._log_scales[1][variables].sum()
        if not math.isfinite(found) and self._is_settled[k]:
            msg = f"internal error: log Z is not a number although all messages have settled; {REPORT_IT}"
            raise InternalError(msg)
        return float(found) if math.isfinite(found) else math.nan

    def _trace(self, k: int, log_z: float, states: int) -> Trace:
        """Return the moments of a graph, a sweep each; the last knows log Z."""
        moments, choice = [], self._choices[k]
        updates, work = self._passed[k].tolist()
        n = int(self._parts.factors[k + 1] - self._parts.factors[k])
        for sweep, (read, largest, total) in enumerate(self._figures[k].tolist(), 1):
            work += int(read)
            given = self.seconds, updates + sweep * n, work, largest, total / n, 0.0, states, math.nan, math.nan, choice
            moments.append(Moment(*given))
        last, pending = moments[-1], float(self._pending[k])
        if last.max_residual > self._tolerance and self._is_settled[k]:
            last = last._replace(max_residual=pending, mean_residual=min(last.mean_residual, pending))
        return Trace([*moments[:-1], last._replace(log_z=log_z)])

    def _marginals(self, k: int) -> Marginals:
        """Return the marginals of a graph; of leaves they are made when they are first read, for all graphs at once."""
        first, last = self._whole.variables[k : k + 2].tolist()
        start, (variables, targets), later = self._slot_start[first : last + 1], self._of[k], self._later
        slots = slice(int(start[0]), int(start[-1]))
        states = self._states[slots] if len(self._states) else self._states
        belief = self._core_belief[slots].copy() if later is None else partial(_cut_out, later, slots)
        marginals = Marginals(variables, belief, start - start[0], states)
        return marginals if targets is None else marginals.limited(targets)

    def _error(self, k: int) -> SweepError:
        """Return the estimated error of a graph."""
        first, last = self._parts.variables[k : k + 2].tolist()
        edges, start = slice(*self._parts.edges[k : k + 2].tolist()), self._core_start[first : last + 1]
        own, history = self._core_belief[start[0] : start[-1]].copy(), BeliefHistory(start - start[0])
        sizes = self._sizes[slice(*self._whole.variables[k : k + 2].tolist())]
        return SweepError(
            self._layout.edge_variable[edges] - first,
            self._residual[edges].copy(),
            history.part(own),
            history.start,
            partial(history.trend, (), float(len(self._figures[k])), history.part(own)),
            self._tolerance,
            has_settled=bool(self._is_settled[k]),
            share=1.0 if self._later is None else share_of_core(last - first, sizes),
        )

    def _fields(self, k: int) -> dict[str, Any]:
        """Return all fields of a result."""
        first, last = self._whole.variables[k : k + 2].tolist()
        log_z, n_states = self._log_z(k), int(self._slot_start[last] - self._slot_start[first])
        trace = self._trace(k, log_z, n_states)
        end, is_settled = trace[-1], bool(self._is_settled[k])
        held: dict[str, Any] = {
            "marginals": self._marginals(k),
            "domain_sizes": read_only(self._sizes[first:last].copy()),
            "log_z": log_z,
            "max_residual": end.max_residual,
            "mean_residual": end.mean_residual,
            "outside": 0.0,
            "error": self._error(k),
            "seconds": self.seconds,
            "updates": end.updates,
            "work_parts": {"messages": end.work, "scoring": 0, "growth": 0, "priorities": 0},
            "consistent": is_settled,
            "tolerance": self._tolerance,
            "method": self._method,
            "arithmetic": "linear",
            "damping": float(self._damping[k]),
            "exact": False,
            "choice": self._choices[k],
            "cost": partial(self._cost, k),
            "factor_marginals": NOT_ASKED_FOR,
        }
        reason = StopReason.CONVERGED if is_settled else StopReason.NOT_CONVERGED
        ended = {"stop_reason": reason, "trace": trace, "current": Snapshot.holding(**held)}
        return held | ended


def _cut_out(later: Callable[[], FloatArray], slots: slice) -> FloatArray:
    """Return some of the beliefs."""
    return later()[slots].copy()


class _Once:
    """Beliefs of all graphs, made when they are first read of one of them."""

    def __init__(self, later: LaterBeliefs, merged: Merged) -> None:
        """Take what makes them, and the graphs, whose tables it may read."""
        self._later, self._merged = later, merged
        self._made: FloatArray | None = None

    def __call__(self) -> FloatArray:
        """Return them."""
        if self._made is None:
            self._made = self._later()
        return self._made
