"""Who works on the parts of a graph: threads of this process, or actors of Ray."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.errors import AnytimeBPError, ModelError
from anytimebp.inference.options import RunOptions
from anytimebp.inference.part_run import PartRun, Reading, Report
from anytimebp.model.evidence import Observation
from anytimebp.model.factor import row_starts
from anytimebp.model.source import FloatArray
from anytimebp.parallel.boundary import Border
from anytimebp.parallel.ray_workers import join_or_start
from anytimebp.parallel.splitting import Part

MOST_LOSSES = 10  # of one worker, after which a run gives up: what kills it is likely to do so again
POLL = 0.02  # seconds between two looks at Ctrl-C and the clock

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

Make: TypeAlias = Callable[[int], tuple[Part, Mapping[int, Observation]]]
"""Returns a part and the evidence on it."""


class Settle(NamedTuple):
    """What a part is asked to do; see `PartRun.settle`."""

    outside: FloatArray
    tolerance: float
    sweeps: int
    seconds: float


class Lost(NamedTuple):
    """Parts whose worker has died; they have been made anew, and have to be asked again."""

    parts: list[int]


class LostError(Exception):
    """Parts were lost while one of them was read."""

    def __init__(self, lost: Lost) -> None:
        """Say which."""
        super().__init__(lost)
        self.lost = lost


class Workers(Protocol):
    """Those who hold the parts of a graph."""

    n_workers: int

    def borders(self) -> list[Border]:
        """Make all parts, and return what they share."""
        ...

    def worker_of(self, part: int) -> int:
        """Return who holds a part."""
        ...

    def submit(self, part: int, what: Settle) -> None:
        """Let a part settle."""
        ...

    def next(self) -> tuple[int, Report] | Lost | None:
        """Return the next answer, who is lost, or nothing yet."""
        ...

    def read(self, part: int) -> Reading:
        """Return what is known of a part; raise LostError if its worker is lost, as those below do."""
        ...

    def fetch(self, part: int) -> tuple[Reading, Arrays]:
        """Return what is known of a part, and its marginals as a file would hold them."""
        ...

    def write(self, part: int, path: str) -> Reading:
        """Write the marginals of a part to a file where the part is, and return what else is known of it."""
        ...

    def close(self) -> None:
        """Let go of all parts."""
        ...


class Holder:
    """Some parts, in one thread or process."""

    def __init__(self, make: Make, options: RunOptions) -> None:
        """Hold nothing yet."""
        self._make, self._options = make, options
        self._runs: dict[int, PartRun] = {}

    def add(self, part: int) -> Border:
        """Make a part."""
        made, evidence = self._make(part)
        variables = made.graph.variables
        own = [variables.index_of(key) for key in made.shared]
        order = np.argsort(own, kind="stable")
        shared, keys = np.array(own, dtype=np.int64)[order], list(made.shared.values())
        _check_shared(part, [variables.name(index) for index in own], keys)
        run = self._runs[part] = PartRun(made.graph, shared, self._options, evidence)
        names = dict(zip(own, keys, strict=True))
        observed = {names[index]: seen for index, seen in evidence.items() if index in names}
        states = [variables[index].labels for index in shared.tolist()]
        labels = tuple([None if isinstance(each, range) else each for each in states])
        given = [keys[position] for position in order], variables.sizes()[shared], len(variables)
        return Border(*given, run.arity, labels, observed)

    def settle(self, part: int, what: Settle) -> Report:
        """Let a part settle."""
        return self._runs[part].settle(*what)

    def read(self, part: int) -> Reading:
        """Return what is known of a part."""
        return self._runs[part].read()

    def fetch(self, part: int) -> tuple[Reading, Arrays]:
        """Return what is known of a part, and its marginals as a file would hold them."""
        found, variables = self._runs[part].read(), self._runs[part].variables
        names = "\n".join([variables.name(index) for index in range(len(variables))])
        text = np.frombuffer(names.encode(), dtype=np.uint8)
        arrays: Arrays = {"belief": found.belief, "start": row_starts(variables.sizes()), "names": text}
        return found._replace(belief=np.empty(0)), arrays

    def write(self, part: int, path: str) -> Reading:
        """Write marginals to a file, and return the rest."""
        found, arrays = self.fetch(part)
        with Path(path).open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        return found


def _check_shared(part: int, names: Sequence[str], keys: Sequence[Hashable]) -> None:
    """Raise ModelError unless each shared variable has one name for all parts, and each such name one variable."""
    checks: list[tuple[Sequence[Hashable], str]]
    checks = [(names, "gives two names to variable"), (keys, "gives two variables the name")]
    for twice, what in checks:
        if len(set(twice)) < len(twice):
            culprit = next(one for one, count in Counter(twice).items() if count > 1)
            msg = f"`shared` of part {part} {what} {culprit!r}"
            raise ModelError(msg)


class LocalWorkers:
    """Threads of this process. Answers come in the order of the questions, so that runs can be repeated."""

    def __init__(self, make: Make, n_parts: int, options: RunOptions, n_workers: int) -> None:
        """Start the threads."""
        self._holder, self._n_parts = Holder(make, options), n_parts
        self.n_workers = min(n_workers, n_parts)
        self._pool = ThreadPoolExecutor(self.n_workers, "anytimebp")
        self._asked: deque[tuple[int, Future[Report]]] = deque()

    def borders(self) -> list[Border]:
        """Make all parts, one after the other: compiling kernels is not for several threads."""
        return [self._holder.add(part) for part in range(self._n_parts)]

    def worker_of(self, part: int) -> int:
        """Return the thread: any can take any part, and so each part is bound to one for balance alone."""
        return part % self.n_workers

    def submit(self, part: int, what: Settle) -> None:
        """Let a part settle."""
        self._asked.append((part, self._pool.submit(self._holder.settle, part, what)))

    def next(self) -> tuple[int, Report] | Lost | None:
        """Return the answer to the oldest question, once it is there."""
        part, future = self._asked[0]
        try:
            found = future.result(timeout=POLL)
        except TimeoutError:
            if future.done():  # an error of the part itself
                raise
            return None
        self._asked.popleft()
        return part, found

    def read(self, part: int) -> Reading:
        """Return what is known of a part."""
        return self._holder.read(part)

    def fetch(self, part: int) -> tuple[Reading, Arrays]:
        """Return what is known of a part, and its marginals."""
        return self._holder.fetch(part)

    def write(self, part: int, path: str) -> Reading:
        """Write the marginals of a part."""
        return self._holder.write(part, path)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)


class RayWorkers:
    """Actors of Ray, each with some parts. One that dies is started again, and makes its parts anew."""

    def __init__(self, make: Make, n_parts: int, options: RunOptions, n_workers: int | None) -> None:
        """Join a cluster, or start one."""
        self._ray, self._is_owner = join_or_start(n_workers)
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self.n_workers = min(n_workers or cores, cores, n_parts)
        self._n_parts = n_parts
        self._type = self._ray.remote(num_cpus=1, max_restarts=0)(Holder)
        self._given = self._ray.put(make), self._ray.put(options)
        self._actors = [self._type.remote(*self._given) for _ in range(self.n_workers)]
        self._losses = [0] * self.n_workers
        self._asked: dict[Any, int] = {}

    def borders(self) -> list[Border]:
        """Make all parts, each where it stays."""
        asked = {part: self._actors[self.worker_of(part)].add.remote(part) for part in range(self._n_parts)}
        found: list[Border] = []
        for part, border in asked.items():
            try:
                found.append(self._get(border))
            except self._ray.exceptions.RayActorError:
                self._replace(self.worker_of(part))
                return self.borders()
        return found

    def worker_of(self, part: int) -> int:
        """Return the actor that holds a part."""
        return part % self.n_workers

    def submit(self, part: int, what: Settle) -> None:
        """Let a part settle."""
        self._asked[self._actors[self.worker_of(part)].settle.remote(part, what)] = part

    def next(self) -> tuple[int, Report] | Lost | None:
        """Return the answer that comes first."""
        done, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=POLL)
        if not done:
            return None
        part = self._asked.pop(done[0])
        try:
            return part, self._get(done[0])
        except self._ray.exceptions.RayActorError:
            return self._replace(self.worker_of(part))

    def _get(self, reference: Any) -> Any:
        """Return a value; raise errors of the library as they were raised."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, AnytimeBPError) else error from None

    def _replace(self, worker: int) -> Lost:
        """Start another actor in place of one that has died; it makes its parts anew."""
        lost = [part for part in range(self._n_parts) if self.worker_of(part) == worker]
        self._asked = {asked: part for asked, part in self._asked.items() if part not in lost}
        self._losses[worker] += 1
        if self._losses[worker] > MOST_LOSSES:
            named = ", ".join(map(str, lost))
            msg = f"the worker of parts {named} has died {MOST_LOSSES + 1} times: nothing is known of these parts"
            raise AnytimeBPError(msg)
        self._actors[worker] = self._type.remote(*self._given)
        try:
            for part in lost:
                self._get(self._actors[worker].add.remote(part))
        except self._ray.exceptions.RayActorError:
            return self._replace(worker)
        return Lost(lost)

    def read(self, part: int) -> Reading:
        """Return what is known of a part."""
        found: Reading = self._of(part, "read")
        return found

    def fetch(self, part: int) -> tuple[Reading, Arrays]:
        """Return what is known of a part, and its marginals."""
        found: tuple[Reading, Arrays] = self._of(part, "fetch")
        return found

    def write(self, part: int, path: str) -> Reading:
        """Write the marginals of a part, on the machine where it is."""
        found: Reading = self._of(part, "write", path)
        return found

    def _of(self, part: int, method: str, *given: object) -> Any:
        """Return what the actor of a part answers to something that is asked at once."""
        worker = self.worker_of(part)
        try:
            return self._get(getattr(self._actors[worker], method).remote(part, *given))
        except self._ray.exceptions.RayActorError:
            raise LostError(self._replace(worker)) from None

    def close(self) -> None:
        """End the actors, and a cluster that was started for them."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._is_owner:
            self._ray.shutdown()
