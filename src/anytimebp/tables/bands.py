"""Bands of tables with hard zeros, made before sweeps that read them again and again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anytimebp.kernels.bands import LEAST_ENTRIES, fill_bands, find_bands
from anytimebp.kernels.codes import SUM
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.sizes import table_entries
from anytimebp.tables.store import Tables

BANDS = "bands of tables with zeros"  # the kernels that only runs on such tables need
SMALL = 2**16  # entries of all tables, under which finding bands takes as long as some sweeps: most are over by then
LATER = 8  # sweeps before which small tables get no bands
NEVER = 2**62
MOST_ENTRIES = 2**22  # of tables with zeros that are looked through: more would take longer than a slice


def sweeps_before_bands(layout: GraphLayout, arrays: WorkspaceArrays) -> int:
    """Return after how many sweeps it is time to look for bands; NEVER where there are no zeros."""
    if arrays.semiring != SUM or not arrays.table_has_zero.any():
        return NEVER
    return LATER if table_entries(layout, arrays.domain_size) < SMALL else 0


def make_bands(
    layout: GraphLayout, arrays: WorkspaceArrays, tables: Tables, load: Callable[[str], bool] = lambda _: True
) -> None:
    """Give those tables of a run over fixed domains a band that have one.

    Args:
        layout: Topology, of the core or of the whole graph.
        arrays: What goes with it; `table_band` is overwritten.
        tables: Of the run, which keep the bands alive.
        load: Loads the kernels for that while the clock stands still; False if it is given up.
    """
    if arrays.semiring != SUM or not arrays.table_has_zero.any():
        return
    size = arrays.domain_size[layout.edge_variable].astype(np.float64)
    entries = np.multiply.reduceat(size, layout.factor_edge_start[:-1])[arrays.table_has_zero]
    if entries.max() < LEAST_ENTRIES or entries.sum() > MOST_ENTRIES or not load(BANDS):
        return
    last = size[layout.factor_edge_start[1:] - 1][arrays.table_has_zero]
    width, start = np.empty(len(arrays.table_band), dtype=np.int64), np.empty(int((entries / last).sum()), np.int64)
    words = find_bands(layout, arrays, width, start)
    if words:
        made = np.empty(int(words))
        fill_bands(layout, arrays, width, start, made, made.ctypes.data)
        tables.keep(made)
