"""Trees that hang on a loopy core are summed into it once, and messages are passed on the core alone.

The messages that a tree sends to the core do not depend on those that it receives. `peel` finds the trees and leaves;
`Leaves` passes messages up to the core, makes the core's own layout and arrays, and sends messages down to the leaves
when marginals are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf
from threading import RLock
from typing import NamedTuple, Protocol

import numpy as np

from anytimebp.errors import AnytimeBPError, InconsistentModelError
from anytimebp.kernels.codes import DOWN, LINEAR, LOG, OK, OUT_OF_RANGE, UP, VARIABLE_VANISHED
from anytimebp.kernels.leaf_passes import pass_slice
from anytimebp.kernels.leaves import peel_slice, plan_tables
from anytimebp.kernels.messages import EDGE_COST, LOG_COST
from anytimebp.kernels.tied_leaves import EDGES, block_size
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.model.summary import full_bp_bytes
from anytimebp.tables.arrays import WorkspaceArrays, frozen
from anytimebp.tables.core import Core, LeafArrays, filled_core, lay_out_core, with_arrays
from anytimebp.tables.machine import available_memory
from anytimebp.tables.workspace import Workspace, make_structure_inputs

OVERHEAD = 2.0**18
"""Entries that could be read in the time that it takes to set a core up, however small; infinite: there are no cores.

