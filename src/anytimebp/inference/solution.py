"""Exact inference over given domains: tables, the two passes over a tree of cliques, and what is read from them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import no_joint_state
from anytimebp.exact.calibrated import CalibratedTree
from anytimebp.exact.passes import Passes
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.readout import CliqueMarginals
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree
from anytimebp.inference.method import Step, Task
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.source import read_only
from anytimebp.results.factor_marginals import NOT_ASKED_FOR, FactorMarginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.store import Tables

WORTH_A_LOOK = 2**16  # entries read in a slice, from which on Ctrl-C is looked for


class Solution:
    """The exact answer to a model on given domains, on its way."""

    def __init__(self, task: Task, domains: Domains, part: Part, tree: Tree, *, is_calibrated: bool = False) -> None:
        """Do nothing yet.

        Args:
            task: Whose figures are written and whose limits hold.
            domains: The active states.
            part: Of the graph, that is solved.
            tree: Of that part over these domains.
            is_calibrated: Whether `calibrated` will be called.
        """
        self._with_joints = is_calibrated or task.options.factor_marginals
        self._task, self._compiled = task, compiled_graph(task.graph)
        self._domains, self._part, self._tree = domains, part, tree
        self._tables: Tables | None = None
        self._passes: Passes | None = None

    @property
    def is_done(self) -> bool:
        """Whether there are marginals."""
        return self._passes is not None and self._passes.is_done

    def prepare(self) -> Iterator[Step]:
        """Make the tables of factors, and room for those of the cliques."""
        parts = self._task.figures.work_parts
        wanted = self._domains if self._part.kept is None else self._domains._replace(sizes=self._part.sizes)
        making, asked = make_potentials(self._compiled, wanted), parts["growth"]
        while True:
            try:
                parts["growth"] = asked + next(making)
            except StopIteration as end:
                tables: Tables = end.value
                break
            yield Step.WORKING
        parts["growth"] = asked + tables.scored
        self._tables = tables
        given = self._compiled, self._domains, self._part, self._tree, tables
        self._passes = Passes(*given, with_joints=self._with_joints)

    def calibrate(self) -> Iterator[Step]:
        """Go up the tree and down again.

        Raises:
            InconsistentModelError: If no joint state is possible.
        """
        passes, figures, limits = self._passes, self._task.figures, self._task.limits
        assert passes is not None  # noqa: S101  (`prepare` has made it)
        while not passes.is_done:
            updates, work = passes.advance(limits.updates - figures.updates, limits.slice_cost(figures.work))
            figures.count(updates, work)
            if not passes.is_possible:
                raise no_joint_state(is_observed=bool(self._task.options.observed))
            if not passes.is_done and (figures.updates >= limits.updates or limits.has_budget or work >= WORTH_A_LOOK):
                yield Step.WORKING

    def end_round(self, *, exact: bool, error: float) -> None:
        """Write down that a round has ended with an exact answer on its states."""
        figures = self._task.figures
        figures.rounds += 1
        figures.settled_rounds += 1
        figures.max_residual = figures.mean_residual = 0.0
        figures.consistent = figures.swept = True
        figures.exact, figures.estimated_error = exact, error

    def snapshot(self, outside: float) -> Snapshot:
        """Return the marginals and log Z, with the figures as they stand.

        Args:
            outside: Belief of the states that take no part.
        """
        passes, domains = self._passes, self._domains
        assert passes is not None  # noqa: S101  (it is done)
        options, figures = self._task.options, self._task.figures
        marginals = passes.marginals(self._compiled.variables, domains, options.targets)
        joint: FactorMarginals = NOT_ASKED_FOR
        if options.factor_marginals:
            joint = CliqueMarginals(marginals, self._compiled.blocks, passes.joints())
        return Snapshot.holding(
            marginals=marginals,
            log_z=self._log_z(passes),
            outside=outside,
            error=figures.estimated_error,
            domain_sizes=read_only(domains.sizes),
            arithmetic="log" if passes.in_logs else "linear",
            factor_marginals=joint,
            **figures.shown(),
        )

    def _log_z(self, passes: Passes) -> float:
        """Return log Z, as far as nothing that was left out is unknown."""
        tables, part = self._tables, self._part
        assert tables is not None  # noqa: S101  (the passes have read them)
        scales = tables.log_scale if part.kept is None else tables.log_scale[part.kept]
        return float(
            passes.log_total + part.log_known + np.add.reduce(scales) + np.add.reduce(self._domains.log_prior_scale)
        )

    def calibrated(self) -> CalibratedTree:
        """Return the cliques of the whole graph, to be asked again; nobody may use the solution then."""
        passes = self._passes
        assert passes is not None  # noqa: S101  (it is done)
        return CalibratedTree(passes, self._domains, self._log_z(passes))
