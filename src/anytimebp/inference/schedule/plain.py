"""The schedule that the options of a run on all states ask for, and the orders that it goes by."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import numpy as np

from anytimebp.inference.options import RunOptions
from anytimebp.inference.schedule.lazy_sweeps import LazySchedule
from anytimebp.inference.schedule.protocol import Messages
from anytimebp.inference.schedule.residual import ResidualSchedule
from anytimebp.inference.schedule.sweeps import SweepSchedule, random_orders, sequential_orders, there_and_back
from anytimebp.kernels.messages import EDGE_COST
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import IndexArray
from anytimebp.tables.sizes import table_entries

TINY = 2**17  # entries that could be read in the time of a sweep, under which sweeps that leave factors out cost more


def is_tiny(messages: Messages) -> bool:
    """Tell whether sweeps over a graph, or its core, cost less than deciding which factors to leave out."""
    layout = messages.layout
    entries = table_entries(layout, messages.arrays.domain_size)
    return entries + EDGE_COST * len(layout.edge_variable) < TINY


def sweep_orders(layout: GraphLayout, options: RunOptions) -> Iterator[IndexArray]:
    """Yield the order of one sweep after the other."""
    if options.schedule == "random":
        return random_orders(len(layout.factor_edge_start) - 1, options.generator())
    return sequential_orders(layout)


def plain_schedule(
    messages: Messages, options: RunOptions, disturbed: IndexArray | None, *, is_lazy: bool
) -> ResidualSchedule | LazySchedule | SweepSchedule:
    """Return residual BP or sweeps over a graph or its core.

    Args:
        messages: The graph, or its core.
        options: Of the run.
        disturbed: Of residual BP: the factors that have to be updated; None for all.
        is_lazy: Whether sweeps leave out factors whose incoming messages have hardly moved.
    """
    if options.method == "residual":
        return ResidualSchedule(messages, options.tolerance, disturbed)
    if is_lazy:
        return LazySchedule(messages, sweep_orders(messages.layout, options), options.tolerance)
    if options.schedule == "random":
        single = (order[np.newaxis] for order in sweep_orders(messages.layout, options))
        return SweepSchedule(messages, single, options.tolerance)
    return SweepSchedule(messages, repeat(there_and_back(messages.layout)), options.tolerance)
