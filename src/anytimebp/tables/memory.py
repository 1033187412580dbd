"""Counts what is summed over given domains, and refuses runs that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anytimebp.errors import MemoryLimitError, OptionError
from anytimebp.kernels.codes import TABLE
from anytimebp.kernels.setting_up import fill_entries
from anytimebp.kernels.structures import SUMS
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import TOO_MANY, describe_factor, row_items, row_starts
from anytimebp.model.source import ASKED_AT_ONCE, MAX_ARITY, FloatArray, IndexArray, joint_states
from anytimebp.model.summary import BYTES_PER_SCORE, format_bytes, full_bp_bytes
from anytimebp.slices import AT_ONCE, parts
from anytimebp.tables.machine import available_memory, total_memory


def factor_kinds(compiled: CompiledGraph, sizes: IndexArray) -> IndexArray:
    """Return (F,) what each factor is over domains of these sizes: TABLE, or a structure."""
    kinds = np.full(len(compiled.arrays.factor_edge_start) - 1, TABLE)
    for first, block in compiled.message_blocks:
        if block.source.sums is not None:
            structured = block.source.is_structured(sizes[block.scopes].astype(np.float64))
            kinds[first : first + len(block.scopes)] = np.where(structured, SUMS[block.source.sums], TABLE)
    return kinds


def factor_entries(layout: GraphLayout, sizes: IndexArray) -> FloatArray:
    """Return (F,) the entries of each factor's table over domains of these sizes."""
    entries = np.empty(len(layout.factor_edge_start) - 1)
    fill_entries(layout.factor_edge_start, layout.edge_variable, sizes, entries)
    return entries


def table_entries(layout: GraphLayout, sizes: IndexArray) -> float:
    """Return the entries of all tables together."""
    start, total = layout.factor_edge_start, 0.0
    entries = np.empty(min(AT_ONCE, len(start) - 1))  # of some factors at a time: new memory is slow
    for first, last in parts(len(start) - 1, AT_ONCE):
        some = entries[: last - first]
        fill_entries(start[first : last + 1], layout.edge_variable, sizes, some)
        total += float(np.add.reduce(some))
    return total


def update_entries(compiled: CompiledGraph, sizes: IndexArray) -> float:
    """Return the entries that an update of every factor reads over domains of these sizes: of tables or structures."""
    if compiled.has_tables_only and sizes is compiled.universe_sizes:
        return compiled.n_joint_states
    if compiled.has_tables_only or all(block.source.sums is None for _, block in compiled.message_blocks):
        return table_entries(compiled.arrays, sizes)
    total = 0.0
    for _, block in compiled.message_blocks:
        each = sizes[block.scopes].astype(np.float64)
        structured = block.source.is_structured(each)
        total += float(np.prod(each[~structured], axis=1).sum())
        total += float(block.source.update_entries(each[structured]).sum())
    return total


def without_table(compiled: CompiledGraph) -> str:
    """Name a factor of more variables than a table has axes, for which there are only its own sums; empty if none."""
    for _, block in compiled.message_blocks if not compiled.has_tables_only else ():
        if block.scopes.shape[1] > MAX_ARITY:
            name = describe_factor(compiled.blocks, compiled.variables, block.first)
            return f"{name} has {block.scopes.shape[1]:,} variables"
    return ""


def check_axes(compiled: CompiledGraph, method: str) -> None:
    """Raise OptionError if a method needs tables of all factors, and there can be none of some factor."""
    found = without_table(compiled)
    if found:
        msg = f"method {method!r} makes tables of all factors, and {found}; {TOO_MANY}"
        raise OptionError(msg)


UNCHECKED_BYTES = 2**28
"""Runs that need less are not checked against the machine: the check would cost more than small runs do.

Nor are runs on all states that need less than an eighth of its memory."""

WITHOUT_TABLES = '; methods "bp", "residual", "adaptive" and "auto" need none'

