"""What a session has from earlier queries, and the queries that it answers without setting a run up.

A run looks at the clock and at Ctrl-C between its slices. A query without a budget that takes about a millisecond at
the most needs neither, and setting a run up would take longer than answering many of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import no_joint_state
from anytimebp.exact.calibrated import CalibratedTree
from anytimebp.exact.kept_tree import NOBODY, KeptTree
from anytimebp.exact.tree import Tree
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.figures import UNLIMITED
from anytimebp.inference.kept_exact import Evidence, TargetSlots
from anytimebp.inference.staying import Staying
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.factor_marginals import NOT_ASKED_FOR
from anytimebp.results.marginals import Marginals
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace

AT_ONCE = 2**15  # entries of stale cliques: with four times as many read, at most a tenth of a millisecond
MOST_TARGETS = 2**12  # different ones of which it is kept where they are
CHOICE = "a kept junction tree: little of it was out of date"
ADDED = "a kept junction tree: calibrated under {} observations, to which {} were added"
AT_THE_END = {
    "max_residual": 0.0,
    "mean_residual": 0.0,
    "outside": 0.0,
    "error": 0.0,
    "consistent": True,
    "method": "exact",
    "damping": 0.0,
    "exact": True,
    "factor_marginals": NOT_ASKED_FOR,
}
"""What holds of every answer that is given at once."""


@dataclass
class Kept:
    """What a session has from earlier queries.

    Attributes:
        compiled: The graph to which all belongs; None before the first query.
        tree: Cliques, where they are kept.
        plan: Of cliques over all states; None where they are not worth keeping, or before the first query.
        reason: Why cliques are kept, or not.
        unary: Log scores in place of unary factors, by variable.
        changed: Factors of the graph that have other tables than `compiled`.
        changed_before: The same, of the query that is under way.
        messages: A run on all states whose messages have settled.
        seen: Its evidence, as log scores by variable.
        priors: All states with their priors, without evidence; None before somebody needs them.
        cold_updates: Of the last run from nothing.
        too_many: Factors that changes disturb, from which on starting from messages has not paid.
        targets: Where the marginals of earlier targets are in the beliefs of `tree`.
        staying: Observations that stay, and cliques that are calibrated under them.
        is_exact: Whether the session's method may be exact, so that cliques are worth keeping.
    """

    compiled: CompiledGraph | None = None
    tree: KeptTree | None = None
    plan: Tree | None = None
    reason: str = ""
    unary: dict[int, FloatArray] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    changed_before: set[int] = field(default_factory=set)
    messages: AllStates | None = None
    seen: dict[int, FloatArray] = field(default_factory=dict)
    priors: Domains | None = None
    cold_updates: int = 0
    too_many: int = UNLIMITED
    targets: dict[bytes, TargetSlots] = field(default_factory=dict)
    staying: Staying = field(default_factory=Staying)
    is_exact: bool = True

    def drop(self) -> None:
        """Forget everything but the model."""
        self.compiled = self.tree = self.plan = self.messages = self.priors = None
        self.too_many = UNLIMITED
        self.changed.clear()
        self.targets.clear()
        self.staying.drop_tree()

    def set_unary(self, index: int, log_scores: FloatArray) -> None:
        """Replace what unary factors say of a variable."""
        self.unary[index] = log_scores
        self.priors = None
        self.staying.drop_tree()
        if self.tree is not None:
            self.tree.set_unary(index, log_scores)

    @property
    def is_small(self) -> bool:
        """Whether the kept cliques are so small that all of them are passed at once."""
        return self.tree is not None and self.tree.tree.entries <= AT_ONCE

    @property
    def may_calibrate(self) -> bool:
        """Whether cliques may be worth calibrating under what stays observed."""
        return self.is_exact and not self.is_small

    def answer_at_once(
        self, graph: FactorGraph, evidence: Evidence, targets: IndexArray | None, tolerance: float
    ) -> Result | None:
        """Answer a query on a tree that is kept, if that takes so little that no run is worth setting up.

        The evidence is in the tree afterwards; where the answer is None, both ways through it are still to go.

        Raises:
            InconsistentModelError: If no joint state is possible.
        """
        graph.take_changes()
        if self.may_calibrate:
            self.staying.note(evidence)
        if self.compiled is None or self.compiled is not graph.compiled:
            return None
        calibrated = self.staying.tree
        if calibrated is not None:
            added = self.staying.added(evidence)
            if self.staying.wanted() is not None:
                return None  # a run is worth setting up, which makes another one
            if added is not None:
                answer = _Answer(self.compiled, calibrated, evidence, tolerance)
                found = answer.of_calibrated(calibrated, added, targets)
                if found is not None:
                    return found
        tree = self.tree
        if tree is None or (targets is None and not self.is_small):
            return None
        positions = None if targets is None else self.positions(targets, tree)
        return _Answer(self.compiled, tree, evidence, tolerance).of_kept(tree, positions)

    def positions(self, targets: IndexArray, tree: KeptTree) -> TargetSlots:
        """Return where the marginals of some variables are in the beliefs of a tree."""
        key = targets.tobytes()
        found = self.targets.get(key)
        if found is None:
            if len(self.targets) >= MOST_TARGETS:
                self.targets.clear()
            found = self.targets[key] = TargetSlots.of(targets, tree.slot_start)
        return found


class _Answer:
    """The answer of a tree to a query, without looking at the clock or Ctrl-C in between."""

    def __init__(
        self, compiled: CompiledGraph, tree: KeptTree | CalibratedTree, evidence: Evidence, tolerance: float
    ) -> None:
        self._began = perf_counter()
        self._compiled, self._tree, self._evidence, self._tolerance = compiled, tree, evidence, tolerance

    def of_kept(self, tree: KeptTree, targets: TargetSlots | None) -> Result | None:
        """Return the answer of cliques that are kept; None where it may take too long."""
        belief, wanted = self._room(targets)
        seen = self._evidence
        is_possible, updates, work = tree.answer(seen.variables, seen.states, wanted, belief, AT_ONCE)
        if not is_possible:
            raise no_joint_state(is_observed=bool(seen.variables))
        return self._result(belief, targets, updates, work, CHOICE) if tree.is_done else None

    def of_calibrated(self, tree: CalibratedTree, added: dict[int, int], targets: IndexArray | None) -> Result | None:
        """Return the answer of calibrated cliques; None where numbers may have been lost, or nothing is possible."""
        positions = None if targets is None else TargetSlots.of(targets, tree.slot_start, tree.slot_state)
        belief, wanted = self._room(positions)
        is_possible, updates, work = tree.answer(added, wanted, belief)
        if not is_possible:
            return None
        choice = ADDED.format(len(self._evidence.variables) - len(added), len(added))
        return self._result(belief, positions, updates, work, choice)

    def _room(self, targets: TargetSlots | None) -> tuple[FloatArray, IndexArray]:
        """Return where marginals go, and the variables whose marginals are wanted."""
        if targets is None:
            return np.ones(int(self._tree.slot_start[-1])), NOBODY
        return self._tree.scratch, targets.variables

    def _result(self, belief: FloatArray, targets: TargetSlots | None, updates: int, work: int, choice: str) -> Result:
        """Return a result of what the tree has come to."""
        compiled, tree = self._compiled, self._tree
        if targets is None:
            marginals = Marginals(compiled.variables, belief, tree.slot_start, tree.slot_state)
        else:
            marginals = targets.marginals(compiled.variables, belief)
        seconds, log_z = perf_counter() - self._began, tree.log_z
        held = {
            **AT_THE_END,
            "marginals": marginals,
            "log_z": log_z,
            "domain_sizes": read_only(self._evidence.sizes(compiled.universe_sizes)),
            "seconds": seconds,
            "updates": updates,
            "work_parts": {"messages": work, "scoring": 0, "growth": 0, "priorities": 0},
            "tolerance": self._tolerance,
            "arithmetic": "log" if tree.in_logs else "linear",
            "choice": choice,
            "cost": tree.tree.entries,
        }
        moment = Moment(seconds, updates, work, 0.0, 0.0, 0.0, len(belief), log_z, 0.0, choice)
        current = Snapshot.holding(**held)
        return Result.holding(**held, stop_reason=StopReason.CONVERGED, trace=Trace((moment,)), current=current)
