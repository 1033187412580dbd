"""Runs for clients: sessions that pages keep, runs that wait for their turn, and the threads in which they go."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from anytimebp.inference.session import Session
from anytimebp.results.map_result import MapResult
from anytimebp.results.marginals import Marginals
from anytimebp.results.snapshot import Result
from anytimebp.serve.limits import Limits
from anytimebp.serve.problems import Problem
from anytimebp.serve.reading import Shown
from anytimebp.serve.served_model import ServedModel

T = TypeVar("T")
READERS = 4  # threads that read requests and answers, beside those of runs


class Client:
    """A page, or a program that names its session: the session, and the answer to its last query.

    Attributes:
        session: Of this client alone.
        lock: Held while the session or an answer is in use.
        last: The last answer.
        newest: Marginals of the last answer, or of the query under way.
        best: The best joint state under the last evidence, if it was asked for.
        shown: What the page shows of marginals.
        task: The query under way.
    """

    def __init__(self, session: Session) -> None:
        """Have no answer yet."""
        self.session, self.lock = session, asyncio.Lock()
        self.last: Result | None = None
        self.newest: Marginals | None = None
        self.best: MapResult | None = None
        self.shown: list[Shown] = []
        self.task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no query is under way."""
        return not self.lock.locked() and (self.task is None or self.task.done())

    def take(self, result: Result) -> None:
        """Keep an answer."""
        self.last, self.best = result, None

    def stop(self) -> None:
        """End the query under way; the next one waits until it has ended."""
        if self.task is not None:
            end(self.task)


class Engine:
    """Runs the queries of all clients.

    Attributes:
        model: What is served.
        limits: What clients may use.
        method: How runs go.
    """

    def __init__(self, model: ServedModel, limits: Limits, method: str) -> None:
        """Start no thread yet."""
        self.model, self.limits, self.method = model, limits, method
        self._clients: OrderedDict[str, Client] = OrderedDict()
        self._free: list[Session] = []
        self._turns, self._waiting = asyncio.Semaphore(limits.runs), 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="read")

    def start(self) -> None:
        """Give the loop as many threads as there are runs."""
        runs = ThreadPoolExecutor(self.limits.runs, thread_name_prefix="run")
        asyncio.get_running_loop().set_default_executor(runs)

    async def close(self) -> None:
        """End all runs."""
        for task in self._tasks:
            end(task)
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function that takes a while, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function that is a run of its own, when its turn has come."""
        async with self.turn():
            return await asyncio.get_running_loop().run_in_executor(None, function)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that the server cancels when it ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def is_busy(self) -> bool:
        """Whether the next run has to wait."""
        return self._turns.locked()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until fewer runs than allowed are under way; raise Problem if too many requests are waiting already."""
        if self._waiting >= self.limits.waiting:
            msg = f"{self._waiting} requests are waiting already; try again later"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, msg)
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()

    # ------------------------------------------------------------ sessions
    def session(self) -> Session:
        """Return a new session on the model."""
        return Session(self.model.graph, self.method, max_memory=self.limits.max_memory)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Session]:
        """Lend a session for one query, when its turn has come."""
        async with self.turn():
            session = self._free.pop() if self._free else self.session()
            try:
                yield session
            finally:
                self._free.append(session)

    def known_client(self, name: str) -> Client:
        """Return the client with this session; raise Problem if there is none, as after a restart."""
        client = self._clients.get(name)
        if client is None or (client.newest is None and client.is_idle):
            raise unknown_session()
        return client

    def client(self, name: str) -> Client:
        """Return the client with this session; a new one takes the place of the one that was idle for longest."""
        client = self._clients.get(name)
        if client is None:
            while len(self._clients) >= self.limits.sessions:
                idle = next((key for key, other in self._clients.items() if other.is_idle), None)
                if idle is None:
                    msg = f"{len(self._clients)} pages are at work already; try again later"
                    raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, msg)
                del self._clients[idle]
            client = self._clients[name] = Client(self.session())
        self._clients.move_to_end(name)
        return client


def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task, once: a second time, it would not wait for the thread of its run."""
    if not task.cancelling():
        task.cancel()


def unknown_session() -> Problem:
    """Return the problem of a client whose last query is not known."""
    return Problem(HTTPStatus.CONFLICT, "the server does not know this page's last query (any more); send it again")
