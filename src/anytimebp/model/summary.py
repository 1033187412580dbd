"""What can be said of a graph from its shape alone: memory, components, forest or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anytimebp.model.factor import FactorBlock
from anytimebp.model.source import ASKED_AT_ONCE, FloatArray, IndexArray

BYTES_PER_SCORE = 64  # while it is asked for: rules make copies of their own
MOST_DIGITS = 21  # of counts that are written out


class GraphSummary(NamedTuple):
    """The size of a graph. `str()` shows it as a small table.

    Attributes:
        n_variables: Number of variables.
        n_factors: Number of factors.
        n_edges: Number of (factor, variable) pairs.
        universe_min: Number of states of the smallest variable.
        universe_mean: Mean number of states.
        universe_max: Number of states of the largest variable.
        arity_max: Number of variables of the largest factor.
        table_entries: Entries of the tables of all factors. Shared tables count once per factor, and a rule counts as
            the table that it would fill.
        table_bytes: Memory of the scores as they are stored. Shared tables count once, and rules need none.
        full_bp_bytes: Further memory that a run over all states needs.
        n_components: Number of connected components.
        is_forest: Whether the graph has no loops.
        n_structures: Number of factors given by a list of entries or a structure. They are not among the tables.
        listed_entries: Entries of these factors. Shared lists count once per factor.
        listed_joint_states: Entries that these factors would have as tables.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 10)
        >>> _ = graph.add_factors([[0, 1], [1, 2]], log_table=np.eye(10))
        >>> summary = graph.summary()
        >>> summary.table_entries, summary.is_forest
        (200, True)
    """

    n_variables: int
    n_factors: int
    n_edges: int
    universe_min: int
    universe_mean: float
    universe_max: int
    arity_max: int
    table_entries: int
    table_bytes: int
    full_bp_bytes: int
    n_components: int
    is_forest: bool
    n_structures: int = 0
    listed_entries: int = 0
    listed_joint_states: int = 0

    def __str__(self) -> str:
        """Return the figures, one a line."""
        rows = [
            ("variables", f"{self.n_variables:,}"),
            ("universe sizes", f"{self.universe_min:,} to {self.universe_max:,}, mean {self.universe_mean:,.1f}"),
            ("factors", f"{self.n_factors:,} (largest arity {self.arity_max})"),
            ("table entries", f"{self.table_entries:,}"),
            *([("listed entries", self._listed())] if self.n_structures else []),
            ("stored", f"{format_bytes(self.table_bytes)} of scores"),
            ("full BP needs", f"{format_bytes(self.full_bp_bytes)} more"),
            ("components", f"{self.n_components:,} ({'a forest' if self.is_forest else 'with loops'})"),
        ]
        return "\n".join(f"{name:<15}{value}" for name, value in rows)

    def _listed(self) -> str:
        factors = "1 factor" if self.n_structures == 1 else f"{self.n_structures:,} factors"
        joint, digits = self.listed_joint_states, int(self.listed_joint_states.bit_length() * math.log10(2.0))
        count = f"{joint:,}" if digits <= MOST_DIGITS else f"about 10^{digits}"
        return f"{self.listed_entries:,} of {factors} with {count} joint states"


def summarise(blocks: Sequence[FactorBlock], sizes: IndexArray) -> GraphSummary:
    """Return the figures of a graph given by its factors and universe sizes."""
    n_factors = sum(len(block.scopes) for block in blocks)
    n_edges = sum(block.scopes.size for block in blocks)
    components = count_components(blocks, len(sizes), n_factors)
    tables = [block for block in blocks if block.source.sums is None]
    others = [block for block in blocks if block.source.sums is not None]
    return GraphSummary(
        n_variables=len(sizes),
        n_factors=n_factors,
        n_edges=n_edges,
        universe_min=int(sizes.min(initial=0 if not sizes.size else sizes[0])),
        universe_mean=float(sizes.mean()) if sizes.size else 0.0,
        universe_max=int(sizes.max(initial=0)),
        arity_max=max((block.scopes.shape[1] for block in blocks), default=0),
        table_entries=sum(math.prod(block.source.shape) * len(block.scopes) for block in tables),
        table_bytes=sum(stored_bytes(block) for block in blocks),
        full_bp_bytes=full_bp_bytes(blocks, sizes),
        n_components=components,
        is_forest=n_edges == len(sizes) + n_factors - components,
        n_structures=sum(len(block.scopes) for block in others),
        listed_entries=sum(_stored_entries(block) * len(block.scopes) for block in others),
        listed_joint_states=sum(math.prod(block.source.shape) * len(block.scopes) for block in others),
    )


def full_bp_bytes(blocks: Sequence[FactorBlock], domain_sizes: IndexArray) -> int:
    """Return the bytes a full run allocates beyond the graph: messages, beliefs, tables made for it, and scratch.

    Args:
        blocks: The factors.
        domain_sizes: States that take part, per variable; the universes where there is no evidence.
    """
    total, scratch, making, room = 32.0 * float(domain_sizes.sum(dtype=np.float64)), 0.0, 0.0, 0.0
    for block in blocks:
        if block.scopes.shape[1] == 1:
            continue
        sizes = domain_sizes[block.scopes].astype(np.float64)
        kept, more = _table_bytes(block, sizes)
        total += 8.0 * float(sizes.sum()) + 80.0 * block.scopes.size + kept
        tables = sizes[~block.source.is_structured(sizes)]
        levels = np.cumprod(tables[:, :-1], axis=1)[:, 1:].sum(axis=1)
        scratch, making = max(scratch, 16.0 * float(levels.max(initial=0.0))), max(making, more)
        room = max(room, 8.0 * block.source.room)
    return int(total + room + max(scratch, making))


def _table_bytes(block: FactorBlock, sizes: FloatArray) -> tuple[float, float]:
    """Return the bytes of the tables and lists that are made for a block, and what else it takes to make one."""
    tables = block.source.tables
    if tables is not None:
        entries = _cut_entries(block, sizes) if tables.is_plain else _filled_entries(block, sizes)
        if tables.is_wide:  # a scaled table beside one of logs, which may be the user's own
            entries += _cut_entries(block, sizes) if tables.is_log else entries
        return 8.0 * entries, 0.0
    structured = block.source.is_structured(sizes)
    largest = float(np.prod(sizes[~structured], axis=1).max(initial=0.0))
    words, shared = block.source.most_words(sizes[structured]), block.source.is_whole(sizes[structured])
    lists = float(words[~shared].sum()) + float(words[shared].max(initial=0.0))
    asking = 2.0 * largest + BYTES_PER_SCORE * min(ASKED_AT_ONCE, largest)
    kept = 8.0 * (_filled_entries(block, sizes[~structured]) + lists)
    return kept, max(asking, 24.0 * float(words.max(initial=0.0)))


def _filled_entries(block: FactorBlock, sizes: FloatArray) -> float:
    """Entries of the tables of a block: whole ones that are shared once, those cut by evidence one each."""
    whole = block.source.is_whole(sizes)
    members = min(block.source.n_members, int(whole.sum()))
    whole_entries = members * float(math.prod(block.source.shape)) if members else 0.0  # which may be no float
    return _cut_entries(block, sizes) + whole_entries


def _cut_entries(block: FactorBlock, sizes: FloatArray) -> float:
    cut = ~block.source.is_whole(sizes)
    return float(np.prod(sizes[cut], axis=1).sum())


def stored_bytes(block: FactorBlock) -> int:
    """Return the bytes that a block's source holds."""
    return sum(values.nbytes for values in block.source.arrays.values())


