"""Graphs that are made in parts, where the parts run: no machine needs to hold the whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from anytimebp.errors import EvidenceError, FormatError, OptionError, UnknownVariableError
from anytimebp.formats.files import read_model, write_model
from anytimebp.inference.inference import Inference
from anytimebp.inference.methods import IN_PARTS
from anytimebp.inference.options import check_budget, usable_cores
from anytimebp.model.evidence import EvidenceLike, Observation, read_evidence_mapping
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.parallel.exchange import Exchange, Limits
from anytimebp.parallel.part_workers import LocalWorkers, RayWorkers, Workers
from anytimebp.parallel.splitting import Part, homes, split
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Trace

INDEX, VERSION = "parts.json", 1
WORKERS: dict[str, Callable[..., Workers]] = {"threads": LocalWorkers, "ray": RayWorkers}


class PartitionedGraph:
    """A graph in parts, each of which is made where it runs.

    Variables that several parts hold are the same if the parts call them the same (`Part.shared`). Each factor belongs
    to one part; so do the unary factors of a shared variable.

    Args:
        make: `make(i)` returns part i, a `Part`. Ray's workers call it, so it has to be pickled by cloudpickle; it
            should not hold the parts themselves.
        n_parts: How many there are.
    """

    def __init__(self, make: Callable[[int], Part], n_parts: int) -> None:
        """Make no part yet."""
        if not callable(make):
            msg = f"make must be a function of the number of a part, got {make!r:.80}"
            raise OptionError(msg)
        if isinstance(n_parts, bool) or not isinstance(n_parts, int) or n_parts < 1:
            msg = f"n_parts must be a whole number of at least 1, got {n_parts!r}"
            raise OptionError(msg)
        self._make, self.n_parts = make, n_parts

    def __repr__(self) -> str:
        """Return one line."""
        return f"<PartitionedGraph: {self.n_parts} parts>"

    @classmethod
    def from_folder(cls, folder: str | Path) -> PartitionedGraph:
        """Return the graph whose parts are in a folder that `write_parts` wrote."""
        path = Path(folder)
        return cls(_FromFolder(path), _read_index(path))

    def infer(
        self,
        method: str = "bp",
        *,
        evidence: EvidenceLike | None = None,
        workers: str = "threads",
        threads: int | None = None,
        seconds: float | None = None,
        max_updates: int | None = None,
        tolerance: float = 1e-8,
        damping: float = 0.0,
        output: str | Path | None = None,
    ) -> PartitionedResult:
        """Run BP on all parts, and return what is known in the end.

        Args:
            method: "bp", "residual" or "adaptive". Parts make sweeps that leave out what has settled, whichever it is;
                all end at the same fixed point where there is one.
            evidence: What is known of variables, as for `abp.infer`: by what all parts call a shared variable, or by
                `(part, name)`.
            workers: "threads" of this process, or "ray": the actors of a running cluster, or of one on this machine.
            threads: How many of these; all cores by default.
            seconds: Time budget, without making the parts.
            max_updates: Budget of factor updates.
            tolerance: Residual in nats under which a message counts as settled.
            damping: Part of the old message kept in each update; raised by a part that does not settle.
            output: A folder into which each worker writes the marginals of its parts. On a cluster it has to be one
                that all machines see. Without it, all marginals come into this process.
        """
        check_budget(seconds, max_updates, None, None, None, None)
        if workers not in WORKERS:
            msg = f"workers must be one of {', '.join(map(repr, WORKERS))}, got {workers!r}"
            raise OptionError(msg)
        if method not in IN_PARTS or method == "auto":
            known = ", ".join(repr(name) for name in IN_PARTS if name != "auto")
            msg = f"method must be one of {known} for a graph in parts, got {method!r}"
            raise OptionError(msg)
        options = Inference(FactorGraph(), method, tolerance=tolerance, damping=damping, threads=threads).options
        n_workers = threads if workers == "ray" else threads or usable_cores()
        make = _WithEvidence(self._make, evidence, self.n_parts)
        held = WORKERS[workers](make, self.n_parts, options, n_workers)
        try:
            borders = held.borders()
            make.check([key for border in borders for key in border.keys])
            exchange = Exchange(held, tolerance, borders)
            limits = [inf if limit is None else limit for limit in (seconds, max_updates)]
            reason = exchange.run(Limits(*limits))
            return _result(exchange, held, reason, None if output is None else Path(output))
        finally:
            held.close()


class _WithEvidence:
    """Makes parts, and reads the evidence on them where they are made."""

    def __init__(self, make: Callable[[int], Part], evidence: EvidenceLike | None, n_parts: int) -> None:
        if evidence is not None and not isinstance(evidence, Mapping):
            read_evidence_mapping(evidence, FactorGraph().variables)  # which says what is wrong
        self._make = make
        self._shared: dict[Hashable, Any] = {}
        self._own: dict[int, dict[str, Any]] = {}
        for key, value in (evidence or {}).items():
            if _is_local(key):
                part, name = key
                if not 0 <= part < n_parts:
                    msg = f"evidence: {key!r}: there is no part {part} among {n_parts}"
                    raise EvidenceError(msg)
                self._own.setdefault(int(part), {})[name] = value
            else:
                self._shared[key] = value

    def check(self, keys: list[Hashable]) -> None:
        """Raise EvidenceError where evidence is on nothing that parts share, or its key may mean two variables."""
        known = set(keys)
        for key in self._shared:
            if key not in known:
                msg = f"evidence: no part shares a variable as {key!r}; name one of a single part by (part, name)"
                raise EvidenceError(msg)
        for part, names in self._own.items():
            for name in names:
                if (part, name) in known:
                    msg = f"evidence: {(part, name)!r} is a variable of part {part}, and one that parts share"
                    raise EvidenceError(msg)

    def __call__(self, number: int) -> tuple[Part, Mapping[int, Observation]]:
        """Return a part and the evidence on it."""
        found = self._make(number)
        if not isinstance(found, tuple) or not isinstance(found[0], FactorGraph):
            msg = f"make({number}) must return a Part, got {type(found).__name__}"
            raise OptionError(msg)
        part, variables = Part(*found), found[0].variables
        given: dict[Any, Any] = dict(self._own.get(number, {}))
        if self._shared:
            here = {variables[variables.index_of(own)]: key for own, key in part.shared.items() if key in self._shared}
            given |= {own: self._shared[key] for own, key in here.items()}
        try:
            return part, read_evidence_mapping(given, variables)
        except EvidenceError as error:
            msg = f"part {number}: {error}"
            raise EvidenceError(msg) from None


def _is_local(key: object) -> bool:
    """Tell whether a key of evidence names a variable of one part."""
    if not (isinstance(key, tuple) and len(key) == 2):  # noqa: PLR2004
        return False
    return isinstance(key[0], int | np.integer) and not isinstance(key[0], bool) and isinstance(key[1], str)


class _FromFolder:
    """Reads the parts of a graph."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, number: int) -> Part:
        path = self._folder / f"shared-{number:05d}.npz"
        graph = read_model(self._folder / f"part-{number:05d}.npz")
        try:
            with np.load(path, allow_pickle=False) as held:
                variables, keys = held["variable"], held["key"]
        except (OSError, ValueError, KeyError) as error:
            raise FormatError(path, f"not the shared variables of a part ({error})") from None
        is_whole = variables.dtype.kind == keys.dtype.kind == "i"
        if not is_whole or variables.shape != keys.shape or variables.ndim != 1:
            raise FormatError(path, "not the shared variables of a part: two rows of whole numbers are expected")
        return Part(graph, dict(zip(variables.tolist(), keys.tolist(), strict=True)))


