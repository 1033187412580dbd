"""The graph language of SCALib, for soft analytical side-channel attacks.

Every line is a statement; their order does not matter. All variables have NC states. A MULTI variable exists once per
execution (trace), as `x[0]`, `x[1]`, ..., and so does a property that contains something MULTI. Public variables become
variables that evidence is meant to observe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from anytimebp.errors import FormatError, ModelError
from anytimebp.formats.input_file import FACTOR_BLOCK, NAMED_VARIABLE, Source, read_at_most
from anytimebp.formats.tokens import without_bom
from anytimebp.model.graph import FactorGraph
from anytimebp.model.kinds.bitwise import And, Or
from anytimebp.model.kinds.deterministic import Deterministic
from anytimebp.model.kinds.modular_sum import ModularSum
from anytimebp.model.kinds.xor import Xor
from anytimebp.model.source import IndexArray

MOST_BYTES = 2**26  # of text, which is read whole
MOST_STATES = 2**24
ENTRY = 64  # bytes of memory for each state of a property that lists them
TOKEN = re.compile(r"\w+|\S", re.ASCII)
NAME = re.compile(r"\w+", re.ASCII)
SHOWN = 40
SINGLE, MULTI = "SINGLE", "MULTI"


class Property(NamedTuple):
    """A relation between variables.

    Attributes:
        line: Where it stands.
        name: Of the factor, or none.
        kind: The symbol of its operation, "[" for a table, or "(" for a generic factor.
        scope: Names of its variables: the value first, and then the operands.
        signs: Of the operands of a sum.
        table: Name of the table or generic factor.
    """

    line: int
    name: str | None
    kind: str
    scope: list[str]
    signs: list[int]
    table: str


def read_sasca(
    path: Path,
    _odd: list[str],
    tables: Mapping[str, npt.ArrayLike] | None = None,
    n_executions: int = 1,
) -> FactorGraph:
    """Read a graph.

    Args:
        path: The file.
        tables: By name, what the file leaves open: of a TABLE, the value of each state; of a GENERIC, potentials with
            an axis for each variable; of one that is MULTI, a first axis for the executions.
        n_executions: How many there are.
    """
    if isinstance(n_executions, bool) or not isinstance(n_executions, int | np.integer) or n_executions < 1:
        raise FormatError(path, f"n_executions must be a whole number of at least 1, got {n_executions!r}")
    data, source = read_at_most(path, MOST_BYTES)
    try:
        text = without_bom(data, path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(path, "the file is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None
    parser = _Parser(source)
    for line, statement in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        parser.read(line, TOKEN.findall(statement.partition("#")[0]))
    return _Builder(parser, dict(tables or {}), int(n_executions)).graph()


class _Parser:
    """Reads statements, line by line.

    Attributes:
        n_states: By NC.
        variables: Names with SINGLE or MULTI, and the line.
        tables: Names of tables, with their values if they have some, and the line.
        generics: Names of generic factors with SINGLE or MULTI, and the line.
        properties: All of them.
    """

    def __init__(self, source: Source) -> None:
        self._path, self.make_room = source.path, source.make_room
        self.n_states: int | None = None
        self.variables: dict[str, tuple[str, int]] = {}
        self.tables: dict[str, tuple[IndexArray | None, int]] = {}
        self.generics: dict[str, tuple[str, int]] = {}
        self.properties: list[Property] = []
        self._line, self._tokens, self._at = 0, [""], 0

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise FormatError, with the present line if no other is given; 0 is that of the file as a whole."""
        raise FormatError(self._path, message, (self._line if line is None else line) or None)

    def read(self, line: int, tokens: list[str]) -> None:
        """Take one line in."""
        if not tokens:
            return
        self._line, self._tokens, self._at = line, tokens, 0
        statements = {
            "NC": self._read_size,
            "VAR": self._read_variable,
            "PUB": self._read_variable,
            "TABLE": self._read_table,
            "GENERIC": self._read_generic,
            "PROPERTY": self._read_property,
        }
        first = self._next("a statement")
        if first not in statements:
            self.fail(f"expected one of {', '.join(statements)}, at {first[:SHOWN]!r}")
        statements[first]()
        if self._at < len(self._tokens):
            self.fail(f"the statement goes on after its end, at {self._tokens[self._at][:SHOWN]!r}")

    # ------------------------------------------------------------ tokens
    def _next(self, what: str) -> str:
        if self._at == len(self._tokens):
            self.fail(f"the line ends where {what} should be")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, token: str) -> bool:
        """Skip a token if it is the next one; tell whether it was."""
        is_next = self._tokens[self._at : self._at + 1] == [token]
        self._at += is_next
        return is_next

    def _expect(self, token: str) -> None:
        found = self._next(repr(token))
        if found != token:
            self.fail(f"expected {token!r}, at {found[:SHOWN]!r}")

    def _name(self, what: str) -> str:
        name = self._next(what)
        if not NAME.fullmatch(name):
            self.fail(f"expected {what}, of letters, digits and underscores, at {name[:SHOWN]!r}")
        return name

    def _number(self, what: str) -> int:
        token = self._next(what)
        if not (token.isascii() and token.isdigit() and len(token) <= 18):  # noqa: PLR2004
            self.fail(f"expected {what}, a whole number, at {token[:SHOWN]!r}")
        return int(token)

    def _new_name(self, what: str) -> str:
        name = self._name(f"the name of {what}")
        for known in (self.variables, self.tables, self.generics):
            if name in known:
                self.fail(f"the name of {what} is taken since line {known[name][1]}, at {name[:SHOWN]!r}")
        self.make_room(NAMED_VARIABLE)
        return name

    def _how_often(self) -> str:
        found = self._next("SINGLE or MULTI")
        if found not in {SINGLE, MULTI}:
            self.fail(f"expected SINGLE or MULTI, at {found[:SHOWN]!r}")
        return found

    # ------------------------------------------------------------ statements
    def _read_size(self) -> None:
        n = self._number("the number of states")
        if self.n_states is not None:
            self.fail(f"NC is there twice, at '{n}'")
        if not 2 <= n <= MOST_STATES or n & (n - 1):  # noqa: PLR2004
            self.fail(f"the number of states must be a power of two from 2 to {MOST_STATES:,}, at '{n}'")
        self.n_states = n

    def _read_variable(self) -> None:
        often = self._how_often()
        self.variables[self._new_name("a variable")] = often, self._line

    def _read_generic(self) -> None:
        often = self._how_often()
        self.generics[self._new_name("a generic factor")] = often, self._line

    def _read_table(self) -> None:
        name, values = self._new_name("a table"), None
        if self._take("="):
            self._expect("[")
            found = [self._number("a value of the table")]
            while self._take(","):
                found.append(self._number("a value of the table"))
            self._expect("]")
            values = np.array(found, dtype=np.int64)
        self.tables[name] = values, self._line

    def _read_property(self) -> None:
        self.make_room(FACTOR_BLOCK + NAMED_VARIABLE)
        first, name = self._name("a variable or a name"), None
        if self._take(":"):
            name, first = first, self._name("a variable or a generic factor")
        if self._take("("):
            scope = [self._name("a variable")]
            while self._take(","):
                scope.append(self._name("a variable"))
            self._expect(")")
            self.properties.append(Property(self._line, name, "(", scope, [], first))
            return
        self._expect("=")
        if self._take("!"):
            self.properties.append(Property(self._line, name, "!", [first, self._name("a variable")], [], ""))
            return
        sign = -1 if self._take("-") else 1
        operand = self._name("a variable or a table")
        if sign == 1 and self._take("["):
            scope = [first, self._name("a variable")]
            self._expect("]")
            self.properties.append(Property(self._line, name, "[", scope, [], operand))
            return
        self._read_operands(name, [first, operand], [sign])

    def _read_operands(self, name: str | None, scope: list[str], signs: list[int]) -> None:
        """Read what follows the first operand: one operation throughout, or sums and differences."""
        kind = "+" if signs == [-1] else ""
        while self._at < len(self._tokens):
            sign = self._next("an operation")
            if sign not in {"^", "&", "|", "+", "-"}:
                self.fail(f"expected an operation, one of ^ & | + -, at {sign[:SHOWN]!r}")
            own = "+" if sign == "-" else sign
            if kind and own != kind:
                self.fail(f"a property has one operation, and this one has two, at {sign!r}")
            kind = own
            scope.append(self._name("a variable"))
            signs.append(-1 if sign == "-" else 1)
        self.properties.append(Property(self._line, name, kind or "^", scope, signs, ""))


