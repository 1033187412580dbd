"""Full sweeps with inner rounds in between: what lies outside the likely states stands still until the next sweep.

Where beliefs are peaked, a few states carry nearly all the mass; BP spends most of its sweeps on them alone. Here each
sweep over whole tables is followed by rounds over the likely states only (`kernels/inner.py`), until these have
settled. A sweep that moves nothing ends the run, just as it does for `bp`. Where inner rounds would cost too much, or
do not help, these are the sweeps of `bp`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from anytimebp.inference.adaptive.nested import NestedWorkspace, Reach
from anytimebp.inference.schedule.lazy_sweeps import LazySchedule
from anytimebp.inference.schedule.protocol import Progress, Settled
from anytimebp.inference.schedule.sweeps import sequential_orders
from anytimebp.kernels.codes import CONVERGED, OK, TAILS_LOST, UNSETTLED
from anytimebp.kernels.inner import enter_domains, full_sweep, settle_slice
from anytimebp.kernels.messages import EDGE_COST, largest_pending
from anytimebp.kernels.readout import read_beliefs
from anytimebp.kernels.strips import join_above
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.sizes import table_entries
from anytimebp.tables.workspace import Workspace

LIKELY = ((1e-5, 0.06), (1e-4, 0.15), (1e-3, 0.35))
"""Belief above which a state takes part in inner rounds, and the part of a full sweep that a sweep of them may cost
then.

More states make every full sweep count for more; the first line that is not too dear is taken."""

AT_ANY_COST = ((1e-3, np.inf),)

LOOKS = (2, 3, 4)  # full sweeps after which it is asked whether inner rounds would pay
SLOW = 0.45
"""What a sweep leaves of the mean residual, from which on inner rounds pay.

A sweep with its inner rounds costs as much as two or three plain ones, and ten of them or so are needed. Where plain
sweeps settle quickly, they are through before that, however few states are likely."""

QUICK = 1_000_000
"""Entries of all tables, under which a sweep is so quick that the bookkeeping of inner rounds costs several of them."""

LOOSE = 0.001  # inner rounds settle to this part of what the full sweep has moved
MAX_SWEEPS = 100  # inner sweeps between two full ones
MAX_COST = 5.0  # of the inner sweeps between two full ones, in full ones, once they are more than a few
FEW_SWEEPS = 20
STALL = 8  # full sweeps in which the residual has to halve, or inner rounds are given up
UNSETTLED_COUNTS = 4  # a full sweep whose inner rounds have not settled counts as so many


class FrozenTailSchedule:
    """Sweeps over whole tables, with inner rounds in between where that pays."""

    def __init__(
        self,
        workspace: Workspace,
        orders: Iterator[IndexArray],
        tolerance: float,
        before: NestedWorkspace | None,
        likely: tuple[tuple[float, float], ...],
    ) -> None:
        """Start before the first sweep.

        Args:
            workspace: Messages over the universes; positive tables, linear arithmetic.
            orders: Of the factors, sweep by sweep.
            tolerance: Of the run.
            before: Domains and messages to start from.
            likely: When to make inner rounds; see LIKELY.
        """
        self._tails = _Tails(workspace, orders, tolerance, before, likely)
        self._slices = self._tails.run()

    @property
    def choice(self) -> str:
        """What is done at present, and why, in words."""
        return self._tails.choice

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Go on with a sweep, or with the inner rounds after it."""
        self._tails.limit(update_limit, cost_limit, damping)
        return next(self._slices) if self._tails.has_inner else self._tails.sweep_plainly(damping)


