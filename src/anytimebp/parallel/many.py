"""`infer_many`: many graphs, or one graph under many kinds of evidence; lazily, in order, in chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from anytimebp.errors import AnytimeBPError, InconsistentModelError, OptionError
from anytimebp.exact.kept_tree import Room
from anytimebp.inference.inference import Inference
from anytimebp.inference.kept_exact import KEPT
from anytimebp.inference.options import RunOptions
from anytimebp.inference.session import Session
from anytimebp.inference.warm_up import load_kernels
from anytimebp.model.evidence import EvidenceLike, read_evidence_mapping, read_targets
from anytimebp.model.graph import FactorGraph
from anytimebp.model.variable import Variable
from anytimebp.parallel.merged import Item, can_merge, solve_together
from anytimebp.parallel.shown import counted
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason

CHUNK = 128  # graphs that are solved together, or shipped to a worker at once
AHEAD = 3  # chunks that each worker may be ahead of what was asked for
BUDGETS = ("seconds", "max_updates", "max_work", "target_error", "callback")
"""Budgets, which are options of `Session.query`. Graphs under a budget are solved one by one."""
OF_A_QUERY = (*BUDGETS, "targets")  # all others are options of `Session`

Answer: TypeAlias = Result | Exception


class Chunk(NamedTuple):
    """Work for one worker.

    Attributes:
        first: Number of its first graph.
        graphs: One each; or one for all.
        evidence: One each.
    """

    first: int
    graphs: list[FactorGraph] | FactorGraph
    evidence: list[EvidenceLike | None]


def infer_many(
    graphs: FactorGraph | Iterable[FactorGraph],
    *,
    evidence: Iterable[EvidenceLike | None] | None = None,
    executor: Executor | None = None,
    threads: int = 1,
    errors: Literal["raise", "return"] = "raise",
    progress: bool = False,
    **options: Any,
) -> Iterator[Result]:
    """Return the marginals of many graphs, or of one graph under many kinds of evidence, one result after the other.

    Results come in order, and as they are asked for: no more than a few chunks of graphs are read ahead. Small graphs
    with tables are solved together, as one graph of many components. Ctrl-C raises KeyboardInterrupt.

    Args:
        graphs: Graphs; or one graph, of which tables and cliques are kept from one kind of evidence to the next.
        evidence: As many mappings, each as for `infer`, or None for none; of one graph, any number of them.
        executor: Solves chunks of graphs: any `concurrent.futures.Executor`. Graphs, evidence and results are pickled
            if it runs other processes.
        threads: Number of threads, if there is no executor.
        errors: "raise": the first graph that fails ends the call; the error says which it was. "return": the error
            comes in place of its result.
        progress: Whether to show on standard error how many are done.
        options: Others of `infer`; budgets count for each graph, and so do targets. The `seconds` of graphs that are
            solved together are the mean of these; all other figures are each graph's own.

    Yields:
        A result for each graph.
    """
    if errors not in {"raise", "return"}:
        msg = f'errors must be "raise" or "return", got {errors!r}'
        raise OptionError(msg)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        msg = f"threads must be a whole number of at least 1, got {threads!r}"
        raise OptionError(msg)
    if isinstance(graphs, FactorGraph) and evidence is None:
        msg = "one graph needs `evidence`, an iterable of what is known each time"
        raise OptionError(msg)
    _check(options)
    targets = options.get("targets")
    if isinstance(targets, Iterable) and not isinstance(targets, str | Variable):
        options["targets"] = list(targets)  # which is read for each graph
    answers = _answers(_chunks(graphs, evidence), executor, threads, options)
    return counted(_results(answers, errors), is_shown=progress)


def _check(options: dict[str, Any]) -> None:
    """Raise for options that cannot be, before anything is done."""
    own = {name: value for name, value in options.items() if name not in OF_A_QUERY}
    Session(FactorGraph(), **own)


def _chunks(
    graphs: FactorGraph | Iterable[FactorGraph], evidence: Iterable[EvidenceLike | None] | None
) -> Iterator[Chunk]:
    """Cut what is given into chunks, as they are asked for."""
    known = None if evidence is None else iter(evidence)
    every, first = None if isinstance(graphs, FactorGraph) else iter(graphs), 0
    while True:
        if every is None:
            assert known is not None and isinstance(graphs, FactorGraph)  # noqa: S101, PT018  (it was checked)
            seen = list(islice(known, CHUNK))
            chunk = Chunk(first, graphs, seen)
        else:
            own = list(islice(every, CHUNK))
            seen = [None] * len(own) if known is None else list(islice(known, len(own)))
            chunk = Chunk(first, own, seen)
            _check_lengths(chunk, known)
        if not seen:
            return
        yield chunk
        first += len(seen)


def _check_lengths(chunk: Chunk, known: Iterator[EvidenceLike | None] | None) -> None:
    """Raise unless there is evidence for every graph, and no more."""
    n = len(chunk.graphs) if isinstance(chunk.graphs, list) else 0
    is_more = n < CHUNK and known is not None and next(known, chunk) is not chunk
    if len(chunk.evidence) != n or is_more:
        what = "more" if is_more else "less"
        msg = f"there is {what} evidence than graphs: {chunk.first + len(chunk.evidence)} and {chunk.first + n}"
        raise OptionError(msg)


def _answers(
    chunks: Iterator[Chunk], executor: Executor | None, threads: int, options: dict[str, Any]
) -> Iterator[tuple[int, Answer]]:
    """Yield a numbered answer for each graph."""
    if executor is None and threads == 1:
        solver = Solver(options)
        for chunk in chunks:
            yield from enumerate(solver.solve(chunk), chunk.first)
        return
    n_workers = threads if executor is None else getattr(executor, "_max_workers", None) or 2
    with ThreadPoolExecutor(threads) if executor is None else nullcontext(executor) as pool:
        waiting: deque[tuple[int, Future[list[Answer]]]] = deque()
        try:
            for chunk in chunks:
                waiting.append((chunk.first, pool.submit(solve_chunk, chunk, options)))
                if len(waiting) >= AHEAD * n_workers:
                    first, future = waiting.popleft()
                    yield from enumerate(future.result(), first)
            while waiting:
                first, future = waiting.popleft()
                yield from enumerate(future.result(), first)
        finally:
            for _, future in waiting:
                future.cancel()


def _results(answers: Iterator[tuple[int, Answer]], errors: str) -> Iterator[Any]:
    """Yield results; raise what has failed, or yield it."""
    for number, answer in answers:
        if isinstance(answer, Exception):
            answer.add_note(f"in graph {number} of infer_many (counted from 0)")
            if errors == "raise":
                raise answer
        yield answer


def solve_chunk(chunk: Chunk, options: dict[str, Any]) -> list[Answer]:
    """Solve a chunk, in whatever process."""
    return Solver(options).solve(chunk)


class Solver:
    """Solves chunks, one after the other; keeps a session for the graph that it was last given."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Take the options of `infer_many`."""
        self._options = {name: value for name, value in options.items() if name not in OF_A_QUERY}
        self._targets = options.get("targets")
        self._budget = {name: value for name, value in options.items() if name in BUDGETS and value is not None}
        self._session: Session | None = None
        self._of: FactorGraph | None = None
        self._room = Room()
        self._checked: RunOptions | None = None

    def solve(self, chunk: Chunk) -> list[Answer]:
        """Return a result or an error for each graph."""
        if isinstance(chunk.graphs, FactorGraph):
            if self._session is None or self._of is not chunk.graphs:
                self._session, self._of = Session(chunk.graphs, **self._options), chunk.graphs
            return [self._ask(self._session, seen) for seen in chunk.evidence]
        found: dict[int, Answer] = {}
        together = [k for k, graph in enumerate(chunk.graphs) if self._joins(graph)]
        if len(together) > 1:
            found = self._solve_together(chunk, together)
        return [
            found[k] if k in found else self._ask_once(graph, seen)
            for k, (graph, seen) in enumerate(zip(chunk.graphs, chunk.evidence, strict=True))
        ]

    def _joins(self, graph: object) -> bool:
        """Tell whether a graph is to be solved with others."""
        if self._budget or not isinstance(graph, FactorGraph) or not can_merge(graph):
            return False
        options = self._options
        return (
            options.get("method", "auto") in {"auto", "exact"}
            and not options.get("factor_marginals")
            and not options.get("damping")
            and options.get("policy") is None
            and options.get("max_memory") is None
        )

    def _solve_together(self, chunk: Chunk, together: list[int]) -> dict[int, Answer]:
        """Solve some graphs of a chunk as one; none of them, where one has to be solved by itself."""
        assert isinstance(chunk.graphs, list)  # noqa: S101  (of one graph there is a session)
        items, places = [], []
        for k in together:
            graph = chunk.graphs[k]
            try:
                graph.take_changes()
                observed = read_evidence_mapping(chunk.evidence[k], graph.variables)
                targets = read_targets(self._targets, graph.variables)
            except AnytimeBPError:
                continue  # which it says again, by itself
            items.append(Item(graph, observed, targets))
            places.append(k)
        if not items:
            return {}
        try:
            results = solve_together(items, self._run_options(), self._room)
        except InconsistentModelError:
            return {}
        return {} if results is None else dict(zip(places, results, strict=True))

    def _run_options(self) -> RunOptions:
        """Return the options of a run, with kernels loaded."""
        if self._checked is None:
            self._checked = Inference(FactorGraph(), **{**self._options, "method": "exact"}).options
            for kernels in ("exact", KEPT):
                load_kernels(self._checked, kernels=kernels)
        return self._checked

    def _ask_once(self, graph: FactorGraph, evidence: EvidenceLike | None) -> Answer:
        """Solve one graph by itself."""
        try:
            inference = Inference(graph, evidence=evidence, targets=self._targets, **self._options)
            return _whole(inference.run(**self._budget))
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the answer)
            return error

    def _ask(self, session: Session, evidence: EvidenceLike | None) -> Answer:
        """Ask the session."""
        try:
            return _whole(session.query(evidence, self._targets, **self._budget))
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the answer)
            return error


def _whole(result: Result) -> Result:
    """Return a result, unless Ctrl-C has ended the run."""
    if result.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return result
