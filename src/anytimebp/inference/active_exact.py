"""`exact` on a model too wide for it: exact answers to models cut to their likely states, more of them in every round.

BP says which states are likely. A round takes those above a threshold, solves the model restricted to them exactly, and
lowers the threshold. Domains are nested, so that log Z rises from round to round, and is a lower bound on the true one
at every moment. What is left outside is judged by exact sums over single states (`exact/outside.py`), which are made
when somebody reads them and do not rest on BP; by BP's beliefs where they would take too long. The run ends where the
states outside hold less than the tolerance, or where larger cliques do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from anytimebp.domains.domains import full_domains
from anytimebp.errors import InconsistentModelError, MemoryLimitError
from anytimebp.exact.cost import plan_within
from anytimebp.exact.outside import Outside
from anytimebp.exact.possible import ZEROS, may_shrink, possible_part, restricted
from anytimebp.exact.relevance import Part
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.figures import Figures, Limits
from anytimebp.inference.method import Step, Task, steps
from anytimebp.inference.readout import prior_snapshot
from anytimebp.inference.solution import Solution
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.factor import row_starts
from anytimebp.model.source import BoolArray, FloatArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.memory import check_universe

FIRST, SHRINK, LAST = 0.1, 0.1, 1e-14
"""Beliefs above which states are active in the first round; what is done to that in each; and where all join."""
LOOSE = 1e-3  # residual to which BP settles: enough to tell which states are likely
CHOICE = "exact on likely states: cliques over all states do not fit into memory"
SUMS = "exact sums over single ones"
MOST_SUMMED = 2.0**30  # entries that exact sums over the states outside may read: about a second
PER_VARIABLE = 2.0**19  # entries that could be read in the time that a sum takes besides
FIT = 4  # times that the threshold is halved, in logs, between one that fits into memory and one that does not


class ActiveExactRun:
    """Runs of `exact` on likely states."""

    def __init__(self, task: Task) -> None:
        """Put unary factors and evidence together."""
        self._task, self._options, self._figures = task, task.options, task.figures
        self._compiled = compiled_graph(task.graph)
        check_universe(self._compiled, self._options.max_memory)
        self._domains = full_domains(self._compiled, self._options.observed, task.unary)
        self._bp: AdaptiveRun | None = None
        self._belief: FloatArray = np.empty(0)
        self._threshold, self._fits, self._fails = FIRST, 1.0, 0.0
        self._halvings = 0
        self._known: Snapshot | None = None
        self._figures.choice = CHOICE
        self._figures.states = 0
        self._figures.work_parts["priorities"] += self._domains.scored

    # ------------------------------------------------------------ which states are likely
    def begin(self) -> Iterator[Step]:
        """Leave out the states that zeros exclude, and run BP to its end: its beliefs say which states are likely."""
        if may_shrink(self._compiled, None) and self._task.load(ZEROS):
            whole = Part(self._compiled.arrays, self._domains.sizes)
            possible = possible_part(self._compiled, self._domains, whole)
            self._domains = self._domains if possible is None else possible.domains
        while not self._task.load("adaptive"):
            yield Step.WORKING
        options = self._options.for_method("adaptive")
        object.__setattr__(options, "tolerance", max(options.tolerance, LOOSE))
        figures = Figures(options.method, options.tolerance, options.damping)
        self._bp = AdaptiveRun(self._task._replace(options=options, figures=figures, limits=Limits(is_watched=False)))
        outer, before = self._figures, dict(self._figures.work_parts)
        for _ in steps(self._bp, figures):
            outer.updates = figures.updates
            for part, work in figures.work_parts.items():
                outer.work_parts[part] = before[part] + work
            yield Step.WORKING
        found = self._bp.read(settled=False)
        assert found is not None  # noqa: S101  (it has come to its end)
        self._belief = self._per_slot(found.marginals.concatenated())
        self._bp = None

    def _per_slot(self, belief: FloatArray) -> FloatArray:
        """Return the beliefs of the states that the evidence allows, of those of all states."""
        domains = self._domains
        if domains.is_whole:
            return belief
        start = row_starts(self._compiled.universe_sizes)
        chosen: FloatArray = belief[domains.slot_state + np.repeat(start[:-1], domains.sizes)]
        return chosen

    def _likely(self, threshold: float) -> BoolArray:
        """Return the slots of states above a threshold, and of the best of each variable."""
        whole, start = self._domains, self._domains.slot_start
        best = np.maximum.reduceat(self._belief, start[:-1])
        keep: BoolArray = (self._belief > threshold) | (self._belief >= np.repeat(best, whole.sizes))
        return keep

    # ------------------------------------------------------------ rounds
    def settle(self) -> Iterator[Step]:
        """Solve the model on the states of the present round exactly."""
        keep = self._likely(self._threshold)
        is_whole, domains = bool(keep.all()), restricted(self._domains, keep)
        if self._known is not None and int(domains.sizes.sum()) == self._figures.states:
            self._figures.is_news = False
            self._fits = self._threshold
            return
        try:
            tree = plan_within(self._compiled, domains.sizes, self._options.max_memory)
            solution = Solution(self._task, domains, Part(self._compiled.arrays, domains.sizes), tree)
            yield from solution.prepare()
            yield from solution.calibrate()
        except MemoryLimitError:
            self._figures.is_news = False
            self._fails = max(self._threshold, LAST / 100.0)
            return
        except InconsistentModelError:
            if is_whole:
                raise
            self._figures.is_news = False  # more states may make a joint state possible
            self._fits = self._threshold
            return
        self._fits = self._threshold
        self._figures.states = int(domains.sizes.sum())
        outside = np.add.reduceat(np.where(keep, 0.0, self._belief), self._domains.slot_start[:-1])
        solution.end_round(exact=is_whole, error=0.0 if is_whole else 2.0 * float(outside.mean()))
        n_open = int((domains.sizes < self._domains.sizes).sum())
        can_sum = not is_whole and n_open * (tree.work + PER_VARIABLE) <= MOST_SUMMED
        self._figures.choice = f"{CHOICE}; states outside are judged by {SUMS if can_sum else 'BP'}"
        found = solution.snapshot(float(outside.max()))
        is_over = is_whole or float(outside.max()) < self._options.tolerance
        if can_sum:
            order = tree.arrays.variable[: tree.n]
            sums = Outside(self._compiled, self._domains, keep, order, found.log_z, self._options.max_memory)
            found = replace(found, outside=sums.mass, error=sums.error)
            is_over = is_over and sums.mass() < self._options.tolerance
        if is_over:
            self._figures.ending = StopReason.CONVERGED
        self._known = found

    def look(self) -> Iterator[Step]:
        """Do nothing: BP's beliefs have said what is outside."""
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Lower the threshold; once that has been too much for memory, look for the lowest that is not."""
        if not self._fails:
            self._threshold = self._threshold * SHRINK if self._threshold > LAST else -1.0
        elif self._halvings < FIT:
            self._halvings += 1
            self._threshold = (max(self._fits, LAST / 100.0) * self._fails) ** 0.5
        elif self._known is None and self._threshold < 1.0:
            self._threshold = 1.0  # the best state of each variable
        else:
            self._figures.ending = StopReason.OUT_OF_MEMORY
        return iter(())

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return the answer of the last round; before the first, what BP or unary scores say."""
        if self._known is not None:
            now = self._figures
            return replace(self._known, seconds=now.seconds, updates=now.updates, work_parts=dict(now.work_parts))
        if settled:
            return None
        joint = self._options.factor_marginals
        return prior_snapshot(self._compiled, self._domains, self._figures, outside=1.0, factor_marginals=joint)
