"""Samples: random joint states of a graph."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from anytimebp.model.source import IndexArray
from anytimebp.model.variable import VariableKey, VariableTable


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """Random joint states, as `sample` returns them.

    `samples["name"]` is a list with the label of one variable in each sample.

    Attributes:
        states: State indices, of shape (n, variables); variables are in the order of the graph.
        exact: Whether the samples are drawn from the model itself. Otherwise each variable is drawn from its marginal
            in BP, given the variables drawn before it.
        variables: The variables, with names and labels.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("coin", ["heads", "tails"])
        >>> _ = graph.add_factor(["coin"], table=[0.0, 1.0])
        >>> samples = abp.sample(graph, 3, rng=0)
        >>> samples["coin"], samples.states.shape
        (['tails', 'tails', 'tails'], (3, 1))
    """

    states: IndexArray
    exact: bool
    variables: VariableTable

    def __len__(self) -> int:
        """Return the number of joint states."""
        return len(self.states)

    def __getitem__(self, variable: VariableKey) -> list[Hashable]:
        """Return the labels of a variable in all joint states."""
        index = self.variables.index_of(variable)
        labels = self.variables[index].labels
        return [labels[state] for state in self.states[:, index].tolist()]

    def __repr__(self) -> str:
        """Return a line with what matters."""
        return f"<{len(self):,} samples of {len(self.variables):,} variables, {'exact' if self.exact else 'by BP'}>"
