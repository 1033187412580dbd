"""Rounds of `adaptive` where universes are too large for anything but tables over the domains.

A round: the states whose estimated belief is above a threshold join their domains; tables over the domains are filled
with what is new; messages on the domains settle, as those of BP do; then one round of messages out of the domains,
asked for in blocks and kept nowhere, tells the beliefs of all states (`compact_look.py`); that lets the next ones in.

A variable joins once its likely states are few enough: those that evidence or scores of their own tell most of first,
and then, group after group, those that their neighbours' domains tell most of. Until then it is undecided: it listens,
but sends nothing. What never gets a domain within the memory is answered with what its neighbours say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

import numpy as np

from anytimebp.domains.universe import Universe
from anytimebp.errors import InconsistentModelError
from anytimebp.inference.adaptive.compact import CompactTables, ImpossibleError
from anytimebp.inference.adaptive.compact_look import CompactLook, Seen
from anytimebp.inference.adaptive.compact_readout import STILL_UNDECIDED, Known, read_seen
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.control.estimated_error import LARGEST, LEAST, UNSEEN
from anytimebp.inference.look.pair_readout import pairs_of_compact
from anytimebp.inference.method import Step, Task, new_task, steps
from anytimebp.inference.readout import unary_snapshot
from anytimebp.kernels.readout import read_weights
from anytimebp.model.source import ASKED_AT_ONCE, FloatArray, IndexArray
from anytimebp.model.summary import BYTES_PER_SCORE
from anytimebp.results.snapshot import Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.tables.machine import available_memory
from anytimebp.tables.memory import UNCHECKED_BYTES, exceeds_memory
from anytimebp.tables.sizes import factor_entries

FIRST_DOMAIN = 5.0  # nats under the best, within which states are in a variable's first domain
GROUP = 2.0  # times the smallest first domain that others may be as large as, to join in the same group
SMALL = 64  # states that a first domain may have in any group
OPEN = 0.5  # part of the universe that a first domain may be of, or the variable had better wait
THRESHOLDS = (1e-3, 0.1, 1e-20)  # of estimated belief above which states join: first; shrinks by; the rest joins after
DRAWN = 300  # states of a first domain that are drawn, where scores of a variable's own make more of them likely
SMALL_STEP = 2.0  # times the threshold, if the memory does not hold all that would join
LOOSE = 1e-3  # nats to which rounds settle while variables are undecided; later the threshold itself
BYTES_PER_STATE = 20  # priors over the universes, and room to work on them
BYTES_PER_LOOK = 80  # estimates and beliefs of a state that is looked at, now and before
ASKED = 0.05  # part of the memory that may be used to ask for scores
HEARD = 0.1  # part of the memory that may be used to keep what was heard of all states
BLOCKS = (2**14, ASKED_AT_ONCE)  # scores asked for at a time, at least and at most


class Outcome(Enum):
    """Why the rounds have ended; the texts complete "left the domains because"."""

    COMPLETE = "the domains hold every state"
    EXHAUSTED = "the domains hold every state that was proposed"
    MEMORY = "the domains would outgrow the memory"
    IMPOSSIBLE = "no joint state of the domains is possible"
    FLAT = "no variable has few enough likely states to begin with"


class Room(Enum):
    """Whether there was memory for states that were to join."""

    USED = "yes"
    UNUSED = "yes, but none were"
    NONE = "no"


class CompactRun:
    """Rounds on domains, with tables over nothing else.

    Attributes:
        outcome: Why the rounds have ended, or None.
        universe: All states.
        tables: Domains, and tables over them.
    """

    def __init__(self, task: Task, universe: Universe) -> None:
        """Choose the first domains."""
        self._task, self._options, self.universe = task, task.options, universe
        self._figures = figures = task.figures
        limit = self._options.max_memory
        block = BLOCKS[1] if limit is None else max(BLOCKS[0], min(BLOCKS[1], int(ASKED * limit / BYTES_PER_SCORE)))
        most = factor_entries(universe.compiled.arrays, universe.n_allowed).max(initial=1.0)
        block = int(min(block, most))
        self.tables = CompactTables(universe, block)
        self._n_possible = np.add.reduceat(universe.log_prior > -np.inf, universe.start[:-1], dtype=np.int64)
        memory = HEARD * (limit if limit is not None else (available_memory() or UNCHECKED_BYTES))
        self._looking = CompactLook(self.tables, block, THRESHOLDS[0], memory)
        self.outcome: Outcome | None = None
        self._known: Known | None = None
        self._settled: Known | None = None
        figures.consistent, figures.max_residual, figures.mean_residual = False, float("inf"), float("inf")
        figures.damping, figures.tolerance = self._options.damping, self._options.tolerance
        figures.states = int(self.tables.sizes.sum())
        figures.estimated_error = float("nan")
        self._threshold = THRESHOLDS[0]
        self._run: AllStates | None = None
        self._inner = figures
        self._is_last = False
        self._want = Outcome.MEMORY  # why the last round is the last, unless domains are complete
        self._seen: list[Seen] = []

    # ------------------------------------------------------------ the loop
    def begin(self) -> Iterator[Step]:
        """Choose first domains by unary scores, or by what the first ones tell."""
        yield from self._unless_impossible(self._first_look())

    def settle(self) -> Iterator[Step]:
        """Run BP on the domains."""
        self._is_last |= self._is_complete
        yield from self._unless_impossible(self._settle())

    def look(self) -> Iterator[Step]:
        """Look at the states of all variables from the domains, and take down what is known now."""
        if self.outcome is None:
            yield from self._unless_impossible(self._look_and_end())
        figures = self._figures
        figures.is_news = self.outcome is None
        if self._is_last and self.outcome is None:
            self.outcome = Outcome.COMPLETE if self._is_complete else self._want
            figures.ending = self._ending

    def grow(self) -> Iterator[Step]:
        """Let states and undecided variables join."""
        if self.outcome is None:
            self._grow()
            self._figures.states = int(self.tables.sizes.sum())
        return iter(())

    def _unless_impossible(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Go through some steps, unless they find that no joint state of the domains is possible."""
        try:
            yield from steps
        except (ImpossibleError, InconsistentModelError):
            self.outcome = Outcome.IMPOSSIBLE

    def _first_look(self) -> Iterator[Step]:
        if self.tables.undecided.any():
            yield from self._look()
            if not self._join_undecided():
                self.outcome = Outcome.FLAT
        self._figures.states = int(self.tables.sizes.sum())

    def _look_and_end(self) -> Iterator[Step]:
        if not self._is_complete:  # there is nothing to look out for otherwise
            yield from self._look()
        yield from self._end_round()

    @property
    def _ending(self) -> StopReason | None:
        """Why the run is finished; None if domains could not be had."""
        if self.outcome is Outcome.MEMORY:
            return StopReason.OUT_OF_MEMORY
        if self.outcome not in {Outcome.COMPLETE, Outcome.EXHAUSTED}:
            return None
        if not self._figures.consistent:
            return StopReason.NOT_CONVERGED
        return StopReason.CONVERGED if self.outcome is Outcome.COMPLETE else StopReason.OUT_OF_CANDIDATES

    def _settle(self) -> Iterator[Step]:
        figures, limits = self._figures, self._task.limits
        figures.consistent = False
        loose = LOOSE if self.tables.undecided.any() else min(LOOSE, self._threshold)
        tolerance = self._options.tolerance if self._is_last else max(self._options.tolerance, loose)
        inner = new_task(self._task.graph, replace(self._options, tolerance=tolerance), self._task.load)
        figures.tolerance, self._inner = tolerance, inner.figures
        self._run = AllStates(inner, compact=self.tables)
        before = figures.copy()
        rounds = steps(self._run, inner.figures)
        while inner.figures.ending is None:
            inner.limits.updates = max(1, limits.updates - before.updates)
            inner.limits.work = max(1, limits.work - before.work)
            inner.limits.is_watched, inner.limits.has_deadline = limits.is_watched, limits.has_deadline
            try:
                step = next(rounds, None)
            finally:  # what was done until messages vanished counts as well
                figures.updates = before.updates + inner.figures.updates
                for name, done in inner.figures.work_parts.items():
                    figures.work_parts[name] = before.work_parts[name] + done
                figures.damping = inner.figures.damping
            if step is None:
                break
            yield Step.WORKING

    def _look(self) -> Iterator[Step]:
        """Look at the states of all variables from the domains."""
        log_weights = self._log_weights()
        self._looking.threshold = self._threshold
        self._seen = []
        for variable in range(len(self.universe.n_allowed)):
            for found in self._looking.look(variable, log_weights):
                if found is not None:
                    self._seen.append(found)
                    if found.log_belief.max() == -np.inf:
                        raise ImpossibleError
                self._figures.work_parts["scoring"] += self._looking.asked
                self._looking.asked = 0
                yield Step.WORKING

    def _log_weights(self) -> dict[int, FloatArray]:
        """Return, by edge, the log messages from variables to factors."""
        if self._run is None:
            return {}
        workspace = self._run.workspace
        arrays, layout = workspace.arrays, workspace.layout
        weight = np.empty(len(arrays.message))
        read_weights(layout, arrays, weight)
        sizes = arrays.domain_size[layout.edge_variable]
        parts = zip(arrays.edge_slot_start.tolist(), sizes.tolist(), strict=True)
        return {edge: weight[start : start + n] for edge, (start, n) in enumerate(parts)}

    # ------------------------------------------------------------ the end of a round
    def _end_round(self) -> Iterator[Step]:
        run = self._run
        assert run is not None  # noqa: S101  (messages have settled)
        figures = self._figures
        figures.rounds += 1
        figures.max_residual = figures.mean_residual = self._inner.max_residual  # the mean is not kept
        end = run.read(settled=False)
        assert end is not None  # noqa: S101  (tables are there)
        undecided = self.tables.undecided
        if self._is_complete:
            outside, marginals = np.zeros(len(undecided)), end.marginals
        else:
            self._seen, outside, marginals = read_seen(self.tables, self._seen)
            for asked in pairs_of_compact(self.tables, self._seen, self._log_weights(), outside):
                self._figures.work_parts["scoring"] += asked
                yield Step.WORKING
        figures.consistent = self._inner.ending is StopReason.CONVERGED
        unseen = UNSEEN * float(outside.sum()) / max(1, len(outside))
        error = min(LARGEST, unseen + (0.0 if figures.consistent else end.estimated_error))
        error = error if np.isfinite(outside).all() else float("inf")
        self._known = Known(
            marginals=marginals,
            domain_sizes=self.tables.sizes,
            outside=1.0 if undecided.any() else float(outside.max(initial=0.0)),
            error=float(end.estimated_error if self._is_complete else error),
            log_z=float("nan") if undecided.any() else end.log_z,
            arithmetic=end.arithmetic,
            factor_marginals=STILL_UNDECIDED if undecided.any() and end.factor_marginals else end.factor_marginals,
            figures=figures.copy(),
        )
        figures.estimated_error = self._known.error
        if figures.consistent:
            self._settled = self._known
            figures.settled_rounds += 1

    @property
    def _is_complete(self) -> bool:
        return not self.tables.undecided.any() and bool((self.tables.sizes >= self._n_possible).all())

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what is known of the last round, unary scores before any; or of the last one that had settled."""
        known, figures = self._settled if settled else self._known, self._figures
        if known is None:
            joint = self._options.factor_marginals
            return None if settled else unary_snapshot(self.universe, figures, factor_marginals=joint)
        if not settled and not figures.consistent:
            least = LEAST * self._options.tolerance  # only what has settled can be without error
            known = known._replace(figures=figures, error=max(known.error, least))
        elif not settled:
            known = known._replace(figures=replace(known.figures, seconds=figures.seconds))
        return known.snapshot()

    # ------------------------------------------------------------ growth
    def _grow(self) -> None:
        """Let states and undecided variables join; if there is no room for all of them, the next round is the last."""
        fits = self._join_above(self._threshold)
        if self._join_undecided():
            return
        held = self.tables.undecided | (self.tables.sizes >= self._n_possible)
        if fits is Room.NONE:
            threshold = max(self._threshold, THRESHOLDS[2])
            while threshold < 1.0 and self._join_above(threshold) is Room.NONE:
                threshold *= SMALL_STEP
        if fits is Room.NONE or held.all():
            self._is_last = True
        elif self._threshold < 0.0 and fits is Room.UNUSED:
            self._is_last, self._want = True, Outcome.EXHAUSTED
        else:
            self._threshold *= THRESHOLDS[1]
            if self._threshold < THRESHOLDS[2]:
                self._threshold = -1.0  # all that is left

    def _join_above(self, threshold: float) -> Room:
        """Let all states of beliefs above a threshold join, if there is room for them; return whether there was."""
        nobody, universe = np.empty(0, dtype=np.int64), self.universe
        new = []
        for v, (seen, own) in enumerate(zip(self._seen, self.tables.states, strict=True)):
            is_possible = universe.log_prior[universe.start[v] + seen.states] > -np.inf
            joins = seen.states[(seen.log_belief > threshold) & is_possible]
            new.append(nobody if self.tables.undecided[v] else np.setdiff1d(joins, own))
        more = np.array([len(states) for states in new], dtype=np.int64)
        if not self._fits(self.tables.sizes + more):
            return Room.NONE
        for variable in np.flatnonzero(more).tolist():
            self.tables.join(variable, self._by_belief(variable, new[variable]))
        return Room.USED if more.any() else Room.UNUSED

    def _by_belief(self, variable: int, states: IndexArray) -> IndexArray:
        """Return states in the order of their beliefs, likely ones first; of equals, lower ones."""
        found = self._seen[variable]
        belief = found.log_belief[np.searchsorted(found.states, states)]
        return states[np.argsort(-belief, kind="stable")]

    def _join_undecided(self) -> bool:
        """Give domains to the variables whose likely states are fewest; return whether one has got any."""
        likely = {v: self._likely(v) for v in np.flatnonzero(self.tables.undecided).tolist()}
        is_open = {v for v in likely if self._is_open(v, len(likely[v]))}
        likely = {v: self._spread(v, states) for v, states in likely.items()}
        in_order = sorted(likely, key=lambda v: (len(likely[v]), v))
        most = max(SMALL, GROUP * len(likely[in_order[0]])) if in_order else 0
        group = [v for v in in_order if (len(likely[v]) <= most or len(likely[v]) <= DRAWN) and v not in is_open]
        count = self._most_that_fit(group, likely)
        chosen = group[:count] or next(([v] for v in in_order if self._most_that_fit([v], likely)), [])
        for variable in chosen:
            self.tables.join(variable, likely[variable])
        return bool(chosen)

    def _spread(self, variable: int, likely: IndexArray) -> IndexArray:
        """Return some of a variable's likely states, drawn by their beliefs; all if they are few, or without scores."""
        if len(likely) <= DRAWN or not self.universe.has_scores[variable]:
            return likely
        seen = self._seen[variable]
        belief = seen.log_belief[np.searchsorted(seen.states, likely)]
        share = np.exp(belief - belief.max()) if self._known is None else belief
        rng = np.random.default_rng(variable)
        return likely[np.sort(rng.choice(len(likely), DRAWN, replace=False, p=share / share.sum()))]

    def _is_open(self, variable: int, n_likely: int) -> bool:
        """Tell whether so many states are likely that the variable had better wait."""
        return n_likely > SMALL and n_likely > OPEN * self.universe.n_allowed[variable]

    def _most_that_fit(self, variables: list[int], likely: dict[int, IndexArray]) -> int:
        """Return how many variables, from the first one on, there is memory for."""
        low, high = 0, len(variables)
        while low < high:
            middle = (low + high + 1) // 2
            sizes = self.tables.sizes
            sizes[variables[:middle]] = [len(likely[v]) for v in variables[:middle]]
            low, high = (middle, high) if self._fits(sizes) else (low, middle - 1)
        return low

    def _likely(self, variable: int) -> IndexArray:
        """Return the states of an undecided variable that are within FIRST_DOMAIN nats of the best, best first."""
        seen = self._seen[variable]
        belief = seen.log_belief
        if self._known is not None:  # those are beliefs by now
            with np.errstate(divide="ignore"):
                belief = np.log(belief)
        near = np.flatnonzero(belief > belief.max() - FIRST_DOMAIN)
        found: IndexArray = seen.states[near[np.argsort(-belief[near], kind="stable")]]
        return found

    def _fits(self, sizes: IndexArray) -> bool:
        """Tell whether there is memory for domains of these sizes: tables, and the largest of them twice."""
        tables = 8.0 * self.tables.entries(sizes)
        messages = 60.0 * float(sizes[self.tables.compiled.arrays.edge_variable].sum())
        universe = BYTES_PER_STATE * float(self.universe.start[-1]) + BYTES_PER_LOOK * self._looking.states(sizes)
        working = float(tables.max(initial=0.0)) + BYTES_PER_SCORE * self._looking.block + self._looking.memory
        needed = int(tables.sum() + messages + universe + working)
        return not exceeds_memory(0, needed, self._options.max_memory)
