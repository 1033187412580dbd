"""The first round of `adaptive` on graphs of relations: the same as that of `rounds.py`, with next to nothing set up.

A relation is a factor over two variables and a leaf, which comes last: tags of two mentions, and what one is to the
other. Such graphs are asked once, and a first answer on the likely states is a matter of kernels that take less time
than making the records of a general round. If the run goes on, its messages are handed over to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from anytimebp.domains.domains import EVERY_STATE, Domains
from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.adaptive.choice import (
    ENTRY_COSTS,
    FIRST_SLICE,
    FIRST_WORTH,
    MORE_DOMAINS,
    UNLISTED,
    WITH_LEAVES,
    Beginning,
    Choice,
    Offer,
    Way,
    best_offer,
    full_sweeps,
    sweeps_cost,
)
from anytimebp.inference.adaptive.known import (
    LEFT_OUT,
    LEFT_UNREAD,
    NO_STATES,
    SMALL_SPREAD,
    UNCERTAIN,
    Known,
    Tail,
)
from anytimebp.inference.adaptive.relation_arrays import ActiveRelations, Relations, room_for
from anytimebp.inference.adaptive.relations_look import Looked, RelationsLook
from anytimebp.inference.adaptive.settling import FIRST_TOLERANCE, MAX_SWEEPS
from anytimebp.inference.adaptive.whole_model import MANY_TIED, WholeModel
from anytimebp.inference.control.estimated_error import tails_error
from anytimebp.inference.figures import UNLIMITED, Figures
from anytimebp.inference.method import Step, Task
from anytimebp.inference.reading_time import expect_look
from anytimebp.kernels.codes import LINEAR, MAX_LINEAR_RANGE, SCALED, SUM
from anytimebp.kernels.relations import begin_relations, hand_over, read_relations, settle_relations
from anytimebp.kernels.relations_look import put_all
from anytimebp.kernels.relations_setup import (
    BUSY,
    COUNTS,
    ENTRIES_OF_TABLES,
    FILLING,
    HELD,
    WITH_ALL,
    count_offers,
    find_lines,
    find_relations,
    fold_linear,
)
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import row_starts
from anytimebp.model.source import FloatArray, read_only
from anytimebp.results.factor_marginals import NOT_ASKED_FOR
from anytimebp.results.marginals import Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.spare import NO_NUMBERS, SpareMemory
from anytimebp.tables.workspace import Workspace

ARITY = 3  # of a relation
NEAR = (WITH_LEAVES[0], MORE_DOMAINS[0])  # nats of domains that are counted at once: mostly no others are asked for
AT_FIRST = np.array([-1.0, *(math.exp(-nats) for nats in NEAR)])  # smallest priors of all states, and of those domains
SMALL_LOOK = 0.02
"""Part of the cost of full BP that a look at all states may have for general rounds to follow.

