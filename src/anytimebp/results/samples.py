"""Samples: random joint states of a graph."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from anytimebp.model.source import IndexArray
from anytimebp.model.variable import VariableKey, VariableTable


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """Random joint states.

    Attributes:
        states: (n, variables) the number of each variable's state; variables in the order of the graph.
        exact: Whether they are drawn from the model itself; otherwise each variable is drawn by its marginal in BP,
            given those drawn before.
        variables: Names and labels.
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
