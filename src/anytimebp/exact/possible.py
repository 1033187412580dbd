"""Domains without some of their states: those that are unlikely, and those that hard zeros exclude.

States that zeros exclude are found before the cliques are planned (`kernels/impossible.py`). Each one that goes makes
every clique of its variable smaller. It costs a pass or two over the tables with zeros, so that it is done only where
cliques are large.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree
from anytimebp.kernels.cutting import where_tables_lie
from anytimebp.kernels.impossible import SupportArrays, exclude_states
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_starts
from anytimebp.model.source import BoolArray, IndexArray

ZEROS = "states that zeros exclude"  # the kernels for it
LEAST_ENTRIES = 2**18  # of all cliques, under which looking for states that may go costs more than it saves
WORTH = 8.0  # times the entries of all tables that both passes read, from which on it may pay to look for them
SHARE = 0.7  # of the entries of all cliques that may be left at the most, so that cutting all tables pays
MOST_ENTRIES = 2**22  # of tables that are looked at: some milliseconds


class Possible(NamedTuple):
    """What is left of a model without the states that zeros exclude.

    Attributes:
        domains: The states that are left, with their priors.
        part: Of the graph, with the sizes of these.
    """

    domains: Domains
    part: Part


def restricted(whole: Domains, keep: BoolArray) -> Domains:
    """Return domains of some of all states, a state at least of each variable, with priors whose largest is 0 again.

    A variable of one state has no clique, so that its prior must be in the scale.

    Args:
        whole: All states that the evidence allows.
        keep: Which of their slots stay.
    """
    if keep.all():
        return whole
    first = whole.slot_start[:-1]
    sizes = np.add.reduceat(keep.astype(np.int64), first)
    states = np.arange(len(keep)) - np.repeat(first, whole.sizes) if whole.is_whole else whole.slot_state
    start, log_prior = row_starts(sizes), whole.log_prior[keep]
    largest = np.maximum.reduceat(log_prior, start[:-1])
    finite = np.where(log_prior > -np.inf, log_prior, np.inf)
    possible = np.maximum(largest, -1e300)  # a variable whose states are all impossible has no scale
    return Domains(
        sizes=sizes,
        slot_start=start,
        slot_state=states[keep],
        log_prior=log_prior - np.repeat(possible, sizes),
        log_prior_scale=whole.log_prior_scale + largest,
        log_prior_min=np.minimum(0.0, np.minimum.reduceat(finite, start[:-1]) - possible),
        scored=whole.scored,
    )


def may_shrink(compiled: CompiledGraph, tree: Tree | None) -> bool:
    """Tell whether it may pay to look for states that zeros exclude.

    Args:
        compiled: The graph.
        tree: Of cliques over all states; None where it is too wide.
    """
    is_large = tree is None or (tree.entries >= LEAST_ENTRIES and tree.work >= WORTH * compiled.n_joint_states)
    return is_large and bool(compiled.extent.has_zero.any())


def is_smaller(tree: Tree, whole: Tree | None) -> bool:
    """Tell whether a tree over the possible states is enough smaller than the one over all, if there is one."""
    return whole is None or tree.entries < SHARE * whole.entries


def possible_part(compiled: CompiledGraph, domains: Domains, part: Part) -> Possible | None:
    """Return what is left without the states that zeros exclude; None if all stay, or no joint state is possible.

    Args:
        compiled: The graph.
        domains: All states that the evidence allows.
        part: Of the graph, that is to be solved.
    """
    start, known = row_starts(compiled.universe_sizes), _without_evidence(compiled)
    position: slice | IndexArray = slice(None)
    if not domains.is_whole:
        position = domains.slot_state + np.repeat(start[:-1], domains.sizes)
    is_possible: BoolArray = np.zeros(int(start[-1]), dtype=np.bool_)
    is_possible[position] = domains.log_prior > -np.inf
    is_possible &= known
    is_news: BoolArray = np.logical_or.reduceat(is_possible != known, start[:-1])
    gone, _ = exclude_states(part.layout, _arrays(compiled, part.layout, is_possible, is_news), MOST_ENTRIES)
    keep: BoolArray = is_possible[position]
    if gone < 0 or keep.all() or not np.logical_or.reduceat(keep, domains.slot_start[:-1]).all():
        return None
    left = restricted(domains, keep)
    sizes = left.sizes if part.kept is None else np.where(part.sizes > 0, left.sizes, 0)
    return Possible(left, part._replace(sizes=sizes))


def _without_evidence(compiled: CompiledGraph) -> BoolArray:
    """Return the states that the zeros of tables leave, whatever unary factors and evidence say; found out once."""
    known = compiled.shared_tables.get(ZEROS)
    if isinstance(known, np.ndarray):
        return known
    left = np.ones(int(compiled.universe_sizes.sum()), dtype=np.bool_)
    is_news = np.ones(len(compiled.universe_sizes), dtype=np.bool_)
    exclude_states(compiled.arrays, _arrays(compiled, compiled.arrays, left, is_news), MOST_ENTRIES)
    compiled.shared_tables[ZEROS] = left
    return left


def _arrays(compiled: CompiledGraph, layout: GraphLayout, is_possible: BoolArray, is_news: BoolArray) -> SupportArrays:
    """Return what the search reads and writes."""
    sizes, n_factors = compiled.universe_sizes, len(layout.factor_edge_start) - 1
    address, is_log = np.empty(n_factors, dtype=np.int64), np.empty(n_factors, dtype=np.bool_)
    where_tables_lie(compiled.rows, address, is_log)
    address[~compiled.extent.has_zero] = 0
    before, first = row_starts(sizes[layout.edge_variable]), layout.factor_edge_start
    most = int((before[first[1:]] - before[first[:-1]]).max(initial=0))
    return SupportArrays(
        universe_size=sizes,
        start=row_starts(sizes),
        address=address,
        zero=np.where(is_log, -np.inf, 0.0),
        is_possible=is_possible,
        is_news=is_news,
        is_pending=np.empty(n_factors, dtype=np.bool_),
        queue=np.empty(n_factors, dtype=np.int64),
        axes=np.empty((5, int(np.diff(first).max(initial=1))), dtype=np.int64),
        listed=np.empty(most, dtype=np.int64),
        is_supported=np.empty(most, dtype=np.bool_),
    )
