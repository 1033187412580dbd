"""What exact inference costs: entries and bytes, and whether these fit into memory."""

from __future__ import annotations

import numpy as np

from anytimebp.errors import MemoryLimitError
from anytimebp.exact.order import Shape
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import MEASURING, MOST_ENTRIES, TooWide, Tree, plan, plan_by
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import ASKED_AT_ONCE, IndexArray
from anytimebp.model.summary import BYTES_PER_SCORE, format_bytes
from anytimebp.tables.memory import check_axes, factor_entries, memory_limit, whose_memory

MOST_READABLE = 1e15  # counts that are written out
FEW = 2.0**25  # entries that any machine holds, for which nobody asks how much memory there is


def tree_bytes(compiled: CompiledGraph, sizes: IndexArray, tree: Tree) -> int:
    """Return the bytes that a run on a tree allocates: tables of factors and cliques, and messages."""
    entries = factor_entries(compiled.arrays, sizes)
    asked = 0.0
    if not compiled.has_tables_only:
        asked = BYTES_PER_SCORE * min(float(ASKED_AT_ONCE), float(entries.max(initial=0.0)))
    numbers = float(entries.sum()) + tree.entries + tree.message_entries + tree.largest_message
    states = float(sizes.sum(dtype=np.float64))
    return int(8.0 * numbers + asked + 48.0 * states + 8.0 * (len(tree.arrays.scope) + 16.0 * tree.n))


def shape_of(compiled: CompiledGraph, part: Part | None) -> CompiledGraph | Shape:
    """Return what orders of a part of a graph depend on, or of all of it."""
    return compiled if part is None or part.kept is None else Shape.of_part(compiled, part)


def plan_within(compiled: CompiledGraph, sizes: IndexArray, max_memory: int | None, part: Part | None = None) -> Tree:
    """Return a tree for domains of these sizes that fits into memory.

    Args:
        compiled: The graph.
        sizes: (V,) domain sizes.
        max_memory: Bytes that a run may allocate.
        part: What of the graph is to be solved; None for all.

    Raises:
        MemoryLimitError: If there is none; says how much it would need, if that can be found out quickly.
        OptionError: If a factor has more variables than a table has axes.
    """
    check_axes(compiled, "exact")
    shape, wanted = shape_of(compiled, part), sizes if part is None else part.sizes
    tree = plan(shape, wanted, FEW if max_memory is None else min(FEW, max_memory / 8.0))
    if isinstance(tree, TooWide):
        there = memory_limit(MOST_ENTRIES, max_memory)
        tree = plan(shape, wanted, MOST_ENTRIES if there is None else there / 8.0)
    if isinstance(tree, TooWide):
        tree = plan(shape, wanted, MOST_ENTRIES, MEASURING)
    check_tree(compiled, sizes, tree, max_memory)
    assert isinstance(tree, Tree)  # noqa: S101  (it would have been refused)
    return tree


def plan_by_order(compiled: CompiledGraph, sizes: IndexArray, order: IndexArray, max_memory: int | None) -> Tree:
    """Return the tree that belongs to an order, if it fits into memory; raise MemoryLimitError if not."""
    tree = plan_by(compiled, sizes, order)
    check_tree(compiled, sizes, tree, max_memory)
    assert isinstance(tree, Tree)  # noqa: S101  (it would have been refused)
    return tree


def count_text(entries: float) -> str:
    """Return a count in words that can be read, however large it is."""
    return f"{entries:,.0f}" if entries < MOST_READABLE else f"{entries:.1e}"


def check_tree(compiled: CompiledGraph, sizes: IndexArray, tree: Tree | TooWide, max_memory: int | None) -> None:
    """Raise MemoryLimitError if there are not the bytes that a run on a tree needs."""
    is_tree = isinstance(tree, Tree)
    needed = tree_bytes(compiled, sizes, tree) if isinstance(tree, Tree) else int(8.0 * min(tree.entries, 1e300))
    limit = memory_limit(needed, max_memory)
    if is_tree and (limit is None or needed <= limit):
        return
    most = "" if is_tree else "more than "
    there = "any machine has" if limit is None else f"the {format_bytes(limit)} that {whose_memory(max_memory)}"
    msg = (
        f"exact inference needs cliques of {most}{count_text(tree.entries)} entries in all, "
        f"{most}{format_bytes(needed)} ({needed:,} bytes) of memory, more than {there}; "
        'observe more variables, or use `method="adaptive"`, which ends at belief propagation'
    )
    raise MemoryLimitError(msg)
