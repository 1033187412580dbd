"""Our own format: a NumPy .npz archive that keeps everything but rules, to the last bit.

`header.npy` holds JSON as bytes: the format's version, the variables in blocks (names, or none for automatic ones;
labels, or a count), and for every block of factors its kind. The arrays of block k are `scopes_k`, and those of its
kind (`FactorSource.fields`): `values_k` (log scores or potentials), `indices_k` and `log_scores_k`, `log_kernel_k` or
`states_k`. Anything that reads .npz can read the numbers.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from anytimebp.errors import FormatError
from anytimebp.formats.input_file import (
    AT_ONCE,
    FACTOR_BLOCK,
    MAX_COMPRESSION,
    VARIABLE,
    Source,
    most_unpacked,
    open_input,
)
from anytimebp.formats.potentials import refuse_rule
from anytimebp.model.factor import FactorBlock, describe_factor
from anytimebp.model.graph import FactorGraph
from anytimebp.model.kinds.registry import kind_of_tag
from anytimebp.model.source import LOG_SCORE, WHOLE, Field
from anytimebp.model.variable import VariableBlock, read_states

VERSION = 1
DAMAGED = (
    *(zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError, zlib.error, struct.error, RuntimeError),
    *(TokenError, SyntaxError, MemoryError, OverflowError, TypeError),  # of headers of arrays, which NumPy parses
)
PER_HEADER_BYTE = 10  # bytes of memory
FREE_VARIABLES = 10_000_000  # variables that a file may claim for free; beyond these, each takes at least a byte


def write_npz(graph: FactorGraph, file: BinaryIO, path: Path) -> list[str]:
    """Write a graph; return what is lost: labels that are neither text nor plain numbers become text."""
    dropped: list[str] = []
    header = {
        "anytimebp": VERSION,
        "variables": [_variable_header(block, path, dropped) for block in graph.variables.blocks],
        "factors": [_factor_header(graph, block, path) for block in graph.blocks],
    }
    text = json.dumps(header, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    packed = isinstance(file, gzip.GzipFile)  # an archive needs seeking, which gzip cannot do
    output = io.BytesIO() if packed else file
    with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as archive:
        _write_array(archive, "header", np.frombuffer(text.encode("ascii"), dtype=np.uint8))
        for k, block in enumerate(graph.blocks):
            _write_array(archive, f"scopes_{k}", block.scopes)
            for name, values in block.source.arrays.items():
                _write_array(archive, f"{name}_{k}", values)
    if output is not file:
        file.write(cast("io.BytesIO", output).getbuffer())
    return dropped


def _variable_header(block: VariableBlock, path: Path, dropped: list[str]) -> dict[str, Any]:
    name = f"x{block.first}" if block.names is None else block.names[0]
    if isinstance(block.labels, range):
        states: Any = len(block.labels)
    else:
        states = [label if _is_plain(label) else str(label) for label in block.labels]
        if len(set(states)) < len(states):
            raise FormatError(path, f"labels of {name!r} become the same text: {states!r:.80}")
        odd = [label for label in block.labels if not _is_plain(label)]
        if odd:
            kind = type(odd[0]).__name__
            dropped.append(f"the kind of labels of variable {name!r}: {odd[0]!r} is a {kind} and becomes text")
    return {"n": block.n, "names": None if block.names is None else list(block.names), "states": states}


def _is_plain(label: object) -> bool:
    return type(label) in {str, int, bool, type(None)} or (type(label) is float and np.isfinite(label))


def _factor_header(graph: FactorGraph, block: FactorBlock, path: Path) -> dict[str, Any]:
    refuse_rule(graph, block, path)
    source = block.source
    if not source.tags:
        what = describe_factor((block,), graph.variables, block.first)
        raise FormatError(path, f"{what} is of the kind {type(source).__name__}, which .npz does not hold")
    numbers = {name: getattr(source, name) for name, holds, _ in source.fields if holds in {LOG_SCORE, WHOLE}}
    return {"kind": source.tag} | {name: None if value == -np.inf else value for name, value in numbers.items()}


def _write_array(archive: zipfile.ZipFile, name: str, values: npt.NDArray[Any]) -> None:
    info = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: the same graph gives the same bytes
    with archive.open(info, "w", force_zip64=True) as member:
        np.lib.format.write_array(member, values, allow_pickle=False)


def read_npz(path: Path, _odd: list[str]) -> FactorGraph:
    """Read a graph that `write_npz` wrote."""
    with open_input(path) as source, _seekable(source) as seekable:
        try:
            archive = zipfile.ZipFile(seekable)
        except DAMAGED as error:
            raise FormatError(path, f"not an .npz archive, or cut short ({error})") from None
        with archive:
            return _read_graph(_Members(archive, source), max(FREE_VARIABLES, source.n_bytes))


def _seekable(source: Source) -> AbstractContextManager[IO[bytes]]:
    """Return a file that can seek; a packed one is unpacked to the disk, not into memory."""
    if not isinstance(source.file, gzip.GzipFile):
        return nullcontext(source.file)
    with ExitStack() as stack:
        unpacked = stack.enter_context(tempfile.TemporaryFile())
        while data := source.read(AT_ONCE):
            unpacked.write(data)
        stack.pop_all()  # the caller closes it
        return unpacked


class _Members:
    """The arrays of an archive, checked against the bytes that are there before any is allocated."""

    def __init__(self, archive: zipfile.ZipFile, source: Source) -> None:
        self._archive = archive
        self._left = max(source.size, most_unpacked(source.size))
        self._source = source
        self.path = source.path
        self.make_room = source.make_room

    def array(self, name: str, kind: str) -> npt.NDArray[Any]:
        """Return an array whose dtype is of a kind."""
        try:
            info = self._archive.getinfo(f"{name}.npy")
            packed = info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
            if packed or info.file_size > MAX_COMPRESSION * info.compress_size + 1000:
                raise zipfile.BadZipFile("its size or its compression is not that of an .npz")  # noqa: EM101, TRY003
            self._count(info.file_size)
            with self._archive.open(info) as member:
                values = _read_array(member, info.file_size)
        except FormatError:
            raise
        except DAMAGED as error:
            raise FormatError(self.path, f"array {name!r} is missing or damaged ({error})") from None
        if values.dtype.kind not in kind:
            raise FormatError(self.path, f"array {name!r} holds {values.dtype}, which does not belong there")
        return values

    def _count(self, n_bytes: int) -> None:
        """Refuse arrays that unpack to more than an archive of this size may hold."""
        self._left -= n_bytes
        if self._left < 0:
            self._source.fail_unpacked()


def _read_array(member: Any, n_bytes: int) -> npt.NDArray[Any]:
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(member)
    if dtype.hasobject:
        raise ValueError("it holds objects")  # noqa: EM101, TRY003
    data = member.read(n_bytes)
    if len(data) != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise ValueError(f"shape {shape} does not fit its {len(data):,} bytes")  # noqa: EM102, TRY003
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran_order else "C")


def _read_graph(members: _Members, most_variables: int) -> FactorGraph:
    header = _read_header(members)
    graph = FactorGraph()
    try:
        if sum(block["n"] for block in header["variables"]) > most_variables:
            raise FormatError(members.path, f"the file claims more than {most_variables:,} variables")
        for block in header["variables"]:
            members.make_room(VARIABLE)
            names, states = block["names"], block["states"]
            if names:
                read_states(states, str(names[0]))  # errors then name a variable
            graph.add_variables(block["n"], states, names)
        for k, block in enumerate(header["factors"]):
            members.make_room(FACTOR_BLOCK)
            _add_block(graph, members, k, block)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FormatError(members.path, f"the header is not as it should be ({error!r})") from None
    return graph


def _read_header(members: _Members) -> dict[str, Any]:
    text = members.array("header", "u").tobytes()
    members.make_room(PER_HEADER_BYTE * len(text))
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or "anytimebp" not in header:
        raise FormatError(members.path, "an .npz archive, but not one that holds a model of anytimebp")
    if header["anytimebp"] != VERSION:
        message = f"the file has version {header['anytimebp']!r} of the format; this release reads version {VERSION}"
        raise FormatError(members.path, message)
    return header


def _add_block(graph: FactorGraph, members: _Members, k: int, header: Mapping[str, Any]) -> None:
    scopes, tag = members.array(f"scopes_{k}", "i"), header["kind"]
    kind = kind_of_tag(tag)
    if kind is None:
        raise FormatError(members.path, f"factor block {k} is of the unknown kind {tag!r}")
    held = {field.name: _read_field(members, k, header, field) for field in kind.fields}
    graph.add_factors(scopes, **kind.restated(tag, **held))


def _read_field(members: _Members, k: int, header: Mapping[str, Any], field: Field) -> Any:
    """Return an array of a block, or a number of its header; null means -inf."""
    name, holds, what = field
    if holds not in {LOG_SCORE, WHOLE}:
        return members.array(f"{name}_{k}", holds)
    given = header[name]
    if holds == LOG_SCORE and given is None:
        return -np.inf
    if isinstance(given, bool) or not isinstance(given, int if holds == WHOLE else int | float):
        wanted = "whole" if holds == WHOLE else "a number"
        raise FormatError(members.path, f"the {what or name} of factor block {k} must be {wanted}, got {given!r:.40}")
    return given if holds == WHOLE else float(given)
