"""One query of a session: which way it goes, warm or cold, and what it leaves for the next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from anytimebp.domains.domains import full_domains
from anytimebp.errors import MemoryLimitError
from anytimebp.exact.cost import plan_within
from anytimebp.exact.kept_tree import KeptTree
from anytimebp.exact.tree import Tree, plan
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.auto_run import CHEAP, AutoRun, bp_cost, choose
from anytimebp.inference.kept import Kept
from anytimebp.inference.kept_exact import KEPT, Evidence, KeptExactRun, make_all_tables, make_kept_tree
from anytimebp.inference.method import Method, Step, Task
from anytimebp.inference.methods import FULL_METHODS
from anytimebp.inference.new_method import make_method
from anytimebp.inference.readout import prior_snapshot
from anytimebp.inference.staying import make_calibrated
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.model.source import FloatArray, read_only
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.carry_over import Start
from anytimebp.tables.memory import update_entries

SETTING_UP, TABLES = 2.0**20, 8.0
"""What a run from nothing costs before its first clique, in entries that could be read in the time: in any case, and
per entry of a table that evidence may cut."""
MOST_KEPT = 2.0**24  # entries of all cliques that are kept, twice, of method "exact"
WORTH_A_START = 2.0**20  # entries that could be read in the time of BP's usual sweeps: some tenths of a millisecond
FEW_DISTURBED, SOME_DISTURBED = 100, 8
"""Times as many factors as are disturbed, from which on updates one by one beat sweeps, and these runs from nothing."""
ONE_BY_ONE, BY_SWEEPS = 2.0, 1.0  # costs of an update that a heap has picked, and of one in a sweep
PART_LEFT = 0.7  # of the entries of all tables: where evidence leaves fewer, a run on what is left is faster
PASSES_DOWN = 2.0  # entries read on the way down, for each entry of a clique


def _changed_keys(now: dict[int, FloatArray], before: dict[int, FloatArray]) -> list[int]:
    """Return the variables of which two queries have not observed the same."""
    return [
        index
        for index in {*now, *before}
        if index not in now or index not in before or not np.array_equal(now[index], before[index])
    ]


class SessionRun:
    """A query.

    Attributes:
        now: What is at work; None before it is chosen.
    """

    def __init__(self, task: Task, kept: Kept, evidence: Evidence) -> None:
        """Choose nothing yet.

        Args:
            task: What is to be done; its options have the targets, but no evidence.
            kept: Of earlier queries; written to.
            evidence: Of this one.
        """
        self._task, self._kept, self._evidence, self._targets = task, kept, evidence, task.options.targets
        self.now: Method | None = None
        self._is_warm = False  # whether messages of the last query are at work
        self._seen: dict[int, FloatArray] | None = None  # the evidence, as log scores by variable
        self._n_disturbed, self._cost = 0, 0.0  # factors that changes disturb, and the cost of an update

    # ------------------------------------------------------------ the choice
    def begin(self) -> Iterator[Step]:
        """Choose, and let what was chosen begin."""
        kept, compiled = self._kept, compiled_graph(self._task.graph)
        if kept.compiled is not compiled:
            yield from self._take_graph(compiled)
        else:
            kept.changed_before.clear()
        if kept.plan is not None and kept.tree is None:
            kept.tree = yield from make_kept_tree(self._task, compiled, kept.plan, kept.unary)
        while kept.messages is not None and not self._task.load("residual"):
            yield Step.WORKING
        why = self._begin_messages(compiled) if kept.tree is None else self._observe(compiled, kept.tree)
        if why:
            self.now = self._cold(why)
        yield from self._current.begin()

    def _begin_messages(self, compiled: CompiledGraph) -> str:
        """Start from the messages of the last query; or return why not."""
        kept, options, evidence = self._kept, self._task.options, self._evidence
        old, kept.messages = kept.messages, None
        if options.method not in {"auto", "adaptive", *FULL_METHODS}:
            return f"method {options.method!r} keeps nothing"
        if old is None:
            return "no messages are kept of a query before"
        if bp_cost(compiled, compiled.universe_sizes) < WORTH_A_START:
            return "sweeps over so small a graph take no longer than finding out what has changed"
        sizes = evidence.sizes(compiled.universe_sizes)
        left, whole = update_entries(compiled, sizes), update_entries(compiled, compiled.universe_sizes)
        if left < PART_LEFT * whole:
            return f"evidence leaves {left:,.0f} of {whole:,.0f} entries of tables"
        return self._start_from(old, compiled)

    def _start_from(self, old: AllStates, compiled: CompiledGraph) -> str:
        """Start from messages that have settled: with the factors that changes disturb, or by sweeps if these are many.

        Return why not, where they are very many.
        """
        kept, options, figures = self._kept, self._task.options, self._task.figures
        changed = [compiled.message_factor(factor) for factor in kept.changed_before]
        tables = np.array([factor for factor in changed if factor >= 0], dtype=np.int64)
        seen = self._as_unary(compiled)
        n_disturbed = self._n_disturbed = len(tables) + self._degree(compiled, _changed_keys(seen, kept.seen))
        n_factors = len(compiled.arrays.factor_edge_start) - 1
        if n_disturbed * SOME_DISTURBED > n_factors:
            return f"changes disturb {n_disturbed:,} of {n_factors:,} factors"
        if n_disturbed >= kept.too_many:
            return f"changes that disturb {kept.too_many:,} factors have taken as many updates as a run from nothing"
        if not old.complete():
            return "messages of the last query have left the range of linear arithmetic"
        by_sweeps = n_disturbed * FEW_DISTURBED > n_factors
        self._cost = BY_SWEEPS if by_sweeps else ONE_BY_ONE
        figures.method = "adaptive" if options.method == "auto" else options.method
        method = figures.method if by_sweeps else "residual"
        task = self._task._replace(options=options.for_method(method), unary={**kept.unary, **seen})
        self.now, self._is_warm = AllStates(task, start=Start(old.workspace, tables, {})), True
        kept.seen = seen
        how = "sweeps" if by_sweeps else "updates of what has changed"
        figures.choice = "messages of the last query"
        figures.reason = f"{how}, as changes disturb {n_disturbed:,} factors"
        return ""

    @staticmethod
    def _degree(compiled: CompiledGraph, variables: list[int]) -> int:
        """Return the message factors of some variables."""
        start = compiled.arrays.variable_edge_start
        return int(sum(start[index + 1] - start[index] for index in variables))

    def _as_unary(self, compiled: CompiledGraph) -> dict[int, FloatArray]:
        """Return evidence as log scores in place of unary factors: all states stay, and no table has to be cut."""
        if self._seen is not None:
            return self._seen
        kept, found, observed = self._kept, dict[int, FloatArray](), self._evidence.mapping()
        if observed and kept.priors is None:
            kept.priors = full_domains(compiled, {}, kept.unary)
        for index, seen in observed.items():
            domains = kept.priors
            assert domains is not None  # noqa: S101  (they have just been made)
            first, last = domains.slot_start[index], domains.slot_start[index + 1]
            own = domains.log_prior[first:last] + domains.log_prior_scale[index]
            chosen = slice(None) if seen.states is None else seen.states
            scores = np.full(len(own), -np.inf)
            scores[chosen] = own[chosen] if seen.log_scores is None else own[chosen] + seen.log_scores
            found[index] = scores
        self._seen = found
        return found

    def leave(self) -> None:
        """Keep messages for the next query, if they have settled; and calibrate cliques under what stays observed."""
        self._leave_messages()
        if self._task.figures.ending is StopReason.CONVERGED and not self._task.limits.has_budget:
            self._calibrate()

    def _calibrate(self) -> None:
        """Calibrate cliques under the observations that stay, if it is time to."""
        staying = self._kept.staying
        held = staying.wanted() if self._kept.may_calibrate and self._evidence.observed is None else None
        if held is None or not (held or self._kept.tree is not None):
            return
        making = make_calibrated(self._task, compiled_graph(self._task.graph), held)
        while True:
            try:
                next(making)
            except StopIteration as end:
                staying.take(end.value, held)
                return

    def _leave_messages(self) -> None:
        method: object = self.now
        while isinstance(method, AutoRun | AdaptiveRun):
            method = method.now
        is_settled = self._task.figures.ending is StopReason.CONVERGED and self._task.figures.consistent
        kept, updates = self._kept, self._task.figures.updates
        kept.messages = method if isinstance(method, AllStates) and is_settled else None
        if kept.messages is None:
            return
        if not self._is_warm:
            kept.seen, kept.cold_updates = self._as_unary(compiled_graph(self._task.graph)), updates
        elif self._cost * updates > kept.cold_updates:
            kept.too_many = min(kept.too_many, self._n_disturbed)

    def _observe(self, compiled: CompiledGraph, tree: KeptTree) -> str:
        """Put the evidence into the kept tree, and take it; or return why not."""
        evidence, figures = self._evidence, self._task.figures
        if evidence.observed is None:
            tree.observe(evidence.variables, evidence.states)
        else:
            tree.observe_otherwise(evidence.observed)
        stale, entries = tree.stale, tree.tree.entries
        down = PASSES_DOWN * entries if self._targets is None else 0.0
        work, least = tree.tree.work * stale / max(1.0, entries) + down, SETTING_UP + TABLES * compiled.n_table_entries
        if work > least:
            cold = plan(compiled, evidence.sizes(compiled.universe_sizes), CHEAP)
            if isinstance(cold, Tree) and cold.work + least < work:
                return f"evidence leaves cliques of {cold.entries:,.0f} entries, kept ones have {entries:,.0f}"
        figures.method, figures.choice = "exact", "a kept junction tree"
        figures.reason = f"{stale:,} of the {entries:,.0f} entries of its cliques are out of date"
        targets = None if self._targets is None else self._kept.positions(self._targets, tree)
        self.now = KeptExactRun(self._task, compiled, tree, evidence, targets)
        return ""

    def _cold(self, why: str) -> Method:
        """Return a run that knows nothing of earlier queries."""
        options = replace(self._task.options, observed=self._evidence.mapping())
        made = make_method(self._task._replace(options=options))
        figures = self._task.figures
        figures.choice = "from nothing"
        figures.reason = why
        return made

    def _take_graph(self, compiled: CompiledGraph) -> Iterator[Step]:
        """Find out what can be kept of a graph, or what of it after tables were changed."""
        kept = self._kept
        kept.changed_before, kept.priors = kept.changed.copy(), None
        kept.staying.drop_tree()
        is_same = kept.compiled is not None and bool(kept.changed)  # but for some tables
        if is_same and kept.tree is not None:
            yield from self._take_tables(compiled, kept.tree)
        elif is_same and kept.messages is not None:
            kept.changed.clear()
        else:
            kept.drop()
            if kept.is_exact:
                for kernels in ("exact", KEPT):
                    while not self._task.load(kernels):
                        yield Step.WORKING
                kept.plan, kept.reason = self._plan(compiled)
        kept.compiled = compiled

    def _plan(self, compiled: CompiledGraph) -> tuple[Tree | None, str]:
        """Return a tree that is worth keeping, and why it is or why there is none."""
        sizes, options = compiled.universe_sizes, self._task.options
        if options.method == "auto":
            tree, reason = choose(compiled, sizes, has_budget=True, max_memory=options.max_memory)
            return tree, reason
        try:
            tree = plan_within(compiled, sizes, options.max_memory)
        except MemoryLimitError:
            return None, "cliques over all states do not fit into memory"
        if tree.entries > MOST_KEPT:
            return None, f"cliques of {tree.entries:,.0f} entries are too many to keep"
        return tree, ""

    def _take_tables(self, compiled: CompiledGraph, tree: KeptTree) -> Iterator[Step]:
        """Give the kept tree the tables of a graph that is the same but for some of them."""
        kept, domains = self._kept, full_domains(compiled, {}, self._kept.unary)
        tables = yield from make_all_tables(self._task, compiled, domains)
        changed = [compiled.message_factor(factor) for factor in kept.changed]
        tree.set_tables(compiled, tables, np.array([factor for factor in changed if factor >= 0], dtype=np.int64))
        for index in self._variables_of_unary(changed) - set(kept.unary):
            first, last = domains.slot_start[index], domains.slot_start[index + 1]
            tree.set_unary(index, domains.log_prior[first:last] + domains.log_prior_scale[index])
        kept.changed.clear()

    def _variables_of_unary(self, message_factors: list[int]) -> set[int]:
        """Return the variables of the changed factors that are unary."""
        graph, found = self._task.graph, set()
        for factor, number in zip(self._kept.changed, message_factors, strict=True):
            if number < 0:
                block, offset = graph.locate(factor)
                found.add(int(block.scopes[offset, 0]))
        return found

    # ------------------------------------------------------------ what was chosen
    @property
    def _current(self) -> Method:
        assert self.now is not None  # noqa: S101  (`begin` has chosen one)
        return self.now

    def settle(self) -> Iterator[Step]:
        """Settle as what was chosen does; from nothing, where messages of the last query do not lead anywhere."""
        if not self._is_warm:
            return self._current.settle()
        return self._settle_or_start_over()

    def _settle_or_start_over(self) -> Iterator[Step]:
        figures = self._task.figures
        yield from self._current.settle()
        if figures.ending is StopReason.NOT_CONVERGED:
            figures.ending, self._is_warm = None, False
            self.now = self._cold("from the messages of the last query it did not converge")
            yield from self.now.begin()
            yield from self.now.settle()

    def look(self) -> Iterator[Step]:
        """Look as what was chosen does."""
        return self._current.look()

    def grow(self) -> Iterator[Step]:
        """Grow as what was chosen does."""
        return self._current.grow()

    def read(self, *, settled: bool) -> Snapshot | None:
        """Read what was chosen; unary scores before that."""
        if isinstance(self.now, KeptExactRun):
            return self.now.read(settled=settled)
        found = self.now.read(settled=settled) if self.now is not None else self._unary(settled=settled)
        if found is not None and isinstance(self.now, AllStates):  # which knows nothing of evidence
            sizes = self._evidence.sizes(compiled_graph(self._task.graph).universe_sizes)
            found = replace(found, domain_sizes=read_only(sizes))
        return found

    def _unary(self, *, settled: bool) -> Snapshot | None:
        """Return what is known before any message; nothing of that has settled."""
        if settled:
            return None
        compiled = compiled_graph(self._task.graph)
        domains = full_domains(compiled, self._evidence.mapping(), self._task.unary)
        joint = self._task.options.factor_marginals
        return prior_snapshot(compiled, domains, self._task.figures, outside=1.0, factor_marginals=joint)
