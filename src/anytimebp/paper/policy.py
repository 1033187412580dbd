"""The interface of growth policies, and the view of a run that they get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.model.scores import log_sum_exp
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import VariableTable
from anytimebp.paper.estimates import log_ratios
from anytimebp.paper.priorities import FixedPriorities
from anytimebp.tables.carry_over import read_message
from anytimebp.tables.workspace import Workspace

MOST_GUESSED = 1e7
"""Scores that a first guess may ask from one rule or list; larger factors are left out of it."""


class GrowthView:
    """What a growth policy can see of a run. Variables are given by index. Nothing here changes the run.

    Examples:
        >>> class MostCertainFirst:
        ...     rescores = True
        ...
        ...     def first_states(self, view):
        ...         return [int(view.unary(i).argmax()) for i in range(len(view.variables))]
        ...
        ...     def scores(self, view, variable):
        ...         return view.estimates(variable)
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> abp.infer(graph, "dynamic", policy=MostCertainFirst()).stop_reason.name
        'CONVERGED'
    """

    def __init__(self, universe: Universe, priorities: FixedPriorities, rng: np.random.Generator) -> None:
        """Look at a run that has no domains yet."""
        self._universe = universe
        self._priorities = priorities
        self._is_complete = False
        self._normalised: FloatArray | None = None
        self.guess: FixedPriorities | None = None
        self.rng = rng
        self.workspace: Workspace | None = None

    @property
    def variables(self) -> VariableTable:
        """The variables of the graph, in order."""
        return self._universe.compiled.variables

    def allowed(self, variable: int) -> IndexArray:
        """Return the states that the evidence allows."""
        return self._universe.allowed_states(variable).copy()

    def unary(self, variable: int) -> FloatArray:
        """Return the log scores of a variable's unary factors and evidence together; the largest is 0."""
        return self._of(self._universe.log_prior, variable).copy()

    def priorities(self, variable: int, *, raw: bool = False) -> FloatArray:
        """Return the fixed priorities of a variable's states. The first call reads every table once."""
        return self._of(self.all_priorities(raw=raw), variable).copy()

    def all_priorities(self, *, raw: bool = False) -> FloatArray:
        """Return the fixed priorities of all states of all variables in a row."""
        for _ in self.compute_priorities():
            pass
        if raw:
            return self._priorities.raw
        if self._normalised is None:
            self._normalised = self._priorities.normalised()
        return self._normalised

    def compute_priorities(self) -> Iterator[None]:
        """Compute the fixed priorities of all variables, unless that has been done; a generator that pauses."""
        if not self._is_complete:
            yield from self._priorities.compute(np.ones(len(self._universe.n_allowed), dtype=np.bool_))
            self._is_complete = True

    def make_guess(self) -> Iterator[None]:
        """Compute the priorities of variables without unary scores; a generator that pauses."""
        self.guess = FixedPriorities(self._universe)
        yield from self.guess.compute(~self._universe.has_scores, MOST_GUESSED)

    def first_guess(self) -> FloatArray:
        """Return the unary scores of all states of all variables, fixed priorities for variables without any."""
        unscored = ~self._universe.has_scores
        if not unscored.any():
            return self._universe.log_prior
        if self.guess is None:
            for _ in self.make_guess():
                pass
        assert self.guess is not None  # noqa: S101  (just made)
        whole = np.repeat(unscored, np.diff(self._universe.start))
        return np.where(whole, self.guess.normalised(), self._universe.log_prior)

    def best(self, score: FloatArray) -> IndexArray:
        """Return each variable's best allowed state by scores of all states of all variables in a row."""
        return self._universe.best(score)

    def domain(self, variable: int) -> IndexArray:
        """Return the states in a variable's domain, in the order in which they joined."""
        return self._running().domains.states_of(variable).copy()

    def belief(self, variable: int) -> FloatArray:
        """Return the current marginal of a variable over its domain."""
        weight = np.exp(self._log_weights(variable, -1))
        belief: FloatArray = weight / weight.sum()
        return belief

    def estimates(self, variable: int) -> FloatArray:
        """Return the estimated log belief of all states, relative to that of the domain, as `dynamic` scores them."""
        workspace = self._running()

        def weights(edge: int) -> FloatArray:
            return self._log_weights(int(workspace.layout.edge_variable[edge]), edge)

        sums = log_ratios(self._universe, workspace, weights, variable)
        total = log_sum_exp(sums[workspace.domains.states_of(variable)])
        return sums - total if total > -np.inf else sums

    def _log_weights(self, variable: int, skipped: int) -> FloatArray:
        """Return the log prior plus the log messages of all edges but one, largest 0."""
        workspace = self._running()
        start = self._universe.start[variable]
        total = self._universe.log_prior[start + workspace.domains.states_of(variable)]
        for edge in workspace.compiled.edges_of(variable):
            if edge != skipped:
                total = total + read_message(workspace, edge)
        peak = total.max()
        weights: FloatArray = total - peak if peak > -np.inf else np.zeros(len(total))
        return weights

    def _of(self, values: FloatArray, variable: int) -> FloatArray:
        return values[self._universe.start[variable] : self._universe.start[variable + 1]]

    def _running(self) -> Workspace:
        if self.workspace is None:
            msg = "domains, beliefs and estimates are not known before the first states are chosen"
            raise ValueError(msg)
        return self.workspace


class GrowthPolicy(Protocol):
    """Decides which states join the domains, and in which order. A class with these members will do.

    Attributes:
        rescores: Whether to score a variable again whenever its messages have changed.

    Examples:
        >>> class InOrder:
        ...     rescores = False
        ...
        ...     def first_states(self, view):
        ...         return [int(view.allowed(i)[0]) for i in range(len(view.variables))]
        ...
        ...     def scores(self, view, variable):
        ...         return -np.arange(view.variables[variable].n_states)
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> abp.infer(graph, "dynamic", policy=InOrder()).stop_reason.name
        'CONVERGED'
    """

    rescores: bool

    def first_states(self, view: GrowthView) -> IndexArray:
        """Return the first state of each variable."""
        ...

    def scores(self, view: GrowthView, variable: int) -> FloatArray:
        """Return one number per state of a variable. Of all states of all variables, the highest joins next."""
        ...