class _Tails:
    """The sweeps and inner rounds themselves.

    Apart from the schedule, which holds them as a generator: one object that did both would lead back to itself, and
    keep its tables until the garbage collector comes.
    """

    def __init__(
        self,
        workspace: Workspace,
        orders: Iterator[IndexArray],
        tolerance: float,
        before: NestedWorkspace | None,
        likely: tuple[tuple[float, float], ...],
    ) -> None:
        self._workspace = workspace
        self._orders = orders
        self._tolerance = tolerance
        self._likely = likely
        self._threshold = likely[-1][0]
        self._lazy = LazySchedule(workspace, orders, tolerance)
        self._inner: NestedWorkspace | None = None
        self._update_limit = self._cost_limit = 0
        self._max_sweeps = MAX_SWEEPS
        self._slow = 0.0 if likely is AT_ANY_COST else SLOW
        self._sweeps, self._mean = 0, np.inf
        self._best, self._since = np.inf, 0
        self._belief: FloatArray | None = None
        self.choice = ""
        if before is not None:
            self._look(before)
        orders_of_inner = sequential_orders(workspace.layout)
        self._both_orders = next(orders_of_inner), next(orders_of_inner)
        self._progress = np.zeros(4, dtype=np.int64)

    @property
    def has_inner(self) -> bool:
        """Whether there are inner rounds."""
        return self._inner is not None

    def limit(self, update_limit: int, cost_limit: int, damping: float) -> None:
        """Set how far the next slice may go; inner rounds know no damping."""
        self._update_limit, self._cost_limit = update_limit, cost_limit
        if self._inner is not None and damping > 0.0:
            self._give_up("messages have to be damped")

    def sweep_plainly(self, damping: float) -> Progress:
        """Go on with a sweep without inner rounds."""
        progress = self._lazy.advance(self._update_limit, self._cost_limit, damping)
        if progress.end_of_sweep:
            self._sweeps += 1
            if self._sweeps in LOOKS and damping == 0.0:
                self._look_if_slow(progress.mean_residual / self._mean if self._mean else 0.0)
            self._mean = progress.mean_residual
        return progress

    def _look_if_slow(self, left: float) -> None:
        """See whether inner rounds pay, unless a sweep leaves little enough of the residual for plain ones."""
        if left >= self._slow:
            self._look(None)
        else:
            self.choice = f"full BP: a sweep leaves {100 * left:.0f} % of the residual"

    # ------------------------------------------------------------ sweeps
    def run(self) -> Iterator[Progress]:
        """Give slices while there are inner rounds."""
        for order in self._orders:
            largest, mean, moved, updates, work = yield from self._sweep(order)
            settled = self._inner is not None and largest <= self._tolerance
            converged = settled and self._pending(order) <= self._tolerance
            domains = None
            if not converged and self._inner is not None:
                yield Progress(OK, -1, updates, work)
                updates = work = 0
                tolerance = max(LOOSE * moved, 0.1 * self._tolerance)
                is_over = yield from self._settle(self._inner, tolerance)
                if self._inner is not None:
                    outside = self._look_outside(self._inner)
                    domains = Settled(tolerance, self._inner.nested.size.copy(), outside) if is_over else None
                    self._extend(self._inner, largest, is_over=is_over)
            yield Progress(
                OK,
                -1,
                updates,
                work,
                end_of_sweep=True,
                converged=converged,
                max_residual=largest,
                mean_residual=mean,
                settled=domains,
            )

    def _sweep(self, order: IndexArray) -> Generator[Progress, None, tuple[float, float, float, int, int]]:
        """Sweep over whole tables.

        Returns:
            The largest and the mean residual, the largest on the domains, and what is still to be reported: updates and
            entries read of the last slice.
        """
        layout, space = self._workspace.layout, self._workspace.arrays
        position, largest, total, moved, updates, work = 0, 0.0, 0.0, 0.0, 0, 0
        while position < len(order) and self._inner is not None:
            status, culprit, reached, work, most, added, on_domains = full_sweep(
                layout,
                space,
                self._inner.inner,
                self._inner.nested,
                order,
                position,
                min(len(order), position + self._update_limit),
                self._cost_limit,
            )
            moved = max(moved, on_domains)
            if status == TAILS_LOST:
                status = OK
                self._give_up("what lies outside the likely states cannot be told apart from them")
            largest, total = max(largest, most), total + added
            updates, position = reached - position, reached
            if status != OK or position < len(order):
                yield Progress(status, culprit, updates, work)
        return largest, total / max(1, len(order)), moved, updates, work

    def _pending(self, order: IndexArray) -> float:
        """Return a bound on what another pass would move."""
        moved = np.zeros(len(self._workspace.domains.sizes))
        pending = largest_pending(self._workspace.layout, self._workspace.arrays, order, moved, 0.0)
        return float(pending)

    # ------------------------------------------------------------ inner rounds
    def _settle(self, nested: NestedWorkspace, tolerance: float) -> Generator[Progress, None, bool]:
        """Make inner rounds until the likely states have settled, or for long enough; tell whether they have."""
        progress, status = self._progress, OK
        progress[:] = 0
        while status == OK:
            status, updates, work = settle_slice(
                nested.layout,
                nested.space,
                nested.inner,
                nested.nested,
                *self._both_orders,
                progress,
                tolerance,
                self._max_sweeps,
                self._update_limit,
                self._cost_limit,
            )
            yield Progress(OK, -1, updates, work)
        if status not in {CONVERGED, UNSETTLED}:
            self._give_up("messages between likely states vanish")
        return bool(status == CONVERGED)

    def _look_outside(self, nested: NestedWorkspace) -> float:
        """Read the beliefs; return the largest, over variables, belief outside the domain."""
        self._belief = belief = self._read()
        outside = np.where(nested.nested.is_member, 0.0, belief)
        return float(np.add.reduceat(outside, self._workspace.domains.slot_start[:-1]).max(initial=0.0))

    def _extend(self, nested: NestedWorkspace, residual: float, *, is_over: bool) -> None:
        """Let newly likely states join, unless sweeps have come to make no progress."""
        self._since += 1 if is_over else UNSETTLED_COUNTS
        if residual < 0.5 * self._best:
            self._best, self._since = residual, 0
        if self._since >= STALL:
            self._give_up("inner rounds have come to make no progress")
        elif join_above(nested.layout, nested.space, nested.nested, self._belief, self._threshold):
            self._enter(nested)

    def _look(self, before: NestedWorkspace | None) -> None:
        """See which states are likely, and whether inner rounds pay; if so, begin with them."""
        layout, domains = self._workspace.layout, self._workspace.domains
        entries, overhead = table_entries(layout, domains.sizes), EDGE_COST * len(layout.edge_variable)
        share = 1.0
        if entries < QUICK and self._likely is not AT_ANY_COST:
            self._give_up(f"sweeps over {entries:,.0f} entries are quick as they are")
            return
        if overhead / (entries + overhead) < self._likely[-1][1]:
            nested = self._nested(before) if before is not None else None
            self._belief = belief = self._read()
            for threshold, part in self._likely:
                will = belief > threshold if nested is None else nested.nested.is_member | (belief > threshold)
                sizes = np.add.reduceat(will, domains.slot_start[:-1], dtype=np.int64)
                share = (table_entries(layout, np.maximum(sizes, 1)) + overhead) / (entries + overhead)
                if share < part:
                    nested = self._nested(None) if nested is None else nested
                    self._threshold = threshold
                    self._max_sweeps = int(np.clip(MAX_COST / share, FEW_SWEEPS, MAX_SWEEPS))
                    join_above(layout, nested.space, nested.nested, belief, threshold)
                    self._enter(nested)
                    self._inner = nested
                    self.choice = (
                        f"frozen tails: a sweep over the states of belief above {threshold:g} costs "
                        f"{100 * share:.0f} % of a full one"
                    )
                    return
        self._give_up(f"a sweep over the likely states would cost {100 * share:.0f} % of a full one")

    def _nested(self, before: NestedWorkspace | None) -> NestedWorkspace:
        """Return a workspace with domains inside the universes; with those, and the messages, of an earlier one."""
        domains = self._workspace.domains
        place = np.arange(int(domains.slot_start[-1]))
        nested = NestedWorkspace(self._workspace, Reach(domains, place, place, domains.slot_start[:-1]), None)
        if before is not None:
            nested.carry_over(before)
        return nested

    def _enter(self, nested: NestedWorkspace) -> None:
        nested.make_room(strips=False)
        enter_domains(nested.layout, nested.space, nested.inner, nested.nested)

    def _give_up(self, why: str) -> None:
        """Go on without inner rounds; for good, if there have been some."""
        if self._inner is not None:
            self._inner = None
            self._sweeps = max(LOOKS)
            self._lazy = LazySchedule(self._workspace, self._orders, self._tolerance)
        self.choice = f"full BP: {why}"

    def _read(self) -> FloatArray:
        """Return the beliefs, a number per variable slot."""
        workspace = self._workspace
        belief = np.empty(int(workspace.domains.slot_start[-1]))
        log_normaliser = np.empty(len(workspace.domains.sizes))
        read_beliefs(workspace.layout, workspace.arrays, workspace.domains.slot_start, belief, log_normaliser)
        return belief
