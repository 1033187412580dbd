"""`infer_many`: many graphs, or one graph under many kinds of evidence; lazily, in order, in chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice
from secrets import token_hex
from typing import Any, Literal

from anytimebp.errors import OptionError
from anytimebp.inference.session import Session
from anytimebp.model.evidence import EvidenceLike
from anytimebp.model.graph import FactorGraph
from anytimebp.model.variable import Variable
from anytimebp.parallel.shown import counted
from anytimebp.parallel.solver import OF_A_QUERY, STOPS, Answer, Chunk, Solver, solve_chunk
from anytimebp.results.snapshot import Result

CHUNK = 128  # graphs that are solved together, or shipped to a worker at once
AHEAD = 3  # chunks that each worker may be ahead of what was asked for


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
    """Yield the marginals of many graphs, or of one graph under many sets of evidence.

    Results come in order, as you ask for them; only a few chunks of graphs are read ahead. Small graphs with tables are
    solved together, as one graph with many components. Ctrl-C raises KeyboardInterrupt.

    Args:
        graphs: Graphs, or one graph. The tables and cliques of one graph are kept from one set of evidence to the next.
        evidence: For many graphs, one mapping (as for `infer`) or None for each of them. For one graph, any number of
            mappings.
        executor: Any `concurrent.futures.Executor`, which solves chunks of graphs. If it uses processes, graphs,
            evidence and results are pickled.
        threads: Number of threads if there is no executor.
        errors: With "raise", the first graph that fails ends the call, and the error says which graph it was. With
            "return", the error is yielded in place of the result.
        progress: Whether to show on standard error how many graphs are done.
        options: Other options of `infer`. Budgets and targets apply to each graph. For graphs that are solved together,
            `seconds` is the mean; all other figures are those of each graph.

    Yields:
        A result for each graph.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_variable("ground", ["dry", "wet"])
        >>> _ = graph.add_factor(["weather", "ground"], table=[[0.63, 0.07], [0.06, 0.24]])
        >>> for result in abp.infer_many(graph, evidence=[{"ground": "dry"}, {"ground": "wet"}]):
        ...     print(result.top("weather", 1)[0][0])
        sun
        rain
    """
    if errors not in {"raise", "return"}:
        msg = f'errors must be "raise" or "return", got {errors!r}'
        raise OptionError(msg)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        msg = f"threads must be a whole number of at least 1, got {threads!r}"
        raise OptionError(msg)
    if isinstance(graphs, FactorGraph) and evidence is None:
        msg = "one graph needs `evidence`, an iterable of mappings"
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
    n_workers, call = threads if executor is None else getattr(executor, "_max_workers", None) or 2, token_hex(8)
    with ThreadPoolExecutor(threads) if executor is None else nullcontext(executor) as pool:
        submitted: deque[tuple[int, Future[list[Answer]]]] = deque()
        try:
            for chunk in chunks:
                submitted.append((chunk.first, pool.submit(solve_chunk, chunk, options, call)))
                if len(submitted) >= AHEAD * n_workers:
                    first, future = submitted.popleft()
                    yield from enumerate(future.result(), first)
            while submitted:
                first, future = submitted.popleft()
                yield from enumerate(future.result(), first)
        finally:
            _stop(call, [future for _, future in submitted])


def _stop(call: str, submitted: list[Future[list[Answer]]]) -> None:
    """End what is left of a call."""
    STOPS.end(call, for_good=not submitted)
    for future in submitted:
        # A pool of processes that Ctrl-C has killed tells its futures so. In some versions of Python it does not get
        # over one that was cancelled meanwhile, and waits for ever.
        future.set_exception = _ignore  # type: ignore[method-assign, assignment]
        future.cancel()


def _ignore(_: BaseException | None) -> None:
    """Do nothing."""


def _results(answers: Iterator[tuple[int, Answer]], errors: str) -> Iterator[Any]:
    """Yield results; raise what has failed, or yield it."""
    for number, answer in answers:
        if isinstance(answer, Exception):
            answer.add_note(f"in graph {number} of infer_many (counted from 0)")
            if errors == "raise":
                raise answer
        yield answer