class _Builder:
    """Makes a graph of statements."""

    def __init__(self, parser: _Parser, given: dict[str, Any], n_executions: int) -> None:
        if parser.n_states is None:
            parser.fail("there is no statement NC, which says how many states variables have", 0)
        self._parser, self._given, self._n_executions = parser, given, n_executions
        self._n_states = parser.n_states
        self._graph = FactorGraph()
        self._first: dict[str, int] = {}  # variable of each name, of the first execution

    def graph(self) -> FactorGraph:
        """Return it."""
        parser = self._parser
        unknown = [name for name in self._given if name not in parser.tables and name not in parser.generics]
        if unknown:
            parser.fail(f"tables has {unknown[0]!r}, which no TABLE or GENERIC of the file names", 0)
        for name, (often, _) in parser.variables.items():
            self._first[name] = len(self._graph.variables)
            names = [name] if often == SINGLE else [f"{name}[{k}]" for k in range(self._n_executions)]
            self._graph.add_variables(len(names), self._n_states, names)
        for name in parser.tables:
            self._table(name)
        for one in parser.properties:
            try:
                self._add(one, self._n_states)
            except ModelError as error:
                parser.fail(str(error), one.line)
        return self._graph

    def _table(self, name: str) -> IndexArray:
        """Return the values of a table, checked."""
        (values, line), n = self._parser.tables[name], self._n_states
        given = values if values is not None else self._given.get(name)
        if given is None:
            self._parser.fail(f"table {name!r} has no values: give them by tables={{{name!r}: ...}}", line)
        if values is not None and name in self._given:
            self._parser.fail(f"table {name!r} has values, and tables gives others", line)
        try:
            found = np.asarray(given)
        except ValueError:  # rows of different lengths
            found = np.empty(0)
        if found.dtype.kind not in "iu" or found.shape != (n,) or found.min() < 0 or found.max() >= n:
            shown = f"{found.dtype} of shape {found.shape}"
            self._parser.fail(f"table {name!r} must have {n} whole numbers from 0 to {n - 1}, got {shown}", line)
        return found.astype(np.int64)

    def _scopes(self, one: Property, *, is_multi: bool) -> npt.NDArray[np.int64]:
        """Return (executions, arity) the variables of a property; one row if nothing is MULTI."""
        variables = self._parser.variables
        for name in one.scope:
            if name not in variables:
                self._parser.fail(f"there is no variable of this name, at {name[:SHOWN]!r}", one.line)
        if len(set(one.scope)) < len(one.scope):
            twice = next(name for name in one.scope if one.scope.count(name) > 1)
            self._parser.fail(f"a property has a variable twice, at {twice[:SHOWN]!r}", one.line)
        step = np.array([variables[name][0] == MULTI for name in one.scope])
        count = self._n_executions if is_multi or step.any() else 1
        first = np.array([self._first[name] for name in one.scope])
        return first + np.outer(np.arange(count), step)

    def _add(self, one: Property, n: int) -> None:
        """Add the factors of a property."""
        if one.kind == "(":
            self._add_generic(one)
            return
        scopes = self._scopes(one, is_multi=False)
        structure: Xor | And | Or | ModularSum | Deterministic
        if one.kind == "^":
            structure = Xor()
        elif one.kind in "&|":
            structure, scopes = And() if one.kind == "&" else Or(), np.roll(scopes, -1, axis=1)
        elif one.kind == "+":
            self._parser.make_room(ENTRY * n)
            structure = ModularSum([-1, *one.signs])
        else:
            self._parser.make_room(ENTRY * n)
            if one.kind == "[" and one.table not in self._parser.tables:
                self._parser.fail(f"there is no table of this name, at {one.table[:SHOWN]!r}", one.line)
            values = self._table(one.table) if one.kind == "[" else np.arange(n)[::-1]
            structure, scopes = Deterministic(lambda states: values[states]), scopes[:, ::-1]
        self._append(one, scopes, structure=structure)

    def _add_generic(self, one: Property) -> None:
        """Add the factors of a generic property, by its potentials."""
        if one.table not in self._parser.generics:
            self._parser.fail(f"there is no generic factor of this name, at {one.table[:SHOWN]!r}", one.line)
        if one.table not in self._given:
            text = f"generic factor {one.table!r} has no potentials: give them by tables={{{one.table!r}: ...}}"
            self._parser.fail(text, one.line)
        is_multi = self._parser.generics[one.table][0] == MULTI
        scopes, table = self._scopes(one, is_multi=is_multi), np.asarray(self._given[one.table])
        shape = (self._n_states,) * len(one.scope)
        wanted = (self._n_executions, *shape) if is_multi else shape
        if table.shape != wanted:
            text = f"the potentials of generic factor {one.table!r} must have shape {wanted}, got {table.shape}"
            self._parser.fail(text, one.line)
        self._append(one, scopes, table=table)

    def _append(self, one: Property, scopes: npt.NDArray[np.int64], **how: Any) -> None:
        if len(scopes) == 1 and one.name is not None:
            if "table" in how:
                how["table"] = how["table"].reshape((self._n_states,) * scopes.shape[1])
            self._graph.add_factor(scopes[0].tolist(), name=one.name, **how)
        else:
            self._graph.add_factors(scopes, **how)
