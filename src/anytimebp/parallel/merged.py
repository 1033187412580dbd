"""Many small graphs solved exactly as one graph of many components; each gets a result of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains, full_domains
from anytimebp.errors import no_joint_state
from anytimebp.exact.order import Shape, first_order
from anytimebp.exact.passes import PartFigures, Passes, Room
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree, plan_by
from anytimebp.inference.auto_run import CHEAP
from anytimebp.inference.options import RunOptions
from anytimebp.kernels.merging import number_on
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import WIDTH, FactorBlock, MessageBlock, row_starts
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.factor_marginals import NOT_ASKED_FOR
from anytimebp.results.marginals import Marginals
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace
from anytimebp.slices import at_one_go

MOST_ENTRIES = 2.0**24  # of the cliques of graphs that are solved together
MOST_STATES = 2**13  # joint states of the factors of a graph that is solved with others: larger ones gain nothing,
MOST_TIED = 2**17, 2**22
"""Entries of the tables, and joint states of the factors, of a graph that gains all the same: of factors that share
tables, which are made once for all graphs."""
AT_ONCE = 2**24  # entries read between two moments in which Ctrl-C is heard


class Item(NamedTuple):
    """A graph to be solved, the evidence on it, and the variables whose marginals are wanted; None for all."""

    graph: FactorGraph
    observed: dict[int, Observation]
    targets: IndexArray | None = None


def can_merge(graph: FactorGraph) -> bool:
    """Tell whether a graph is small, or most of its factors share tables; and has tables only."""
    rows = graph.rows
    return not rows.asked and (rows.n_joint_states < MOST_STATES or has_large_ties(graph))


def has_large_ties(graph: FactorGraph) -> bool:
    """Tell whether a graph is large, but small once shared tables are there and leaves are summed out of them."""
    rows, (entries, states) = graph.rows, MOST_TIED
    tied = rows.n_table_entries <= entries and 2 * rows.n_table_entries <= rows.n_joint_states <= states
    return tied and rows.n_joint_states >= MOST_STATES


class _Variables:
    """The variables of all graphs, as far as a layout asks for them."""

    def __init__(self, sizes: IndexArray) -> None:
        self._sizes = sizes

    def copy(self) -> _Variables:
        return self

    def sizes(self) -> IndexArray:
        return self._sizes

    def name(self, index: int) -> str:
        return f"x{index}"


class _Rows:
    """The rows of all graphs, in place of `BlockRows`."""

    def __init__(self, graphs: Sequence[FactorGraph], first: IndexArray) -> None:
        every = [graph.rows for graph in graphs]
        packed = [rows.packed() for rows in every]
        counts = np.array([len(own) for own in packed], dtype=np.int64) // (8 * WIDTH)
        self._numbers: IndexArray = np.frombuffer(b"".join(packed), dtype=np.int64).reshape(-1, WIDTH).copy()
        self._scopes = np.empty(int((self._numbers[:, 1] * self._numbers[:, 2]).sum()), dtype=np.int64)
        number_on(self._numbers, np.repeat(first, counts), self._scopes, self._scopes.ctypes.data)
        self.n_message_factors, self.n_edges, self.n_slots, self.n_table_entries = (
            sum(column) for column in zip(*[rows.counts for rows in every], strict=True)
        )
        self.n_joint_states = sum([rows.n_joint_states for rows in every])
        self.message_blocks: list[MessageBlock] = []
        self.asked: list[int] = []

    def numbers(self) -> IndexArray:
        return self._numbers


class Merged:
    """Many graphs, as a layout and a run see one graph."""

    def __init__(self, graphs: Sequence[FactorGraph]) -> None:
        """Number variables and factors on, and compile them together."""
        tables = [graph.variables for graph in graphs]
        packed = [table.packed_sizes() for table in tables]
        states, counts = (np.frombuffer(b"".join(each), dtype=np.int64) for each in zip(*packed, strict=True))
        self.first = row_starts([len(table) for table in tables])
        self.variables = _Variables(np.repeat(states, counts))
        self.rows = _Rows(graphs, self.first[:-1])
        self.blocks: tuple[FactorBlock, ...] = ()
        self.lends_tables = any(graph.lends_tables for graph in graphs)
        self.graphs = graphs  # whose tables are read
        self.compiled = CompiledGraph(self)  # type: ignore[arg-type]


def solve_together(items: Sequence[Item], options: RunOptions, room: Room) -> list[Result] | None:
    """Return an exact result for each of some small graphs; None where one of them needs large cliques.

    Args:
        items: The graphs, each of which `can_merge`, and evidence.
        options: Of all runs; without evidence.
        room: For tables of cliques; nobody else may use it meanwhile.

    Raises:
        InconsistentModelError: If one of them has no possible joint state.
    """
    began = perf_counter()
    merged = Merged([item.graph for item in items])
    compiled, part = merged.compiled, np.repeat(np.arange(len(items)), np.diff(merged.first))
    domains = full_domains(compiled, merged_evidence(items, merged.first))
    tree = plan_by(Shape.of(compiled), domains.sizes, first_order(compiled))
    if not isinstance(tree, Tree) or tree.entries > MOST_ENTRIES or _largest(tree, part) >= CHEAP:
        return None
    tables = at_one_go(make_potentials(compiled, domains))
    whole = Part(compiled.arrays, domains.sizes)
    passes = Passes(compiled, domains, whole, tree, tables, with_joints=False, room=room)
    while not passes.is_done:
        passes.advance(tree.n, AT_ONCE)
        if not passes.is_possible:
            raise no_joint_state(is_observed=any(item.observed for item in items))
    figures = passes.parts(part, len(items), domains.log_prior_scale)
    split = _Split(items, merged.first, (domains, passes.belief), figures, options.tolerance)
    split.seconds = (perf_counter() - began) / len(items)
    return split.results()


def _largest(tree: Tree, part: IndexArray) -> float:
    """Return the most entries that the cliques of one of the graphs have."""
    entries = np.diff(tree.arrays.table_start[: tree.n + 1])
    return float(np.bincount(part[tree.arrays.variable[: tree.n]], entries, 1).max())


def merged_evidence(items: Sequence[Item], first: IndexArray) -> dict[int, Observation]:
    """Return the evidence of all graphs as that of one."""
    return {
        start + index: seen
        for start, item in zip(first.tolist(), items, strict=False)
        for index, seen in item.observed.items()
    }


class _Split:
    """The results of single graphs out of that of all.

    Attributes:
        seconds: Of each.
    """

    def __init__(
        self,
        items: Sequence[Item],
        first: IndexArray,
        found: tuple[Domains, FloatArray],
        figures: PartFigures,
        tolerance: float,
    ) -> None:
        domains, self._belief = found
        self._of = [(item.graph.variables.copy(), item.targets) for item in items]  # graphs and tables need not stay
        self._first, self._slot_start, self._states = first, domains.slot_start, domains.slot_state
        self._sizes, self._figures, self._tolerance, self.seconds = domains.sizes, figures, tolerance, 0.0
        self._choice = f"a junction tree: solved together with {len(items) - 1:,} other graphs"

    def results(self) -> list[Result]:
        """Return them; each is made when it is first read."""
        known = {"exact": True, "choice": self._choice, "factor_marginals": NOT_ASKED_FOR}
        later, fields = Result.later, self._fields
        return [later(partial(fields, k), cost=cost, **known) for k, cost in enumerate(self._figures.entries.tolist())]

    def _fields(self, k: int) -> dict[str, Any]:
        """Return all fields of a result."""
        log_z, entries, passed, read, in_logs = (column[k].item() for column in self._figures)
        first, last = int(self._first[k]), int(self._first[k + 1])
        start = self._slot_start[first : last + 1]
        slots = slice(int(start[0]), int(start[-1]))
        own, states = self._belief[slots].copy(), self._states[slots] if len(self._states) else self._states
        variables, targets = self._of[k]
        marginals = Marginals(variables, own, start - start[0], states)
        held: dict[str, Any] = {
            "marginals": marginals if targets is None else marginals.limited(targets),
            "domain_sizes": read_only(self._sizes[first:last].copy()),
            "log_z": log_z,
            "max_residual": 0.0,
            "mean_residual": 0.0,
            "outside": 0.0,
            "error": 0.0,
            "seconds": self.seconds,
            "updates": passed,
            "work_parts": {"messages": read, "scoring": 0, "growth": 0, "priorities": 0},
            "consistent": True,
            "tolerance": self._tolerance,
            "method": "exact",
            "arithmetic": "log" if in_logs else "linear",
            "damping": 0.0,
            "exact": True,
            "choice": self._choice,
            "cost": entries,
            "factor_marginals": NOT_ASKED_FOR,
        }
        moment = Moment(self.seconds, passed, read, 0.0, 0.0, 0.0, len(own), log_z, 0.0, self._choice)
        ended = {"stop_reason": StopReason.CONVERGED, "trace": Trace((moment,)), "current": Snapshot.holding(**held)}
        return held | ended