def _stored_entries(block: FactorBlock) -> int:
    """Return how many entries a source that is no table lists: each of its arrays has a row per entry."""
    return max(map(len, block.source.arrays.values()), default=0)


def count_components(blocks: Sequence[FactorBlock], n_variables: int, n_factors: int) -> int:
    """Count the connected components of variables and factors together, by hooking and pointer jumping."""
    if n_variables == 0:
        return 0
    parent = np.arange(n_variables + n_factors)
    ends = [
        (
            block.scopes.ravel(),
            n_variables + block.first + np.repeat(np.arange(len(block.scopes)), block.scopes.shape[1]),
        )
        for block in blocks
    ]
    left = np.concatenate([end[0] for end in ends]) if ends else np.empty(0, dtype=np.int64)
    right = np.concatenate([end[1] for end in ends]) if ends else np.empty(0, dtype=np.int64)
    while left.size:
        low, high = np.minimum(parent[left], parent[right]), np.maximum(parent[left], parent[right])
        apart = low != high
        if not apart.any():
            break
        left, right = left[apart], right[apart]
        np.minimum.at(parent, high[apart], low[apart])
        while True:
            jumped = parent[parent]
            if (jumped == parent).all():
                break
            parent = jumped
    return int((parent == np.arange(len(parent))).sum())


def format_bytes(count: float) -> str:
    """Return a number of bytes in a unit that people read."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