def write_parts(graph: FactorGraph, folder: str | Path, n_parts: int) -> int:
    """Cut a graph, and write its parts into a folder, from which `PartitionedGraph.from_folder` reads them.

    Args:
        graph: The model, without rules, which no file holds.
        folder: Is made if need be.
        n_parts: How many parts to cut it into.

    Returns:
        How many there are: fewer, if the graph has fewer variables.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    parts = split(graph, homes(graph, n_parts)).parts
    for number, part in enumerate(parts):
        write_model(part.graph, path / f"part-{number:05d}.npz")
        variables, keys = np.array([*part.shared.items()], dtype=np.int64).reshape(-1, 2).T
        np.savez(path / f"shared-{number:05d}.npz", variable=variables, key=keys)
    (path / INDEX).write_text(json.dumps({"anytimebp_parts": VERSION, "parts": len(parts)}))
    return len(parts)


def _read_index(folder: Path) -> int:
    """Return how many parts a folder has."""
    path = folder / INDEX
    try:
        found = json.loads(path.read_text())
        if found["anytimebp_parts"] != VERSION or not isinstance(found["parts"], int) or found["parts"] < 1:
            raise ValueError(f"version {found['anytimebp_parts']!r}, {found['parts']!r} parts")  # noqa: EM102, TRY003, TRY301
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(path, f"not the index of a graph in parts ({error})") from None
    parts: int = found["parts"]
    return parts


# ---------------------------------------------------------------- what is known
@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedResult:
    """What is known of a graph in parts.

    Attributes:
        log_z: Bethe estimate of the log partition function of the whole graph.
        stop_reason: Why the run ended.
        consistent: Whether no message of the whole graph would move by more than the tolerance.
        max_residual: Largest change of a message in the last sweep over a part, in nats.
        estimated_error: Estimated distance of the marginals to those of BP, as a mean over variables.
        seconds: Time of the run, without making the parts.
        updates: Factor updates of all parts.
        work: Table entries read.
        trace: Figures over time.
        n_variables: Of each part, shared ones included.
    """

    log_z: float
    stop_reason: StopReason
    consistent: bool
    max_residual: float
    estimated_error: float
    seconds: float
    updates: int
    work: int
    trace: Trace
    n_variables: list[int]
    _held: list[PartMarginals] = field(repr=False)

    def marginals(self, part: int) -> PartMarginals:
        """Return the marginals of a part's variables, by name; from its file, if there is one."""
        if not 0 <= part < len(self._held):
            msg = f"there is no part {part!r} among {len(self._held)}"
            raise OptionError(msg)
        return self._held[part]


