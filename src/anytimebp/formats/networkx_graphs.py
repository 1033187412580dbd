"""Factor graphs to and from networkx.

Two forms are read. With factor nodes, as `to_networkx` writes them: variables and factors are nodes, and a factor's
`scope` orders the axes of its table. Without: nodes are variables, edges are pairwise factors. An undirected edge has
no first end, so its scores must be symmetric, or its axes of different length, or its `scope` given: nothing is
guessed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.formats.names import names_of
from anytimebp.model.graph import FactorGraph
from anytimebp.model.kinds.dense import read_table
from anytimebp.model.source import FactorSource
from anytimebp.optional import load_optional

if TYPE_CHECKING:
    import networkx as nx

WAYS = ("log_table", "table", "rule", "structure", "entries")
SCORES = (*WAYS, "default", "propose")
"""Attributes that say what a factor scores: the arguments of `FactorGraph.add_factor`."""


class _Stated(NamedTuple):
    """A factor as a node or an edge states it."""

    where: str
    scope: tuple[str, ...]
    scores: dict[str, Any]


# -------------------------------------------------------------------- out
def to_networkx(graph: FactorGraph, *, tables: bool = True) -> nx.Graph:
    """Return a factor graph as a bipartite networkx graph. Needs networkx.

    The node of a variable is its name, with the attributes `kind="variable"`, `bipartite=0` and `labels`. The node of
    factor k is `("factor", k)`, with `kind="factor"`, `bipartite=1`, `scope` (names in the order of the axes) and its
    scores. The scores have the name by which they were given: `log_table`, `table`, `rule` (and `propose`), `entries`
    and `default`, or `structure`. `Equality` and `Deterministic` become entries.

    Args:
        graph: The model.
        tables: Whether factors carry their scores. Scores are not copied: tables are read-only views, and tied factors
            share one object.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(2, 3)
        >>> _ = graph.add_factor([0, 1], log_table=np.eye(3))
        >>> sorted(map(str, abp.to_networkx(graph).nodes))
        ["('factor', 0)", 'x0', 'x1']
    """
    found: nx.Graph = load_optional("networkx").Graph()
    for variable in graph.variables:
        found.add_node(variable.name, kind="variable", bipartite=0, labels=variable.labels)
    names = graph.variables.names()
    for block in graph.blocks:
        scores = [_scores_of(block.source, member) for member in range(block.source.n_members if tables else 0)]
        for offset, row in enumerate(block.scopes.tolist()):
            scope = tuple(names[i] for i in row)
            node = ("factor", block.first + offset)
            given = scores[block.member(offset)] if tables else {}
            found.add_node(node, kind="factor", bipartite=1, scope=scope, **given)
            found.add_edges_from((node, name) for name in scope)
    return found


def _scores_of(source: FactorSource, member: int) -> dict[str, Any]:
    stated = source.stated(member)
    if not stated:
        msg = f"to_networkx cannot convert factors of the kind {type(source).__name__}"
        raise TypeError(msg)
    return stated


# -------------------------------------------------------------------- in
def from_networkx(graph: nx.Graph) -> FactorGraph:
    """Return a networkx graph as a factor graph: one that `to_networkx` made, or a pairwise model.

    In a pairwise model, nodes are variables and edges are factors. A node has `states` (a number or labels) or
    `labels`, and may have scores. Scores are given as for `FactorGraph.add_factor`: `table`, `log_table`, `structure`,
    `rule` (and `propose`), or `entries` and `default`. The first axis of an edge's table belongs to the first variable
    of the edge's `scope`. A directed edge without `scope` has its tail first. An undirected edge without `scope` needs
    scores that show the
    order: symmetric ones, or a table with axes of different length. A table object on many edges is stored once (tied).

    Args:
        graph: A Graph, DiGraph, MultiGraph or MultiDiGraph. Nodes that are not strings become their `str`.

    Examples:
        >>> import networkx
        >>> pair = networkx.DiGraph()
        >>> pair.add_nodes_from(["a", "b"], states=3)
        >>> pair.add_edge("a", "b", log_table=np.eye(3))
        >>> abp.from_networkx(pair).n_factors
        1

    Raises:
        ModelError: If something is missing or could be read in two ways; it names the node or the edge.
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed", "is_multigraph")):
        msg = f"from_networkx takes a networkx graph, got {type(graph).__name__}"
        raise ModelError(msg)
    if any(data.get("kind") == "factor" for _, data in graph.nodes(data=True)):
        return _read_bipartite(graph)
    return _read_pairwise(graph)


def _read_bipartite(graph: nx.Graph) -> FactorGraph:
    for node, data in graph.nodes(data=True):
        if data.get("kind") not in {"variable", "factor"}:
            msg = f'node {node!r} must have kind="variable" or kind="factor", got {data.get("kind")!r}'
            raise ModelError(msg)
        if data["kind"] == "variable" and _given_scores(data):
            msg = f"node {node!r}: where factors are nodes, only they have scores, not variables"
            raise ModelError(msg)
    for *ends, data in graph.edges(data=True):
        if _given_scores(data):
            msg = f"edge {tuple(ends)!r}: where factors are nodes, only they have scores, not edges"
            raise ModelError(msg)
    found = FactorGraph()
    names = _add_variables(found, {n: data for n, data in graph.nodes(data=True) if data["kind"] == "variable"})
    stated = []
    for node, data in graph.nodes(data=True):
        if data["kind"] == "factor":
            scope = _read_scope(data.get("scope"), names, f"node {node!r}")
            _check_neighbours(graph, node, scope, names)
            stated.append(_Stated(f"node {node!r}", scope, _demand_scores(data, f"node {node!r}")))
    _add_factors(found, stated)
    return found


