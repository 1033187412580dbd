"""The cost model of `adaptive`: which way of passing messages is worth its cost, decided on counts and sizes alone.

Costs are in entries that could be read in order from a table in the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from enum import Enum
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains, variable_parts
from anytimebp.inference.adaptive.structure_costs import structured_costs, structured_entries
from anytimebp.inference.adaptive.whole_model import ActiveLists, WholeModel
from anytimebp.inference.figures import SLICE_COST
from anytimebp.kernels.active_states import count_entries, weigh_near
from anytimebp.kernels.codes import ASKED, LOG_TABLE, POTENTIALS, SCALED, WIDE_TABLE
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.slices import at_one_go

FULL_COST = 4.0  # to exponentiate an entry in order, into fresh memory
EDGE_COST = 400.0  # what an edge costs in any sweep, however small its table
SWEEPS = 8.0  # over all states that full BP needs for a fair answer
SETTLING = 6.0  # sweeps over the active states until they have settled
ROUND_COST = 1e5  # of a round, however small
SETTING_UP = 300.0  # of a round, per edge
CALL_COST = 1e5  # to ask for a factor's scores from Python, however few
STRUCTURE_COST = 4e5  # the same of lists and structures, beside that: to find what they sum; or best joint states
ASK_COST = 50.0  # to ask for one more
ENTRY_COSTS = np.zeros((6, 2))
"""What it costs to pick up an entry out of order, by the kind of its source; and with a leaf, each of its states."""
ENTRY_COSTS[LOG_TABLE] = ENTRY_COSTS[WIDE_TABLE] = 10.0, 4.0
ENTRY_COSTS[POTENTIALS] = ENTRY_COSTS[SCALED] = 5.0, 1.0
ENTRY_COSTS[ASKED] = ASK_COST, 0.0
FIRST_DOMAINS = (5.0, 3.0, 2.0)  # nats under the best prior, within which states are active at first: the most that pay
NEAR = np.array([*FIRST_DOMAINS[::-1], np.inf])
WITH_LEAVES = (3.0, 2.0)  # the same where leaves are summed out, which have to be read as well
MORE_DOMAINS = (8.0, 12.0, 18.0)  # nats of larger first domains, where they cost little more
FIXED_COST = 5e5  # of a round in Python, whatever its size
MORE = 1.5  # times the cost of a round, with that, that one on larger domains may have
FEW = 0.5  # part of all states that first domains may hold; with more, rounds are not thought about
FIRST_SLICE = 2 * SLICE_COST  # cost of a first round that is made in one slice, of some five milliseconds
FIRST_WORTH = 0.2  # part of full BP that a first answer may cost
FIRST_MASS = 0.8  # of the priors that the first states have to hold, or their answer would be worth little

NONE = np.empty(0, dtype=np.int64)
UNLISTED: ActiveLists = (NONE, NONE, NONE)


class Way(Enum):
    """How messages are passed; the texts say it to people."""

    ROUNDS = "rounds on likely states"
    FULL = "full BP"
    LARGE = "domains that grow in batches"


class Choice(NamedTuple):
    """A decision, with its reason in words."""

    way: Way
    reason: str

    def __str__(self) -> str:
        """Return both, for the trace."""
        return f"{self.way.value}: {self.reason}"


def _counted(whole: WholeModel, size: IndexArray, candidates: IndexArray) -> tuple[float, float, float, float, int]:
    compiled = whole.compiled
    found: tuple[float, float, float, float, int] = count_entries(
        compiled.arrays, whole.sources, compiled.universe_sizes, size, candidates, ENTRY_COSTS
    )
    if not whole.asked:
        return found
    entries, looking, edges = structured_costs(compiled, size, candidates, ASK_COST)
    return found[0] + entries, found[1] + ASK_COST * entries, found[2] + looking, found[3], found[4] + edges


def whole_cost(whole: WholeModel) -> float:
    """Return about what full BP costs: making tables, summing leaves out and sending to them, and some sweeps.

    Potentials are read where they lie. What earlier runs on the graph have made does not count: runs decide the same,
    whichever comes first.
    """
    sizes = np.where(whole.is_leaf, 1, whole.domains.sizes)
    entries, _, _, with_leaves, _ = _counted(whole, sizes, sizes)
    made = 0.0
    for _, block in whole.compiled.message_blocks if whole.asked else ():
        if block.source.sums is not None:
            made += FULL_COST * float(structured_entries(block.source, np.array([block.source.shape], dtype=float))[0])
        elif block.source.tables is None:
            made += ASK_COST * block.source.n_members * math.prod(block.source.shape)
    return made + full_sweeps(whole.log_entries, entries, with_leaves, len(whole.compiled.arrays.edge_variable))


def full_sweeps(log_entries: float, entries: float, with_leaves: float, n_edges: int) -> float:
    """Return about what full BP costs on tables.

    Args:
        log_entries: Entries that have to be exponentiated.
        entries: Of all tables, without leaves that are summed out.
        with_leaves: Of those tables from which leaves are summed out, with all their states.
        n_edges: Edges, without those of these leaves.
    """
    return FULL_COST * log_entries + 2.0 * with_leaves + SWEEPS * (entries + EDGE_COST * n_edges)


def round_cost(whole: WholeModel, size: IndexArray) -> float:
    """Return about what a round on so many active states costs."""
    entries, filling, _, _, busy = _counted(whole, size, size)
    return _asking_cost(whole) + sweeps_cost(entries, filling, busy, len(whole.compiled.arrays.edge_variable))


def sweeps_cost(entries: float, filling: float, busy: float, n_edges: int) -> float:
    """Return about what a round on tables over active states costs.

    Args:
        entries: Of all these tables.
        filling: What it costs to fill them.
        busy: Edges that have to be updated more than once.
        n_edges: All edges.
    """
    return _least_cost(n_edges) + filling + EDGE_COST * n_edges + SETTLING * (entries + EDGE_COST * busy)


def _asking_cost(whole: WholeModel) -> float:
    """Return what it costs in a round to ask factors from Python, however few the states."""
    return CALL_COST * len(whole.asked) + STRUCTURE_COST * whole.n_structures


def _least_cost(n_edges: int) -> float:
    """Return what a round costs, however few the states."""
    return ROUND_COST + SETTING_UP * n_edges


def look_cost(whole: WholeModel, size: IndexArray, candidates: IndexArray) -> float:
    """Return about what it costs to look from so many active states at so many others."""
    return _counted(whole, size, candidates)[2] + 2.0 * CALL_COST * len(whole.asked)


def may_pay(layout: GraphLayout, domains: Domains, prior: FloatArray) -> bool:
    """Tell whether rounds are worth thinking about, by a quick look at the priors of all variables together.

    Variables of one factor are left out, unless there are no others: they may be summed out, whatever their priors are.

    Args:
        layout: Topology.
        domains: All states.
        prior: The exponentials of their log priors.
    """
    return at_one_go(weigh_priors(layout, domains, prior))


def weigh_priors(layout: GraphLayout, domains: Domains, prior: FloatArray | None = None) -> Generator[None, None, bool]:
    """Return what `may_pay` does; pauses on the way. Without priors, they are made part by part."""
    found: dict[bool, list[tuple[IndexArray, FloatArray]]] = {False: [], True: []}
    for first, last in variable_parts(domains.slot_start):
        if first:
            yield
        edge_start, slot_start = layout.variable_edge_start[first : last + 1], domains.slot_start[first : last + 1]
        here = slice(int(slot_start[0]), int(slot_start[-1]))
        log_prior = domains.log_prior[here]
        some = np.exp(log_prior) if prior is None else prior[here]
        count, mass = np.empty(len(NEAR), dtype=np.int64), np.empty(len(NEAR))
        weigh_near(edge_start, slot_start - here.start, log_prior, some, NEAR, count, mass)
        has_leaves_alone = bool((edge_start[1:] - edge_start[:-1] == 1).all())
        found[has_leaves_alone].append((count, mass))
    counts, masses = zip(*(found[False] or found[True]), strict=True)
    *few, all_states = np.sum(counts, axis=0).tolist()
    *held, total = np.sum(masses, axis=0).tolist()
    return any(n <= FEW * all_states and m >= FIRST_MASS * total for n, m in zip(few, held, strict=True))


class Beginning(NamedTuple):
    """How a run begins.

    Attributes:
        choice: The decision.
        full_cost: What full BP costs.
        cost: Of the first round.
        likely: Sizes, starts and slots of the first active states, those of the last attempt if none pay.
        nats: Under the best prior, within which they are.
    """

    choice: Choice
    full_cost: float
    cost: float
    likely: ActiveLists
    nats: float


class Offer(NamedTuple):
    """First domains, and what they are worth.

    Attributes:
        nats: Under the best prior, within which states are.
        likely: Sizes, starts and slots of them; UNLISTED if they are listed once they are chosen.
        mass: Part of the prior that they hold.
        cost: Of a round on them.
    """

    nats: float
    likely: ActiveLists
    mass: float
    cost: float


def first_choice(whole: WholeModel) -> Beginning:
    """Decide between rounds and full BP, before any table is read."""
    full = whole_cost(whole)
    least = _asking_cost(whole) + _least_cost(len(whole.compiled.arrays.edge_variable))
    if whole.asked and least > FIRST_WORTH * full:
        reason = (
            f"{len(whole.asked):,} factors have no tables, and to ask each of them for a few scores would take more "
            f"than {FIRST_WORTH:.0%} of the time of full BP"
        )
        nats = FIRST_DOMAINS[0]
        return Beginning(Choice(Way.FULL, reason), full, math.inf, whole.likely(nats)[0], nats)
    ladder = WITH_LEAVES if whole.has_leaves else FIRST_DOMAINS
    every = (*ladder, *MORE_DOMAINS)
    offers = dict(zip(every, whole.offers(np.array(every)), strict=True))

    def offer_of(nats: float) -> Offer:
        size, mass = offers[nats]
        return Offer(nats, UNLISTED, mass, round_cost(whole, size))

    begin = best_offer(full, ladder, offer_of)
    return begin._replace(likely=whole.likely(begin.nats)[0])


def best_offer(full: float, ladder: tuple[float, ...], offer_of: Callable[[float], Offer]) -> Beginning:
    """Decide between rounds and full BP, given what that costs, and what first domains are on offer.

    Args:
        full: What full BP costs.
        ladder: Nats of first domains, falling; the most that pay are taken.
        offer_of: Returns the domains within some nats.
    """
    for nats in ladder:
        offer = offer_of(nats)
        if offer.cost <= FIRST_WORTH * full and offer.mass >= FIRST_MASS:
            offer = _with_more(offer_of, offer, FIRST_WORTH * full)
            return Beginning(Choice(Way.ROUNDS, _in_words(offer, full)), full, offer.cost, offer.likely, offer.nats)
    return Beginning(Choice(Way.FULL, _in_words(offer, full)), full, offer.cost, offer.likely, offer.nats)


def _in_words(offer: Offer, full: float) -> str:
    """Return what first domains hold and cost, and what speaks against them."""
    states = f"the states within {offer.nats:g} nats of the best unary score"
    if offer.mass < FIRST_MASS:
        return f"{states} hold {offer.mass:.0%} of the prior, and with less than {FIRST_MASS:.0%} an answer says little"
    cost = f"{states} hold {offer.mass:.0%} of the prior, and a round on them takes about {offer.cost / full:.0%} of"
    if offer.cost > FIRST_WORTH * full:
        return f"{cost} the time of full BP, more than the {FIRST_WORTH:.0%} that a first answer is worth"
    return f"{cost} the time of full BP"


def _with_more(offer_of: Callable[[float], Offer], offer: Offer, most: float) -> Offer:
    """Return larger domains, as long as they cost little more: the first answer is better, and as soon.

    Args:
        offer_of: Returns the domains within some nats.
        offer: The smallest.
        most: What a round may cost.
    """
    most = min(most, MORE * (offer.cost + FIXED_COST) - FIXED_COST)
    for nats in MORE_DOMAINS:
        larger = offer_of(nats)
        if larger.cost > most:
            break
        offer = larger
    return offer
