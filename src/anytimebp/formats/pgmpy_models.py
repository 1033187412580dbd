"""Discrete models of pgmpy, of any version: Bayesian and Markov networks, factor graphs, cluster graphs.

Decides by the methods that a model has, not by its class, so that nothing is imported and renamed classes still work.
Numbers are copied as they are; a CPD becomes a factor on its parents and, last, its variable.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.formats.names import names_of
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray

Universes = dict[Hashable, list[Any]]


def from_pgmpy(model: Any) -> FactorGraph:
    """Return a discrete pgmpy model as a factor graph with the same names and state names.

    Args:
        model: A Bayesian network, a Markov network, a factor graph, a cluster graph or a junction tree. It is not
            changed. For a Bayesian network, factor k is the CPD of variable k, with axes for its parents and then
            itself.

    Examples:
        >>> from pgmpy.models import DiscreteBayesianNetwork  # doctest: +SKIP
        >>> result = abp.infer(abp.from_pgmpy(network))  # doctest: +SKIP

    Raises:
        ModelError: If this is no discrete model, or an incomplete one; it names the variable at fault.
    """
    kind = type(model).__name__
    if hasattr(model, "get_interface_nodes"):
        msg = f"from_pgmpy: a {kind} is a template over time slices; unroll it into a Bayesian network first"
        raise ModelError(msg)
    if hasattr(model, "get_cpds") and hasattr(model, "predecessors"):
        return _read_bayesian_network(model)
    if hasattr(model, "get_factors") and hasattr(model, "nodes"):
        return _read_factors(model)
    msg = f"from_pgmpy takes a Bayesian or Markov network, factor graph or cluster graph of pgmpy, got {kind}"
    raise ModelError(msg)


def _read_bayesian_network(model: Any) -> FactorGraph:
    nodes = list(model.nodes())
    cpd_of = {cpd.variable: cpd for cpd in model.get_cpds()}
    for node in nodes:
        if node not in cpd_of:
            msg = f"from_pgmpy: no CPD is given for variable {node!r}"
            raise ModelError(msg)
        _check_discrete(cpd_of[node], f"the CPD of variable {node!r}")
        parents = set(model.predecessors(node))
        if set(cpd_of[node].variables[1:]) != parents:
            found, wanted = sorted(map(str, cpd_of[node].variables[1:])), sorted(map(str, parents))
            msg = f"from_pgmpy: the CPD of variable {node!r} has the parents {found}, the network {wanted}"
            raise ModelError(msg)
    cpds = [cpd_of[node] for node in nodes]
    return _build(nodes, cpds, [[*cpd.variables[1:], cpd.variables[0]] for cpd in cpds])


def _read_factors(model: Any) -> FactorGraph:
    factors = list(model.get_factors())
    for number, factor in enumerate(factors):
        _check_discrete(factor, f"factor {number}")
    nodes = _variables_of(model, factors)
    return _build(nodes, factors, [list(factor.variables) for factor in factors])


def _variables_of(model: Any, factors: Sequence[Any]) -> list[Hashable]:
    """Return the variables in the order of the nodes. A node may be a variable, a factor or a clique of variables."""
    known = {variable for factor in factors for variable in factor.variables}
    found: dict[Hashable, None] = {}
    for node in model.nodes():
        if node in known:
            found[node] = None
        elif isinstance(node, tuple) and set(node) <= known:
            found.update(dict.fromkeys(node))
        elif not _is_factor_node(model, node, known):
            msg = f"from_pgmpy: no factor says how many states {node!r} has"
            raise ModelError(msg)
    return [*found, *(variable for factor in factors for variable in factor.variables if variable not in found)]


def _is_factor_node(model: Any, node: Hashable, variables: set[Hashable]) -> bool:
    """Tell whether a node of a pgmpy factor graph stands for a factor: the factor itself, or a text such as phi_a_b."""
    if not hasattr(model, "get_factor_nodes"):
        return False
    neighbours = set(model.neighbors(node))
    return hasattr(node, "values") or (bool(neighbours) and neighbours <= variables)


def _check_discrete(factor: Any, what: str) -> None:
    if not all(hasattr(factor, name) for name in ("variables", "values", "cardinality", "state_names")):
        msg = f"from_pgmpy: {what} is a {type(factor).__name__}, not a table over discrete states"
        raise ModelError(msg)


def _build(nodes: Sequence[Hashable], factors: Sequence[Any], scopes: Sequence[list[Hashable]]) -> FactorGraph:
    names = names_of(dict.fromkeys(nodes))
    universes: Universes = {}
    for factor in factors:
        _merge_states(universes, factor)
    graph = FactorGraph()
    for node, name in names.items():
        graph.add_variable(name, universes[node])
    for factor, scope in zip(factors, scopes, strict=True):
        axes = [factor.variables.index(variable) for variable in scope]
        graph.add_factor([names[variable] for variable in scope], table=_numbers(factor.values).transpose(axes))
    return graph


def _merge_states(universes: Universes, factor: Any) -> None:
    """Record the states of a factor's variables; names replace the numbers that pgmpy gives by default."""
    for variable, count in zip(factor.variables, factor.cardinality, strict=True):
        numbers = list(range(int(count)))
        states = list(factor.state_names.get(variable, numbers))
        known = universes.setdefault(variable, states)
        if len(known) != int(count) or len(states) != int(count):
            msg = (
                f"from_pgmpy: variable {variable!r} has {len(known)} states in one factor, "
                f"{int(count)} ({len(states)} named) in another"
            )
            raise ModelError(msg)
        if known == numbers:
            universes[variable] = states
        elif states not in (known, numbers):
            msg = f"from_pgmpy: variable {variable!r} has the states {known} in one factor, {states} in another"
            raise ModelError(msg)


def _numbers(values: Any) -> FloatArray:
    """Return a copy of a factor's numbers, from NumPy or from torch."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.array(values, dtype=np.float64)