Smaller, and graphs of ten variables lose more by a core than they gain; larger, and those of a hundred gain nothing."""
OVERHEAD_PER_EDGE = 200.0  # the same per edge of the core
SWEEPS = 8.0  # that a run takes at least; in fewer, a core would not pay
MOST_BYTES = 2**28  # of smaller tables, where nobody limits the memory; with more, only a part of what is free
PART_OF_FREE = 4
ROUNDING = 1e-13  # nats that a message moves if it is taken over as its logs, and sent anew
AT_ONCE = 2**18  # edges of graphs whose cores are made in one slice
SLICE_COST = 2**22  # entries read between two checks for Ctrl-C
PEELED_AT_ONCE = 2**16  # edges and factors that are looked at in a slice: each may cost a few trips to memory

BYTES = "bytes of a full run"  # under which a layout keeps them, for whole universes


class TableArrays(NamedTuple):
    """What it takes to plan smaller tables: (F,) each, as `WorkspaceArrays` has them."""

    kind: IndexArray
    structure_work: IndexArray
    in_logs: BoolArray
    address: IndexArray


class Reader(Protocol):
    """An object that may read messages later."""

    def keep(self) -> None:
        """Copy them, as they are about to change."""
        ...


class Leaves:
    """What hangs on the core of a workspace, and the passes over it.

    Attributes:
        arrays: For the kernels.
        order: Factors of the pass up: those of trees, leaves first, and then those of the core that have leaves.
        n_core_factors: Factors that are not in trees; none in a forest.
        constant: What trees and leaves add to log Z, but for the scales of tables and priors, as far as passed.
        core: Made once the pass up is through; None in a forest.
        is_through: Whether the pass up is.
        readers: Of messages as they are now, which are to be kept for them before the run goes on.
        reading: Held while somebody reads, or the run has messages kept.
    """

    def __init__(
        self, workspace: Workspace, order: IndexArray, arrays: LeafArrays, n_core_factors: int, n_lone: int
    ) -> None:
        """Stand before the pass up; `n_lone` variables have no message factor."""
        self.workspace = workspace
        self.arrays = arrays
        self.order = order
        self.n_core_factors = n_core_factors
        self._n_lone = n_lone
        self.constant = 0.0
        self.core: Core | None = None
        self._plan: Core | None = None
        self.is_through = False
        self._back = order[::-1].copy()
        self._n_up = 0
        self._tables: FloatArray | None = None
        self._final: WorkspaceArrays | None = None
        self.readers: list[Callable[[], Reader | None]] = []
        self.reading = RLock()

    def keep(self, tables: FloatArray) -> None:
        """Keep the numbers alive that `table_address` points to."""
        self._tables = tables

    def keep_for_readers(self) -> None:
        """Let those who have not read yet have the messages as they are."""
        with self.reading:
            for found in self.readers:
                reader = found()
                if reader is not None:
                    reader.keep()
            self.readers.clear()

    # ------------------------------------------------------------ up
    def pass_up(self, update_limit: int, cost_limit: int) -> tuple[int, int, int, int]:
        """Go on with the pass up, and make the core at its end.

        Returns:
            Status, what vanished, how many factors were passed, and the entries read.
        """
        before, stop = self._n_up, min(len(self.order), self._n_up + update_limit)
        status, culprit, self._n_up, work, constant = pass_slice(
            self.workspace.layout, self.workspace.arrays, self.arrays, self.order, UP, before, stop, cost_limit
        )
        self.constant += constant
        while status == OK and self._n_up == len(self.order) and not self.is_through:
            status, culprit = self._make_core()
            if len(self.arrays.way) > AT_ONCE:
                break
        return status, culprit, self._n_up - before, work

    def _make_core(self) -> tuple[int, int]:
        """Take a step towards the core after the pass up; return a status and the variable at fault."""
        layout, arrays = self.workspace.layout, self.workspace.arrays
        status, culprit, constant = OK, -1, 0.0
        if not self.n_core_factors:
            self.is_through = True
        elif self._plan is None:
            self._plan = lay_out_core(layout, arrays, self.arrays.way)
        elif self._plan.arrays is arrays:
            self._plan = with_arrays(self._plan, self.arrays)
        else:
            status, culprit, constant, self.core = filled_core(self._plan, layout, arrays, self.arrays.way)
            self.is_through = status == OK
        if self.is_through:
            self.constant += constant + (self._lone_variables() if self._n_lone else 0.0)
        return status, culprit

    def _lone_variables(self) -> float:
        """Return what variables without any message factor add to log Z."""
        layout, arrays = self.workspace.layout, self.workspace.arrays
        degree = layout.variable_edge_start[1:] - layout.variable_edge_start[:-1]
        prior = arrays.prior if arrays.arithmetic == LINEAR else np.exp(arrays.prior)
        total = np.add.reduceat(prior, arrays.variable_slot_start[:-1])
        return float(np.log(total[degree == 0]).sum())

    # ------------------------------------------------------------ what a start from other messages disturbs
    def disturbed(self, disturbed: IndexArray) -> IndexArray:
        """Return the core's factors that have to be updated, by their numbers there.

        Args:
            disturbed: Factors of the whole graph that have to, before the pass up.
        """
        layout, arrays, core = self.workspace.layout, self.workspace.arrays, self.core
        assert core is not None  # noqa: S101  (there are factors to update)
        has_news = np.zeros(len(arrays.domain_size), dtype=np.bool_)
        has_news[layout.edge_variable[(self.arrays.way == UP) & (arrays.edge_residual > ROUNDING)]] = True
        is_disturbed: BoolArray = np.zeros(len(arrays.factor_total), dtype=np.bool_)
        is_disturbed[disturbed] = True
        is_disturbed[layout.edge_factor[has_news[layout.edge_variable]]] = True
        found: IndexArray = np.flatnonzero(is_disturbed[core.factors])
        return found

    # ------------------------------------------------------------ down
    def all_arrays(self) -> WorkspaceArrays:
        """Return the arrays of the whole graph with what the core has of its own; to leaves nothing is sent yet."""
        self._put_back(self.workspace.arrays)
        return self.workspace.arrays

    def _put_back(self, arrays: WorkspaceArrays) -> None:
        """Write what the core has of its own into arrays of the whole graph."""
        core = self.core
        if core is not None:
            for name in ("edge_min", "edge_scale", "edge_residual"):
                getattr(arrays, name)[core.edges] = getattr(core.arrays, name)
            arrays.factor_total[core.factors] = core.arrays.factor_total

    def note_residuals(self) -> None:
        """Let the workspace know by how much messages in the core have moved."""
        core = self.core
        if core is not None:
            self.workspace.arrays.edge_residual[core.edges] = core.arrays.edge_residual

    def send_down(self, arrays: WorkspaceArrays) -> WorkspaceArrays:
        """Send to all leaves; return the arrays, or others in logs if linear arithmetic would lose something.

        Args:
            arrays: Of the whole graph, with those of the core put back; overwritten.
        """
        position, n = 0, len(self.order)
        leaves = self.arrays._replace(block=np.empty_like(self.arrays.block))  # any thread may ask
        while position < n:
            status, culprit, position, _, _ = pass_slice(
                self.workspace.layout, arrays, leaves, self._back, DOWN, position, n, SLICE_COST
            )
            if status == OUT_OF_RANGE and arrays.arithmetic == LINEAR:
                in_logs = _in_logs(self.workspace, arrays)
                return self.send_down(in_logs.arrays)
            if status == OUT_OF_RANGE:
                msg = "messages to leaves overflow: the scores are too far apart"
                raise AnytimeBPError(msg)
            if status != OK:
                raise self._impossible(status, culprit)
        return arrays

    def _impossible(self, status: int, culprit: int) -> InconsistentModelError:
        compiled = self.workspace.compiled
        layout = self.workspace.layout
        variable = culprit if status == VARIABLE_VANISHED else layout.edge_variable[layout.factor_edge_start[culprit]]
        name = compiled.variables.name(int(variable))
        return InconsistentModelError(f"no joint state is possible: messages exclude every state of variable {name!r}")

    def complete(self) -> bool:
        """Send to all leaves in place, so that every message of the workspace is what its factor would send.

        Nothing that the core reads is changed.

        Returns:
            Whether that is done; not where linear arithmetic would lose something.
        """
        arrays = self.all_arrays()
        return self.send_down(arrays) is arrays

    def final_arrays(self) -> WorkspaceArrays:
        """Return what `send_down` does, in place and once, for a run that is over. Any thread may ask."""
        with self.reading:
            if self._final is None:
                self._final = self.send_down(self.all_arrays())
            return self._final


def copied(layout: GraphLayout, arrays: WorkspaceArrays) -> WorkspaceArrays:
    """Return arrays that can be written to while others go on with those that they were taken from."""
    names = ("incoming", "outgoing", "weight", "prefix", "dots", "peak")
    made = frozen(arrays)._replace(**{name: np.empty_like(getattr(arrays, name)) for name in names})
    if len(arrays.structure_inputs):
        made = made._replace(structure_inputs=make_structure_inputs(layout, made))
    return made


def _in_logs(workspace: Workspace, arrays: WorkspaceArrays) -> Workspace:
    """Return the same messages in logs, with tables as log arithmetic needs them."""
    with np.errstate(divide="ignore", under="ignore"):
        domains = workspace.domains._replace(log_prior=np.log(arrays.prior))
        made = Workspace(workspace.compiled, domains, LOG, semiring=arrays.semiring)
        for _ in made.prepare():
            pass
        made.arrays.message[:] = np.log(arrays.message)
    for name in ("edge_min", "hub_high", "hub_low", "hub_zeros"):
        getattr(made.arrays, name)[:] = getattr(arrays, name)
    return made


class TreeOrder:
    """What hangs on the core of a graph, in the order in which it is peeled off.

    Attributes:
        order: (F,) the first `ordered` of them are the factors of trees, leaves first.
        n_open: (F,) open variables of a factor, -1 in trees.
        way: (E,) of the edges.
        is_needless: Whether nothing is looked for: the graph has loops, and is too small for a core of its own to pay.
    """

    def __init__(self, workspace: Workspace, *, may_be_needless: bool = False) -> None:
        """Find nothing yet; `may_be_needless` if a graph may stay whole where nothing else pays."""
        layout, sizes = workspace.layout, workspace.arrays.domain_size
        n_factors = len(layout.factor_edge_start) - 1
        self.is_needless = may_be_needless and _stays_whole(workspace)
        if self.is_needless:
            return
        self.order, self.n_open = np.empty(n_factors, dtype=np.int64), np.zeros(n_factors, dtype=np.int64)
        self.way = np.empty(len(layout.edge_variable), dtype=np.int64)
        n_left, left_key = np.zeros((2, len(sizes)), dtype=np.int64)
        self._state = np.zeros(5, dtype=np.int64)
        self._given = layout, sizes, self.order, n_left, left_key, self.n_open, self.way, self._state

    def advance(self) -> bool:
        """Go on for a slice; return whether all is found."""
        return self.is_needless or bool(peel_slice(*self._given, PEELED_AT_ONCE))

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many factors of trees there are, edges of the core, and variables without any edge."""
        _, _, ordered, n_core, linked = self._state.tolist()
        return ordered, n_core, len(self._given[1]) - linked


