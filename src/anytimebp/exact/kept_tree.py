"""A tree of cliques that stays, and is calibrated again under other evidence (`kernels/kept_cliques.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.exact.passes import Joints
from anytimebp.exact.tree import Tree
from anytimebp.kernels.cliques import CliqueArrays
from anytimebp.kernels.codes import OK
from anytimebp.kernels.kept_cliques import answer, calibrate_slice
from anytimebp.kernels.kept_evidence import (
    DOWN,
    FREE,
    IN_LOGS,
    OTHERWISE,
    STALE,
    UP,
    KeptArrays,
    find_alike,
    observe,
    spoil,
)
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import Observation
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.store import Tables

NOBODY = np.empty(0, dtype=np.int64)


class KeptTree:
    """Cliques over all states of a graph, and what is known of them under the present evidence.

    Attributes:
        tree: The cliques.
        slot_start: (V + 1,) where a variable's states start in rows of beliefs.
        slot_state: These states; empty, as they are the universes.
        log_z: Of the model under the present evidence, once `is_done`.
        scratch: A number per slot, for whoever wants few of them.
    """

    def __init__(self, compiled: CompiledGraph, domains: Domains, tree: Tree, tables: Tables) -> None:
        """Keep a tree.

        Args:
            compiled: The graph.
            domains: All states; without evidence.
            tree: Over all states.
            tables: Of all factors over all states.
        """
        self._compiled, self.tree, self._sizes = compiled, tree, domains.sizes
        self.slot_start, self.slot_state = domains.slot_start, domains.slot_state
        n, n_variables = tree.n, len(domains.sizes)
        base = domains.log_prior
        held = domains._replace(log_prior=base.copy(), log_prior_min=domains.log_prior_min.copy())
        self._at, self._tables = _clique_arrays(compiled, held, tree, tables), tables
        self._constant = _observed_total(tree, tables) + float(tables.log_scale.sum())
        self._kept = KeptArrays(
            base=base,
            base_scale=domains.log_prior_scale,
            base_min=domains.log_prior_min,
            prior_scale=domains.log_prior_scale.copy(),
            seen=np.full(n_variables, FREE, dtype=np.int64),
            stamp=np.zeros(n_variables, dtype=np.int64),
            is_stale=np.ones(n, dtype=np.bool_),
            joint=np.empty(int(tree.arrays.table_start[n])),
            use=np.zeros(n, dtype=np.int64),
            product=np.empty(int(tree.arrays.table_start[n])),
            has_product=np.zeros(n, dtype=np.bool_),
            alike=np.empty(n, dtype=np.int64),
            shared=np.empty(tree.message_entries),
            is_summed=np.zeros(n, dtype=np.bool_),
            state=np.array([0, 0, 0, int(tree.entries)], dtype=np.int64),
        )
        find_alike(tree.arrays, n, self._kept.alike)
        self.scratch: FloatArray = np.ones(int(domains.slot_start[-1]))
        self._observed = NOBODY
        self._query = 0
        self.log_z = float("nan")

    # ------------------------------------------------------------ what is asked
    def observe(self, variables: Sequence[int], states: Sequence[int]) -> None:
        """Replace the evidence by observed states, one for each of some variables.

        Raises:
            InconsistentModelError: If unary factors exclude one of them; nothing has changed then.
        """
        self._query += 1
        own = np.array(variables, dtype=np.int64)
        culprit = observe(
            self.tree.arrays, self._at, self._kept, self._observed, own, np.array(states, dtype=np.int64), self._query
        )
        if culprit >= 0:
            raise self._impossible(int(culprit))
        self._observed = own

    def observe_otherwise(self, observed: dict[int, Observation]) -> None:
        """Replace the evidence by any: states, sets of them, and scores.

        Raises:
            InconsistentModelError: If unary factors exclude all that it leaves of a variable; nothing has changed then.
        """
        priors = {index: self._prior(index, seen) for index, seen in observed.items()}
        self.observe((), ())
        kept, at, cliques = self._kept, self._at, []
        for index, (prior, scale, least) in priors.items():
            at.log_prior[self.slot_start[index] : self.slot_start[index + 1]] = prior
            kept.prior_scale[index], at.log_prior_min[index], kept.seen[index] = scale, least, OTHERWISE
            cliques.append(int(self.tree.arrays.clique_of[index]))
        self._observed = np.array(list(observed), dtype=np.int64)
        spoil(self.tree.arrays, kept, np.array(cliques, dtype=np.int64))

    def _prior(self, index: int, seen: Observation) -> tuple[FloatArray, float, float]:
        """Return the log prior of a variable under evidence, what was subtracted from it, and its smallest number."""
        base = self._kept.base[self.slot_start[index] : self.slot_start[index + 1]]
        chosen = slice(None) if seen.states is None else seen.states
        own = base[chosen] if seen.log_scores is None else base[chosen] + seen.log_scores
        most = float(own.max())
        if most == -np.inf:
            raise self._impossible(index)
        prior = np.full(len(base), -np.inf)
        prior[chosen] = own - most
        return prior, float(self._kept.base_scale[index]) + most, float(prior[prior > -np.inf].min())

    def _impossible(self, index: int) -> InconsistentModelError:
        name = self._compiled.variables.name(index)
        msg = f"variable {name!r} has no possible state: its unary factors and evidence exclude each of them"
        return InconsistentModelError(msg)

    def answer(
        self, variables: list[int], states: list[int], wanted: IndexArray, belief: FloatArray, cost: int
    ) -> tuple[bool, int, int]:
        """Replace the evidence by observed states and calibrate, at once, if that reads few entries.

        Args:
            variables: Observed in one state each.
            states: These.
            wanted: As for `advance`.
            belief: As for `advance`.
            cost: Entries of stale cliques up to which that is done; `is_done` is False where there are more.

        Returns:
            Whether a joint state is possible, cliques passed, and entries read.

        Raises:
            InconsistentModelError: If unary factors exclude one of the states; nothing has changed then.
        """
        self._query += 1
        own = np.array(variables, dtype=np.int64)
        status, done, work, total, culprit = answer(
            self._compiled.arrays,
            self._sizes,
            self.tree.arrays,
            self._at,
            self._kept,
            self.tree.n,
            self._observed,
            own,
            np.array(states, dtype=np.int64),
            self._query,
            wanted,
            belief,
            cost,
        )
        if culprit >= 0:
            raise self._impossible(int(culprit))
        self._observed, self.log_z = own, total + self._constant
        return status == OK, done, work

    # ------------------------------------------------------------ another model
    def set_unary(self, index: int, log_scores: FloatArray) -> None:
        """Replace what unary factors say of a variable, with a possible state at the least; evidence on it is gone."""
        first, last, kept = int(self.slot_start[index]), int(self.slot_start[index + 1]), self._kept
        most = float(log_scores.max())
        kept.base[first:last] = own = log_scores - most
        kept.base_scale[index], kept.base_min[index] = most, own[own > -np.inf].min()
        self._at.log_prior[first:last] = own
        self._at.log_prior_min[index], kept.prior_scale[index] = kept.base_min[index], most
        kept.seen[index] = FREE
        spoil(self.tree.arrays, kept, self.tree.arrays.clique_of[index : index + 1])

    def set_tables(self, compiled: CompiledGraph, tables: Tables, changed: IndexArray) -> None:
        """Take other tables, of a graph of the same variables and scopes.

        Args:
            compiled: The graph.
            tables: Of all factors over all states.
            changed: Message factors whose numbers are not those of before.
        """
        tree, n = self.tree.arrays, self.tree.n
        self._compiled, self._tables = compiled, tables
        self._at = self._at._replace(**_clique_tables(compiled, tables))
        self._constant = _observed_total(self.tree, tables) + float(tables.log_scale.sum())
        self._kept.has_product[:] = False
        n_owned = int(tree.factor_start[n])
        owner = np.full(len(tables.address), -1)
        owner[tree.factor[:n_owned]] = np.repeat(np.arange(n), np.diff(tree.factor_start[: n + 1]))
        spoil(tree, self._kept, owner[changed])

    # ------------------------------------------------------------ the passes
    def begin(self) -> None:
        """Stand before the way up."""
        state = self._kept.state
        state[UP], state[DOWN] = 0, self.tree.n - 1
        self.log_z = float("nan")

    @property
    def is_done(self) -> bool:
        """Whether both ways are through."""
        return self.log_z == self.log_z

    @property
    def stale(self) -> int:
        """Entries of the cliques that changes have made stale."""
        return int(self._kept.state[STALE])

    @property
    def in_logs(self) -> bool:
        """Whether a clique was summed in logs."""
        return bool(self._kept.state[IN_LOGS])

    def advance(
        self, wanted: IndexArray, belief: FloatArray, updates: int, cost: int, *, with_joints: bool = False
    ) -> tuple[bool, int, int]:
        """Go on; return whether a joint state is possible as far as is known, cliques passed, and entries read.

        Args:
            wanted: Variables whose marginals are wanted; all, if there are none.
            belief: A number per slot; overwritten with the marginals of these, and of some others.
            updates: Cliques to pass at the most.
            cost: Entries to read, after which it stops.
            with_joints: Whether joint marginals are wanted, of all cliques.
        """
        status, done, work, total = calibrate_slice(
            self._compiled.arrays,
            self._sizes,
            self.tree.arrays,
            self._at,
            self._kept,
            self.tree.n,
            wanted,
            with_joints,
            belief,
            updates,
            cost,
        )
        self.log_z = total + self._constant
        return status == OK, done, work

    def joints(self) -> Joints:
        """Return the joint marginals of all cliques, as they are now; once the passes are through."""
        return Joints(self.tree.arrays, self._sizes, self._kept.joint.copy())


def _clique_arrays(compiled: CompiledGraph, domains: Domains, tree: Tree, tables: Tables) -> CliqueArrays:
    """Return room for the numbers of a tree."""
    scopes = tree.arrays.scope_start[: tree.n + 1]
    return CliqueArrays(
        **_clique_tables(compiled, tables),
        log_prior=domains.log_prior,
        slot_start=domains.slot_start,
        log_prior_min=domains.log_prior_min,
        table=np.empty(int(tree.arrays.table_start[tree.n])),
        message=np.empty(tree.message_entries),
        message_min=np.empty(tree.n),
        message_in_logs=np.empty(tree.n, dtype=np.bool_),
        scale=np.empty(tree.n),
        log_scale=np.zeros(tree.n),
        axes=np.empty((3, int((scopes[1:] - scopes[:-1]).max(initial=1))), dtype=np.int64),
        position=np.empty(tree.n, dtype=np.int64),
        ratio=np.empty(tree.largest_message),
        is_wanted=np.ones(tree.n, dtype=np.bool_),
        with_joints=True,
    )


def _clique_tables(compiled: CompiledGraph, tables: Tables) -> dict[str, Any]:
    """Return the fields of `CliqueArrays` that are about the tables of factors."""
    largest = np.where(tables.log_scale == 0.0, compiled.extent.log_max, 0.0)  # others are divided by it
    return {
        "address": tables.address,
        "log_min": tables.log_min,
        "log_max": np.fmax(largest, 0.0),
        "in_logs": tables.in_logs,
    }


def _observed_total(tree: Tree, tables: Tables) -> float:
    """Return the log scores of the factors whose variables have one state each."""
    factors = tree.arrays.factor[tree.arrays.factor_start[tree.n] :]
    return float(tables.log_min[factors].sum())  # a table of one possible entry is stored as 1, or as the user gave it
