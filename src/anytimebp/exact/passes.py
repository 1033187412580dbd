"""The two passes over a tree of cliques, in slices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree
from anytimebp.kernels.cliques import CliqueArrays, collect_slice, distribute_slice
from anytimebp.kernels.codes import OK, SUM
from anytimebp.kernels.junction_tree import TreeArrays, mark_wanted
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.model.variable import VariableTable
from anytimebp.results.marginals import Marginals
from anytimebp.tables.store import Tables


class Joints(NamedTuple):
    """Joint marginals of cliques.

    Attributes:
        tree: The cliques.
        sizes: (V,) domain sizes.
        table: The marginals, one after the other.
    """

    tree: TreeArrays
    sizes: IndexArray
    table: FloatArray

    def marginal(self, scope: list[int]) -> FloatArray:
        """Return the joint marginal of some variables of a factor over their domains, with their axes in this order."""
        tree, own = self.tree, [int(self.tree.clique_of[v]) for v in scope]
        free = sorted(clique for clique in own if clique >= 0)
        if not free:
            return np.ones([1] * len(scope))
        members = tree.scope[tree.scope_start[free[0]] : tree.scope_start[free[0] + 1]].tolist()
        table = self.table[tree.table_start[free[0]] : tree.table_start[free[0] + 1]]
        table = table.reshape(self.sizes[tree.variable[members]])
        summed = table.sum(axis=tuple(k for k, member in enumerate(members) if member not in free))
        axes = [free.index(clique) for clique in own if clique >= 0]
        marginal: FloatArray = summed.transpose(axes).reshape(self.sizes[scope])
        return marginal

    def marginals(self, scopes: IndexArray) -> FloatArray:
        """Return (n, ...) the joint marginals of factors, all of one shape; those of cliques that are alike at once.

        Args:
            scopes: (n, arity) variables.
        """
        tree, own, found = self.tree, self.tree.clique_of[scopes], np.empty((len(scopes), *self.sizes[scopes[0]]))
        first = np.where(own < 0, np.iinfo(np.int64).max, own).min(axis=1)
        is_whole = (own >= 0).all(axis=1)
        for k in np.flatnonzero(~is_whole).tolist():
            found[k] = self.marginal(scopes[k].tolist())
        n_members = np.zeros(len(scopes), dtype=np.int64)
        n_members[is_whole] = tree.scope_start[first[is_whole] + 1] - tree.scope_start[first[is_whole]]
        for n in np.unique(n_members[is_whole]).tolist():
            rows = np.flatnonzero(n_members == n)
            members = tree.scope[tree.scope_start[first[rows]][:, np.newaxis] + np.arange(n)]
            axes = (members[:, np.newaxis, :] == own[rows][:, :, np.newaxis]).argmax(axis=2)
            shape = self.sizes[tree.variable[members]]
            kinds, kind = np.unique(np.hstack([axes, shape]), axis=0, return_inverse=True)
            for number, row in enumerate(kinds):
                chosen = rows[kind.reshape(-1) == number]
                found[chosen] = self._of_kind(first[chosen], row[: scopes.shape[1]].tolist(), row[scopes.shape[1] :])
        return found

    def _of_kind(self, cliques: IndexArray, axes: list[int], shape: IndexArray) -> FloatArray:
        """Return the joint marginals of some axes, in this order, of cliques that have one shape."""
        entries = self.tree.table_start[cliques][:, np.newaxis] + np.arange(int(shape.prod()))
        table = self.table[entries].reshape(-1, *shape)
        summed = table.sum(axis=tuple(k + 1 for k in range(len(shape)) if k not in axes))
        order = np.argsort(np.argsort(axes))
        marginals: FloatArray = summed.transpose(0, *(1 + order))
        return marginals


class Room:
    """Memory that one tree after the other is put into: touching fresh memory takes longer than small cliques do."""

    def __init__(self) -> None:
        """Have none yet."""
        self._held: dict[str, FloatArray] = {}

    def take(self, name: str, n: int) -> FloatArray:
        """Return so many numbers, in which anything may stand; the same memory for the same name."""
        held = self._held.get(name)
        if held is None or len(held) < n:
            held = self._held[name] = np.empty(n + n // 2)
        return held[:n]


class PartFigures(NamedTuple):
    """Figures of P parts of a graph, once both passes are through.

    Attributes:
        log_z: (P,) log Z.
        entries: (P,) entries of the cliques.
        passed: (P,) cliques that were passed, up and down.
        read: (P,) entries that were read.
        in_logs: (P,) whether a clique was summed in logs.
    """

    log_z: FloatArray
    entries: FloatArray
    passed: IndexArray
    read: IndexArray
    in_logs: BoolArray


class Passes:
    """Numbers on a tree, on their way up and down.

    Attributes:
        tree: The cliques.
        belief: A number per slot: the marginals, once the passes are through.
        log_total: Logs of what messages were divided by; with the scales of tables and priors, log Z.
        in_logs: Whether a clique was summed in logs.
        is_possible: Whether a joint state is possible, as far as is known.
    """

    semiring = SUM

    def __init__(
        self,
        compiled: CompiledGraph,
        domains: Domains,
        part: Part,
        tree: Tree,
        tables: Tables,
        *,
        with_joints: bool = True,
        room: Room | None = None,
    ) -> None:
        """Make room.

        Args:
            compiled: The graph.
            domains: The active states.
            part: Of the graph, that is solved.
            tree: Of that part over these domains.
            tables: Of all factors, over these domains; none of them a structure.
            with_joints: Whether the tables of all cliques are wanted, and not only marginals of variables.
            room: For its tables, if others had it before, and nobody has it now.
        """
        self.tree, self._sizes, self._layout = tree, domains.sizes, part.layout
        self._tables = tables  # keeps the numbers alive
        scopes = tree.arrays.scope_start[: tree.n + 1]
        n_axes = int(np.maximum.reduce(scopes[1:] - scopes[:-1], initial=1))
        largest = np.where(tables.log_scale == 0.0, compiled.extent.log_max, 0.0)  # others are divided by it
        self._arrays = CliqueArrays(
            address=tables.address,
            log_min=tables.log_min,
            log_max=np.fmax(largest, 0.0),
            in_logs=tables.in_logs,
            log_prior=domains.log_prior,
            slot_start=domains.slot_start,
            log_prior_min=domains.log_prior_min,
            table=_taken(room, "table", int(tree.arrays.table_start[tree.n])),
            message=_taken(room, "message", tree.message_entries),
            message_min=np.empty(tree.n),
            message_in_logs=np.empty(tree.n, dtype=np.bool_),
            scale=np.empty(tree.n),
            log_scale=np.zeros(tree.n),
            axes=np.empty((3, n_axes), dtype=np.int64),
            position=np.empty(tree.n, dtype=np.int64),
            ratio=np.empty(tree.largest_message),
            is_wanted=np.ones(tree.n, dtype=np.bool_),
            with_joints=with_joints,
        )
        if part.targets is not None:
            mark_wanted(tree.arrays, part.targets, self._arrays.is_wanted)
        self.belief: FloatArray = np.ones(int(domains.slot_start[-1]))
        self._up, self._down = 0, tree.n - 1
        self.log_total, self.in_logs, self.is_possible = self._observed_total(), False, True

    def _observed_total(self) -> float:
        """Return the log scores of the factors whose variables are all observed; tables of one entry."""
        tree = self.tree.arrays
        factors, start = tree.factor[tree.factor_start[self.tree.n] :], self._layout.factor_edge_start
        factors = factors[start[factors + 1] > start[factors]]  # others are left out
        # a table of one possible entry is stored as 1, or as the user gave it
        return float(np.add.reduce(self._arrays.log_min[factors]))

    @property
    def is_up(self) -> bool:
        """Whether the way up is through."""
        return self._up == self.tree.n

    @property
    def is_done(self) -> bool:
        """Whether both passes are through."""
        return self.is_up and self._down < 0

    def advance(self, cliques: int, cost: int) -> tuple[int, int]:
        """Go on; return the cliques that were passed, and the entries that were read.

        Args:
            cliques: To pass at the most.
            cost: Entries to read, after which it stops.
        """
        arrays, tree = self._arrays, self.tree.arrays
        if not self.is_up:
            before, stop = self._up, min(self.tree.n, self._up + cliques)
            status, self._up, work, log_total, in_logs = collect_slice(
                self.semiring, self._layout, self._sizes, tree, arrays, self._up, stop, cost
            )
            self.log_total += log_total
            self.in_logs |= bool(in_logs)
            self.is_possible = status == OK
            return self._up - before, work
        before = self._down
        given = self.semiring, self._layout, self._sizes, tree, arrays, self.belief
        self._down, work = distribute_slice(*given, self._down, cost)
        return before - self._down, work

    def parts(self, part: IndexArray, n_parts: int, log_prior_scale: FloatArray) -> PartFigures:
        """Return the figures of some parts of the graph that no factor joins; once the passes are through.

        Args:
            part: (V,) the part that each variable is in.
            n_parts: How many there are.
            log_prior_scale: (V,) of the domains.
        """
        n, tree, at, layout = self.tree.n, self.tree.arrays, self._arrays, self._layout
        owner, of_factor = part[tree.variable[:n]], part[layout.edge_variable[layout.factor_edge_start[:-1]]]
        constant = self._tables.log_scale.copy()
        lone = tree.factor[tree.factor_start[n] :]
        constant[lone] += at.log_min[lone]
        log_z: FloatArray = np.zeros(n_parts)
        log_z += np.bincount(owner, at.log_scale[:n], n_parts)
        log_z += np.bincount(part, log_prior_scale, n_parts) + np.bincount(of_factor, constant, n_parts)
        size = np.diff(tree.table_start[: n + 1])
        return PartFigures(
            log_z=log_z,
            entries=np.bincount(owner, size, n_parts).astype(np.float64),
            passed=2 * np.bincount(owner, minlength=n_parts),
            read=np.bincount(owner, self._reads(size), n_parts).astype(np.int64),
            in_logs=np.bincount(owner, at.scale[:n] == 0.0, n_parts) > 0,
        )

    def _reads(self, size: IndexArray) -> IndexArray:
        """Return the entries that both passes read for each clique, as the kernels count them."""
        n, tree = self.tree.n, self.tree.arrays
        n_factors, parent = np.diff(tree.factor_start[: n + 1]), tree.parent[:n]
        has_parent = parent >= 0
        n_children = np.bincount(parent[has_parent], minlength=n)
        is_leaf = (n_factors == 1) & (n_children == 0) & (self._arrays.scale[:n] > 0.0) & (not self._arrays.with_joints)
        reads: IndexArray = size * (np.where(is_leaf, -1, n_factors + n_children) + 3)
        reads[has_parent] += size[parent[has_parent]]
        return reads

    def marginals(self, variables: VariableTable, domains: Domains, targets: IndexArray | None) -> Marginals:
        """Return the marginals of all variables, or of the targets; once the passes are through."""
        if targets is None:
            return Marginals(variables, self.belief, domains.slot_start, domains.slot_state)
        sizes = domains.sizes[targets]
        slots = row_items(domains.slot_start[targets], sizes)
        states = domains.slot_state[slots] if len(domains.slot_state) else domains.slot_state
        return Marginals(variables, self.belief[slots], row_starts(sizes), states, targets)

    def joints(self) -> Joints:
        """Return the joint marginals of all cliques; once the passes are through, `with_joints`."""
        return Joints(self.tree.arrays, self._sizes, self._arrays.table)


def _taken(room: Room | None, name: str, n: int) -> FloatArray:
    """Return so many numbers of a room, or new ones."""
    return np.empty(n) if room is None else room.take(name, n)
