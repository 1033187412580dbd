"""Session: a graph that is asked again and again, with other evidence, unary scores or tables."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Hashable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from anytimebp.errors import AnytimeBPError, InconsistentModelError, ModelError, OptionError
from anytimebp.inference.caveats import warn_of_unconnected
from anytimebp.inference.inference import Inference, budget_of, result_of
from anytimebp.inference.kept import Kept
from anytimebp.inference.kept_exact import Evidence
from anytimebp.inference.methods import DEFAULT_METHOD
from anytimebp.inference.options import RandomLike, RunOptions, check_budget
from anytimebp.inference.recording import Every
from anytimebp.inference.run import Run, Stop
from anytimebp.inference.session_run import SessionRun
from anytimebp.model.evidence import EvidenceLike, Targets, read_evidence_mapping, read_targets
from anytimebp.model.factor import FactorKey
from anytimebp.model.graph import FactorGraph
from anytimebp.model.kinds.dense import refuse_booleans
from anytimebp.model.scores import read_log_scores
from anytimebp.model.source import IndexArray
from anytimebp.model.variable import VariableKey
from anytimebp.paper.policy import GrowthPolicy
from anytimebp.results.snapshot import Result, Snapshot

NO_BUDGET = (None,) * 5
MOST_LABELS = 2**16  # (variable, label) pairs whose states are remembered


class OneAtATime:
    """Lets one caller in, and refuses others until it is out."""

    def __init__(self, kept: Kept) -> None:
        """Let nobody in yet.

        Args:
            kept: What callers change; dropped where Ctrl-C, or an error that nobody foresaw, has left it half changed.
        """
        self._busy, self._kept = threading.Lock(), kept

    def __enter__(self) -> None:
        """Come in, unless somebody is there."""
        if not self._busy.acquire(blocking=False):
            msg = "this Session is already in use, by another thread or in an outer call; make one Session for each"
            raise OptionError(msg)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Leave."""
        if error is not None and not issubclass(error, AnytimeBPError):
            self._kept.drop()
        self._busy.release()


class Newest:
    """The newest snapshot of a stream, until somebody takes it.

    Attributes:
        snapshot: Which nobody has taken.
        has_come: Whether there is one, or the stream has ended.
    """

    def __init__(self) -> None:
        """Have none yet."""
        self.snapshot: Snapshot | None = None
        self.has_come = asyncio.Event()