def _most_saved(workspace: Workspace) -> float:
    """Return the entries that a core could save a run at the most."""
    n_edges, n_factors = len(workspace.layout.edge_variable), len(workspace.layout.factor_edge_start) - 1
    return SWEEPS * (EDGE_COST * n_edges + LOG_COST * n_factors * workspace.tables.nbytes / 8)


def _stays_whole(workspace: Workspace) -> bool:
    """Tell whether a graph has so many edges that there must be loops, and no core of it would pay."""
    layout, sizes = workspace.layout, workspace.arrays.domain_size
    n_edges = len(layout.edge_variable)
    if not n_edges or n_edges < len(sizes) + len(layout.factor_edge_start) - 1:
        return False
    return _most_saved(workspace) < OVERHEAD and int(np.minimum.reduce(sizes)) > 1


def peel(
    workspace: Workspace,
    max_memory: int | None,
    load: Callable[[], object],
    trees: TreeOrder,
    *,
    at_any_cost: bool = False,
) -> Leaves | None:
    """Return what hangs on the core of a graph, or None where nothing does, or where it is not worth a core of its own.

    Args:
        workspace: Whose tables are there.
        max_memory: Bytes that the run may allocate.
        load: Loads the kernels for leaves; called before the first one is needed, not for a forest.
        trees: All found; its `way` is overwritten.
        at_any_cost: Whether to make a core even where that does not pay.
    """
    layout, arrays = workspace.layout, workspace.arrays
    if trees.is_needless:
        return None
    order, n_open, way = trees.order, trees.n_open, trees.way
    ordered, n_core, n_lone = trees.counts
    n_factors = len(order)
    address = np.zeros(n_factors, dtype=np.int64)
    if ordered == n_factors:
        none = np.empty(0)
        return Leaves(workspace, order, LeafArrays(way, address, none, none.astype(np.bool_), none, none), 0, n_lone)
    if n_core == len(way) or (_most_saved(workspace) < OVERHEAD and not at_any_cost):
        return None
    if _is_nearly_all_core(workspace, n_core) and not at_any_cost:
        return None
    load()
    table_start, limit = np.empty(n_factors, dtype=np.int64), _room(workspace, max_memory)
    tables = TableArrays(arrays.factor_kind, arrays.structure_work, arrays.table_in_logs, arrays.table_address)
    given = (layout, tables, arrays.domain_size, n_open)
    peeled = way.copy()
    total, scratch, whole, core, n_edges = plan_tables(*given, way, limit, table_start)
    if max_memory is None and 8 * total > MOST_BYTES:
        limit = max(MOST_BYTES, (available_memory() or 0) // PART_OF_FREE) // 8
        way = peeled
        total, scratch, whole, core, n_edges = plan_tables(*given, way, limit, table_start)
    pays = SWEEPS * (whole - core) >= OVERHEAD + OVERHEAD_PER_EDGE * n_edges
    if n_edges == len(way) or not (pays or at_any_cost):
        return None
    smaller = np.empty(total)
    has_leaves = np.flatnonzero(table_start >= 0)
    address[has_leaves] = smaller.ctypes.data + 8 * table_start[has_leaves]
    in_logs = np.zeros(n_factors, dtype=np.bool_)
    room = np.empty(2 * scratch), _block(workspace, has_leaves, limit - total)
    leaves = LeafArrays(way, address, np.ones(n_factors), in_logs, *room)
    made = Leaves(workspace, np.concatenate([order[:ordered], has_leaves]), leaves, n_factors - ordered, n_lone)
    made.keep(smaller)
    return made


def _is_nearly_all_core(workspace: Workspace, n_core: int) -> bool:
    """Tell whether so few edges are not in the core that it cannot pay, whatever their factors are."""
    compiled = workspace.compiled
    if not compiled.has_tables_only:
        return False
    largest = max((math.prod(map(float, block.source.shape)) for _, block in compiled.message_blocks), default=inf)
    most = SWEEPS * (EDGE_COST + LOG_COST * largest) * (compiled.n_edges - n_core)
    return most < OVERHEAD + OVERHEAD_PER_EDGE * n_core


def _block(workspace: Workspace, factors: IndexArray, limit: int) -> FloatArray:
    """Return scratch for factors that share a table of two ends and a leaf; none if no two do, or beyond a limit."""
    layout, arrays = workspace.layout, workspace.arrays
    first = layout.factor_edge_start[factors]
    first = first[layout.factor_edge_start[factors + 1] - first == EDGES]
    address = arrays.table_address[layout.edge_factor[first]]
    if not bool((address[1:] == address[:-1]).any()):
        return np.empty(0)
    n, m, n_leaf = (arrays.domain_size[layout.edge_variable[first + axis]] for axis in range(EDGES))
    size = int(block_size(n, m, n_leaf).max())
    return np.empty(size if size <= limit else 0)


def _room(workspace: Workspace, max_memory: int | None) -> int:
    """Return the entries that smaller tables may have in all, before it is known what they need."""
    if max_memory is None:
        return 2**62
    compiled, sizes = workspace.compiled, workspace.domains.sizes
    if sizes is not compiled.universe_sizes:
        return max(0, max_memory - full_bp_bytes(compiled.blocks, sizes)) // 8
    known = compiled.shared_tables.get(BYTES)
    if not isinstance(known, int):
        known = compiled.shared_tables[BYTES] = full_bp_bytes(compiled.blocks, sizes)
    return max(0, max_memory - known) // 8
