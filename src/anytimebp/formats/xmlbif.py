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
from anytimebp.formats.whole_file import open_input
from anytimebp.model.graph import MAX_ARITY, FactorGraph

BLOCK = 2**16
FORBIDDEN = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")  # not text of XML, or changed by reading it
TEXT_OF = frozenset({"NAME", "OUTCOME", "VALUE", "FOR", "GIVEN", "TABLE"})


def read_xmlbif(path: Path) -> FactorGraph:
    """Read a Bayesian network; each factor has the child last."""
    reader = _Reader(path)
    with open_input(path) as (file, _):
        while data := file.read(BLOCK):
            reader.feed(data)
        reader.feed(b"", end=True)
    if not reader.network.labels:
        raise FormatError(path, "the file states no variable")
    return build(reader.network, path)


class _Reader:
    """Takes in elements as they come."""

    def __init__(self, path: Path) -> None:
        self.network = Network()
        self._path = path
        self._element = ""
        self._text: list[str] = []
        self._name = ""
        self._outcomes: list[str] = []
        self._children: list[str] = []
        self._parents: list[str] = []
        self._table: str | None = None
        self._table_line = 0
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity

    def feed(self, data: bytes, *, end: bool = False) -> None:
        """Read on."""
        try:
            self._parser.Parse(data, end)
        except expat.ExpatError as error:
            raise FormatError(
                self._path, f"not well-formed XML: {expat.ErrorString(error.code)}", error.lineno
            ) from None

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        self._element = element.upper()
        self._text = []
        if self._element == "VARIABLE":
            kind = attributes.get("TYPE", "nature")
            if kind != "nature":
                self._fail(f"a variable of type {kind[:40]!r}; only chance nodes (nature) can be read")
            self._name, self._outcomes = "", []
        elif self._element == "DEFINITION":
            self._children, self._parents, self._table = [], [], None
        elif self._element == "TABLE":
            self._table_line = self._parser.CurrentLineNumber

    def _characters(self, text: str) -> None:
        if self._element in TEXT_OF:
            self._text.append(text)

    def _end(self, element: str) -> None:
        element = element.upper()
        text = "".join(self._text)
        self._text, self._element = [], ""
        if element == "NAME":
            self._name = text.strip()
        elif element in {"OUTCOME", "VALUE"}:
            self._outcomes.append(text.strip())
        elif element == "FOR":
            self._children.append(text.strip())
        elif element == "GIVEN":
            self._parents.append(text.strip())
        elif element == "TABLE":
            self._table = text
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
            self._fail(
                f"variable {child!r} has {len(parents)} parents, more than the {MAX_ARITY - 1} that there can be"
            )
        shape = [len(self.network.labels[name]) for name in (*parents, child)]
        self.network.parents[child] = parents
        self.network.tables[child] = np.array(self._numbers(child, prod(shape))).reshape(shape)

    def _numbers(self, child: str, count: int) -> list[float]:
        values: list[float] = []
        for row, line in enumerate((self._table or "").split("\n")):
            for token in line.split():
                try:
                    value = float(token) if "_" not in token else float("nan")
                except ValueError:
                    value = float("nan")
                if not 0.0 <= value < float("inf"):
                    message = f"the table of {child!r}: probabilities are numbers of at least 0, at {token[:40]!r}"
                    raise FormatError(self._path, message, self._table_line + row)
                values.append(value)
        if len(values) != count:
            self._fail(f"the table of {child!r} needs {count:,} numbers, got {len(values):,}")
        return values

    def _entity(self, *_: object) -> None:
        self._fail("entities are not read")

    def _fail(self, message: str) -> NoReturn:
        raise FormatError(self._path, message, self._parser.CurrentLineNumber)


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