BYTES_PER_STATE = 80
"""What a run on sparse domains keeps of every state: prior, slot, priorities."""


def check_memory(compiled: CompiledGraph, domain_sizes: IndexArray, max_memory: int | None) -> None:
    """Raise MemoryLimitError if a run over these domains needs more than there is, naming the largest factor."""
    unchecked = max(UNCHECKED_BYTES, total_memory() // 8)
    is_quick = max_memory is None and compiled.has_tables_only
    if is_quick and _bound_of_tables(compiled, domain_sizes, unchecked) < unchecked:
        return
    most = _upper_bound(compiled, domain_sizes)
    limit = memory_limit(most, max_memory, unchecked)
    if limit is None or (most <= limit and all(block.source.sums is None for block in compiled.blocks)):
        return
    needed = full_bp_bytes(compiled.blocks, domain_sizes)
    if needed <= limit:
        return
    msg = (
        f"a run over all states needs {format_bytes(needed)} ({needed:,} bytes), more than the "
        f"{format_bytes(limit)} that {whose_memory(max_memory)}{_largest(compiled, domain_sizes)}; "
        '`method="adaptive"` needs no such tables'
    )
    raise MemoryLimitError(msg)


def check_universe(compiled: CompiledGraph, max_memory: int | None) -> None:
    """Raise MemoryLimitError if there is no room for a few numbers per state, naming the largest variable."""
    sizes = compiled.universe_sizes
    needed = BYTES_PER_STATE * float(sizes.sum(dtype=np.float64))
    limit = memory_limit(needed, max_memory)
    if limit is not None and needed > limit:
        largest = int(sizes.argmax())
        msg = (
            f"a run on sparse domains needs {format_bytes(needed)} ({needed:,.0f} bytes), {BYTES_PER_STATE} bytes per "
            f"state, more than the {format_bytes(limit)} that {whose_memory(max_memory)}; variable "
            f"{compiled.variables.name(largest)!r} alone has {int(sizes[largest]):,} states"
        )
        raise MemoryLimitError(msg)


def first_bytes(compiled: CompiledGraph, domain_sizes: IndexArray, *, scores_candidates: bool) -> int:
    """Return the bytes that a run on sparse domains takes at first, with room for domains of these sizes."""
    needed = asked = 0.0
    for _, block in compiled.message_blocks:
        sizes = domain_sizes[block.scopes].astype(np.float64)
        tables = 8.0 * np.prod(sizes, axis=1)
        needed += float(tables.sum()) + 24.0 * float(sizes.sum())
        is_asked = block.source.tables is None
        if is_asked:
            asked = max(asked, min(ASKED_AT_ONCE, float(tables.max()) / 8.0))
        if scores_candidates:
            needed += 8.0 * float(len(block.scopes) * np.sum(block.source.shape, dtype=np.float64))
            if is_asked:
                needed += float((tables[:, np.newaxis] / sizes * np.array(block.source.shape)).sum())
    return int(
        needed + BYTES_PER_SCORE * asked + BYTES_PER_STATE * float(compiled.universe_sizes.sum(dtype=np.float64))
    )


def memory_limit(needed: float, max_memory: int | None, unchecked: float = UNCHECKED_BYTES) -> int | None:
    """Return the bytes that a run may use; None if there is no known limit, or if it needs few (`needed`)."""
    if max_memory is not None:
        return max_memory
    return None if needed < unchecked else available_memory()


def whose_memory(max_memory: int | None) -> str:
    """Return what limits the memory, to complete "the bytes that"."""
    return "are free on this machine" if max_memory is None else "`max_memory` allows"


def check_first_domains(compiled: CompiledGraph, domain_sizes: IndexArray, needed: int, max_memory: int | None) -> None:
    """Raise MemoryLimitError if there are not the bytes that first domains of these sizes need."""
    limit = memory_limit(needed, max_memory)
    if limit is not None and needed > limit:
        msg = (
            f"the first domains need {format_bytes(needed)} ({needed:,} bytes), more than the "
            f"{format_bytes(limit)} that {whose_memory(max_memory)}{_largest(compiled, domain_sizes, as_tables=True)}"
        )
        raise MemoryLimitError(msg)


def exceeds_memory(used: int, more: int, max_memory: int | None) -> bool:
    """Tell whether a run that grows would need more memory than `max_memory` allows, or than there is."""
    if max_memory is not None:
        return used + more > max_memory
    if used + more < UNCHECKED_BYTES:
        return False
    available = available_memory()
    return available is not None and more > available


def held_bytes(*groups: Iterable[object]) -> int:
    """Return the bytes of all arrays in some groups, each counted once."""
    arrays = {id(array): array.nbytes for group in groups for array in group if isinstance(array, np.ndarray)}
    return sum(arrays.values())


def _upper_bound(compiled: CompiledGraph, domain_sizes: IndexArray) -> float:
    """Return what a run needs at the most, as if no table were shared: quick. Structures may need more than tables."""
    entries = factor_entries(compiled.arrays, domain_sizes)
    tables = 42.0 * float(entries.sum()) + (BYTES_PER_SCORE + 2.0) * float(entries.max(initial=0.0))
    return tables + 8.0 * compiled.n_slots + 80.0 * len(compiled.arrays.edge_variable) + 32.0 * compiled.n_states


def _bound_of_tables(compiled: CompiledGraph, domain_sizes: IndexArray, unchecked: float) -> float:
    """Return what a run needs at the most if all factors are tables; not sharper than it takes to be `unchecked`."""
    messages = 8.0 * compiled.n_slots + 80.0 * len(compiled.arrays.edge_variable) + 32.0 * compiled.n_states
    whole = (8.0 + 16.0 * MAX_ARITY) * compiled.n_table_entries + messages
    if domain_sizes is compiled.universe_sizes:
        return whole
    most = (44.0 + BYTES_PER_SCORE) * compiled.n_joint_states + messages
    if most < unchecked:
        return most
    layout = compiled.arrays  # evidence cuts tables that factors share for each of its own factors, and no others
    observed = np.flatnonzero(domain_sizes < compiled.universe_sizes)
    first, start = layout.variable_edge_start[observed], layout.factor_edge_start
    edges = layout.variable_edge[row_items(first, layout.variable_edge_start[observed + 1] - first)]
    factors = np.unique(layout.edge_factor[edges])
    arity = start[factors + 1] - start[factors]
    sizes = compiled.universe_sizes[layout.edge_variable[row_items(start[factors], arity)]].astype(np.float64)
    cut = float(np.multiply.reduceat(sizes, row_starts(arity)[:-1]).sum()) if len(factors) else 0.0
    return min(most, whole + (44.0 + BYTES_PER_SCORE) * cut)


def _largest(compiled: CompiledGraph, domain_sizes: IndexArray, *, as_tables: bool = False) -> str:
    """Name the factor with the largest table.

    Args:
        compiled: The graph.
        domain_sizes: (V,) of the domains.
        as_tables: Whether structures are written out as tables; then say what does without, if the factor is one.
    """
    best, best_entries, instead = -1, 0.0, ""
    for _, block in compiled.message_blocks:
        sizes = domain_sizes[block.scopes].astype(np.float64)
        structured = block.source.is_structured(sizes)
        entries = joint_states(sizes) if as_tables else np.where(structured, 0.0, joint_states(sizes))
        offset = int(entries.argmax())
        if entries[offset] > best_entries:
            best, best_entries = block.first + offset, float(entries[offset])
            instead = WITHOUT_TABLES if as_tables and structured[offset] else ""
    if best < 0:
        return ""
    name = describe_factor(compiled.blocks, compiled.variables, best)
    return f"; the largest table is that of {name}, {format_bytes(8 * best_entries)}{instead}"
