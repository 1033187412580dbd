"""UAI models, as the UAI competitions define them.

A model is: MARKOV or BAYES; the number of variables and of states of each; the number of factors and the scope of each;
then, for each factor, the number of entries and the entries. These are potentials; the last variable of the scope
varies fastest. In a BAYES model, the last variable of a scope is the child. `#` starts a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import numpy as np

from anytimebp.formats.bayesian import RowSums, child_axis
from anytimebp.formats.input_file import FACTOR, FACTOR_BLOCK, VARIABLE
from anytimebp.formats.potentials import factor_potentials, lost_labels, lost_names
from anytimebp.formats.table_runs import TOGETHER, add_constants, check_states
from anytimebp.formats.tokens import Tokens, open_tokens
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import MAX_ARITY, FloatArray
from anytimebp.model.variable import MAX_STATES, MAX_VARIABLES

FIRST_SIZE = 2  # the token that states the first number of states


def read_uai(path: Path, odd: list[str]) -> FactorGraph:
    """Read a model; factors of the same shape that follow each other become one block.

    Args:
        path: The file.
        odd: Gets a remark if the model is Bayesian and a distribution does not sum to 1.
    """
    with open_tokens(path) as tokens:
        kind = tokens.word("the kind of model")
        if kind.upper() not in {"MARKOV", "BAYES"}:
            tokens.fail("a UAI model starts with MARKOV or BAYES", tokens.position - 1)
        sizes = _read_sizes(tokens)
        graph = FactorGraph()
        for n_states, run in groupby(sizes):
            tokens.source.make_room(VARIABLE)
            graph.add_variables(sum(1 for _ in run), n_states)
        universes, sums = np.array(sizes, dtype=np.int64), RowSums(graph.variables)
        scopes = _read_scopes(tokens, len(sizes))
        for first, members, shape in _runs(scopes, sizes):
            tokens.source.make_room(FACTOR_BLOCK)
            values = _read_tables(tokens, first, members, shape)
            if not shape:
                add_constants(graph, values, universes, tokens.source)
                continue
            if kind.upper() == "BAYES":
                sums.add(members, values)
            if len(members) == 1:  # the cheaper call; large tables rarely come in runs
                graph.add_factor(members[0], table=values[0])
            else:
                graph.add_factors(np.array(members), table=values)
        tokens.finish("the last table")
        check_states(tokens, sizes, range(FIRST_SIZE, FIRST_SIZE + len(sizes)))
        odd += sums.remarks()
    return graph


def _read_sizes(tokens: Tokens) -> list[int]:
    count = tokens.integer("the number of variables", high=MAX_VARIABLES)
    sizes = tokens.integers(count, "the numbers of states")
    wrong = np.flatnonzero((sizes < 1) | (sizes > MAX_STATES))
    if wrong.size:
        message = f"variable {wrong[0]} must have 1 to {MAX_STATES:,} states"
        tokens.fail(message, tokens.position - count + int(wrong[0]))
    return sizes.tolist()  # type: ignore[no-any-return]


def _read_scopes(tokens: Tokens, n_variables: int) -> list[tuple[int, ...]]:
    scopes = []
    for factor in range(tokens.integer("the number of factors")):
        arity = tokens.integer(f"the number of variables of factor {factor}", high=MAX_ARITY)
        what = f"the scope of factor {factor}"
        scope = tuple([tokens.integer(what, high=n_variables - 1) for _ in range(arity)])
        if len(set(scope)) < arity:
            tokens.fail(f"{what} names a variable twice", tokens.position - 1)
        tokens.source.make_room(FACTOR)
        scopes.append(scope)
    return scopes


def _runs(
    scopes: list[tuple[int, ...]], sizes: list[int]
) -> Iterator[tuple[int, list[tuple[int, ...]], tuple[int, ...]]]:
    """Give runs of factors of the same shape that can be read at once: first factor, scopes, shape."""
    first = 0
    for shape, run in groupby(scopes, key=lambda scope: tuple([sizes[i] for i in scope])):
        most = max(1, TOGETHER // (prod(shape) + 1))
        while members := list(islice(run, most)):
            yield first, members, shape
            first += len(members)


class TableRun(NamedTuple):
    """Tables that are read at once, each preceded by its number of entries.

    Attributes:
        first: Number of the first factor.
        entries: Of each table.
        start: Number of the first token.
    """

    first: int
    entries: int
    start: int

    def check_counts(self, tokens: Tokens, found: FloatArray) -> None:
        """Raise at the first number of entries, among the numbers found, that does not fit."""
        wrong = np.flatnonzero(found[:: self.entries + 1] != self.entries)
        if wrong.size:
            row = int(wrong[0])
            hint = ", unless the table before it has too few or too many" if row else ""
            message = f"factor {self.first + row} has {self.entries:,} joint states and needs as many entries{hint}"
            tokens.fail(message, self.start + row * (self.entries + 1))

    def fail_at_end(self, tokens: Tokens, found: FloatArray) -> NoReturn:
        """Say in which table the file ends, or which has another number of entries before that."""
        self.check_counts(tokens, found)
        row, position = divmod(len(found), self.entries + 1)
        done = f"after {max(0, position - 1):,} of {self.entries:,} entries"
        tokens.fail(f"the file ends in the table of factor {self.first + row}, {done}", tokens.position - 1)


def _read_tables(tokens: Tokens, first: int, members: list[tuple[int, ...]], shape: tuple[int, ...]) -> FloatArray:
    """Read the tables of a run of factors, stacked."""
    entries = prod(shape)
    start = tokens.position
    run = TableRun(first, entries, start)
    last = first + len(members) - 1
    what = f"the table of factor {first}" if last == first else f"the tables of factors {first} to {last}"
    tokens.check_room(len(members) * entries, what, start)
    found = tokens.numbers(len(members) * (entries + 1), what, ended=lambda found: run.fail_at_end(tokens, found))
    run.check_counts(tokens, found)
    block = found.reshape(len(members), entries + 1)
    fine = (block >= 0) & (block < np.inf)
    if not fine.all():
        position = int(fine.argmin())
        message = f"the table of factor {first + position // (entries + 1)}: potentials are finite and not negative"
        tokens.fail(message, start + position)
    return np.ascontiguousarray(block[:, 1:]).reshape(len(members), *shape)


def write_uai(graph: FactorGraph, file: BinaryIO, path: Path) -> list[str]:
    """Write a model; return what the format cannot hold."""
    dropped = lost_names(graph) + lost_labels(graph)
    kind = "MARKOV" if child_axis(graph) != -1 else "BAYES"
    lines = [
        kind,
        str(len(graph.variables)),
        " ".join(map(str, graph.variables.sizes().tolist())),
        str(graph.n_factors),
    ]
    for block in graph.blocks:
        lines += [f"{len(scope)} {' '.join(map(str, scope))}" for scope in block.scopes.tolist()]
    file.write("\n".join([*lines, "", ""]).encode("ascii"))
    text, known = b"", None
    for _, table in factor_potentials(graph, path, dropped):
        if table is not known:  # tied factors come one after the other
            text, known = _table_text(table), table
        file.write(text)
    return dropped


def _table_text(table: FloatArray) -> bytes:
    rows = [" ".join(map(repr, row)) for row in table.reshape(-1, table.shape[-1]).tolist()]
    return "\n".join([str(table.size), *rows, "", ""]).encode("ascii")
