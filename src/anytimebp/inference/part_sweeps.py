"""BP on many small graphs that are parts of one, in one call of a kernel: the sweeps of a run on each of them alone.

A part is left to a run of its own where that would not begin with plain sweeps over all its factors, or over its core,
or is not over within a few of them. Runs that are free in their schedule stay here until they settle or are given up.
What is answered here is what a run of `bp` would have answered, to the last bit, unless sweeps are damped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.inference.all_states import UNWATCHED
from anytimebp.inference.control.damping import STEPS, WINDOW, Damper
from anytimebp.inference.schedule.protocol import Messages
from anytimebp.inference.schedule.sweeps import no_news, there_and_back
from anytimebp.kernels.bands import LEAST_ENTRIES
from anytimebp.kernels.codes import CORE, DOWN, LINEAR, MAX_LINEAR_RANGE, OK, UP
from anytimebp.kernels.messages import EDGE_COST, LOG_COST
from anytimebp.kernels.parts import sweep_parts
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_starts
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.leaves import OVERHEAD, OVERHEAD_PER_EDGE, SLICE_COST, SWEEPS, Leaves, TreeOrder, peel
from anytimebp.tables.workspace import Workspace

PARTS = "many graphs as parts of one"  # the kernels that only this needs
MOST_SWEEPS = min(UNWATCHED, WINDOW) - 1  # that a run makes before it may damp messages, or follows beliefs
AT_ONCE = 32  # parts between two moments in which Ctrl-C is heard


class Parts(NamedTuple):
    """P parts of a graph, each with variables, factors and edges that stand together.

    Attributes:
        variables: (P + 1,) where the variables of a part start.
        factors: (P + 1,) the same of its message factors.
        edges: (P + 1,) the same of its edges.
    """

    variables: IndexArray
    factors: IndexArray
    edges: IndexArray

    @classmethod
    def of(cls, layout: GraphLayout, variables: IndexArray) -> Parts:
        """Return the parts of a graph, given where their variables start."""
        owner = np.searchsorted(variables, layout.edge_variable[layout.factor_edge_start[:-1]], side="right") - 1
        factors = row_starts(np.bincount(owner, minlength=len(variables) - 1))
        return cls(variables, factors, layout.factor_edge_start[factors])

    def layout(self, whole: GraphLayout, part: int) -> GraphLayout:
        """Return the topology of one part, numbered for itself."""
        (v, v_end), (f, f_end), (e, e_end) = ((start[part], start[part + 1]) for start in self)
        return GraphLayout(
            factor_edge_start=whole.factor_edge_start[f : f_end + 1] - e,
            edge_variable=whole.edge_variable[e:e_end] - v,
            edge_factor=whole.edge_factor[e:e_end] - f,
            variable_edge_start=whole.variable_edge_start[v : v_end + 1] - e,
            variable_edge=whole.variable_edge[e:e_end] - e,
        )


class PartSweeps(NamedTuple):
    """What sweeps over parts have come to.

    Attributes:
        workspace: Messages of all parts.
        whole: Where they are.
        messages: That were swept over: the workspace, or its core.
        parts: Where they are in that.
        is_over: (P,) which have settled, or do not settle even with damping; of others nothing is known.
        is_settled: (P,) which have settled.
        figures: Of each part, (sweeps, 3): entries read, the largest residual, and the sum of residuals.
        pending: (P,) a bound on what another sweep would move.
        damping: (P,) of the last sweep.
        leaves: That were summed into the core, if there is one.
        passed: (P, 2) factors whose leaves were summed out before the first sweep, and the entries read for that.
        constant: (P,) what leaves add to log Z.
    """

    workspace: Workspace
    whole: Parts
    messages: Messages
    parts: Parts
    is_over: BoolArray
    is_settled: BoolArray
    figures: list[FloatArray]
    pending: FloatArray
    damping: FloatArray
    leaves: Leaves | None
    passed: IndexArray
    constant: FloatArray


class _Messages(NamedTuple):
    """Messages of one part, as who watches them sees those of a run."""

    layout: GraphLayout
    arrays: WorkspaceArrays


class Stage(NamedTuple):
    """Sweeps with one damping, after which a part that has not settled goes on to the next stage."""

    most_sweeps: int
    damping: float


AS_ALONE = (Stage(MOST_SWEEPS, 0.0),)  # what a run of `bp` would do in any case
STUBBORN = (Stage(2 * WINDOW, 0.0), Stage(5 * WINDOW, STEPS[1]), Stage(10 * WINDOW, STEPS[2]))
"""For runs that are free in their schedule: most that oscillate settle with the first damping. The few that do not are
watched one by one."""
NO_SWEEPS = np.empty((0, 3))


def sweep_all_parts(
    compiled: CompiledGraph, domains: Domains, variables: IndexArray, tolerance: float, most_sweeps: int = MOST_SWEEPS
) -> PartSweeps:
    """Sweep over the parts of a graph that has tables only, until each has settled.

    Args:
        compiled: The graph.
        domains: All states that the evidence allows; owned.
        variables: (P + 1,) where the variables of a part start.
        tolerance: Residual of a message that has settled.
        most_sweeps: After which a part is given up.
    """
    parts = Parts.of(compiled.arrays, variables)
    is_linear = _is_linear(compiled, domains, parts)  # before priors are made of log priors
    workspace = Workspace(compiled, domains, LINEAR)
    for _ in workspace.prepare():
        pass
    is_plain, n = is_linear & _are_plain(workspace, parts), len(variables) - 1
    given = workspace, parts, workspace, parts, is_plain
    return _swept(given, tolerance, (Stage(most_sweeps, 0.0),), None, np.zeros((n, 2), dtype=np.int64), np.zeros(n))


def sweep_all_cores(
    compiled: CompiledGraph, domains: Domains, variables: IndexArray, tolerance: float, *, is_free: bool
) -> PartSweeps | BoolArray:
    """Do the same where the leaves of all parts are summed out of their tables first, and cores are swept over.

    Args:
        compiled: The graph.
        domains: All states that the evidence allows; owned.
        variables: (P + 1,) where the variables of a part start.
        tolerance: Residual of a message that has settled.
        is_free: Whether runs are free in how they get to a fixed point; otherwise they sweep as a run of `bp` alone.

    Returns:
        What they have come to; or (P,) which parts it can be done with, where there are others.
    """
    whole = Parts.of(compiled.arrays, variables)
    is_linear = _is_linear(compiled, domains, whole)
    workspace = Workspace(compiled, domains, LINEAR)
    for _ in workspace.prepare():
        pass
    trees = TreeOrder(workspace)
    while not trees.advance():
        pass
    leaves = peel(workspace, None, _loaded, trees, at_any_cost=True)
    may_be = is_linear & _have_cores(workspace, whole, leaves)
    if leaves is None or not may_be.all():
        return may_be
    passed, constant = _pass_up(leaves, whole)
    core = leaves.core
    if core is None:
        return np.zeros_like(may_be)
    parts = Parts.of(core.layout, np.searchsorted(core.variables, variables))
    is_plain = ~_may_have_bands(core.layout, core.arrays, parts)
    given = workspace, whole, core, parts, is_plain
    stages = STUBBORN if is_free else AS_ALONE
    return _swept(given, tolerance, stages, leaves, passed, constant, to_the_end=is_free)


class _Sweeper:
    """Sweeps over parts of a graph, all of them or some, and knows what each has come to.

    Attributes:
        left: (P,) parts that have neither settled nor failed.
        is_settled: (P,) which have.
        damping: (P,) of the last sweep.
        pending: (P,) a bound on what another sweep would move.
    """

    def __init__(self, messages: Messages, parts: Parts, left: BoolArray, tolerance: float) -> None:
        layout, n = messages.layout, len(left)
        self._messages, self._parts, self._tolerance = messages, parts, tolerance
        self.left, self.is_settled = left, np.zeros_like(left)
        self.damping, self.pending = np.zeros(n), np.full(n, np.inf)
        self._figures: list[list[FloatArray]] = [[] for _ in range(n)]
        self._order, self._moved = there_and_back(layout)[0], np.empty(len(layout.variable_edge_start) - 1)
        self._orders = np.empty(2 * (len(layout.factor_edge_start) - 1), dtype=np.int64)
        self._arity = _largest(np.diff(layout.factor_edge_start), parts.factors)  # on which depends what is news
        arities = np.unique(self._arity[left]).tolist()
        self._news = {most: no_news(layout, tolerance, int(most)) for most in arities}

    def sweep(self, chosen: IndexArray, most_sweeps: int, damping: float) -> None:
        """Sweep over some parts until each has settled, or all sweeps are made."""
        n, layout, arrays = len(self.left), self._messages.layout, self._messages.arrays
        made, endings = np.zeros((n, most_sweeps, 3)), np.zeros((n, 2), dtype=np.int64)
        for most, news in self._news.items():
            some = chosen[self._arity[chosen] == most]
            for few in np.array_split(some, len(some) // AT_ONCE) if len(some) > AT_ONCE else [some]:
                own = layout, arrays, news, few, self._order, self._parts.factors, damping, self._tolerance
                sweep_parts(*own, made, self._moved, self._orders, endings, self.pending)
        for k, (status, n_sweeps) in zip(chosen.tolist(), endings[chosen].tolist(), strict=True):
            self._figures[k].append(made[k, :n_sweeps].copy())  # not all of the others' as well
            self.is_settled[k] = status == OK and self.pending[k] <= self._tolerance
            self.left[k] = status == OK and not self.is_settled[k]
            if n_sweeps % 2 and self.left[k]:  # the next one goes the other way
                own_factors = slice(self._parts.factors[k], self._parts.factors[k + 1])
                self._order[own_factors] = self._order[own_factors][::-1].copy()
        self.damping[chosen] = damping

    def watch(self, part: int) -> None:
        """Sweep over a part as a run on it would: damp it where it goes to and fro, until it settles or is hopeless."""
        damper = Damper(0.0, self._messages_of(part), self._tolerance)
        while self.left[part]:
            done = len(self._figures[part])
            self.sweep(np.array([part]), damper.quiet_sweeps, damper.damping)
            residuals = self._figures[part][done][:, 1].tolist()
            if self.left[part] and any(damper.hopeless(residual) for residual in residuals):
                return

    def _messages_of(self, part: int) -> _Messages:
        """Return the messages of a part alone."""
        arrays, (first, last) = self._messages.arrays, self._parts.edges[part : part + 2].tolist()
        start = arrays.edge_slot_start
        end = int(start[last]) if last < len(start) else len(arrays.message)
        own = arrays._replace(
            message=arrays.message[start[first] : end],
            edge_slot_start=start[first:last] - start[first],
            edge_residual=arrays.edge_residual[first:last],
        )
        return _Messages(self._parts.layout(self._messages.layout, part), own)

    @property
    def figures(self) -> list[FloatArray]:
        """Of each part, (sweeps, 3) figures of all its sweeps."""
        return [own[0] if len(own) == 1 else np.concatenate([*own, NO_SWEEPS]) for own in self._figures]


def _swept(
    given: tuple[Workspace, Parts, Messages, Parts, BoolArray],
    tolerance: float,
    stages: Sequence[Stage],
    leaves: Leaves | None,
    passed: IndexArray,
    constant: FloatArray,
    *,
    to_the_end: bool = False,
) -> PartSweeps:
    """Sweep over parts, stage after stage, and over those that are left to the end, if that is wanted.

    Other arguments are as in `PartSweeps`, and (P,) which of the parts to sweep over.
    """
    workspace, whole, messages, parts, left = given
    sweeper = _Sweeper(messages, parts, left, tolerance)
    for stage in stages:
        sweeper.sweep(np.flatnonzero(sweeper.left), stage.most_sweeps, stage.damping)
    for part in np.flatnonzero(sweeper.left).tolist() if to_the_end else ():
        sweeper.watch(part)
    return PartSweeps(
        workspace=workspace,
        whole=whole,
        messages=messages,
        parts=parts,
        is_over=sweeper.is_settled | (sweeper.left & to_the_end),
        is_settled=sweeper.is_settled,
        figures=sweeper.figures,
        pending=sweeper.pending,
        damping=sweeper.damping,
        leaves=leaves,
        passed=passed,
        constant=constant,
    )


def _loaded() -> None:
    """Do nothing: whoever sweeps over cores has loaded the kernels for leaves."""


def _have_cores(workspace: Workspace, parts: Parts, leaves: Leaves | None) -> BoolArray:
    """Tell which parts a run would make a core of, by summing out leaves alone: no trees, and no lone variables."""
    layout, n = workspace.layout, len(parts.variables) - 1
    if leaves is None:
        return np.zeros(n, dtype=np.bool_)
    way, first = leaves.arrays.way, layout.factor_edge_start[:-1]
    size = workspace.arrays.domain_size[layout.edge_variable].astype(np.float64)
    entries = np.multiply.reduceat(size, first)
    saved = entries - np.multiply.reduceat(np.where(way == DOWN, 1.0, size), first)
    saved[leaves.arrays.table_address == 0] = 0.0
    made = np.append(0.0, np.cumsum(saved))[parts.factors]
    ways = np.stack([np.append(0, np.cumsum(way == kind))[parts.edges] for kind in (CORE, UP)])
    (n_core, n_up), n_edges = np.diff(ways), np.diff(parts.edges)
    pays = SWEEPS * (np.diff(made) + EDGE_COST * (n_edges - n_core)) >= OVERHEAD + OVERHEAD_PER_EDGE * n_core
    is_lone = np.diff(layout.variable_edge_start) == 0
    n_lone = np.diff(np.append(0, np.cumsum(is_lone))[parts.variables])
    of_tree = np.ones(len(first), dtype=np.bool_)
    of_tree[layout.edge_factor[way == CORE]] = False
    n_trees = np.diff(np.append(0, np.cumsum(of_tree))[parts.factors])
    found: BoolArray = (n_core > 0) & (n_up == 0) & (n_lone == 0) & (n_trees == 0) & pays
    return found


def _pass_up(leaves: Leaves, parts: Parts) -> tuple[IndexArray, FloatArray]:
    """Sum out the leaves, part after part; return the factors of each and the entries read, and what it adds to log Z.

    There is no core afterwards if linear arithmetic would lose something, or no joint state is possible.
    """
    n = np.diff(np.searchsorted(leaves.order, parts.factors))  # the order rises, as there are no trees
    passed, constant = np.zeros((len(n), 2), dtype=np.int64), np.zeros(len(n))
    for k, most in enumerate(n.tolist()):
        leaves.constant = 0.0  # as in a run on this part alone
        while passed[k, 0] < most:
            status, _, updates, work = leaves.pass_up(int(most - passed[k, 0]), SLICE_COST)
            if status != OK:
                return passed, constant
            passed[k] += updates, work
        constant[k] = leaves.constant
    while not leaves.is_through and leaves.pass_up(0, SLICE_COST)[0] == OK:
        pass
    return passed, constant


def _is_linear(compiled: CompiledGraph, domains: Domains, parts: Parts) -> BoolArray:
    """Tell which parts begin in linear arithmetic when they are alone."""
    widest = _largest(compiled.extent.log_max - compiled.extent.log_min, parts.factors)
    least = _largest(-domains.log_prior_min, parts.variables)
    found: BoolArray = (widest <= MAX_LINEAR_RANGE) & (least <= MAX_LINEAR_RANGE)
    return found


def _are_plain(workspace: Workspace, parts: Parts) -> BoolArray:
    """Tell which parts a run makes plain sweeps over: with loops, and without leaves, or so small that these stay."""
    layout, arrays, trees = workspace.layout, workspace.arrays, TreeOrder(workspace)
    while not trees.advance():
        pass
    in_core = np.add.reduceat(np.append(trees.way == CORE, 0), parts.edges[:-1])
    n_edges, n_factors = np.diff(parts.edges), np.diff(parts.factors)
    made = np.append(0.0, np.cumsum(_entries(layout, arrays)))[parts.factors]
    most_saved = SWEEPS * (EDGE_COST * n_edges + LOG_COST * n_factors * (made[1:] - made[:-1]))
    has_loops = (n_edges > 0) & (in_core > 0)
    is_small = (in_core == n_edges) | (most_saved < OVERHEAD)
    found: BoolArray = has_loops & is_small & ~_may_have_bands(layout, arrays, parts)
    return found


def _entries(layout: GraphLayout, arrays: WorkspaceArrays) -> FloatArray:
    """Return (F,) the entries of factors' tables."""
    size = arrays.domain_size[layout.edge_variable].astype(np.float64)
    return np.multiply.reduceat(size, layout.factor_edge_start[:-1]) if len(size) else size


def _may_have_bands(layout: GraphLayout, arrays: WorkspaceArrays, parts: Parts) -> BoolArray:
    """Tell which parts have tables with zeros that a run looks for bands in."""
    entries = np.where(arrays.table_has_zero, _entries(layout, arrays), 0.0)
    found: BoolArray = _largest(entries, parts.factors) >= LEAST_ENTRIES
    return found


def _largest(values: FloatArray | IndexArray, start: IndexArray) -> FloatArray:
    """Return the largest of each part's values, at least 0."""
    found: FloatArray = np.zeros(len(start) - 1)
    np.maximum.at(found, np.repeat(np.arange(len(found)), np.diff(start)), values)
    return found
