"""One run of `auto`: `exact` where that is cheap, `adaptive` otherwise; decided on counts, in the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from anytimebp.domains.domains import Domains, domain_sizes, full_domains
from anytimebp.errors import MemoryLimitError
from anytimebp.exact.cost import check_tree, count_text, shape_of
from anytimebp.exact.possible import ZEROS, is_smaller, may_shrink, possible_part
from anytimebp.exact.relevance import Part, relevant_part
from anytimebp.exact.tree import TooWide, Tree, is_forest, plan
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.adaptive.choice import EDGE_COST, SWEEPS
from anytimebp.inference.exact_run import ExactRun, Planned
from anytimebp.inference.method import FORESTS, Stages, Step, Task
from anytimebp.inference.readout import prior_snapshot
from anytimebp.kernels.codes import SUM
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.model.source import IndexArray
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.memory import factor_entries, update_entries, without_table

CHEAP = 1e6  # entries of all cliques, under which `exact` is always taken: some milliseconds
SMALL_FOREST = (
    2**17
)  # entries of all tables, under which a junction tree takes about as long on a forest as BP, and compiles less
MOST_ASKED = 20_000  # scores of rules that are asked for before the first answer, under a budget
MOST_VARIABLES = 2**17  # of a graph for which an elimination order is looked for
LEAST_STEPS = 2**19  # of a search for an order: some two milliseconds
STEP_SHARE = 0.005  # of the cost of BP that a search may take beyond that, in steps


class AutoRun(Stages):
    """Runs of `auto`: of the one method that it chooses."""

    def __init__(self, task: Task) -> None:
        """Choose nothing yet."""
        super().__init__()
        self._task, self._compiled = task, compiled_graph(task.graph)
        self._figures = task.figures
        self._figures.method = "adaptive"  # until it is known to be exact

    # ------------------------------------------------------------ the choice
    def begin(self) -> Iterator[Step]:
        """Choose, and let what was chosen begin."""
        options, limits = self._task.options, self._task.limits
        sizes = domain_sizes(self._compiled, options.observed)
        part, domains = Part(self._compiled.arrays, sizes), None
        tree, reason = None, self._why_not(sizes)
        if not reason:
            while not self._task.load("exact"):
                yield Step.WORKING
            if options.targets is not None:
                domains = full_domains(self._compiled, options.observed, self._task.unary)
                part = relevant_part(self._compiled, domains, options.targets)
            found = choose_possible(
                self._compiled,
                sizes,
                part,
                lambda: domains or full_domains(self._compiled, options.observed, self._task.unary),
                self._task.load,
                has_budget=limits.has_budget,
                max_memory=options.max_memory,
            )
            (tree, reason), part, domains = found.chosen, found.part, found.domains or domains
        options = options.for_method("adaptive" if tree is None else "exact")
        task = self._task._replace(options=options)
        self._figures.method, self._figures.reason = options.method, reason
        if tree is not None:
            self._figures.choice = "a junction tree"
            self.now = ExactRun(task, Planned(part, tree, domains))
        else:
            self.now = AdaptiveRun(task)
            while not self._task.load(self.now.first_kernels):
                yield Step.WORKING
            if len(sizes) > MOST_VARIABLES:
                yield Step.WORKING
        yield from self.now.begin()

    def _why_not(self, sizes: IndexArray) -> str:
        """Return why `exact` need not be thought about, or nothing."""
        if self._task.semiring != SUM:
            return "max-marginals were asked for"
        if self._task.options.damping > 0.0:
            return "damping is for belief propagation"
        if len(sizes) > MOST_VARIABLES:
            return _too_many(sizes)
        if self._task.options.targets is None:  # these may leave out what asks for so much
            asks = _asks_too_much(self._compiled, sizes, has_budget=self._task.limits.has_budget)
            if asks:
                return asks
        compiled, n_edges = self._compiled, len(self._compiled.arrays.edge_variable)
        if compiled.n_joint_states < SMALL_FOREST or self._task.options.targets is not None:
            return ""
        n_nodes = len(sizes) + len(compiled.arrays.factor_edge_start) - 1
        if sizes is compiled.universe_sizes and n_edges >= n_nodes > 0 and int(sizes.min()) > 1:
            return ""  # so many edges close a loop
        self._task.load(FORESTS)
        return "there are no loops, so that belief propagation is exact" if is_forest(compiled, sizes) else ""

    def read(self, *, settled: bool) -> Snapshot | None:
        """Read what was chosen; unary scores before that."""
        if self.now is not None:
            return self.now.read(settled=settled)
        if settled:
            return None
        options = self._task.options
        domains = full_domains(self._compiled, options.observed, self._task.unary)
        joint = options.factor_marginals
        return prior_snapshot(self._compiled, domains, self._figures, outside=1.0, factor_marginals=joint)


def bp_cost(compiled: CompiledGraph, sizes: IndexArray) -> float:
    """Return about what the usual sweeps of BP cost, in entries that could be read in order in the time."""
    return SWEEPS * (update_entries(compiled, sizes) + EDGE_COST * len(compiled.arrays.edge_variable))


class Chosen(NamedTuple):
    """What `auto` takes.

    Attributes:
        tree: To be exact on; None for `adaptive`.
        reason: In words.
    """

    tree: Tree | None
    reason: str


def choose(
    compiled: CompiledGraph,
    sizes: IndexArray,
    part: Part | None = None,
    *,
    has_budget: bool = False,
    max_memory: int | None = None,
) -> Chosen:
    """Choose for a graph with loops.

    Args:
        compiled: The graph.
        sizes: (V,) states that the evidence allows.
        part: What of the graph is to be solved; None for all.
        has_budget: Whether something may stop the run before its end.
        max_memory: Bytes that it may allocate.
    """
    wanted = sizes if part is None else part.sizes
    if len(sizes) > MOST_VARIABLES:
        return Chosen(None, _too_many(sizes))
    asks = _asks_too_much(compiled, wanted, has_budget=has_budget)
    if asks:
        return Chosen(None, asks)
    of_bp = bp_cost(compiled, sizes)
    most = CHEAP if has_budget else max(CHEAP, of_bp)
    steps = max(LEAST_STEPS, STEP_SHARE * of_bp)
    tree = plan(shape_of(compiled, part), wanted, most, steps)
    if isinstance(tree, TooWide):
        if tree.entries <= most:
            return Chosen(None, "a search for a junction tree would take too long")
        return Chosen(None, f"exact inference would need cliques of more than {count_text(tree.entries)} entries")
    if tree.entries >= CHEAP and tree.work > (0.0 if has_budget else of_bp):
        return Chosen(None, f"exact inference would need cliques of {tree.entries:,.0f} entries")
    try:
        check_tree(compiled, wanted, tree, max_memory)
    except MemoryLimitError:
        return Chosen(None, f"cliques of {tree.entries:,.0f} entries for exact inference do not fit into memory")
    if tree.entries < CHEAP:
        return Chosen(tree, f"its cliques have {tree.entries:,.0f} entries in all, which is cheap")
    return Chosen(tree, f"it reads {tree.work:,.0f} entries, fewer than the usual sweeps of belief propagation")


def _too_many(sizes: IndexArray) -> str:
    return f"{len(sizes):,} variables are too many to look for a junction tree"


class Found(NamedTuple):
    """What `auto` takes, and for which states.

    Attributes:
        chosen: What it takes.
        part: Of the graph, that is to be solved.
        domains: Without the states that zeros exclude; None where they were not looked for, or there are none.
    """

    chosen: Chosen
    part: Part
    domains: Domains | None


def choose_possible(
    compiled: CompiledGraph,
    sizes: IndexArray,
    part: Part,
    make_domains: Callable[[], Domains],
    load: Callable[[str], bool] = lambda _: True,
    *,
    has_budget: bool = False,
    max_memory: int | None = None,
) -> Found:
    """Choose as `choose` does; where cliques are large, without the states that zeros exclude.

    Args:
        compiled: The graph.
        sizes: (V,) states that the evidence allows.
        part: What of the graph is to be solved.
        make_domains: Returns these states, with their priors.
        load: See `Task`.
        has_budget: Whether something may stop the run before its end.
        max_memory: Bytes that it may allocate.
    """
    chosen = choose(compiled, sizes, part, has_budget=has_budget, max_memory=max_memory)
    if len(sizes) > MOST_VARIABLES or not may_shrink(compiled, chosen.tree) or not load(ZEROS):
        return Found(chosen, part, None)
    left = possible_part(compiled, make_domains(), part)
    if left is None:
        return Found(chosen, part, None)
    again = choose(compiled, sizes, left.part, has_budget=has_budget, max_memory=max_memory)
    if again.tree is None or not is_smaller(again.tree, chosen.tree):
        return Found(chosen, part, None)
    return Found(again, left.part, left.domains)


def _asks_too_much(compiled: CompiledGraph, sizes: IndexArray, *, has_budget: bool) -> str:
    """Return which tables are too large to be filled for exact inference, or nothing."""
    wide = without_table(compiled)
    if wide:
        return f"exact inference makes tables of all factors, and {wide}"
    asked = _asked_of_rules(compiled, sizes) if has_budget and not compiled.has_tables_only else 0.0
    if asked <= MOST_ASKED:
        return ""
    return f"exact inference would ask rules for {asked:,.0f} scores before the first answer"


def _asked_of_rules(compiled: CompiledGraph, sizes: IndexArray) -> float:
    """Return the scores that rules would be asked for to fill their tables."""
    entries = factor_entries(compiled.arrays, sizes)
    rules = [(first, len(block.scopes)) for first, block in compiled.message_blocks if block.source.is_rule]
    return sum(float(entries[first : first + n].sum()) for first, n in rules)
