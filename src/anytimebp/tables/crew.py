"""The threads that work on one run: how many, and when they help.

One thread, the one that runs the engine, leads: it does everything as a run of one thread does, but for the reading of
large tables, which it shares out in parts (`kernels.sharing`). So the order of updates, the number of sweeps and what
is called converged are those of one thread, and the same parts are added up in the same order however many threads
there are. Small tables are not worth sharing: the leader would be through before anybody else has noticed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np

from anytimebp.kernels.helping import help_slice, leader
from anytimebp.kernels.sharing import (
    CLAIMED,
    GIVE_WAY,
    IS_OPEN,
    LEAD,
    LEAST_ENTRIES,
    LEAST_ROWS,
    MAILBOX_SIZE,
    PARTIAL,
    PARTS,
    WIDEST,
)
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.model.source import IndexArray

SHARED_ENTRIES = 2**15
"""Tables from this size on are shared out: reading them takes ten microseconds, sharing out costs about one."""

SHARED_ROWS = 8 * PARTS
"""And from so many rows on, seen as a matrix: each part's sums over its rows are added up by the leader alone."""

ENTRIES_PER_THREAD = 2**18
"""In large tables, for each thread: below, sweeps are so short that starting threads would take longer."""


class Crew:
    """A leader and its helpers, who help while the crew is entered as a context.

    Attributes:
        size: How many threads; 1 for a leader alone.
        mailbox: What kernels need to know of it; empty for a leader alone.
    """

    def __init__(self, size: int, widest: int = 1) -> None:
        """Get ready; threads are started when they are first needed.

        Args:
            size: How many threads, the leader included; those beyond the number of parts would have nothing to do.
            widest: The largest domain.
        """
        self.size = min(size, PARTS)
        self.mailbox = np.zeros(MAILBOX_SIZE if size > 1 else 0, dtype=np.int64)
        if size == 1:
            return
        self._partial = np.empty(2 * PARTS * widest)
        self._start_threads()
        self.mailbox[CLAIMED] = PARTS
        self.mailbox[LEAST_ENTRIES] = SHARED_ENTRIES
        self.mailbox[LEAST_ROWS] = SHARED_ROWS
        self.mailbox[LEAD] = leader().address
        self.mailbox[GIVE_WAY] = _address_of_give_way()
        self.mailbox[PARTIAL] = self._partial.ctypes.data
        self.mailbox[WIDEST] = widest

    def __enter__(self) -> Self:
        """Call the helpers."""
        if self.size > 1:
            self._renew_after_fork()
            self.mailbox[IS_OPEN] = 1
            for _ in range(self.size - 1):
                self._pool.submit(help_slice, self.mailbox)
        return self

    def __exit__(self, *_: object) -> None:
        """Send the helpers away; one that has not noticed yet does no harm, as there is nothing to claim."""
        if self.size > 1:
            self.mailbox[IS_OPEN] = 0

    def do(self, function: Callable[..., object], calls: Sequence[tuple[Any, ...]]) -> None:
        """Make calls at the same time, at most one for each thread; return when all are through."""
        self._renew_after_fork()
        others = [self._pool.submit(function, *call) for call in calls[1:]]
        try:
            function(*calls[0])
        finally:
            for other in others:
                other.result()

    def _start_threads(self) -> None:
        """Make a pool, which starts its threads when they are first needed."""
        self._pool = ThreadPoolExecutor(self.size - 1, thread_name_prefix="anytimebp")
        self._process = os.getpid()

    def _renew_after_fork(self) -> None:
        """Make a new pool in a forked process: it has no threads, and the old pool would wait for them for ever."""
        if self._process != os.getpid():
            self._start_threads()


def crew_for(layout: GraphLayout, domain_sizes: IndexArray, threads: int) -> Crew:
    """Return a crew of at most so many threads, fewer where there is not enough for them to do."""
    if threads == 1 or not len(layout.edge_variable):
        return Crew(1)
    sizes = domain_sizes[layout.edge_variable].astype(np.float64)
    entries = np.multiply.reduceat(sizes, layout.factor_edge_start[:-1])
    columns = sizes[layout.factor_edge_start[1:] - 1]
    is_shared = (entries >= SHARED_ENTRIES) & (entries >= SHARED_ROWS * columns)
    shared = float(entries[is_shared].sum())
    if shared < float(entries.sum()) / 2:  # helpers would mostly wait
        return Crew(1)
    return Crew(int(max(1, min(threads, shared // ENTRIES_PER_THREAD))), int(domain_sizes.max()))


def rehearse() -> None:
    """Load what a leader and helpers do, or compile it."""
    leader()
    help_slice(np.zeros(MAILBOX_SIZE, dtype=np.int64))


def _address_of_give_way() -> int:
    """Return the address of the function by which a thread lets others run, or 0 where there is none."""
    windows = getattr(ctypes, "windll", None)
    try:
        function = windows.kernel32.SwitchToThread if windows else ctypes.CDLL(None).sched_yield
    except (AttributeError, OSError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
