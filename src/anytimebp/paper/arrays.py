"""What kernels need to grow domains. V variables, F factors, E edges, U pairs of a variable and one of its states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Universe
from anytimebp.kernels.codes import ASKED, DYNAMIC, EXHAUSTED, LINEAR, RANKED
from anytimebp.kernels.journal import EPOCH, ROUND
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.tables.store import find_sources
from anytimebp.tables.workspace import Workspace

JOINTS = 4096  # joint states of a factor that are listed at a time


class DomainArrays(NamedTuple):
    """Domains, candidates, and where scores come from.

    Attributes:
        universe_start: (V + 1,) first of a variable's states in arrays of U numbers.
        log_prior: (U,) by state; largest 0; -inf for what evidence or unary factors exclude.
        is_open: (U,) by state: whether it may still join.
        n_open: (V,) how many may.
        slot_state: (U,) by slot: the state in it; a variable's slots start where its states do.
        room: (V,) slots that a variable has room for.
        source_address: (F,) where the numbers of a dense source start.
        source_kind: (F,) LOG_TABLE, POTENTIALS or ASKED.
        table_scale: (F,) what is subtracted from log scores.
        edge_stride: (E,) of the edge's axis in the source.
        is_asked: (V,) whether a factor of the variable is ASKED.
        is_impossible: (V,) whether all states in the domain are excluded, by the variable's own scores or by messages.
        chosen_variable: (grow,) of the states chosen in this round.
        chosen_state: (grow,) the states.
        line: Scratch: a number per state of one variable.
        zero_queue: Scratch for lifting zeros: (3, slots), empty where no factor has zeros.
    """

    universe_start: IndexArray
    log_prior: FloatArray
    is_open: BoolArray
    n_open: IndexArray
    slot_state: IndexArray
    room: IndexArray
    source_address: IndexArray
    source_kind: IndexArray
    table_scale: FloatArray
    edge_stride: IndexArray
    is_asked: BoolArray
    is_impossible: BoolArray
    chosen_variable: IndexArray
    chosen_state: IndexArray
    line: FloatArray
    zero_queue: IndexArray


class JournalArrays(NamedTuple):
    """What was there at the last consistent state and has been changed since.

    Attributes:
        keep: Whether a journal is kept at all.
        counts: Places are named in `kernels.journal`.
        saved_message: Like `message`.
        saved_scale: (E,) like `edge_scale`.
        saved_min: (E,) like `edge_min`.
        saved_total: (F,) like `factor_total`.
        factor_epoch: (F,) the consistent state that a factor was last saved from.
        saved_factor: (F,) the factors saved, in order.
        factor_round: (F,) the round that touched a factor last.
        touched_factor: (F,) the factors touched in this round.
        settled_size: (V,) domain sizes of the last consistent state.
        variable_epoch: (V,) the consistent state after which a variable last grew.
        grown_variable: (V,) the variables that have grown since.
    """

    keep: int
    counts: IndexArray
    saved_message: FloatArray
    saved_scale: FloatArray
    saved_min: FloatArray
    saved_total: FloatArray
    factor_epoch: IndexArray
    saved_factor: IndexArray
    factor_round: IndexArray
    touched_factor: IndexArray
    settled_size: IndexArray
    variable_epoch: IndexArray
    grown_variable: IndexArray


class RankingArrays(NamedTuple):
    """Growth priorities that never change, and the queue of variables by their best open state.

    Attributes:
        score: (U,) by state; empty where no ranking was made.
        state: (U,) each variable's states, best first.
        next_position: (V,) how many of them have joined or are excluded.
        item: (V,) variables in heap order.
        position: (V,) where each variable is in `item`.
        priority: (V,) score of the best open state.
    """

    score: FloatArray
    state: IndexArray
    next_position: IndexArray
    item: IndexArray
    position: IndexArray
    priority: FloatArray


class CandidateArrays(NamedTuple):
    """Growth priorities that change; `kernels.candidates` says how. Empty for those that do not.

    Attributes:
        mode: RANKED, POLLED, DYNAMIC or DYNAMIC_RAW.
        item: (V,) variables in heap order.
        position: (V,) where each variable is in `item`.
        priority: (V,) upper bound of the best open state's score.
        key: (U,) score less what all states of the variable have in common.
        fresh: (U,) the version of the variable in which a key was exact.
        version: (V,) counts how often messages have moved.
        base: (V,) what all scores of a variable have in common.
        slack: (V,) by how much the keys may be too low.
        spent: (V,) entries read for single states since all were scored.
        stale: (V,) whether all must be scored before any can be trusted.
        degree: (V,) number of factors, unary ones included.
        outside_start: (E,) first state of an edge in `outside`.
        outside: Log of what a factor would send, per edge and state, less `edge_slack`.
        edge_slack: (E,) how much larger the truth may be.
        seen: Like `message`: log messages from variables to factors, as last taken in.
        moved: (E,) scratch.
        dirty: (V,) variables to be scored anew.
        is_dirty: (V,) whether a variable is among them.
        n_dirty: (1,) how many there are.
        asked_address: (E,) where the log scores of a ASKED factor lie: states on the edge's axis, slots on others.
        open_state: Scratch: open states of one variable.
        line: Scratch: a number per state of one variable.
        peak: Scratch: the same.
        total: Scratch: the same.
        joint_position: Scratch.
        joint_weight: Scratch.
    """

    mode: int
    item: IndexArray
    position: IndexArray
    priority: FloatArray
    key: FloatArray
    fresh: IndexArray
    version: IndexArray
    base: FloatArray
    slack: FloatArray
    spent: IndexArray
    stale: BoolArray
    degree: FloatArray
    outside_start: IndexArray
    outside: FloatArray
    edge_slack: FloatArray
    seen: FloatArray
    moved: FloatArray
    dirty: IndexArray
    is_dirty: BoolArray
    n_dirty: IndexArray
    asked_address: IndexArray
    open_state: IndexArray
    line: FloatArray
    peak: FloatArray
    total: FloatArray
    joint_position: IndexArray
    joint_weight: FloatArray


def make_domain(universe: Universe, workspace: Workspace, grow: int) -> DomainArrays:
    """Return what is known of the domains of a workspace and of candidates, of which `grow` join in a round."""
    layout, domains, sources = workspace.layout, workspace.domains, find_sources(universe.compiled)
    sizes, slots = domains.sizes, domains.active_slots()
    is_open = universe.allowed.copy()
    is_open[np.repeat(universe.start[:-1], sizes) + domains.slot_state[slots]] = False
    is_asked, is_impossible = np.zeros(len(sizes), dtype=np.bool_), np.zeros(len(sizes), dtype=np.bool_)
    is_asked[layout.edge_variable[sources.kind[layout.edge_factor] == ASKED]] = True
    if len(sizes):
        best = np.maximum.reduceat(workspace.arrays.prior[slots], np.cumsum(sizes) - sizes)
        is_impossible[:] = best == (0.0 if workspace.arrays.arithmetic == LINEAR else -np.inf)
    return DomainArrays(
        universe_start=universe.start,
        log_prior=universe.log_prior,
        is_open=is_open,
        n_open=universe.n_allowed - sizes,
        slot_state=domains.slot_state,
        room=workspace.room.copy(),
        source_address=sources.address,
        source_kind=sources.kind,
        table_scale=workspace.tables.log_scale,
        edge_stride=sources.stride,
        is_asked=is_asked,
        is_impossible=is_impossible,
        chosen_variable=np.zeros(max(1, grow), dtype=np.int64),
        chosen_state=np.zeros(max(1, grow), dtype=np.int64),
        line=np.empty(int(universe.compiled.universe_sizes.max(initial=1))),
        zero_queue=np.empty((3, 0), dtype=np.int64),
    )


def make_journal(layout: GraphLayout, sizes: IndexArray, n_slots: int) -> JournalArrays:
    """Return an empty journal."""
    n_edges, n_factors, n_variables = len(layout.edge_variable), len(layout.factor_edge_start) - 1, len(sizes)
    counts = np.zeros(5, dtype=np.int64)
    counts[EPOCH] = counts[ROUND] = 1
    return JournalArrays(
        keep=1,
        counts=counts,
        saved_message=np.empty(n_slots),
        saved_scale=np.ones(n_edges),
        saved_min=np.empty(n_edges),
        saved_total=np.ones(n_factors),
        factor_epoch=np.zeros(n_factors, dtype=np.int64),
        saved_factor=np.empty(n_factors, dtype=np.int64),
        factor_round=np.zeros(n_factors, dtype=np.int64),
        touched_factor=np.empty(n_factors, dtype=np.int64),
        settled_size=sizes.copy(),
        variable_epoch=np.zeros(n_variables, dtype=np.int64),
        grown_variable=np.empty(n_variables, dtype=np.int64),
    )


def no_journal() -> JournalArrays:
    """Return a journal that is not kept."""
    none, zeros = np.empty(0), np.empty(0, dtype=np.int64)
    return JournalArrays(0, zeros, none, none, none, none, zeros, zeros, zeros, zeros, zeros, zeros, zeros)


def no_ranking(n_variables: int) -> RankingArrays:
    """Return an empty ranking."""
    order = np.arange(n_variables)
    return RankingArrays(
        np.empty(0),
        np.empty(0, dtype=np.int64),
        np.zeros(n_variables, dtype=np.int64),
        order,
        order.copy(),
        np.full(n_variables, EXHAUSTED),
    )


def make_candidates(compiled: CompiledGraph, mode: int, n_slots: int) -> CandidateArrays:
    """Return growth priorities of which nothing is known yet; as good as empty where a mode does not need them."""
    layout, sizes = compiled.arrays, compiled.universe_sizes
    n_edges = len(layout.edge_variable) if mode >= DYNAMIC else 0
    n_variables = len(sizes) if mode != RANKED else 0
    n_pairs, widest = int(sizes.sum()) if mode != RANKED else 0, int(sizes.max(initial=1))
    edge_sizes = sizes[layout.edge_variable[:n_edges]]
    order = np.arange(n_variables)
    degree = np.diff(layout.variable_edge_start)[:n_variables].astype(np.float64)
    for block in compiled.unary_blocks if n_variables else []:
        np.add.at(degree, block.scopes[:, 0], 1.0)
    return CandidateArrays(
        mode=mode,
        item=order,
        position=order.copy(),
        priority=np.full(n_variables, np.inf),
        key=np.zeros(n_pairs),
        fresh=np.full(n_pairs, -1, dtype=np.int64),
        version=np.zeros(n_variables, dtype=np.int64),
        base=np.zeros(n_variables),
        slack=np.zeros(n_variables),
        spent=np.zeros(n_variables, dtype=np.int64),
        stale=np.full(n_variables, fill_value=mode >= DYNAMIC, dtype=np.bool_),
        degree=degree,
        outside_start=np.cumsum(edge_sizes) - edge_sizes,
        outside=np.empty(int(edge_sizes.sum())),
        edge_slack=np.full(n_edges, np.inf),
        seen=np.full(n_slots if n_edges else 0, -np.inf),
        moved=np.zeros(n_edges),
        dirty=np.empty(n_variables, dtype=np.int64),
        is_dirty=np.zeros(n_variables, dtype=np.bool_),
        n_dirty=np.zeros(1, dtype=np.int64),
        asked_address=np.zeros(n_edges, dtype=np.int64),
        open_state=np.empty(widest + 1, dtype=np.int64),
        line=np.empty(widest),
        peak=np.empty(widest),
        total=np.empty(widest),
        joint_position=np.empty(JOINTS, dtype=np.int64),
        joint_weight=np.empty(JOINTS),
    )
