"""Many small graphs settled by BP as one graph of many parts; each gets the result of a run on it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from anytimebp.domains.domains import full_domains
from anytimebp.errors import InternalError
from anytimebp.exact.order import Shape
from anytimebp.exact.tree import predicted_entries
from anytimebp.inference.all_states import QUICK_SWEEPS
from anytimebp.inference.control.estimated_error import BeliefHistory, SweepError
from anytimebp.inference.options import RunOptions
from anytimebp.inference.part_sweeps import MOST_SWEEPS, PartSweeps, sweep_all_parts
from anytimebp.kernels.codes import OK
from anytimebp.kernels.readout import read_beliefs, sum_bethe_terms
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
    domains = full_domains(merged.compiled, merged_evidence(items, merged.first).mapping())
    most_sweeps = MOST_SWEEPS if choices is None else QUICK_SWEEPS
    swept = sweep_all_parts(merged.compiled, domains, merged.first, options.tolerance, most_sweeps)
    layout, arrays = merged.compiled.arrays, swept.workspace.arrays
    belief, log_normaliser = np.empty(int(domains.slot_start[-1])), np.empty(len(domains.sizes))
    status, _ = read_beliefs(layout, arrays, domains.slot_start, belief, log_normaliser)
    if status != OK:  # in a part that has not settled
        return [None] * len(items)
    split = _Split(items, swept, options.tolerance, (belief, log_normaliser), choices)
    split.seconds = (perf_counter() - began) / len(items)
    settled = enumerate(swept.is_settled.tolist())
    return [split.result(k) if is_settled else None for k, is_settled in settled]


class _Split:
    """The results of single graphs out of that of all.

    Attributes:
        seconds: Of each.
    """

    def __init__(
        self,
        items: Sequence[Item],
        swept: PartSweeps,
        tolerance: float,
        read: tuple[FloatArray, FloatArray],
        choices: Sequence[str] | None,
    ) -> None:
        workspace, arrays, domains = swept.workspace, swept.workspace.arrays, swept.workspace.domains
        self._of = [(item.graph.variables.copy(), item.targets) for item in items]  # graphs and tables need not stay
        self._layout, self._parts, self._tolerance = workspace.layout, swept.parts, tolerance
        self._belief, self._log_normaliser = read
        self._universe_sizes = workspace.compiled.universe_sizes
        self._sizes, self._slot_start, self._states = domains.sizes, domains.slot_start, domains.slot_state
        self._log_scales = workspace.tables.log_scale.copy(), domains.log_prior_scale
        self._arithmetic, self._factor_total = arrays.arithmetic, arrays.factor_total
        self._edge_scale, self._residual = arrays.edge_scale, arrays.edge_residual
        self._figures, self._n_sweeps, self._pending = swept.figures, swept.n_sweeps, swept.pending
        self.seconds, together = 0.0, f"swept together with {len(items) - 1:,} other graphs"
        self._method = "bp" if choices is None else "adaptive"
        self._choices = [f"{choice}; {together}" if choice else together for choice in choices or [""] * len(items)]

    def result(self, k: int) -> Result:
        """Return the result of a graph, which is made when it is first read."""
        known = {"exact": False, "choice": self._choices[k], "factor_marginals": NOT_ASKED_FOR}
        return Result.later(partial(self._fields, k), cost=partial(self._cost, k), **known)

    def _cost(self, k: int) -> float:
        """Return the entries of the cliques that exact inference on a graph would need."""
        own = slice(self._parts.variables[k], self._parts.variables[k + 1])
        shape = Shape(self._parts.layout(self._layout, k), self._universe_sizes[own], {})
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
        found = float(total + self._log_scales[0][factors].sum() + self._log_scales[1][variables].sum())
        if not math.isfinite(found):
            msg = f"internal error: log Z is not a number although all messages have settled; {REPORT_IT}"
            raise InternalError(msg)
        return found

    def _trace(self, k: int, log_z: float, states: int) -> Trace:
        """Return the moments of a graph, a sweep each; the last knows log Z."""
        moments, work, choice = [], 0, self._choices[k]
        n = int(self._parts.factors[k + 1] - self._parts.factors[k])
        for sweep, (read, largest, total) in enumerate(self._figures[k, : self._n_sweeps[k]].tolist(), 1):
            work += int(read)
            given = self.seconds, sweep * n, work, largest, total / n, 0.0, states, math.nan, math.nan, choice
            moments.append(Moment(*given))
        last, pending = moments[-1], float(self._pending[k])
        if last.max_residual > self._tolerance:
            last = last._replace(max_residual=pending, mean_residual=min(last.mean_residual, pending))
        return Trace([*moments[:-1], last._replace(log_z=log_z)])

    def _fields(self, k: int) -> dict[str, Any]:
        """Return all fields of a result."""
        first, last = self._parts.variables[k : k + 2].tolist()
        start = self._slot_start[first : last + 1]
        slots = slice(int(start[0]), int(start[-1]))
        own, states = self._belief[slots].copy(), self._states[slots] if len(self._states) else self._states
        (variables, targets), log_z, start = self._of[k], self._log_z(k), start - start[0]
        marginals = Marginals(variables, own, start, states)
        trace = self._trace(k, log_z, len(own))
        end, time, history = trace[-1], float(self._n_sweeps[k]), BeliefHistory(start)
        edges = slice(*self._parts.edges[k : k + 2].tolist())
        held: dict[str, Any] = {
            "marginals": marginals if targets is None else marginals.limited(targets),
            "domain_sizes": read_only(self._sizes[first:last].copy()),
            "log_z": log_z,
            "max_residual": end.max_residual,
            "mean_residual": end.mean_residual,
            "outside": 0.0,
            "error": SweepError(
                self._layout.edge_variable[edges] - first,
                self._residual[edges].copy(),
                history.part(own),
                history.start,
                partial(history.trend, (), time, history.part(own)),
                self._tolerance,
                has_settled=True,
            ),
            "seconds": self.seconds,
            "updates": end.updates,
            "work_parts": {"messages": end.work, "scoring": 0, "growth": 0, "priorities": 0},
            "consistent": True,
            "tolerance": self._tolerance,
            "method": self._method,
            "arithmetic": "linear",
            "damping": 0.0,
            "exact": False,
            "choice": self._choices[k],
            "cost": partial(self._cost, k),
            "factor_marginals": NOT_ASKED_FOR,
        }
        ended = {"stop_reason": StopReason.CONVERGED, "trace": trace, "current": Snapshot.holding(**held)}
        return held | ended
