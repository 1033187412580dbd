"""The cost model of `adaptive`: which way of passing messages is worth its cost, decided on counts and sizes alone.

Costs are in entries that could be read from a table in the time: an entry of a table that is made in full costs
FULL_COST, one that is picked up for a strip STRIP_COST, an edge's bookkeeping EDGE_COST, that of rounds ROUNDS_COST.
"""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.inference.adaptive.leaf_axes import LeafAxes
from anytimebp.kernels.codes import LOG_TABLE, SCALED
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.sizes import factor_entries, strip_entries

FULL_COST = 4.0  # to exponentiate an entry in order, into fresh memory
STRIP_COST = 10.0  # to pick an entry up out of order, and exponentiate it
PLACE_COST = 3.0  # to pick up one that is exponentiated already
EXP_COST = 4.0  # to exponentiate an entry that a leaf is summed out of
SUM_COST = 40.0  # to begin such a sum
EDGE_COST = 400.0  # what an edge costs in any sweep, however small its table
SWEEPS = 8.0  # sweeps over the universes that full BP needs for a fair answer
PASSES = 6.0  # sweeps over strips that rounds on domains need for it
ROUNDS_COST = 2e6  # what a few rounds on domains cost, however small
FIRST_DOMAINS = ((5.0, 7.0, 0.2),)
WITH_LEAVES = (*FIRST_DOMAINS, (3.0, 3.0, 0.3), (2.0, 2.0, 0.5))
"""Nats under the best prior within which states are in the first domains, nats within which they are expected to be
later, and the part of full BP that rounds on those may cost.

The first line that is cheap enough is taken; full BP, if none is. Where leaves are summed out, a round mostly
sums, which is not lost if the domains grow on, so smaller domains are worth a larger part."""


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


def pick_costs(axes: LeafAxes, kind: IndexArray) -> FloatArray:
    """Return (E,) what it costs to fill an entry of an edge's strip: to pick it up, or to sum a leaf out."""
    factor, size = axes.compiled.arrays.edge_factor, axes.leaf_size
    cost = np.where(axes.leaf < 0, STRIP_COST, size * np.where(kind == LOG_TABLE, EXP_COST, 1.0) + SUM_COST)
    return np.where((axes.leaf < 0) & (kind == SCALED), PLACE_COST, cost)[factor]


def whole_cost(axes: LeafAxes, sizes: IndexArray, sweeps: float) -> float:
    """Return about what full BP costs: making tables, summing leaves out and sending to them, and some sweeps."""
    layout = axes.compiled.arrays
    core = factor_entries(layout, sizes)
    made = float(axes.table_size.sum())
    if len(axes.compiled.message_blocks) < len(axes.table_size):  # some may share a table
        sources = [block.source for _, block in axes.compiled.message_blocks]
        made = float(sum(source.n_members * prod(source.shape) for source in sources))
    leaves = 2.0 * float((core * np.where(axes.leaf < 0, 0, axes.leaf_size)).sum())
    return FULL_COST * made + leaves + sweeps * (float(core.sum()) + EDGE_COST * len(layout.edge_variable))


def round_cost(strips: float, picked: float, edges: int) -> float:
    """Return about what a round costs that sweeps over the strips, after picking up new entries at some cost."""
    return picked + strips + 3.0 * EDGE_COST * edges


def first_choice(axes: LeafAxes, kind: IndexArray, domains: Domains, *, has_rules: bool) -> tuple[Choice, float]:
    """Decide between domains and full BP, before any table is read.

    Args:
        axes: The graph, without leaves that are summed out.
        kind: (F,) what the factors' sources are.
        domains: All states, and their priors.
        has_rules: Whether scores are asked of rules, which may cost far more than bookkeeping does.

    Returns:
        The choice, and the nats under the best prior within which states are in the first domains.
    """
    full = whole_cost(axes, domains.sizes, SWEEPS)
    nats, text = 0.0, ""
    for nats, later, worth in WITH_LEAVES if len(axes.leaves) else FIRST_DOMAINS:
        expected = np.add.reduceat(domains.log_prior > -later, domains.slot_start[:-1], dtype=np.int64)
        strips = strip_entries(axes.compiled.arrays, expected, domains.sizes)
        sparse = float((pick_costs(axes, kind) * strips).sum())
        sparse += PASSES * (float(strips.sum()) + EDGE_COST * len(strips)) + (0.0 if has_rules else ROUNDS_COST)
        text = f"states within {later:g} nats of the best would cost {_part(sparse, full)} of full BP"
        if sparse < worth * full:
            return Choice(Way.DOMAINS, text), nats
    return Choice(Way.FULL, text), nats


def _part(cost: float, whole: float) -> str:
    return f"{100 * cost / whole:.0f} %" if whole else "as much as all"
