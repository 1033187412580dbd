"""Where the scores of message factors come from: numbers in memory, or questions to a source."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anytimebp.kernels.codes import ASKED, LOG_TABLE, POTENTIALS
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FloatArray, IndexArray


class Sources(NamedTuple):
    """Where dense factors' numbers lie, and what they are.

    Attributes:
        address: (F,) where a dense factor's numbers start, 0 for those that are asked from Python.
        kind: (F,) LOG_TABLE, POTENTIALS or ASKED.
        shift: (F,) largest log score, 0 where it is not known.
        stride: (E,) of the edge's axis in a dense factor's numbers.
    """

    address: IndexArray
    kind: IndexArray
    shift: FloatArray
    stride: IndexArray


def find_sources(compiled: CompiledGraph) -> Sources:
    """Return where the scores of a graph's message factors come from."""
    edge_start, n_factors = compiled.arrays.factor_edge_start, len(compiled.extent.log_max)
    address, kind = np.zeros(n_factors, dtype=np.int64), np.full(n_factors, ASKED)
    stride = np.zeros(len(compiled.arrays.edge_variable), dtype=np.int64)
    for first, block in compiled.message_blocks:
        tables, n = block.source.tables, len(block.scopes)
        if tables is not None:
            address[first : first + n] = tables.member_addresses()
            kind[first : first + n] = LOG_TABLE if tables.is_log else POTENTIALS
            steps = np.cumprod([1, *tables.shape[:0:-1]])[::-1]
            stride[edge_start[first] : edge_start[first + n]] = np.tile(steps, n)
    log_max = compiled.extent.log_max
    return Sources(address, kind, np.where(np.isnan(log_max), 0.0, log_max), stride)
