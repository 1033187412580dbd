"""One graph that is cut into parts here and run by actors of Ray: the parts' marginals become one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

import numpy as np

from anytimebp.inference.caveats import warn_of_end, warn_of_unconnected
from anytimebp.inference.options import RunOptions, check_budget
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import read_only
from anytimebp.parallel.exchange import Exchange, Known, Limits
from anytimebp.parallel.part_workers import RayWorkers, Workers
from anytimebp.parallel.ray_workers import join_or_start
from anytimebp.parallel.splitting import Part, Split, evidence_of, homes, split
from anytimebp.results.marginals import Marginals
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace


class StoredParts:
    """Parts in the object store of Ray, from where each worker takes its own."""

    def __init__(self, ray: Any, parts: Iterable[tuple[Part, Mapping[int, Observation]]]) -> None:
        """Put the parts there, with the evidence on each."""
        self._parts = [ray.put(part) for part in parts]

    def __call__(self, part: int) -> tuple[Part, Mapping[int, Observation]]:
        """Return a part and the evidence on it."""
        ray, _ = join_or_start(None)  # in a worker, which has joined already
        found: tuple[Part, Mapping[int, Observation]] = ray.get(self._parts[part])
        return found


def infer_on_ray(
    graph: FactorGraph,
    options: RunOptions,
    *,
    seconds: float | None = None,
    max_updates: int | None = None,
    max_work: int | None = None,
    target_error: float | None = None,
    callback: Callable[[Snapshot], object] | None = None,
    watch: Callable[[Moment], object] | None = None,
) -> Result:
    """Cut a graph into parts, let actors of Ray settle them, and return the marginals of the whole.

    Args:
        graph: The model; not changed.
        options: Of the run; `parts` says how many, `threads` how many actors.
        seconds: Time budget, without making the parts.
        max_updates: Budget of factor updates.
        max_work: Budget of table entries to read.
        target_error: Stop once the estimated error is under this.
        callback: Called with a snapshot each time that every part has answered once, on average; a true answer stops.
        watch: Called with the figures at these moments.
    """
    check_budget(seconds, max_updates, max_work, target_error, callback, watch)
    given = [inf if limit is None else limit for limit in (seconds, max_updates, max_work)]
    graph.take_changes()
    warn_of_unconnected(graph, options.observed)
    cut = split(graph, homes(graph, options.parts or 1))
    ray, is_owner = join_or_start(options.threads)
    try:
        parts = ((part, evidence_of(options.observed, cut, number)) for number, part in enumerate(cut.parts))
        stored, n_parts = StoredParts(ray, parts), len(cut.parts)
        cut.parts.clear()  # they are in the object store now
        workers = RayWorkers(stored, n_parts, options, options.threads)
        try:
            whole = Whole(graph, cut, workers, options)
            return whole.result(Limits(*given), target_error, callback, watch)
        finally:
            workers.close()
    finally:
        if is_owner:
            ray.shutdown()


class Whole:
    """A graph whose parts workers hold."""

    def __init__(self, graph: FactorGraph, cut: Split, workers: Workers, options: RunOptions) -> None:
        """Let the workers make their parts."""
        self._graph, self._cut, self._workers, self._options = graph, cut, workers, options
        self._exchange = Exchange(workers, options.tolerance)

    def result(
        self,
        limits: Limits,
        target_error: float | None = None,
        callback: Callable[[Snapshot], object] | None = None,
        watch: Callable[[Moment], object] | None = None,
    ) -> Result:
        """Run until all parts have settled, or a limit or the target is reached."""
        exchange, reached = self._exchange, False

        def tell() -> bool:
            nonlocal reached
            if watch is not None and exchange.trace:
                watch(exchange.trace[-1])
            if callback is None and target_error is None:
                return False
            found = self._snapshot(exchange.read(self._workers.read))
            reached = target_error is not None and found.estimated_error <= target_error
            return reached or (callback is not None and bool(callback(found)))

        is_told = callback is not None or watch is not None or target_error is not None
        reason = exchange.run(limits, tell if is_told else None)
        if reached:
            reason = StopReason.TARGET_REACHED
        known = exchange.read(self._workers.read)
        current = self._snapshot(known)
        moments = [*exchange.trace, exchange.moment(known)]
        if watch is not None:
            watch(moments[-1])
        result = Result.of(current, current, reason, Trace(moments))
        warn_of_end(self._graph, result)
        return result

    def _snapshot(self, known: Known) -> Snapshot:
        """Put the marginals of all parts together, each variable's from its home."""
        graph, cut, exchange, options = self._graph, self._cut, self._exchange, self._options
        sizes = graph.variables.sizes()
        start, belief = row_starts(sizes), np.repeat(1.0 / sizes, sizes)  # of parts that have not been asked
        for number, found in enumerate(known.readings):
            if found is not None:
                own = cut.variables[number]
                at_home = np.flatnonzero(cut.home[own] == number)
                counts = sizes[own[at_home]]
                chosen = row_items(row_starts(sizes[own])[at_home], counts)
                belief[row_items(start[own[at_home]], counts)] = found.belief[chosen]
        allowed = sizes.copy()
        for index, seen in options.observed.items():
            allowed[index] = sizes[index] if seen.states is None else len(seen.states)
        marginals = Marginals(graph.variables, belief, start, np.empty(0, dtype=np.int64))
        read = [found for found in known.readings if found is not None]
        return Snapshot(
            marginals=marginals if options.targets is None else marginals.limited(options.targets),
            log_z=known.log_z,
            max_residual=known.max_residual,
            mean_residual=known.mean_residual,
            outside=0.0,
            error=known.error,
            domain_sizes=read_only(allowed),
            seconds=exchange.seconds,
            updates=exchange.updates,
            work_parts={"messages": exchange.work, "scoring": 0, "growth": 0, "priorities": 0},
            consistent=exchange.ending is StopReason.CONVERGED,
            tolerance=exchange.tolerance,
            method="adaptive" if options.method == "auto" else options.method,
            arithmetic="log" if any(found.arithmetic == "log" for found in read) else "linear",
            damping=max((found.damping for found in read), default=0.0),
            choice=f"{len(cut.variables)} parts: each makes sweeps of its own, and they swap messages",
        )
