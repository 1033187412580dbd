"""The search for the best joint state where the tables of all factors over all states do not fit into memory.

BP on active states (`adaptive`) says how likely each state is. From its beliefs, a joint state is chosen one variable
after the other. Each round then searches among the likely states, more of them than the round before; the states chosen
so far are always among them. After each round, single variables move to better states out of all, since a factor of any
kind can be scored along one variable. No bound on other joint states is known.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.errors import InconsistentModelError
from anytimebp.exact.possible import restricted
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.auto_run import choose
from anytimebp.inference.map_search import MapSearch, slots_of
from anytimebp.inference.method import Task, steps
from anytimebp.kernels.log_maxima import GAIN
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.factor import row_starts
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.tables.log_tables import log_table_bytes
from anytimebp.tables.memory import memory_limit

CHOICE = "search among likely states: tables over all states do not fit into memory"
LOOSE = 1e-3  # residual to which BP settles: enough to tell which states are likely
FIRST, SHRINK, LAST = 0.1, 0.1, 1e-14  # beliefs above which states take part: in the first round, from round to round
MOST_WORK = 2**29  # entries that BP may read and scores that it may ask for: seconds; more hardly change what is likely
MOST_BYTES = 2**28  # of the tables of a round: more take long, and hardly ever help
MOST_IDLE = 2  # rounds without a better state, after which the search ends
TINY = 1e-300  # belief of states that BP excludes
IMPOSSIBLE = -1e9  # what a factor scores that excludes a joint state, so that states with fewer such factors are better


class LikelySearch:
    """Raises the score of a search by rounds on likely states."""

    def __init__(self, search: MapSearch, task: Task, domains: Domains, is_late: Callable[[], bool]) -> None:
        """Do nothing yet.

        Args:
            search: Over all states; it is offered what is found.
            task: Of the BP run.
            domains: All states that the evidence allows.
            is_late: Whether BP has to end, so that time is left for the search.
        """
        self._search, self._task, self._domains, self._is_late = search, task, domains, is_late
        self._compiled = compiled_graph(task.graph)
        self._states = [domains.states_of(index) for index in range(len(domains.sizes))]
        self._belief: FloatArray = np.exp(domains.log_prior)

    def by_rounds(self) -> Iterator[None]:
        """Raise the score until it does not rise any more, or more states would not fit into memory."""
        yield from self._beliefs()
        chosen = yield from self._chosen()
        yield from self._improve(chosen)
        threshold, idle, n_states, search = FIRST, 0, 0, self._search
        while idle < MOST_IDLE and threshold > LAST:
            domains = restricted(self._domains, self._likely(threshold, chosen))
            if not self._fits(domains.sizes):
                return
            threshold *= SHRINK
            if int(domains.sizes.sum()) == n_states:
                continue
            n_states, before = int(domains.sizes.sum()), search.log_score
            yield from self._search_among(domains)
            if search.log_score > before:
                yield from self._improve(search.states)
            idle = 0 if search.log_score > before or search.log_score == -np.inf else idle + 1

    # ------------------------------------------------------------ which states are likely
    def _beliefs(self) -> Iterator[None]:
        """Run BP on active states to its end, or until it is late."""
        while not self._task.load("adaptive"):
            yield
        run = AdaptiveRun(self._task)
        for _ in steps(run, self._task.figures):
            yield
            if self._is_late() or self._task.figures.work > MOST_WORK:
                break
        found = run.read(settled=False)
        if found is None:
            return
        belief, domains = found.marginals.concatenated(), self._domains
        if not domains.is_whole:
            start = row_starts(self._compiled.universe_sizes)
            belief = belief[domains.slot_state + np.repeat(start[:-1], domains.sizes)]
        self._belief = belief

    def _likely(self, threshold: float, chosen: IndexArray) -> BoolArray:
        """Return the slots of states above a threshold, of the best of each variable, and of joint states so far."""
        start = self._domains.slot_start
        best = np.maximum.reduceat(self._belief, start[:-1])
        keep: BoolArray = (self._belief > threshold) | (self._belief >= np.repeat(best, self._domains.sizes))
        return keep | slots_of(self._domains, chosen) | slots_of(self._domains, self._search.states)

    def _fits(self, sizes: IndexArray) -> bool:
        needed = log_table_bytes(self._compiled, sizes)
        limit = memory_limit(needed, self._task.options.max_memory)
        return needed <= (MOST_BYTES if limit is None else min(limit, MOST_BYTES))

    def _search_among(self, domains: Domains) -> Iterator[None]:
        """Search among the joint states of some domains; there may be no possible one."""
        inner = MapSearch(self._compiled, domains, self._task.options.observed)
        tree = choose(self._compiled, domains.sizes, has_budget=True, max_memory=self._task.options.max_memory).tree
        try:
            for _ in inner.by_passes() if tree is None else inner.exactly(tree):
                self._search.offer(inner.states)
                yield
        except InconsistentModelError:
            return  # with more states, one may be possible
        self._search.offer(inner.states)

    # ------------------------------------------------------------ one variable after the other
    def _along(self, factor: int, edge: int, states: IndexArray) -> FloatArray:
        """Return what a factor scores for each state of an edge's variable, given the states of the others."""
        layout = self._compiled.arrays
        product = [
            self._states[v] if own == edge else states[v : v + 1]
            for own in self._compiled.edges(factor)
            for v in [int(layout.edge_variable[own])]
        ]
        return np.maximum(self._compiled.log_values(factor, product).reshape(-1), IMPOSSIBLE)

    def _chosen(self) -> Generator[None, None, IndexArray]:
        """Choose a state for each variable, the most certain one first; return them.

        A factor counts once all its other variables are chosen, beside the belief, so that hard zeros are obeyed.
        """
        layout, start = self._compiled.arrays, self._domains.slot_start
        states, is_chosen = self._search.states.copy(), np.zeros(len(self._states), dtype=np.bool_)
        certainty = np.maximum.reduceat(self._belief, start[:-1]) if len(start) > 1 else np.empty(0)
        for variable in np.argsort(-certainty, kind="stable").tolist():
            total = np.log(np.maximum(self._belief[start[variable] : start[variable + 1]], TINY))
            for edge in self._compiled.edges_of(variable):
                factor = int(layout.edge_factor[edge])
                others = [v for v in layout.edge_variable[list(self._compiled.edges(factor))] if v != variable]
                if is_chosen[others].all():
                    total += self._along(factor, edge, states)
            states[variable], is_chosen[variable] = self._states[variable][int(total.argmax())], True
            yield
        self._search.offer(states)
        return states

    def _improve(self, first: IndexArray) -> Iterator[None]:
        """Move single variables to the best of all their states, given the others, until none improves."""
        layout, domains, states = self._compiled.arrays, self._domains, first.copy()
        pending = dict.fromkeys(np.flatnonzero(domains.sizes > 1).tolist())
        while pending:
            variable = next(iter(pending))
            del pending[variable]
            total = domains.log_prior[domains.slot_start[variable] : domains.slot_start[variable + 1]].copy()
            edges = self._compiled.edges_of(variable)
            for edge in edges:
                total += self._along(int(layout.edge_factor[edge]), edge, states)
            own = self._states[variable]
            now, best = total[own == states[variable]][0], int(total.argmax())
            yield
            if not total[best] > now + GAIN * max(1.0, abs(now)):
                continue
            states[variable] = own[best]
            for edge in edges:
                near = layout.edge_variable[list(self._compiled.edges(int(layout.edge_factor[edge])))].tolist()
                pending.update(dict.fromkeys(v for v in near if v != variable and domains.sizes[v] > 1))
        self._search.offer(states)
