"""Bayesian networks and Markov random fields of pyAgrum.

Decides by the methods that a model has, so that nothing is imported. Numbers are copied as they are; a CPT becomes a
factor on its parents and, last, its variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.graph import FactorGraph


def from_pyagrum(model: Any) -> FactorGraph:
    """Return a pyAgrum model as a factor graph with the same names and labels. Labels are text in pyAgrum.

    Args:
        model: A BayesNet or a MarkovRandomField (MarkovNet). It is not changed. For a BayesNet, factor k is the CPT of
            variable k, with axes for its parents and then itself.

    Examples:
        >>> import pyagrum  # doctest: +SKIP
        >>> result = abp.infer(abp.from_pyagrum(pyagrum.fastBN("a->b->c")))  # doctest: +SKIP

    Raises:
        ModelError: If this is another kind of model.
    """
    if hasattr(model, "cpt") and not hasattr(model, "utility"):  # influence diagrams have both
        graph = _with_variables(model)
        for node in sorted(model.nodes()):
            _add_cpt(graph, model.cpt(node))
        return graph
    if hasattr(model, "factors") and hasattr(model, "factor"):
        graph = _with_variables(model)
        for nodes in sorted(model.factors(), key=sorted):
            tensor = model.factor(nodes)
            _add(graph, tensor, list(tensor.names))
        return graph
    msg = f"from_pyagrum takes a BayesNet or a MarkovRandomField of pyAgrum, got {type(model).__name__}"
    raise ModelError(msg)


def _with_variables(model: Any) -> FactorGraph:
    graph = FactorGraph()
    for node in sorted(model.nodes()):
        variable = model.variable(node)
        graph.add_variable(variable.name(), variable.labels())
    return graph


def _add_cpt(graph: FactorGraph, cpt: Any) -> None:
    child, *parents = cpt.names
    if cpt.max() == 0.0:
        msg = f"from_pyagrum: the CPT of variable {child!r} is zero everywhere, as it is before it is filled"
        raise ModelError(msg)
    _add(graph, cpt, [*parents, child])


def _add(graph: FactorGraph, tensor: Any, scope: list[str]) -> None:
    """Add a tensor as a factor on its variables in the order wanted."""
    axes = list(tensor.names)[::-1]  # pyAgrum's first variable varies fastest: it is the last axis of the array
    graph.add_factor(scope, table=np.array(tensor.toarray().transpose([axes.index(name) for name in scope])))
