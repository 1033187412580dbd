"""Which method fits a model, from its sizes alone, and why."""

from __future__ import annotations

from typing import NamedTuple

from anytimebp.model.structure import GraphSummary, format_bytes
from anytimebp.workspace.memory import available_memory

AUTO = "auto"
SWEEPS = 100  # that full BP may need; most models take fewer
ENTRIES_PER_SECOND = 5e8  # that its sweeps read at the least, tables in memory


class Choice(NamedTuple):
    """A method and the reason for it."""

    method: str
    reason: str


def choose_method(summary: GraphSummary, seconds: float | None = None, *, grows: bool = False) -> Choice:
    """Return the method to try.

    Args:
        summary: Of the graph.
        seconds: The time that there is, if it is limited.
        grows: Whether something is asked for that only growing domains have.
    """
    if grows:
        return Choice("dynamic", "domains are to grow")
    memory = available_memory()
    if memory is not None and summary.full_bp_bytes > memory:
        needed, there = format_bytes(summary.full_bp_bytes), format_bytes(memory)
        return Choice("dynamic", f"full BP needs {needed}, this machine has {there} left; growing domains need less")
    if summary.is_forest:
        return Choice("bp", "the graph is a forest, where two passes give the exact marginals")
    if seconds is not None and SWEEPS * summary.table_entries / ENTRIES_PER_SECOND > seconds:
        return Choice("dynamic", "full BP may not settle in that time; growing domains are consistent at any moment")
    return Choice("bp", "its tables fit into memory, where sweeps over all states are the fastest way to the end")
