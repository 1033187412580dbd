"""Queries that are followed while they run: server-sent events with snapshots, then the result or a problem."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from time import perf_counter
from typing import Any, NamedTuple, cast

from anytimebp.errors import AnytimeBPError
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.serve.answers import changes, figures, shown_marginals, trace
from anytimebp.serve.engine import Client, Engine
from anytimebp.serve.problems import Problem, encoded, problem_of
from anytimebp.serve.reading import Shown

INTERVAL = 0.05  # seconds between two snapshots of a stream
PART_OF_TIME = 4.0  # pause after a snapshot, as a multiple of the time that it took to write
FEW_STATES = 200_000  # of all variables, up to which every snapshot says what has changed

logger = logging.getLogger("anytimebp")


class Question(NamedTuple):
    """What a stream is asked.

    Attributes:
        evidence: As `Session.query` takes it.
        shown: The marginals to send, until the page shows others.
        seconds: Time budget.
        changes: Variables to list that have changed most.
    """

    evidence: dict[str | int, Any]
    shown: list[Shown]
    seconds: float
    changes: int


def event(kind: str, data: object) -> bytes:
    """Return a server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encoded(data))


class Outbox:
    """Events that wait for a client; a slow one misses snapshots."""

    def __init__(self) -> None:
        """Start empty."""
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue()

    @property
    def is_empty(self) -> bool:
        """Whether the client has taken everything."""
        return self._events.empty()

    def put(self, kind: str, data: object) -> None:
        """Add an event."""
        self._events.put_nowait(event(kind, data))

    def close(self) -> None:
        """Let the client's stream end after what is there."""
        self._events.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give events until the outbox is closed."""
        while (found := await self._events.get()) is not None:
            yield found


async def answer(engine: Engine, client: Client, question: Question, outbox: Outbox) -> None:
    """Answer a query of a page into an outbox; whatever goes wrong becomes an event, too."""
    try:
        async with client.lock:
            if engine.is_busy:
                outbox.put("waiting", {})
            async with engine.turn():
                await _follow(engine, client, question, outbox)
    except asyncio.CancelledError:
        outbox.put("stopped", {})
        raise
    except Exception as error:  # noqa: BLE001  (a page is told of every error)
        outbox.put("problem", told(error).body())
    finally:
        outbox.close()


def told(error: Exception) -> Problem:
    """Return an error as a problem; unexpected errors are also written to the server's standard error."""
    if not isinstance(error, Problem | AnytimeBPError | MemoryError):
        logger.error("unexpected %s while answering a request", type(error).__name__, exc_info=error)
    return problem_of(error)


async def _follow(engine: Engine, client: Client, question: Question, outbox: Outbox) -> None:
    next_at, client.shown = 0.0, question.shown
    stream = cast("AsyncGenerator[Snapshot, None]", client.session.stream(question.evidence, None, question.seconds))
    async with aclosing(stream) as snapshots:
        async for snapshot in snapshots:
            is_last = isinstance(snapshot, Result)
            began = perf_counter()
            if not is_last and (began < next_at or not outbox.is_empty):
                continue
            client.newest = snapshot.marginals
            said = await engine.read(describe, engine, client, question, snapshot)
            if isinstance(snapshot, Result):
                client.take(snapshot)
            outbox.put("result" if is_last else "snapshot", said)
            now = perf_counter()
            next_at = now + max(INTERVAL, PART_OF_TIME * (now - began))


def describe(engine: Engine, client: Client, question: Question, snapshot: Snapshot) -> dict[str, Any]:
    """Return what an event says of a snapshot; `client.last` is still the answer to the query before."""
    model, is_last = engine.model, isinstance(snapshot, Result)
    found: dict[str, Any] = {"figures": figures(snapshot)}
    found["shown"] = shown_marginals(model, snapshot.marginals, client.shown)
    if isinstance(snapshot, Result):
        found["trace"] = trace(snapshot)
    if question.changes and client.last is not None and (is_last or model.n_states <= FEW_STATES):
        before, most = client.last.marginals, engine.limits.compared
        found["changes"] = changes(model, before, snapshot.marginals, question.changes, most)
    return found
