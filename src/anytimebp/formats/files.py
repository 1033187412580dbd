"""Reading and writing models, evidence and marginals: chooses the module of the format by the file's ending."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

import numpy.typing as npt

from anytimebp.errors import AnytimeBPError, DistributionWarning, DroppedWarning, FormatError, InconsistentModelError
from anytimebp.formats.bif import read_bif, write_bif
from anytimebp.formats.evidence import read_json_evidence
from anytimebp.formats.libdai import read_fg, write_fg
from anytimebp.formats.marginal_tables import write_csv, write_json, write_parquet
from anytimebp.formats.npz import read_npz, write_npz
from anytimebp.formats.sasca import read_sasca
from anytimebp.formats.uai import read_uai, write_uai
from anytimebp.formats.uai_results import read_mar, read_uai_evidence, write_mar, write_pr
from anytimebp.formats.whole_file import ending, whole_file
from anytimebp.formats.xmlbif import read_xmlbif, write_xmlbif
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray
from anytimebp.results.snapshot import Snapshot

PathLike: TypeAlias = str | os.PathLike[str]
Handler = TypeVar("Handler")

READERS: Mapping[str, Callable[..., FactorGraph]] = {
    ".uai": read_uai,
    ".fg": read_fg,
    ".bif": read_bif,
    ".xmlbif": read_xmlbif,
    ".bifxml": read_xmlbif,
    ".xml": read_xmlbif,
    ".npz": read_npz,
    ".sasca": read_sasca,
}
WRITERS: Mapping[str, Callable[[FactorGraph, BinaryIO, Path], list[str]]] = {
    ".uai": write_uai,
    ".fg": write_fg,
    ".bif": write_bif,
    ".xmlbif": write_xmlbif,
    ".bifxml": write_xmlbif,
    ".xml": write_xmlbif,
    ".npz": write_npz,
}
EVIDENCE_READERS: Mapping[str, Callable[[Path, FactorGraph], dict[str, object]]] = {
    ".evid": read_uai_evidence,
    ".json": read_json_evidence,
}
MARGINAL_WRITERS: Mapping[str, Callable[[Snapshot, BinaryIO, Path], None]] = {
    ".mar": write_mar,
    ".pr": write_pr,
    ".json": write_json,
    ".csv": write_csv,
    ".parquet": write_parquet,
}


def read_model(
    path: PathLike, *, tables: Mapping[str, npt.ArrayLike] | None = None, n_executions: int | None = None
) -> FactorGraph:
    """Read a model from a .uai, .fg (libDAI), .bif, .xmlbif, .sasca (SCALib) or .npz (our own) file, plain or gzipped.

    Raises a DistributionWarning if a conditional distribution of a Bayesian network does not sum to 1.

    Args:
        path: The file. Its ending says the format.
        tables: For a .sasca file, a mapping from names to arrays: the values of each TABLE without values, and the
            potentials of each GENERIC factor, with one axis per variable, after one for executions if it is MULTI.
        n_executions: For a .sasca file, the number of traces; 1 by default. MULTI variables are called `x[0]`, `x[1]`,
            ...; public variables are variables to be observed.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_factor(["weather"], table=[0.75, 0.25])
        >>> abp.write_model(graph, "weather.bif")
        >>> abp.read_model("weather.bif").variable("weather").labels
        ('sun', 'rain')

    Raises:
        FormatError: If the file is not in the format that its ending says. The error names the line and the token.
        InconsistentModelError: If a factor of the model is zero everywhere.
    """
    options = {"tables": tables, "n_executions": n_executions}
    graph, odd = read_model_file(path, options={key: value for key, value in options.items() if value is not None})
    if odd:
        warnings.warn(f"{path}: {'; '.join(odd)}", DistributionWarning, stacklevel=2)
    return graph


def read_model_file(
    path: PathLike,
    like: PathLike | None = None,
    name: str | None = None,
    options: Mapping[str, object] | None = None,
) -> tuple[FactorGraph, list[str]]:
    """Read a model and return it with remarks on its numbers.

    Args:
        path: The file.
        like: A file name whose ending says the format, if that of the file does not.
        name: What errors call the file, if not by its path.
        options: Of the reader, which only .sasca files have.
    """
    file, name = Path(path), name or str(path)
    read = _handler(READERS, file if like is None else Path(like), "a model")
    if options and read is not read_sasca:
        raise FormatError(name, f"only .sasca files take {' and '.join(options)}")
    odd: list[str] = []
    try:
        graph = read(file, odd, **(options or {}))
    except FormatError as error:
        raise FormatError(name, error.message, error.line) from None
    except InconsistentModelError as error:
        message = f"{name}: {error}"
        raise InconsistentModelError(message) from None
    except AnytimeBPError as error:
        raise FormatError(name, str(error)) from None
    graph.own_tables()
    return graph, odd


def read_evidence(path: PathLike, graph: FactorGraph) -> dict[str, object]:
    """Read evidence about a model from a UAI .evid file in either style, or from a .json file with names and labels.

    Returns:
        Evidence as `infer(graph, evidence=...)` takes it.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_factor(["weather"], table=[0.75, 0.25])
        >>> with open("seen.json", "w") as file:
        ...     _ = file.write('{"weather": "rain"}')
        >>> abp.infer(graph, evidence=abp.read_evidence("seen.json", graph)).top("weather")
        [('rain', 1.0)]
    """
    return read_evidence_file(path, graph)


def read_evidence_file(
    path: PathLike, graph: FactorGraph, like: PathLike | None = None, name: str | None = None
) -> dict[str, object]:
    """Read evidence; `like` and `name` are those of `read_model_file`."""
    file = Path(path)
    read = _handler(EVIDENCE_READERS, file if like is None else Path(like), "evidence")
    try:
        return read(file, graph)
    except FormatError as error:
        raise FormatError(name or file, error.message, error.line) from None


def write_model(graph: FactorGraph, path: PathLike) -> None:
    """Write a model in the format of the file's ending; `read_model` lists the formats.

    The file appears when it is complete, or not at all. If the format cannot hold everything, such as names, a
    DroppedWarning says so. Numbers keep every bit, except that log scores become potentials in formats that have no log
    scores. Rules cannot be written.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_factor(["weather"], table=[0.75, 0.25])
        >>> abp.write_model(graph, "weather.npz")
    """
    dropped = write_model_file(graph, path)
    if dropped:
        warnings.warn(f"{path}: the format cannot hold everything: {'; '.join(dropped)}", DroppedWarning, stacklevel=2)


def write_model_file(graph: FactorGraph, path: PathLike, like: PathLike | None = None) -> list[str]:
    """Write a model, in the format of the ending of `like` if that is given; return what the format cannot hold."""
    graph.take_changes()
    file = Path(path)
    write = _handler(WRITERS, file if like is None else Path(like), "a model")
    with _writing(file, ".npz") as output:
        return write(graph, output, file)


def write_marginals(result: Snapshot, path: PathLike) -> None:
    """Write the marginals of a result. The file appears when it is complete, or not at all.

    Args:
        result: A result or a snapshot.
        path: A .MAR (UAI competition), .PR (only log10 of Z), .json, .csv or .parquet (needs pyarrow) file.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_factor(["weather"], table=[0.75, 0.25])
        >>> abp.write_marginals(abp.infer(graph), "weather.csv")
    """
    file = Path(path)
    write = _handler(MARGINAL_WRITERS, file, "marginals")
    with _writing(file, ".json") as output:
        write(result, output, file)


@contextmanager
def _writing(file: Path, instead: str) -> Iterator[BinaryIO]:
    """Open a file for writing. Text that cannot be encoded raises a FormatError, which says what to write instead."""
    try:
        with whole_file(file) as output:
            yield output
    except FormatError:
        raise
    except UnicodeEncodeError as error:
        raise FormatError(file, f"{error.object[:80]!r} cannot be written as text; write {instead}") from None
    except ValueError as error:  # also of Python, on whole numbers of more than 4300 digits
        raise FormatError(file, f"a name or a label cannot be written: {error}") from None


def read_marginals(path: PathLike) -> list[FloatArray]:
    """Read the marginals of all variables, in order, from a .MAR file.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_factor(["weather"], table=[0.75, 0.25])
        >>> abp.write_marginals(abp.infer(graph), "weather.MAR")
        >>> [marginal.round(2).tolist() for marginal in abp.read_marginals("weather.MAR")]
        [[0.75, 0.25]]
    """
    file = Path(path)
    return _handler({".mar": read_mar}, file, "marginals")(file)


def check_ending(path: PathLike, known: Mapping[str, object], what: str) -> None:
    """Raise FormatError if a file's ending is none of the known ones."""
    _handler(known, Path(path), what)


def _handler(handlers: Mapping[str, Handler], path: Path, what: str) -> Handler:
    try:
        return handlers[ending(path)]
    except KeyError:
        known = ", ".join(handlers)
        message = f"no format for {what} has the ending {ending(path)!r}; there are {known}, and .gz of each"
        raise FormatError(path, message) from None
