"""What a method is to the loop, and the loop: settle, look, grow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from anytimebp.domains.domains import Domains
from anytimebp.inference.figures import Figures, Limits
from anytimebp.inference.options import RunOptions
from anytimebp.kernels.codes import SUM
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray
from anytimebp.results.snapshot import Snapshot

T = TypeVar("T")


class Step(Enum):
    """What a slice of a run ended with."""

    WORKING = "nothing to record yet"
    RECORD = "a sweep or round is through"


LOGS, LEAVES, FORESTS, LARGER = "log arithmetic", "trees and leaves", "forests", "larger graphs"
"""What `Task.load` knows kernels by that some runs need: in log arithmetic; to sum leaves out; to find loops; for
variables of high degree, to look for trees, and to decide whether rounds may pay."""


class Ahead:
    """What was made ahead of a method on a large graph, in slices.

    Attributes:
        domains: Of all states that the evidence allows; whoever takes them owns them.
        room: For the beliefs of the next answer: memory that has been touched.
    """

    __slots__ = ("domains", "room")

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.domains: Domains | None = None
        self.room: FloatArray | None = None

    def take_domains(self) -> Domains | None:
        """Return the domains to their next owner."""
        found, self.domains = self.domains, None
        return found

    def take_room(self, n: int) -> FloatArray | None:
        """Return room for so many numbers to its next owner, if there is some."""
        found, self.room = self.room, None
        return found if found is not None and len(found) == n else None


class Task(NamedTuple):
    """What a method is given.

    Attributes:
        graph: The model.
        options: Of the run.
        figures: How the run stands; the method writes them.
        limits: What it may do until it is asked again.
        load: Loads kernels that the run turns out to need, by a method's name or another; False if Ctrl-C came before
            the end.
        unary: Log scores over the universe, by variable, in place of what its unary factors say.
        ahead: What was made ahead of the method.
        semiring: SUM, or MAX for max-marginals.
    """

    graph: FactorGraph
    options: RunOptions
    figures: Figures
    limits: Limits
    load: Callable[[str], bool]
    unary: Mapping[int, FloatArray]
    ahead: Ahead
    semiring: int = SUM


def new_task(
    graph: FactorGraph,
    options: RunOptions,
    load: Callable[[str], bool] = lambda _: True,
    unary: Mapping[int, FloatArray] = MappingProxyType({}),
) -> Task:
    """Return a task of which nothing is done yet."""
    figures = Figures(options.method, options.tolerance, options.damping)
    return Task(graph, options, figures, Limits(), load, unary, Ahead())


class Method(Protocol):
    """A way of getting to the marginals, in slices of a few milliseconds.

    Each part is a generator that pauses where the clock may be looked at. It writes the figures of its task.
    """

    def begin(self) -> Iterator[Step]:
        """Choose the first active states, and make their tables."""
        ...

    def settle(self) -> Iterator[Step]:
        """Send messages on the active states until a round, or a sweep over all states, is through."""
        ...

    def look(self) -> Iterator[Step]:
        """Find out what is left: what states outside would weigh, and how far messages are from their end."""
        ...

    def grow(self) -> Iterator[Step]:
        """Let states join, or find that none is left."""
        ...

    def read(self, *, settled: bool) -> Snapshot | None:
        """Return what is known now; or at the last consistent state, None if there was none."""
        ...


class Stages:
    """A method that leaves its work to others, one after the other.

    Attributes:
        now: What is at work, or was last; None before it was decided what to begin with.
    """

    def __init__(self) -> None:
        """Decide nothing yet."""
        self.now: Method | None = None

    @property
    def begins_at_once(self) -> bool:
        """Whether setting up and the first answer are so cheap that nobody looks at the clock between them."""
        return False

    @property
    def current(self) -> Method:
        """What is at work."""
        assert self.now is not None  # noqa: S101  (`begin` has chosen one)
        return self.now

    def settle(self) -> Iterator[Step]:
        """Settle as the stage does."""
        return self.current.settle()

    def look(self) -> Iterator[Step]:
        """Look as the stage does."""
        return self.current.look()

    def grow(self) -> Iterator[Step]:
        """Grow as the stage does."""
        return self.current.grow()


def in_steps(making: Generator[None, None, T]) -> Generator[Step, None, T]:
    """Return what is made, with its pauses as steps."""
    while True:
        try:
            next(making)
        except StopIteration as end:
            made: T = end.value
            return made
        yield Step.WORKING


def steps(method: Method, figures: Figures) -> Iterator[Step]:
    """Settle, look, grow, until there is an ending."""
    yield from method.begin()
    while figures.ending is None:
        figures.is_news = True
        yield from method.settle()
        yield from method.look()
        yield Step.RECORD if figures.is_news else Step.WORKING
        if figures.ending is None:
            yield from method.grow()
