"""Small graphs that send kernels over everything that they are for, so that they are compiled."""

import numpy as np

from anytimebp.model.graph import FactorGraph


def banded() -> FactorGraph:
    """Return a loop through a table that is large enough to have a band."""
    graph = FactorGraph()
    graph.add_variables(2, 24)
    graph.add_factor([0, 1], table=np.eye(24))
    graph.add_factor([0, 1], table=np.ones((24, 24)))
    return graph


def with_leaf(score: float) -> FactorGraph:
    """Return a loop with a leaf in one of its factors, and a score in the table of the others."""
    graph = FactorGraph()
    graph.add_variables(4, 2)
    graph.add_factors([[0, 1], [1, 2]], log_table=[[0.1, score], [0.0, 0.2]])
    graph.add_factor([2, 3, 0], log_table=np.zeros((2, 2, 2)))
    return graph


def related(n: int) -> FactorGraph:
    """Return so many relations of two variables, of which one has a single state that is likely."""
    graph = FactorGraph()
    graph.add_variables(2 + n, 6)
    graph.add_factor([0], log_table=[0.0, -5.0, -5.0, -5.0, -5.0, -5.0])
    graph.add_factors([[0, 1, 2 + k] for k in range(n)], log_table=np.zeros((6, 6, 6)))
    return graph