class PartMarginals(Mapping[str, FloatArray]):
    """The marginals of one part, by variable name; read from a file when they are first asked for."""

    def __init__(self, path: Path | None, held: dict[str, Any] | None = None) -> None:
        """Read nothing yet."""
        self._path, self._arrays = path, held
        self._index: dict[str, int] | None = None

    def _read(self) -> tuple[dict[str, int], IndexArray, FloatArray]:
        if self._arrays is None:
            assert self._path is not None  # noqa: S101  (there is one or the other)
            with np.load(self._path, allow_pickle=False) as found:
                self._arrays = {name: found[name] for name in ("belief", "start", "names")}
        if self._index is None:
            names = bytes(self._arrays["names"]).decode().split("\n") if len(self._arrays["names"]) else []
            self._index = {name: position for position, name in enumerate(names)}
        return self._index, self._arrays["start"], self._arrays["belief"]

    def __getitem__(self, name: str) -> FloatArray:
        """Return the marginal of a variable."""
        index, start, belief = self._read()
        if name not in index:
            msg = f"the part has no variable named {name!r}"
            raise UnknownVariableError(msg)
        found: FloatArray = belief[start[index[name]] : start[index[name] + 1]]
        return found

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._read()[0])

    def __len__(self) -> int:
        """Return the number of variables."""
        return len(self._read()[0])


def _result(exchange: Exchange, workers: Workers, reason: StopReason, output: Path | None) -> PartitionedResult:
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    held: dict[int, PartMarginals] = {}
    paths = {part: (output or Path()) / f"marginals-{part:05d}.npz" for part in range(len(exchange.n_variables))}

    def take(part: int) -> Any:
        if output is None:
            found, arrays = workers.fetch(part)
            held[part] = PartMarginals(None, arrays)
        else:
            found = workers.write(part, str(paths[part].resolve()))
            held[part] = PartMarginals(paths[part])
        return found

    known = exchange.read(take)
    empty = {"belief": np.empty(0), "start": np.zeros(1, dtype=np.int64), "names": np.empty(0, dtype=np.uint8)}
    return PartitionedResult(
        log_z=known.log_z,
        stop_reason=reason,
        consistent=reason is StopReason.CONVERGED,
        max_residual=known.max_residual,
        estimated_error=known.error,
        seconds=exchange.seconds,
        updates=exchange.updates,
        work=exchange.work,
        trace=Trace([*exchange.trace, exchange.moment(known)]),
        n_variables=exchange.n_variables,
        _held=[held.get(part, PartMarginals(None, empty)) for part in paths],
    )
