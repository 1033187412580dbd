"""Where the entries of strips come from: which numbers in memory, which of them exponentiated once for many factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.inference.adaptive.leaf_axes import LeafAxes, leaf_weights
from anytimebp.kernels.codes import ASKED, LOG_TABLE, POTENTIALS, SCALED
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import FactorBlock
from anytimebp.model.rows import row_starts
from anytimebp.model.source import FloatArray, IndexArray

MANY_TIED = 8  # factors that share a log table, from which on it is exponentiated once and for all of them


class StripSources(NamedTuple):
    """Where strips come from: see NestedArrays.

    Attributes:
        axes: Which leaves are summed out.
        address: (F,) where dense factors' numbers lie.
        kind: (F,) what they are.
        shift: (F,) the log of the largest.
        universe_start: (V + 1,) where the states of each variable start in a row of all, leaves included.
        leaf_start: (F,) the same for the factor's leaf.
        leaf_weight: Priors of all states in that row.
        owners: What keeps tables alive that were made for this.
    """

    axes: LeafAxes
    address: IndexArray
    kind: IndexArray
    shift: FloatArray
    universe_start: IndexArray
    leaf_start: IndexArray
    leaf_weight: FloatArray
    owners: tuple[FloatArray, ...]


def find_strip_sources(whole: CompiledGraph, axes: LeafAxes, domains: Domains) -> StripSources:
    """Return where the scores of a graph's message factors come from.

    Log tables that many factors share are exponentiated here, once, and read in place.

    Args:
        whole: The graph.
        axes: The graph without leaves.
        domains: Of the whole graph.
    """
    compiled, kind = axes.compiled, source_kinds(axes.compiled)
    address, owners = np.zeros(len(kind), dtype=np.int64), []
    for first, block in compiled.message_blocks:
        tables, factors = block.source.tables, slice(first, first + len(block.scopes))
        if tables is not None and kind[first] == SCALED:
            owners.append(np.exp(tables.values[0] - tables.range.log_max[0]))
            address[factors] = owners[-1].ctypes.data
        elif tables is not None:
            address[factors] = tables.member_addresses()
    log_max = compiled.extent.log_max
    shift = np.where(np.isnan(log_max), 0.0, log_max)
    start = row_starts(whole.universe_sizes)
    leaf_start = np.where(axes.leaf < 0, -1, start[axes.leaf])
    return StripSources(
        axes, address, kind, shift, start, leaf_start, leaf_weights(axes, start, domains), tuple(owners)
    )


def source_kinds(compiled: CompiledGraph) -> IndexArray:
    """Return (F,) what the factors' sources are; SCALED where many share a log table."""
    kinds = [_source_kind(block) for _, block in compiled.message_blocks]
    return np.repeat(np.array(kinds, dtype=np.int64), [len(block.scopes) for _, block in compiled.message_blocks])


def _source_kind(block: FactorBlock) -> int:
    tables = block.source.tables
    if tables is None:
        return ASKED
    if not tables.is_log:
        return POTENTIALS
    return SCALED if tables.n_members == 1 and len(block.scopes) >= MANY_TIED else LOG_TABLE
