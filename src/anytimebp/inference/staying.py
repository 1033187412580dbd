"""Observations that stay from query to query: cliques are calibrated under them, and others are added to these."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from anytimebp.domains.domains import domain_sizes, full_domains
from anytimebp.errors import InconsistentModelError, MemoryLimitError, no_joint_state
from anytimebp.exact.calibrated import CalibratedTree
from anytimebp.exact.cost import check_tree, shape_of
from anytimebp.exact.possible import ZEROS, possible_part
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import TooWide, Tree, plan
from anytimebp.inference.auto_run import CHEAP, LEAST_STEPS, MOST_VARIABLES, bp_cost
from anytimebp.inference.figures import Figures, Limits
from anytimebp.inference.kept_exact import Evidence
from anytimebp.inference.method import Step, Task
from anytimebp.inference.solution import Solution
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.tables.memory import without_table

SOON, LATE = 2, 64
"""Queries in which an observation is the same before a tree is made for it: at first, and at the most. With fewer at
first, observations that change all the time would have trees made for them; with more, others are answered slowly."""
PAYS = 8  # queries that a tree has to answer to be worth what it costs to make it
MOST_CALIBRATED = 2.0**21  # entries of the cliques of a calibrated tree: what a query reads without looking at Ctrl-C
PASSES = 4.0  # entries that a query reads at the most for each of them, about
TABLES = 2  # of each clique, with and without the observations that a query adds


class Staying:
    """Which observations stay, and a tree that is calibrated under some of them.

    Attributes:
        tree: None before one is made.
    """

    def __init__(self) -> None:
        """Know of no query."""
        self.tree: CalibratedTree | None = None
        self._held: dict[int, int] = {}  # the observations under which the tree is calibrated
        self._same: dict[int, tuple[int, int]] = {}  # the last query's, with the queries in which they were the same
        self._patience, self._since, self._answered = SOON, 0, 0
        self._is_of_use = False  # whether the tree's observations are among those of the last query

    def drop_tree(self) -> None:
        """Forget the tree, as the model is another one."""
        self.tree, self._held, self._is_of_use = None, {}, False

    def note(self, evidence: Evidence) -> None:
        """Take notice of a query."""
        before, now = self._same, zip(evidence.variables, evidence.states, strict=True)
        self._same = {v: (s, 1 + before[v][1] if v in before and before[v][0] == s else 1) for v, s in now}
        self._since += 1

    def added(self, evidence: Evidence) -> dict[int, int] | None:
        """Return what a query observes besides the tree's observations; None where it does not observe all of these.

        States are places in domains. The tree counts the query as one that it answers.

        Raises:
            InconsistentModelError: If the tree's observations exclude one of them.
        """
        self._is_of_use = False
        if self.tree is None:
            return None
        found = dict(zip(evidence.variables, evidence.states, strict=True))
        for v, s in self._held.items():
            if found.pop(v, None) != s:
                return None
        positions = {v: self.tree.position_of(v, s) for v, s in found.items()}
        if -1 in positions.values():
            raise no_joint_state(is_observed=True)
        self._answered, self._is_of_use = self._answered + 1, True
        return positions

    def wanted(self) -> dict[int, int] | None:
        """Return the observations that a tree is to be made for after this query; None for no tree.

        A tree that still answers queries is replaced only if others have stayed for long.
        """
        patience = max(self._patience, PAYS) if self._is_of_use else self._patience
        if self._since < patience:
            return None
        stays = {v: s for v, (s, n) in self._same.items() if n >= patience}
        return None if self._is_of_use and stays.keys() <= self._held.keys() else stays

    def take(self, tree: CalibratedTree | None, held: dict[int, int]) -> None:
        """Take a tree that was made for some observations; None where it would have been too large."""
        has_paid = self._answered >= PAYS
        self._patience = SOON if has_paid and tree is not None else min(LATE, 2 * self._patience)
        self.tree, self._held, self._since, self._answered = tree, held, 0, 0


def make_calibrated(
    task: Task, compiled: CompiledGraph, held: dict[int, int]
) -> Generator[Step, None, CalibratedTree | None]:
    """Return a tree that is calibrated under some observations; None where it is too large, or they are impossible.

    Args:
        task: Of a query; its figures are left alone.
        compiled: The graph.
        held: The observations.
    """
    observed = Evidence([*held], [*held.values()]).mapping()
    options = replace(task.options, observed=observed, targets=None)
    figures = Figures(options.method, options.tolerance)
    try:
        domains = full_domains(compiled, observed, task.unary)
        part = Part(compiled.arrays, domain_sizes(compiled, observed))
        if compiled.extent.has_zero.any() and task.load(ZEROS):
            domains, part = possible_part(compiled, domains, part) or (domains, part)
        tree = _planned(compiled, part, options.max_memory)
        if tree is None:
            return None
        own = task._replace(options=options, figures=figures, limits=Limits())
        solution = Solution(own, domains, part, tree, is_calibrated=True)
        yield from solution.prepare()
        yield from solution.calibrate()
    except InconsistentModelError:
        return None
    return solution.calibrated()


def _planned(compiled: CompiledGraph, part: Part, max_memory: int | None) -> Tree | None:
    """Return a tree whose cliques are passed in less time than belief propagation takes, if there is one."""
    if len(part.sizes) > MOST_VARIABLES or without_table(compiled):
        return None
    most = min(MOST_CALIBRATED, max(CHEAP, bp_cost(compiled, part.sizes) / PASSES))
    tree = plan(shape_of(compiled, part), part.sizes, most, LEAST_STEPS)
    if isinstance(tree, TooWide):
        return None
    try:
        check_tree(compiled, part.sizes, tree, None if max_memory is None else max_memory // TABLES)
    except MemoryLimitError:
        return None
    return tree
