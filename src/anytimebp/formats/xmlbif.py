"""Bayesian networks in XMLBIF 0.3, as JavaBayes, GeNIe, Weka, pgmpy and pyAgrum write it.

In a TABLE the variable itself is the fastest, then the last of its parents. Entities are refused: a few lines of them
can stand for any amount of text.
"""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import BinaryIO, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from anytimebp.errors import FormatError
from anytimebp.formats.bayesian import Network, build
from anytimebp.formats.input_file import LABEL, NAMED_VARIABLE, Source, open_input
from anytimebp.formats.tokens import LONGEST_TOKEN
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import MAX_ARITY, FloatArray

BLOCK = 2**16
FORBIDDEN = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")  # not allowed in XML text, or changed by reading it
MOST_TEXT = 2**20  # characters of a name; a small file may unpack to any number
MOST_NAMES = 1000  # of different elements and attributes; each is kept by the parser, and XMLBIF has 20
MOST_DECLARED = 50  # attributes, which the parser goes through at every element; XMLBIF declares 3
DEEPEST = 100  # nesting depth of elements, each kept by the parser; XMLBIF has 4
LONGEST_PIECE = 2**20  # bytes of one tag, comment or the like, which some parsers read again with each block
TEXT_OF = frozenset({"NAME", "OUTCOME", "VALUE", "FOR", "GIVEN", "TABLE"})


def read_xmlbif(path: Path, odd: list[str]) -> FactorGraph:
    """Read a Bayesian network; each factor has the child last. `odd` gets a remark on sums of distributions."""
    with open_input(path) as source:
        reader = _Reader(source)
        while data := source.read(BLOCK):
            reader.feed(data)
        reader.feed(b"", end=True)
    if not reader.network.labels:
        raise FormatError(path, "the file states no variable")
    return build(reader.network, path, odd)


class _Reader:
    """Takes in elements as they come."""

    def __init__(self, source: Source) -> None:
        self.network = Network()
        self._path = source.path
        self._make_room = source.make_room
        self._fed = 0  # bytes
        self._depth = 0
        self._declared = 0
        self._names: dict[str, str] = {}  # of elements and attributes, filled by the parser
        self._element = ""
        self._properties = 0  # open elements PROPERTY, whose content is ignored
        self._text: list[str] = []
        self._room = MOST_TEXT
        self._name = ""
        self._outcomes: list[str] = []
        self._children: list[str] = []
        self._parents: list[str] = []
        self._table: _TableText | None = None
        self._parser = expat.ParserCreate(intern=self._names)
        self._parser.specified_attributes = True  # not those that a declaration adds to every element
        self._parser.buffer_text = True
        self._parser.buffer_size = BLOCK
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.AttlistDeclHandler = self._attribute_declared
        self._parser.EntityDeclHandler = self._entity
        self._parser.SkippedEntityHandler = self._skipped_entity

    def feed(self, data: bytes, *, end: bool = False) -> None:
        """Read on."""
        try:
            self._parser.Parse(data, end)
            self._fed += len(data)
            if self._fed - self._parser.CurrentByteIndex > LONGEST_PIECE:
                self._fail(f"a tag, a comment or the like goes on for more than {LONGEST_PIECE:,} bytes")
        except FormatError:
            raise
        except expat.ExpatError as error:
            raise FormatError(
                self._path, f"not well-formed XML: {expat.ErrorString(error.code)}", error.lineno
            ) from None
        except (LookupError, ValueError) as error:  # of Python, on encodings that the parser does not know
            raise FormatError(
                self._path, f"the encoding of the file cannot be read ({error}); save it as UTF-8"
            ) from None

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        self._element = element.upper()
        self._text, self._room = [], MOST_TEXT
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"elements are nested more than {DEEPEST} deep")
        if len(self._names) > MOST_NAMES:
            self._fail(f"there are more than {MOST_NAMES:,} kinds of elements and attributes")
        if self._element == "PROPERTY":
            self._properties += 1
        elif self._properties:
            return
        elif self._element == "VARIABLE":
            kind = next((value for name, value in attributes.items() if name.upper() == "TYPE"), "nature")
            if kind != "nature":
                self._fail(f"a variable of type {kind[:40]!r}; only chance nodes (nature) can be read")
            self._name, self._outcomes = "", []
        elif self._element == "DEFINITION":
            self._children, self._parents, self._table = [], [], None
        elif self._element == "TABLE":
            if self._table is not None:
                self._fail("a definition with two tables")
            self._table = _TableText(self._path, self._parser.CurrentLineNumber)

    def _characters(self, text: str) -> None:
        if self._properties or self._element not in TEXT_OF:
            return
        if self._element == "TABLE" and self._table is not None:
            self._table.add(text)
            return
        self._room -= len(text)
        if self._room < 0:
            self._fail(f"the text of {self._element} has more than {MOST_TEXT:,} characters")
        self._text.append(text)

    def _end(self, element: str) -> None:
        element = element.upper()
        text = "".join(self._text).strip()
        self._text, self._element = [], ""
        self._depth -= 1
        if element == "PROPERTY":
            self._properties -= 1
        elif self._properties:
            return
        elif element == "NAME":
            self._name = text
        elif element in {"OUTCOME", "VALUE"}:
            self._make_room(LABEL)
            self._outcomes.append(text)
        elif element == "FOR":
            self._make_room(LABEL)
            self._children.append(text)
        elif element == "GIVEN":
            self._make_room(LABEL)
            self._parents.append(text)
        elif element == "VARIABLE":
            self._add_variable()
        elif element == "DEFINITION":
            self._add_definition()

    def _add_variable(self) -> None:
        name, labels = self._name, tuple(self._outcomes)
        if not name:
            self._fail("a variable without a name")
        if name in self.network.labels:
            self._fail(f"variable {name!r} is declared twice")
        if not labels or len(set(labels)) < len(labels):
            self._fail(f"variable {name!r} has no outcomes, or one of them twice")
        self._make_room(NAMED_VARIABLE)
        self.network.labels[name] = labels

    def _add_definition(self) -> None:
        if len(self._children) != 1:
            self._fail(f"a definition is for one variable, this one is for {len(self._children)}")
        child, parents = self._children[0], self._parents
        for name in (child, *parents):
            if name not in self.network.labels:
                self._fail(f"there is no variable {name[:80]!r} before its definition")
        if child in self.network.parents:
            self._fail(f"variable {child!r} is defined twice")
        if len({child, *parents}) <= len(parents):
            self._fail(f"the definition of {child!r} names a variable twice")
        if len(parents) >= MAX_ARITY:
            self._fail(f"variable {child!r} has {len(parents)} parents, more than the limit of {MAX_ARITY - 1}")
        shape = [len(self.network.labels[name]) for name in (*parents, child)]
        self.network.parents[child] = parents
        values = self._table.finish() if self._table is not None else np.empty(0)
        self._table = None
        if len(values) != prod(shape):
            self._fail(f"the table of {child!r} needs {prod(shape):,} numbers, got {len(values):,}")
        self.network.tables[child] = values.reshape(shape)

    def _attribute_declared(self, *_: object) -> None:
        self._declared += 1
        if self._declared > MOST_DECLARED:
            self._fail(f"the document type declares more than {MOST_DECLARED} attributes")

    def _entity(self, *_: object) -> None:
        self._fail("entities are not read")

    def _skipped_entity(self, name: str, is_parameter: int) -> None:
        if not is_parameter:  # those are of the document type, which is not read
            self._fail(f"entities are not read, and {name[:40]!r} is not declared here")

    def _fail(self, message: str) -> NoReturn:
        raise FormatError(self._path, message, self._parser.CurrentLineNumber)


