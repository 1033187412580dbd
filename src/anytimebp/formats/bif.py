"""Bayesian networks in the Interchange Format, BIF 0.15, as bnlearn, pgmpy, pyAgrum and JavaBayes write it.

A distribution is given row by row, `(parent states) numbers`, or as one `table`, in which the child is the slowest
variable and the last parent the fastest; `default` fills rows that are not given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from anytimebp.errors import FormatError
from anytimebp.formats.bayesian import Network, build
from anytimebp.formats.input_file import LABEL, NAMED_VARIABLE, ROW, Source, read_at_most
from anytimebp.formats.tokens import count_lines, without_bom
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import MAX_ARITY, FloatArray

SKIPPED = re.compile(r"(?:\s+|//[^\r\n]*|/\*.*?\*/){1,1000}", re.DOTALL)  # takes 350 bytes a repetition to match
WORD_END = re.compile(r'[\s{}()\[\],;|"]|/[/*]')
MARKS = frozenset("{}()[],;|")
FREE_ENTRIES = 2**24  # entries of tables that are filled by defaults; a short file could claim any number
MOST_BYTES = 2**30  # bytes of text, which is read whole; a small file may unpack to any number
END = ""


def read_bif(path: Path, odd: list[str]) -> FactorGraph:
    """Read a Bayesian network; each factor has the child last. `odd` gets a remark on sums of distributions."""
    text, source = _read_text(path)
    return _Parser(source, text).network(odd)


def _read_text(path: Path) -> tuple[str, Source]:
    data, source = read_at_most(path, MOST_BYTES)
    data = without_bom(data, path)
    try:
        return data.decode("utf-8"), source
    except UnicodeDecodeError as error:
        raise FormatError(path, "the file is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None


def _token_end(text: str, start: int) -> int:
    """Return where the token that starts here ends; `start` itself if the token is incomplete."""
    first = text[start : start + 1]
    if first == '"':
        return text.find('"', start + 1) + 1 or start
    if first in MARKS:
        return start + 1
    end = WORD_END.search(text, start)
    return end.start() if end else len(text)


class _Parser:
    """Reads statements from text, token by token."""

    def __init__(self, source: Source, text: str) -> None:
        self._path = source.path
        self._make_room = source.make_room
        self._text = text
        self._at = 0  # where to read on
        self._last = 0  # where the last token starts
        self._found = Network()
        self._free = FREE_ENTRIES

    def network(self, odd: list[str]) -> FactorGraph:
        statements: dict[str, Callable[[], None]] = {
            "network": self._skip_network,
            "variable": self._variable,
            "probability": self._probability,
        }
        while (word := self._next()) != END:
            if word not in statements:
                self._fail("expected network, variable or probability")
            statements[word]()
        if not self._found.labels:
            raise FormatError(self._path, "the file states no variable")
        return build(self._found, self._path, odd)

    # ---------------------------------------------------------------- statements
    def _skip_network(self) -> None:
        self._skip_past("{")
        self._skip_past("}")

    def _variable(self) -> None:
        name = self._name(self._next(), "the name of a variable")
        if name in self._found.labels:
            self._fail(f"variable {name!r} is declared twice")
        self._make_room(NAMED_VARIABLE)
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "type":
                self._found.labels[name] = self._type(name)
            else:
                self._skip_property(word)
        if name not in self._found.labels:
            self._fail(f"variable {name!r} has no type with its states")

    def _type(self, name: str) -> tuple[str, ...]:
        if self._next() != "discrete":
            self._fail(f"variable {name!r} must be of type discrete")
        self._expect("[")
        count, position = self._next(), self._last
        self._expect("]")
        self._expect("{")
        labels: dict[str, None] = {}
        for label in self._names_until("}", "a state", empty=True):
            if label in labels:
                self._fail(f"variable {name!r} has a state twice")
            self._make_room(LABEL)
            labels[label] = None
        self._expect(";")
        if str(len(labels)) != count:
            self._last = position
            self._fail(f"variable {name!r} is said to have {count[:40]!r} states and lists {len(labels)}")
        return tuple(labels)

    def _probability(self) -> None:
        self._expect("(")
        child = self._known(self._next())
        if child in self._found.parents:
            self._fail(f"variable {child!r} has a probability block already")
        scope = {child: None}
        for name in self._names_until(")", "a parent", skip="|"):
            if self._known(name) in scope:
                self._fail(f"the probability block of {child!r} names a variable twice")
            scope[name] = None
        parents = list(scope)[1:]
        if len(parents) >= MAX_ARITY:
            self._fail(f"variable {child!r} has {len(parents)} parents, more than the limit of {MAX_ARITY - 1}")
        self._found.parents[child] = parents
        self._found.tables[child] = self._distribution(child, parents)

    def _distribution(self, child: str, parents: list[str]) -> FloatArray:
        """Read the numbers of a block; return them with the parents' axes first."""
        labels = self._found.labels
        shape = [len(labels[name]) for name in parents]
        size = len(labels[child])
        rows: dict[tuple[int, ...], FloatArray] = {}
        default: FloatArray | None = None
        whole: FloatArray | None = None
        self._expect("{")
        while (word := self._next()) != "}":
            if whole is not None and word in {"table", "default", "("}:
                self._fail(f"the distribution of {child!r} goes on after its table")
            if word == "table":
                if rows or default is not None:
                    self._fail(f"the distribution of {child!r} has a table besides rows or a default")
                whole = self._numbers(prod(shape) * size, f"the table of {child!r}")
            elif word == "default":
                if default is not None:
                    self._fail(f"the distribution of {child!r} has two defaults")
                default = self._numbers(size, f"the default row of {child!r}")
            elif word == "(":
                self._make_room(ROW)
                key = self._row_key(parents)
                if key in rows:
                    self._fail(f"the distribution of {child!r} has a row twice")
                rows[key] = self._numbers(size, f"a row of {child!r}")
            else:
                self._skip_property(word)
        if whole is not None:
            return np.moveaxis(whole.reshape([size, *shape]), 0, -1)
        return self._fill(child, [*shape, size], rows, default)

    def _row_key(self, parents: list[str]) -> tuple[int, ...]:
        key: list[int] = []
        for state in self._names_until(")", "the state of a parent", empty=True):
            if len(key) == len(parents):
                self._fail(f"expected a state for each of the {len(parents)} parents, got more")
            key.append(self._state(parents[len(key)], state))
        if len(key) != len(parents):
            self._fail(f"expected a state for each of the {len(parents)} parents, got {len(key)}")
        return tuple(key)

    def _state(self, name: str, state: str) -> int:
        position = self._found.state_indices(name).get(state)
        if position is None:
            self._fail(f"variable {name!r} has no state {state!r}")
        return position

    def _fill(
        self, child: str, shape: list[int], rows: dict[tuple[int, ...], FloatArray], default: FloatArray | None
    ) -> FloatArray:
        missing = prod(shape[:-1]) - len(rows)
        if missing and default is None:
            self._fail(f"the distribution of {child!r} lacks {missing:,} of {prod(shape[:-1]):,} rows")
        self._free -= missing * shape[-1]
        if self._free < 0:
            self._fail(f"the distribution of {child!r} has {prod(shape):,} entries, most of them by default: too many")
        table = np.empty(shape)
        table[:] = default if default is not None else 0.0
        for key, row in rows.items():
            table[key] = row
        return table

    # ---------------------------------------------------------------- tokens
    def _next(self) -> str:
        """Return the next token, or END."""
        start = self._at
        while skipped := SKIPPED.match(self._text, start):
            start = skipped.end()
        self._last = start
        if start == len(self._text):
            self._at = start
            return END
        self._at = _token_end(self._text, start)
        if self._at == start:
            self._fail("a comment or a quoted name does not end")
        return self._text[start : self._at]

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            self._fail(f"expected {mark!r}")

    def _skip_past(self, mark: str) -> None:
        """Pass over everything up to a mark."""
        while (token := self._next()) != mark:
            if token == END:
                self._fail(f"the file ends before {mark!r}")

    def _name(self, token: str, what: str, *, empty: bool = False) -> str:
        """Return a token as a name, which may be `empty` if it stands in quotes."""
        name = token.strip('"')
        if token in MARKS or not (name or (empty and token)):
            self._fail(f"expected {what}")
        return name

    def _known(self, token: str) -> str:
        name = token.strip('"')
        if name not in self._found.labels:
            self._fail(f"there is no variable {name[:80]!r}")
        return name

    def _names_until(self, mark: str, what: str, skip: str = ",", *, empty: bool = False) -> Iterator[str]:
        """Give names up to a mark, with or without commas between them; each is the token read last."""
        while (token := self._next()) != mark:
            if token not in {",", skip}:
                yield self._name(token, what, empty=empty)

    def _numbers(self, count: int, what: str) -> FloatArray:
        """Read the numbers of a statement in one call, or one by one to find the wrong one."""
        end = self._text.find(";", self._at)
        piece = self._text[self._at : end]
        if end >= 0 and "/" not in piece and "_" not in piece:
            try:
                values = np.array(list(map(float, piece.replace(",", " ").split())))
            except ValueError:
                values = np.empty(0)
            if len(values) == count and (values >= 0.0).all() and (values < np.inf).all():
                self._at = end + 1
                return values
        return self._numbers_one_by_one(count, what)

    def _numbers_one_by_one(self, count: int, what: str) -> FloatArray:
        values: list[float] = []
        while (token := self._next()) != ";":
            if token == ",":  # noqa: S105
                continue
            try:
                value = float(token) if "_" not in token else float("nan")
            except ValueError:
                value = float("nan")
            if not 0.0 <= value < float("inf"):
                self._fail(f"{what}: probabilities are numbers of at least 0")
            values.append(value)
        if len(values) != count:
            self._fail(f"{what} needs {count:,} numbers, got {len(values):,}")
        return np.array(values)

    def _skip_property(self, token: str) -> None:
        if token != "property":  # noqa: S105
            self._fail("expected type, table, default, property or a row in brackets")
        self._skip_past(";")

    def _fail(self, message: str) -> NoReturn:
        """Raise at the token read last."""
        if not self._text.strip():
            raise FormatError(self._path, "the file is empty")
        end = _token_end(self._text, self._last)
        token = self._text[self._last : end if end > self._last else None]
        position = f", at {token[:40]!r}" if token else ", at the end of the file"
        raise FormatError(self._path, f"{message}{position}", count_lines(self._text[: self._last]) + 1)


