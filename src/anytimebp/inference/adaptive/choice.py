"""The cost model of `adaptive`: which way of passing messages is worth its cost, decided on counts and sizes alone.

Costs are in entries that could be read from a table in the time: an entry of a table that is made in full costs
FULL_COST, one that is picked up for a strip STRIP_COST, an edge's bookkeeping EDGE_COST, that of rounds ROUNDS_COST.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

FULL_COST = 4.0  # to exponentiate an entry in order, into fresh memory
STRIP_COST = 10.0  # to pick an entry up out of order, and exponentiate it
EDGE_COST = 400.0  # what an edge costs in any sweep, however small its table
SWEEPS = 8.0  # sweeps over the universes that full BP needs for a fair answer
PASSES = 6.0  # sweeps over strips that rounds on domains need for it
ROUNDS_COST = 2e6  # what a few rounds on domains cost, however small
WORTH = 0.2  # rounds on domains are begun if they cost less than this part of full BP


class Way(Enum):
    """How messages are passed; the texts say it to people."""

    DOMAINS = "sparse domains"
    TAILS = "full passes with frozen tails"
    FULL = "full BP"
    COMPACT = "domains that grow in batches"
    GROWTH = "growth one state at a time"


class Choice(NamedTuple):
    """A decision, with its reason in words."""

    way: Way
    reason: str

    def __str__(self) -> str:
        """Return both, for the trace."""
        return f"{self.way.value}: {self.reason}"


class Counts(NamedTuple):
    """What the decision goes by.

    Attributes:
        entries: Of all tables in full.
        strips: Of the strips over domains as they are expected.
        edges: Of the graph.
        share: Part of all states that the expected domains hold.
        has_rules: Whether scores are asked of rules, which may cost far more than bookkeeping does.
    """

    entries: float
    strips: float
    edges: int
    share: float
    has_rules: bool


def full_cost(counts: Counts) -> float:
    """Return about what full BP costs."""
    return FULL_COST * counts.entries + SWEEPS * sweep_cost(counts.entries, counts.edges)


def sweep_cost(entries: float, edges: int) -> float:
    """Return about what one sweep over tables of so many entries costs."""
    return entries + EDGE_COST * edges


def round_cost(strips: float, new: float, edges: int) -> float:
    """Return about what a round costs that picks up so many new entries and sweeps over the strips."""
    return STRIP_COST * new + strips + 3.0 * EDGE_COST * edges


def first_choice(counts: Counts) -> Choice:
    """Decide between domains and full BP, before any table is read."""
    sparse = STRIP_COST * counts.strips + PASSES * (counts.strips + EDGE_COST * counts.edges)
    sparse += 0.0 if counts.has_rules else ROUNDS_COST
    text = (
        f"domains of {100 * counts.share:.1f} % of the states would cost {_part(sparse, full_cost(counts))} of full BP"
    )
    return Choice(Way.DOMAINS if sparse < WORTH * full_cost(counts) else Way.FULL, text)


def _part(cost: float, whole: float) -> str:
    return f"{100 * cost / whole:.0f} %" if whole else "as much as all"