On joint extraction with 29 types, it has twice that. Another round and look, which read entry by entry what full BP
reads in blocks, then take two thirds of its time and leave a quarter of the error."""
PER_FACTOR = 128  # numbers that most first rounds take for a factor; with fewer, some memory is new every time


def may_have_relations(task: Task, compiled: CompiledGraph) -> bool:
    """Tell whether a first round may be made on relations, as far as is known without a look at the graph."""
    options = task.options
    return (
        compiled.has_tables_only
        and all(block.scopes.shape[1] == ARITY for _, block in compiled.message_blocks)
        and compiled.widest <= MAX_LINEAR_RANGE
        and not (options.observed or task.unary or compiled.asked_unary_blocks or options.factor_marginals)
        and options.damping == 0.0
        and task.semiring == SUM
        and not bool(compiled.extent.has_zero.any())
    )


class _Offers:
    """What first domains are on offer on a graph of relations.

    Attributes:
        model: The graph; None if not all of its factors are relations, or a variable has no possible state.
        domains: All states; log priors of leaves are not there.
        full: What full BP costs.
        n_ends: The most states that both ends of a factor have.
        memory: What all this is in.
    """

    def __init__(self, compiled: CompiledGraph) -> None:
        """Put unary factors together, and count what is mostly on offer."""
        layout, sizes = compiled.arrays, compiled.universe_sizes
        n_variables, n_factors = len(sizes), len(compiled.extent.log_max)
        self.model: Relations | None = None
        is_leaf = np.empty(n_variables, dtype=np.bool_)
        if not find_relations(layout, sizes, is_leaf):
            return
        n_made, longest, self.n_ends = _lengths(compiled)
        n_numbers = n_made + longest + 2 * compiled.n_states + PER_FACTOR * n_factors + 5 * n_variables
        self.memory = memory = SpareMemory(n_numbers)
        made, line = memory.reserve(n_made), memory.reserve(longest)
        prior, kind, address, made_start = memory.real(compiled.n_states), *memory.whole(3 * n_factors).reshape(3, -1)
        log_entries = find_lines(compiled.rows, MANY_TIED, kind, address, made_start)
        slot_start, n_unary = row_starts(sizes), np.zeros(n_variables, dtype=np.int64)
        scale, log_prior = memory.real(n_variables), memory.real(compiled.n_states)
        if not fold_linear(compiled.rows, slot_start, is_leaf, n_unary, prior, log_prior, scale):
            return
        self.domains = Domains(sizes, slot_start, EVERY_STATE, log_prior, scale, NO_NUMBERS, scored=0)
        self.model = Relations(
            edge_variable=layout.edge_variable,
            universe_sizes=sizes,
            slot_start=slot_start,
            is_leaf=is_leaf,
            prior=prior,
            kind=kind,
            address=address,
            shift=compiled.extent.log_max,
            made_start=made_start,
            is_made=np.zeros(n_made, dtype=np.bool_),
            made=made,
            line=line,
        )
        self._n_edges, self._counts = 2 * n_factors, dict[float, list[float]]()
        counts = self._count(AT_FIRST)
        self.full = full_sweeps(log_entries, counts[0][ENTRIES_OF_TABLES], counts[0][WITH_ALL], self._n_edges)
        self._counts |= zip(NEAR, counts[1:], strict=True)

    def _count(self, least: FloatArray) -> list[list[float]]:
        """Return the columns of `kernels/relations.py` for domains of some smallest priors."""
        assert self.model is not None  # noqa: S101  (nobody asks otherwise)
        counts, size = np.empty((len(least), COUNTS)), np.empty((len(self.model.is_leaf), len(least)), dtype=np.int64)
        count_offers(self.model, ENTRY_COSTS, least, size, counts)
        found: list[list[float]] = counts.tolist()
        return found

    def of(self, nats: float) -> list[float]:
        """Return what is counted of the states within some nats of the best prior."""
        found = self._counts.get(nats)
        if found is None:
            found = self._counts[nats] = self._count(np.array([math.exp(-nats)]))[0]
        return found

    def offer(self, nats: float) -> Offer:
        """Return these states, and what they are worth."""
        own = self.of(nats)
        cost = sweeps_cost(own[ENTRIES_OF_TABLES], own[FILLING], own[BUSY], self._n_edges)
        return Offer(nats, UNLISTED, own[HELD], cost)


def _tied_shape(compiled: CompiledGraph, model: Relations) -> tuple[int, int, int] | None:
    """Return the shape of the table that all factors share, and that is exponentiated once; None if there is none."""
    (_, block), *others = compiled.message_blocks
    if others or model.kind[0] != SCALED:
        return None
    a, b, leaf = block.source.shape
    return a, b, leaf


def _lengths(compiled: CompiledGraph) -> tuple[int, int, int]:
    """Return the entries of all SCALED tables, the states of the longest leaf, and the most that both ends have."""
    n_made, longest, n_ends = 0, 0, 0
    for _, block in compiled.message_blocks:
        a, b, leaf = block.source.shape
        longest, n_ends = max(longest, leaf), max(n_ends, a + b)
        tables = block.source.tables
        if tables is not None and tables.is_log and tables.n_members == 1 and len(block.scopes) >= MANY_TIED:
            n_made += tables.values.size
    return n_made, longest, n_ends


def first_round(task: Task, compiled: CompiledGraph, *, at_any_cost: bool) -> FirstRound | None:
    """Return a first round that has settled; None where there are no relations, where it does not pay, or is not quick.

    Args:
        task: What is to be done.
        compiled: The graph.
        at_any_cost: Whether to make it even where it does not pay.
    """
    limits = task.limits
    if limits.work < UNLIMITED or limits.updates < UNLIMITED:
        return None
    offers = _Offers(compiled)
    if offers.model is None:
        return None
    begin = best_offer(offers.full, WITH_LEAVES, offers.offer)
    if begin.cost > FIRST_SLICE or (begin.choice.way is Way.FULL and not at_any_cost):
        return None
    found = FirstRound(task, compiled, offers, begin)
    return found if found.has_settled else None


class FirstRound:
    """The first round on a graph of relations; it is settled when it is made.

    Attributes:
        has_settled: Whether messages have settled.
        is_enough: Whether whole tables are to come next, and no more rounds: a look takes in most of what these would.
    """

    def __init__(self, task: Task, compiled: CompiledGraph, offers: _Offers, begin: Beginning) -> None:
        """Let messages settle.

        Args:
            task: What is to be done.
            compiled: The graph.
            offers: Relations, and how many states are active.
            begin: The decision for this round.
        """
        assert offers.model is not None  # noqa: S101  (there are relations)
        self._task, self._compiled, self._begin = task, compiled, begin
        self._model, self._memory, n_factors = offers.model, offers.memory, len(offers.model.kind)
        self._domains = offers.domains
        self._active = room_for(offers.model, offers.n_ends, offers.of(begin.nats), offers.memory)
        self._tolerance = max(task.options.tolerance, FIRST_TOLERANCE)
        n_busy, states, read, log_z = begin_relations(self._model, self._active, math.exp(-begin.nats))
        settled = settle_relations(self._model, self._active, n_busy, self._tolerance, MAX_SWEEPS)
        self.has_settled, updates, work, most, left, rest = settled
        self._log_z = float(log_z + rest + offers.domains.log_prior_scale.sum() + self._model.shift.sum())
        self._done = n_factors - n_busy + updates, work, read, states, most, left / n_factors
        self._answer: dict[str, Any] = {}
        self._known: Figures | None = None
        self.is_enough = False
        self._look: RelationsLook | None = None
        self._looked: Looked | None = None

    # ------------------------------------------------------------ the loop
    def begin(self) -> Iterator[Step]:
        """Do nothing: the first states are chosen."""
        return iter(())

    def settle(self) -> Iterator[Step]:
        """Take down what is known; messages have settled."""
        figures = self._task.figures
        updates, work, read, figures.states, figures.max_residual, figures.mean_residual = self._done
        figures.count(updates, work)
        figures.work_parts["growth"] += read
        figures.rounds, figures.settled_rounds = figures.rounds + 1, figures.settled_rounds + 1
        figures.tolerance, figures.consistent, figures.estimated_error = self._tolerance, True, math.inf
        self._known = figures.copy()
        return iter(())

    def look(self) -> Iterator[Step]:
        """Do nothing."""
        return iter(())

    def grow(self) -> Iterator[Step]:
        """Look at the states outside, where that is quick, and answer with them, too; general rounds go on."""
        shape, figures = _tied_shape(self._compiled, self._model), self._task.figures
        if shape is None:
            return
        look = RelationsLook(self._model, self._active, self._domains.log_prior, shape, self._memory)
        n, _, entries, spread = look.outside
        if n == 0 or spread >= SMALL_SPREAD or entries > FIRST_WORTH * self._begin.full_cost:
            return
        if self._task.limits.has_deadline:
            yield from expect_look(self._task, entries)
        found = look.look(min(LEFT_OUT, math.exp(-0.25 * spread**2), self._left_unread))
        self._look, self._looked = look, found
        self.is_enough = entries > SMALL_LOOK * self._begin.full_cost
        figures.work_parts["scoring"] += entries
        figures.rounds += 1
        pending = figures.mean_residual * min(1.0, UNCERTAIN * found.unsure)
        figures.estimated_error = tails_error(found.outside, spread, pending, 0.0)
        self._known, self._answer = figures.copy(), {}
        yield Step.RECORD

    # ------------------------------------------------------------ what others take from here
    @property
    def choice(self) -> Choice:
        """The decision for it."""
        return Choice(Way.ROUNDS, self._begin.choice.reason)

    @property
    def beginning(self) -> Beginning:
        """The same, with the active states."""
        active = self._active
        return self._begin._replace(likely=(active.size.copy(), active.start.copy(), active.slot.copy()))

    def whole(self) -> WholeModel:
        """Return what rounds on the same graph have in common; it holds the memory of this one."""
        given = self._compiled, self._domains
        return WholeModel(*given, sum_out=True, prior=self._model.prior, owner=self._memory)

    def put_messages(self, model: ActiveModel) -> None:
        """Put messages in place of those of a model of the same states."""
        hand_over(self._model, self._active, model.layout, model.arrays)

    def put_all(self, workspace: Workspace) -> None:
        """Put messages, and what a look has found, in place of those of a workspace over all states."""
        if self._looked is not None and workspace.arrays.arithmetic == LINEAR:
            put_all(self._model, self._active, self._looked.candidates, workspace.layout, workspace.arrays)

    def known(self, model: ActiveModel) -> Known:
        """Return what is known, as rounds that go on from here take it down.

        Args:
            model: Of the same states, with the same messages.
        """
        figures, found, n = self._task.figures.copy(), self._looked, len(self._model.is_leaf)
        if found is None:
            return Known(model, figures, None, np.ones(n), np.ones(n), left=1.0, left_out=self._left_unread)
        tail = Tail(found.odds, math.log(found.least), found.spread)
        outside = found.odds / (1.0 + found.odds)
        return Known(model, figures, found.candidates, outside, np.zeros(n), 0.0, tail, self._left_unread)

    # ------------------------------------------------------------ reading
    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what is known; leaves are read when somebody asks for marginals, unless tables may change before."""
        if self._known is None:
            return None
        if not self._answer:
            model, sizes, looked = self._model, self._active.size, self._looked
            marginals = Marginals(self._compiled.variables, self._beliefs(), model.slot_start, NO_STATES)
            if self._compiled.lends_tables and not bool((model.kind == SCALED).all()):
                marginals.read()
            self._answer = {
                "marginals": marginals,
                "log_z": self._log_z + (looked.log_z if looked else 0.0),
                "outside": looked.mass if looked else 1.0,
                "error": self._known.estimated_error,
                "domain_sizes": read_only(np.where(model.is_leaf, model.universe_sizes, sizes)),
                "arithmetic": "linear",
                "factor_marginals": NOT_ASKED_FOR,
            }
        figures = self._known.copy() if settled or self._task.figures.consistent else self._task.figures.copy()
        figures.seconds = self._task.figures.seconds
        return Snapshot.holding(**self._answer, **figures.shown())

    def _beliefs(self) -> Callable[[], FloatArray]:
        """Return what makes the beliefs of all states."""
        if self._look is None or self._looked is None:
            return partial(_beliefs, self._model, self._active, self._left_unread, self._memory)
        return partial(self._look.beliefs, self._looked)

    @property
    def error(self) -> float:
        """The estimated error; infinite before anybody has looked at the states outside."""
        return math.inf if self._known is None else self._known.estimated_error

    @property
    def _left_unread(self) -> float:
        """Part of the weight of joint active states that leaves do not count."""
        return LEFT_UNREAD * math.exp(-self._begin.nats)


def _beliefs(model: Relations, active: ActiveRelations, left_out: float, memory: SpareMemory) -> FloatArray:
    """Return the beliefs of all states of all variables, in order; with scratch of its own, for any thread.

    Args:
        model: The graph.
        active: Messages that have settled.
        left_out: Part of the weight of a factor's joint active states that leaves do not count.
        memory: What all this is in, and stays in as long as beliefs may be asked for.
    """
    found, scratch = np.empty(len(model.prior)), np.empty(len(active.weight) + int(model.universe_sizes.max()))
    line = scratch.__array_interface__["data"][0] + 8 * len(active.weight)
    read_relations(model._replace(line=line), active._replace(weight=scratch[: len(active.weight)]), left_out, found)
    del memory
    return found