class _TableText:
    """The numbers of a TABLE, taken in piece by piece: as text or as objects they would be many times as large."""

    def __init__(self, path: Path, line: int) -> None:
        self._path = path
        self._line = line
        self._rest = ""
        self._parts: list[FloatArray] = []

    def add(self, piece: str) -> None:
        """Read on; what may be half a number is kept."""
        text = self._rest + piece
        end = len(text) - len(text.split()[-1]) if text.strip() and not text[-1].isspace() else len(text)
        self._read(text[:end])
        self._rest = text[end:]
        if len(self._rest) > LONGEST_TOKEN:
            message = f"no blank within {LONGEST_TOKEN:,} characters of a table, at {self._rest[:40]!r}"
            raise FormatError(self._path, message, self._line)

    def finish(self) -> FloatArray:
        """Return all numbers."""
        self._read(self._rest)
        return np.concatenate([np.empty(0), *self._parts])

    def _read(self, text: str) -> None:
        tokens = text.split()
        try:
            values = np.fromiter(map(float, tokens), np.float64, len(tokens))
        except ValueError:
            self._fail_at_first(text)
        if "_" in text or not ((values >= 0.0) & (values < np.inf)).all():
            self._fail_at_first(text)
        self._parts.append(values)
        self._line += text.count("\n")

    def _fail_at_first(self, text: str) -> NoReturn:
        line = self._line
        for match in re.finditer(r"\n|\S+", text):
            line += match[0] == "\n"
            if not match[0].isspace() and not _is_probability(match[0]):
                message = f"probabilities are numbers of at least 0, at {match[0][:40]!r}"
                raise FormatError(self._path, message, line)
        raise AssertionError(text)


def _is_probability(token: str) -> bool:
    try:
        return "_" not in token and 0.0 <= float(token) < float("inf")
    except ValueError:
        return False


def write_xmlbif(graph: FactorGraph, file: BinaryIO, path: Path) -> list[str]:
    """Write a Bayesian network; return what the format cannot hold."""
    network = Network.of(graph, path)
    file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<BIF VERSION="0.3">\n<NETWORK>\n<NAME>unknown</NAME>\n')
    for name, labels in network.labels.items():
        outcomes = "".join(f"  <OUTCOME>{_text(label, path)}</OUTCOME>\n" for label in labels)
        lines = f'<VARIABLE TYPE="nature">\n  <NAME>{_text(name, path)}</NAME>\n{outcomes}</VARIABLE>\n'
        file.write(lines.encode("utf-8"))
    for child, parents in network.parents.items():
        table = network.tables[child]
        rows = "\n".join(" ".join(map(repr, row)) for row in table.reshape(-1, table.shape[-1]).tolist())
        given = "".join(f"  <GIVEN>{_text(name, path)}</GIVEN>\n" for name in parents)
        lines = (
            f"<DEFINITION>\n  <FOR>{_text(child, path)}</FOR>\n{given}  <TABLE>\n{rows}\n  </TABLE>\n</DEFINITION>\n"
        )
        file.write(lines.encode("utf-8"))
    file.write(b"</NETWORK>\n</BIF>\n")
    return network.dropped


def _text(name: str, path: Path) -> str:
    """Return a name as XML text."""
    if name != name.strip() or FORBIDDEN.search(name):
        raise FormatError(
            path, f"the name {name!r} starts or ends with a blank, or holds a control character; write .npz"
        )
    return escape(name)