def write_bif(graph: FactorGraph, file: BinaryIO, path: Path) -> list[str]:
    """Write a Bayesian network; return what the format cannot hold."""
    from_graph = Network.of(graph, path)
    lines = ["network unknown {", "}"]
    for name, labels in from_graph.labels.items():
        states = ", ".join(_word(label, path) for label in labels)
        lines += [f"variable {_word(name, path)} {{", f"  type discrete [ {len(labels)} ] {{ {states} }};", "}"]
    file.write("\n".join([*lines, ""]).encode("utf-8"))
    file.writelines(
        _block_text(from_graph, child, parents, path).encode("utf-8") for child, parents in from_graph.parents.items()
    )
    return from_graph.dropped


def _block_text(network: Network, child: str, parents: list[str], path: Path) -> str:
    table = network.tables[child]
    if not parents:
        return f"probability ( {_word(child, path)} ) {{\n  table {', '.join(map(repr, table.tolist()))};\n}}\n"
    given = ", ".join(_word(name, path) for name in parents)
    words = [[_word(label, path) for label in network.labels[name]] for name in parents]
    lines = [f"probability ( {_word(child, path)} | {given} ) {{"]
    for key in np.ndindex(*table.shape[:-1]):
        states = ", ".join(axis[state] for axis, state in zip(words, key, strict=True))
        lines.append(f"  ({states}) {', '.join(map(repr, table[key].tolist()))};")
    return "\n".join([*lines, "}", ""])


def _word(name: str, path: Path) -> str:
    """Return a name as a word of BIF, in quotes where it needs them."""
    if name and not WORD_END.search(name) and not name.startswith("/"):
        return name
    if '"' in name:
        raise FormatError(path, f"the name {name!r} holds a quote, which BIF cannot; write .xmlbif or .npz")
    return f'"{name}"'
