"""The tables of all factors over given domains: the same as for BP, but structures become tables, too."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.kernels.codes import LINEAR, LOG, MAX_LINEAR_RANGE
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.tables.making import make_tables, reuse_tables
from anytimebp.tables.store import SHARED_BYTES, Tables
from anytimebp.tables.workspace import first_arithmetic


def make_potentials(compiled: CompiledGraph, domains: Domains) -> Generator[int, None, Tables]:
    """Return tables of all message factors, those of wide ranges as logs; yields the scores asked for so far.

    Factors of variables whose domains are empty get no tables.
    """
    arithmetic = first_arithmetic(compiled, domains.log_prior_min)
    tables = yield from _made(compiled, domains, arithmetic, 0)
    if arithmetic == LINEAR and compiled.widest <= MAX_LINEAR_RANGE and compiled.has_tables_only:
        return tables
    if arithmetic == LINEAR and (tables.log_min < -MAX_LINEAR_RANGE).any():  # a rule's scores, known only now
        tables = yield from _made(compiled, domains, LOG, tables.scored)
    return tables


def _made(compiled: CompiledGraph, domains: Domains, arithmetic: int, asked: int) -> Generator[int, None, Tables]:
    """Make the tables, or take those that an earlier run has left with the layout."""
    kind = np.zeros(len(compiled.extent.log_max), dtype=np.int64)  # TABLE, all of them
    tables = Tables(compiled.extent, arithmetic, kind)
    has_structures = not compiled.has_tables_only and any(b.source.sums is not None for _, b in compiled.message_blocks)
    key = ("written out", arithmetic) if has_structures else arithmetic
    is_whole = domains.is_whole and bool(domains.sizes.all())
    may_reuse = is_whole or (domains.is_whole and compiled.has_tables_only)  # no scores are counted then
    shared = compiled.shared_tables.get(key) if may_reuse else None
    if isinstance(shared, Tables):
        making = reuse_tables(compiled, tables, shared)
    else:
        making = make_tables(compiled, domains, tables)
    for _ in making:
        yield asked + tables.scored
    if is_whole and shared is None and tables.nbytes <= SHARED_BYTES:
        compiled.shared_tables[key] = tables
    tables.scored += asked
    return tables