class Session:
    """A graph that is queried again and again.

    A session keeps the layout, tables, elimination order and cliques of the graph. A query computes only what its
    evidence changes. The session has its own copy of the graph: it does not see variables and factors that you add to
    the graph later, and `set_log_table` and `set_unary` do not change the graph. As with `infer`, tables that you
    change in place are noticed.

    Use a session in one thread at a time, and make one session per thread. Sessions can be pickled. The copy has the
    model and the options, and its first query starts from scratch.

    Args:
        graph: The model. It is not changed.
        method: As for `infer`, and so are all other options.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_variable("ground", ["dry", "wet"])
        >>> _ = graph.add_factor(["weather"], table=[0.7, 0.3])
        >>> _ = graph.add_factor(["weather", "ground"], table=[[0.9, 0.1], [0.2, 0.8]])
        >>> session = abp.Session(graph)
        >>> for ground in ["dry", "wet"]:
        ...     result = session.query({"ground": ground}, targets=["weather"])
        ...     print(ground, round(result.probability("weather", "rain"), 3))
        dry 0.087
        wet 0.774
    """

    def __init__(
        self,
        graph: FactorGraph,
        method: str = DEFAULT_METHOD,
        *,
        tolerance: float = 1e-8,
        max_memory: int | None = None,
        rng: RandomLike = None,
        schedule: str = "sequential",
        damping: float = 0.0,
        record: Every | str = "round",
        factor_marginals: bool = False,
        grow: int = 1,
        fraction: float = 0.25,
        policy: GrowthPolicy | None = None,
        threads: int = 1,
    ) -> None:
        """Check the options; the work starts with the first query."""
        if not isinstance(graph, FactorGraph):
            msg = f"expected a FactorGraph, got {type(graph).__name__}"
            raise OptionError(msg)
        self._graph = copy(graph)
        self._graph.compiled = graph.compiled
        self._options = RunOptions(
            method=method,
            observed={},
            tolerance=tolerance,
            max_memory=max_memory,
            rng=rng,
            schedule=schedule,
            damping=damping,
            record=record,
            factor_marginals=factor_marginals,
            grow=grow,
            fraction=fraction,
            policy=policy,
            threads=threads,
        )
        self._start()

    def _start(self, unary: dict[int, Any] | None = None) -> None:
        """Know nothing of earlier queries."""
        options = self._options
        is_exact = options.method in {"auto", "exact"} and options.policy is None and options.damping == 0.0
        self._kept = Kept(unary=unary or {}, is_exact=is_exact)
        self._known: dict[Hashable, tuple[int, int]] = {}
        self._asked: dict[str, IndexArray | None] = {}
        self._exclusively = OneAtATime(self._kept)
        self._is_plain = not options.factor_marginals and options.record in {"round", "sweep", "end"}

    def __getstate__(self) -> dict[str, Any]:
        """Leave what earlier queries have left behind: it is sized by tables, and made again quickly."""
        return {"graph": self._graph, "options": self._options, "unary": self._kept.unary}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start from nothing."""
        self._graph, self._options = state["graph"], state["options"]
        self._start(state["unary"])

    # ------------------------------------------------------------ asking
    def query(
        self,
        evidence: EvidenceLike | None = None,
        targets: Targets | None = None,
        seconds: float | None = None,
        max_updates: int | None = None,
        *,
        max_work: int | None = None,
        target_error: float | None = None,
        callback: Callable[[Snapshot], object] | None = None,
    ) -> Result:
        """Return the marginals under some evidence, which replaces that of the last query.

        `result.choice` says whether the query started from the last one or from scratch, and why.

        Args:
            evidence: As for `infer`.
            targets: Variables whose marginals you want, as for `infer`; None for all. The result has no others.
            seconds: Time budget of this query; None for no limit.
            max_updates: Largest number of factor updates or, for exact inference, of cliques computed.
            max_work: Largest number of table entries to read or score.
            target_error: Stop once the estimated distance to BP is at most this.
            callback: Called with a snapshot at each recorded moment. The run stops if it returns a true value.
        """
        return self._query(Stop(), evidence, targets, seconds, max_updates, max_work, target_error, callback)

    def _query(
        self,
        stop: Stop,
        evidence: EvidenceLike | None,
        targets: Targets | None,
        seconds: float | None,
        max_updates: int | None,
        max_work: int | None,
        target_error: float | None,
        callback: Callable[[Snapshot], object] | None,
    ) -> Result:
        """Answer a query, which another thread may stop."""
        is_free = (seconds, max_updates, max_work, target_error, callback) == NO_BUDGET
        if not is_free:
            check_budget(seconds, max_updates, max_work, target_error, callback, None)
        with self._exclusively:
            wanted = self._read_targets(targets)
            seen = self._read_evidence(evidence)
            if is_free and self._is_plain and seen.observed is None:
                found = self._kept.answer_at_once(self._graph, seen, wanted, self._options.tolerance)
                if found is not None:
                    return found
            run, asked = self._new_run(seen, wanted)
            run.stop = stop
            budget = budget_of(run, seconds, max_updates, max_work, target_error, callback)
            with run:
                reason = run.until(budget, callback, None)
            asked.leave()
            return result_of(run, self._graph, reason, may_estimate=self._options.max_memory is None)

    async def stream(
        self,
        evidence: EvidenceLike | None = None,
        targets: Targets | None = None,
        seconds: float | None = None,
        max_updates: int | None = None,
        *,
        max_work: int | None = None,
        target_error: float | None = None,
    ) -> AsyncIterator[Snapshot]:
        """Answer a query in a thread of its own, and yield snapshots while it runs; the last one is the result.

        A consumer that is slower than the run gets the newest snapshot and misses older ones. If the task is cancelled,
        or the consumer leaves the loop, the run ends within a few milliseconds.

        Args:
            evidence: As for `query`, and so are all other arguments.
            targets: Variables whose marginals you want; None for all.
            seconds: Time budget of this query; None for no limit.
            max_updates: Largest number of factor updates or, for exact inference, of cliques computed.
            max_work: Largest number of table entries to read or score.
            target_error: Stop once the estimated distance to BP is at most this.

        Yields:
            Snapshots, and then the result.
        """
        loop, stop, newest = asyncio.get_running_loop(), Stop(), Newest()

        def take(snapshot: Snapshot) -> None:
            newest.snapshot = snapshot
            loop.call_soon_threadsafe(newest.has_come.set)

        asked = stop, evidence, targets, seconds, max_updates, max_work, target_error, take
        answer = loop.run_in_executor(None, self._query, *asked)
        answer.add_done_callback(lambda _: newest.has_come.set())
        try:
            while not answer.done():
                await newest.has_come.wait()
                newest.has_come.clear()
                snapshot, newest.snapshot = newest.snapshot, None
                if snapshot is not None and not answer.done():
                    yield snapshot
            yield answer.result()
        finally:
            stop.is_set = True
            await _end_of(answer)

    def _new_run(self, evidence: Evidence, targets: IndexArray | None) -> tuple[Run, SessionRun]:
        """Return a run that stands before its first step."""
        graph, kept = self._graph, self._kept
        options = self._options if targets is None else replace(self._options, targets=targets)
        graph.take_changes()
        if kept.compiled is not graph.compiled or kept.compiled is None:
            Inference(graph, self._options.method).load()
            warn_of_unconnected(graph, evidence.mapping())
        run = Run(graph, options, kept.unary)
        asked = SessionRun(run.task, kept, evidence)
        run.drive(asked)
        return run, asked

    def _read_targets(self, targets: Targets | None) -> IndexArray | None:
        """Read targets; a single name that was given before is remembered."""
        if type(targets) is list and len(targets) == 1 and type(targets[0]) is str:
            found = self._asked.get(targets[0])
            if found is None:
                found = self._asked[targets[0]] = read_targets(targets, self._graph.variables)
            return found
        return read_targets(targets, self._graph.variables)

    def _read_evidence(self, evidence: EvidenceLike | None) -> Evidence:
        """Read evidence; labels that were given before are remembered."""
        variables: list[int] = []
        states: list[int] = []
        if type(evidence) is dict:
            known = self._known
            for key, label in evidence.items():
                try:
                    found = known.get((key, label, type(label))) or self._read_label(key, label)
                except TypeError:  # an array or a set
                    found = None
                if found is None:
                    break
                variables.append(found[0])
                states.append(found[1])
            else:
                if len(set(variables)) == len(variables):
                    return Evidence(variables, states)
        observed = read_evidence_mapping(evidence, self._graph.variables)
        return Evidence([], [], observed or None)

    def _read_label(self, key: Any, label: Hashable) -> tuple[int, int] | None:
        """Return a variable and its state of this label; None if the evidence is something else."""
        index, seen = next(iter(read_evidence_mapping({key: label}, self._graph.variables).items()))
        if seen.states is None or len(seen.states) > 1 or seen.log_scores is not None:
            return None
        found = index, int(seen.states[0])
        if type(key) is str:
            if len(self._known) >= MOST_LABELS:
                self._known.clear()
            self._known[key, label, type(label)] = found
        return found

    # ------------------------------------------------------------ another model
    def set_log_table(self, factors: FactorKey | range, log_table: npt.ArrayLike) -> None:
        """Replace the log scores of a factor from the next query on. The graph itself is not changed.

        Args:
            factors: The index or name of a factor, or a range of factors that were added by one call. Factors that
                share a table change together.
            log_table: Log scores of the same shape. For a range of factors with separate tables: one table for all of
                them, or one each, stacked.
        """
        with self._exclusively:
            self._graph.take_changes()
            self._kept.changed.update(self._graph.take_log_table(factors, log_table))

    def set_unary(self, variable: VariableKey, log_scores: npt.ArrayLike) -> None:
        """Replace the sum of a variable's unary factors from the next query on. The graph itself is not changed.

        Args:
            variable: Name, handle or index.
            log_scores: Over the states of the variable; -inf excludes one.
        """
        with self._exclusively:
            variables = self._graph.variables
            index = variables.index_of(variable)
            name = variables.name(index)
            scores = read_log_scores(log_scores, f"the log scores of variable {name!r}")
            refuse_booleans(log_scores, f"variable {name!r}")
            if scores.shape != (variables.size(index),):
                expected = f"shape ({variables.size(index)},)"
                msg = f"the log scores of variable {name!r} must have {expected}, got {scores.shape}"
                raise ModelError(msg)
            if scores.max() == -np.inf:
                msg = f"variable {name!r} has no possible state: every log score is -inf"
                raise InconsistentModelError(msg)
            self._kept.set_unary(index, scores)


async def _end_of(answer: asyncio.Future[Result]) -> None:
    """Wait for a run that was told to stop: its thread has the session, however often the task is cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while not answer.done():
        try:
            await asyncio.wait([answer])
        except asyncio.CancelledError as error:
            cancelled = error
    if not answer.cancelled():
        answer.exception()  # whoever has left does not want to hear of it
    if cancelled is not None:
        raise cancelled
