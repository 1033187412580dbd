"""Bayesian networks: as files state them, and the check whether a factor graph is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from anytimebp.errors import FormatError
from anytimebp.formats.potentials import block_potentials, can_be_filled, note_rounding
from anytimebp.formats.table_runs import Entries, TableRuns
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FactorSource, FloatArray
from anytimebp.model.variable import VariableTable

MOST_ROUNDING = 1e-3
"""Conditional distributions in files are rounded; a sum further from 1 than this is not a rounding error."""

MOST_OFF = 0.005
"""Per state; a sum further from 1 gives a warning. Published networks are rounded to two digits."""

MOST_FLOAT = 1e-9  # error of sums of rounded numbers beyond that

AS_TEXT = "labels of states that are numbers or other objects are written as text"


class RowSums:
    """Finds distributions that do not sum to 1, in tables whose last axis is the child's."""

    def __init__(self, variables: VariableTable) -> None:
        """Start with none."""
        self._variables = variables
        self._count = 0
        self._first = ""

    def add(self, scopes: Sequence[Sequence[int]], tables: FloatArray) -> None:
        """Look at stacked tables, shape (factors, states of each variable of a scope)."""
        with np.errstate(over="ignore"):
            sums = tables.sum(axis=-1)
        off = np.argwhere(np.abs(sums - 1.0) > MOST_OFF * max(2, tables.shape[-1]) + MOST_FLOAT)
        if len(off) and not self._count:
            member, *states = off[0].tolist()
            self._first = self._describe(scopes[member], states, float(sums[tuple(off[0])]))
        self._count += len(off)

    def remarks(self) -> list[str]:
        """Return what there is to say, if anything."""
        if not self._count:
            return []
        others = "" if self._count == 1 else f", and {self._count - 1:,} more do not sum to 1"
        return [f"{self._first}{others}; the numbers are kept as they are"]

    def _describe(self, scope: Sequence[int], states: Sequence[int], total: float) -> str:
        *parents, child = [self._variables[int(i)] for i in scope]
        given = [f"{v.name!r} = {v.labels[state]!r}" for v, state in zip(parents, states, strict=True)]
        rest = f" given {', '.join(given)}" if given else ""
        return f"the distribution of {child.name!r}{rest} sums to {total:.6g}, not to 1"


@dataclass
class Network:
    """A Bayesian network by name.

    Attributes:
        labels: The labels of each variable's states.
        parents: The parents of each variable.
        tables: The distribution of each variable: an axis per parent, then one of its own.
        dropped: What the network does not keep of the graph that it was made from.
    """

    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    tables: dict[str, FloatArray] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    _indices: dict[str, dict[str, int]] = field(default_factory=dict)

    def state_indices(self, name: str) -> dict[str, int]:
        """Return the index of every state of a variable by its label."""
        if name not in self._indices:
            self._indices[name] = {label: k for k, label in enumerate(self.labels[name])}
        return self._indices[name]

    @classmethod
    def of(cls, graph: FactorGraph, path: Path) -> Network:
        """Return a graph as a network, or raise if it is none."""
        axis = child_axis(graph)
        if axis is None:
            message = (
                "this format holds Bayesian networks only: for every variable one factor of potentials, its "
                "distribution given the other variables of the factor; write .uai, .fg or .npz"
            )
            raise FormatError(path, message)
        network = cls()
        for variable in graph.variables:
            labels = tuple(str(label) for label in variable.labels)
            if len(set(labels)) < len(labels):
                raise FormatError(path, f"labels of variable {variable.name!r} become the same text")
            if any(not isinstance(label, str) for label in variable.labels) and AS_TEXT not in network.dropped:
                network.dropped.append(AS_TEXT)
            network.labels[variable.name] = labels
        for factor in range(graph.n_factors):
            scope = list(graph.factor_scope(factor))
            child = scope.pop(axis)
            block, offset = graph.locate(factor)
            table = block_potentials(graph, block, offset, path)
            note_rounding(block.source, network.dropped)
            network.parents[child] = scope
            network.tables[child] = np.moveaxis(table, axis, -1)
        return network


def build(network: Network, path: Path, odd: list[str]) -> FactorGraph:
    """Return a network as a factor graph; each factor has the child last. Empties `tables`.

    Args:
        network: What a file states.
        path: Of that file.
        odd: Gets a remark if a distribution does not sum to 1.
    """
    graph = FactorGraph()
    for name, labels in network.labels.items():
        if name not in network.parents:
            raise FormatError(path, f"variable {name!r} has no distribution")
        graph.add_variable(name, labels)
    index = {name: index for index, name in enumerate(network.labels)}
    runs = TableRuns()
    for child, parents in network.parents.items():
        runs.add([index[name] for name in (*parents, child)], network.tables.pop(child))
    sums = RowSums(graph.variables)
    for scopes, tables in runs.finish():
        if not isinstance(tables, Entries):
            graph.add_factors(scopes, table=tables)
            sums.add(scopes.tolist(), tables)
    odd += sums.remarks()
    return graph


def child_axis(graph: FactorGraph) -> int | None:
    """Return the axis of the factors' children, -1 or 0; None if the graph is no Bayesian network.

    In a Bayesian network every variable has one factor, its distribution given its parents, and no variable is its own
    ancestor. Only factors given by potentials or by a structure such as `Deterministic` count: tables of log scores
    are not meant as distributions.
    """
    if graph.n_factors != len(graph.variables) or not graph.n_factors:
        return None
    for axis in (-1, 0):
        owners = np.concatenate([block.scopes[:, axis] for block in graph.blocks])
        if len(np.unique(owners)) < len(owners) or not _is_acyclic(graph, axis):
            continue
        if all(_sums_to_one(block.source, axis) for block in graph.blocks):
            return axis
    return None


def _is_acyclic(graph: FactorGraph, axis: int) -> bool:
    scopes = [scope for block in graph.blocks for scope in block.scopes.tolist()]
    try:
        TopologicalSorter({scope[axis]: [v for v in scope if v != scope[axis]] for scope in scopes}).prepare()
    except CycleError:
        return False
    return True


def _sums_to_one(source: FactorSource, axis: int) -> bool:
    tables = source.tables
    if source.sums is not None and can_be_filled(source):
        values = np.exp(source.log_values(0, [np.arange(n) for n in source.shape]))[np.newaxis]
    elif tables is not None and not tables.is_log:
        values = tables.values
    else:
        return False
    sums = values.sum(axis=-1 if axis == -1 else 1)
    return bool((np.abs(sums - 1.0) <= MOST_ROUNDING).all())