def _check_neighbours(graph: nx.Graph, node: Hashable, scope: tuple[str, ...], names: Mapping[Hashable, str]) -> None:
    joined = {*graph.succ[node], *graph.pred[node]} if graph.is_directed() else set(graph[node])
    found = {names.get(other, repr(other)) for other in joined}
    if found != set(scope):
        msg = f"node {node!r}: its scope is {scope}, but its edges lead to {sorted(found)}"
        raise ModelError(msg)


def _read_pairwise(graph: nx.Graph) -> FactorGraph:
    found = FactorGraph()
    names = _add_variables(found, dict(graph.nodes(data=True)))
    stated = [
        _Stated(f"node {node!r}", (names[node],), scores)
        for node, data in graph.nodes(data=True)
        if (scores := _given_scores(data))
    ]
    edges = graph.edges(keys=True, data=True) if graph.is_multigraph() else graph.edges(data=True)
    for *edge, data in edges:
        where = f"edge {tuple(edge)!r}"
        ends, scores = (names[edge[0]], names[edge[1]]), _demand_scores(data, where)
        if data.get("scope") is not None:
            scope = _read_scope(data["scope"], names, where)
            if sorted(scope) != sorted(ends):
                msg = f"{where}: its scope must be its two ends, got {scope}"
                raise ModelError(msg)
        else:
            scope = ends if graph.is_directed() else _undirected_scope(found, ends, scores, where)
        stated.append(_Stated(where, scope, scores))
    _add_factors(found, stated)
    return found


def _undirected_scope(graph: FactorGraph, ends: tuple[str, str], scores: dict[str, Any], where: str) -> tuple[str, str]:
    """Return the order of an edge's ends, if the table determines it."""
    table = scores.get("table", scores.get("log_table"))
    if table is not None:
        values = read_table(table, where)
        shape = tuple(graph.variables[name].n_states for name in ends)
        if shape[0] != shape[1]:
            return ends[::-1] if values.shape == shape[::-1] else ends
        if values.shape != shape or np.array_equal(values, values.T, equal_nan=True):
            return ends  # nothing to tell apart, or refused for its shape when it is added
    if getattr(scores.get("structure"), "is_symmetric", False) is True:  # the class of a structure has it too
        return ends
    msg = (
        f"{where}: the edge is not directed, so it is not clear which of its ends the first axis belongs to; "
        f"give it the attribute scope=({ends[0]!r}, {ends[1]!r}) or the reverse, or use a DiGraph"
    )
    raise ModelError(msg)


def _read_scope(given: object, names: Mapping[Hashable, str], where: str) -> tuple[str, ...]:
    """Return a scope by names; it may be given by nodes or by names."""
    if given is None or isinstance(given, str) or not isinstance(given, Iterable):
        msg = f"{where} needs the attribute scope, its variables in the order of its axes; got {given!r}"
        raise ModelError(msg)
    scope = []
    for item in given:
        try:
            scope.append(names[item])
        except (KeyError, TypeError):
            msg = f"{where}: its scope has {item!r}, which is not a variable of the graph"
            raise ModelError(msg) from None
    return tuple(scope)


def _add_variables(graph: FactorGraph, nodes: Mapping[Hashable, Mapping[str, Any]]) -> dict[Hashable, str]:
    """Add the variables; return their names by node, and by name, for scopes may use either."""
    names = names_of(nodes)
    for node, data in nodes.items():
        given = [data[key] for key in ("labels", "states") if data.get(key) is not None]
        if len(given) != 1:
            got = "both" if given else "neither"
            msg = f"node {node!r} needs the attribute states (a count or labels) or labels; it has {got}"
            raise ModelError(msg)
        states = given[0]
        counted = isinstance(states, range) and states == range(len(states))
        graph.add_variable(names[node], len(states) if counted else states)
    return {name: name for name in names.values()} | names


def _given_scores(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: data[key] for key in SCORES if data.get(key) is not None}


def _demand_scores(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    scores = _given_scores(data)
    if not scores:
        msg = f"{where} has no scores: it needs one of the attributes {', '.join(WAYS)}"
        raise ModelError(msg)
    return scores


def _add_factors(graph: FactorGraph, stated: Iterable[_Stated]) -> None:
    """Add factors in order; those in a row that share their scores and sizes are tied."""

    def shared(factor: _Stated) -> tuple[object, ...]:
        sizes = tuple(graph.variables[name].n_states for name in factor.scope)
        return (sizes, *((key, value if key == "default" else id(value)) for key, value in factor.scores.items()))

    for (sizes, *_), run in groupby(stated, key=shared):
        factors = list(run)
        where, scope, scores = factors[0]
        try:
            scores = scores | {key: read_table(scores[key], where) for key in ("table", "log_table") if key in scores}
            fits = all(getattr(scores.get(key), "shape", sizes) == sizes for key in ("table", "log_table"))
            if len(factors) == 1 or not fits:
                graph.add_factor(scope, **scores)
            else:
                graph.add_factors([[graph.variables.index_of(v) for v in f.scope] for f in factors], **scores)
        except (ModelError, InconsistentModelError) as error:
            msg = f"{where}: {error}"
            raise type(error)(msg) from None
