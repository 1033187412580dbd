"""UAI evidence, and results in the competition's form: MAR for marginals, PR for log10 of Z, MPE for states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from anytimebp.errors import FormatError
from anytimebp.formats.tokens import Tokens, open_tokens
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.snapshot import Snapshot

ROUNDING = 1e-3  # of files that others write


def read_uai_evidence(path: Path, graph: FactorGraph) -> dict[str, object]:
    """Read evidence in either style: `n v s v s ...`, or the same after a number of samples, which must be 1.

    Returns:
        The label observed, by variable name.
    """
    with open_tokens(path) as tokens:
        if tokens.at_end():
            tokens.fail("the evidence file is empty; write 0 for no evidence")
        numbers = tokens.all_integers("the evidence")
        start = _start(numbers)
        if start is None:
            tokens.fail(
                f"evidence is a count and as many pairs of variable and state; the count is {numbers[0]}, and "
                f"{len(numbers) - 1} numbers follow (of several samples, give one)"
            )
        return _observations(tokens, graph, numbers, start)


def _start(numbers: IndexArray) -> int | None:
    """Return where the pairs start, or None if the counts do not fit."""
    if len(numbers) == 1 + 2 * numbers[0]:
        return 1
    if numbers[0] == 1 and len(numbers) > 1 and len(numbers) == 2 + 2 * numbers[1]:  # the style before 2014
        return 2
    return None


def _observations(tokens: Tokens, graph: FactorGraph, numbers: IndexArray, start: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for position in range(start, len(numbers), 2):
        index, state = numbers[position : position + 2].tolist()
        if index >= len(graph.variables):
            tokens.fail(f"the model has the variables 0 to {len(graph.variables) - 1}", position)
        variable = graph.variables[index]
        if state >= variable.n_states:
            tokens.fail(f"variable {index} has the states 0 to {variable.n_states - 1}", position + 1)
        if variable.name in found:
            tokens.fail(f"variable {index} is observed twice", position)
        found[variable.name] = variable.labels[state]
    return found


def write_mar(result: Snapshot, file: BinaryIO, path: Path) -> None:
    """Write marginals; every number can be read back to the last bit."""
    marginals = result.marginals
    if len(marginals) < len(marginals.variables):
        message = "this format holds the marginals of all variables, and the run had `targets`; write .json or .csv"
        raise FormatError(path, message)
    file.write(f"MAR\n{len(marginals)}".encode("ascii"))
    for index in range(len(marginals)):
        marginal = marginals[index].tolist()
        file.write(f" {len(marginal)} {' '.join(map(repr, marginal))}".encode("ascii"))
    file.write(b"\n")


def read_mar(path: Path) -> list[FloatArray]:
    """Read marginals, with or without the number of samples that older files have, in order of the variables."""
    with open_tokens(path) as tokens:
        if tokens.word("MAR").upper() != "MAR":
            tokens.fail("a file of marginals starts with MAR", tokens.position - 1)
        first = tokens.position
        numbers = tokens.all_numbers("the marginals")
        for start in (0, 1):
            marginals = _split(numbers[start:])
            if marginals is not None and (start == 0 or numbers[0] == 1):
                _check_probabilities(tokens, marginals, first + start + 1)
                return marginals
        return tokens.fail("the counts of variables and states do not fit the numbers that follow")


def _check_probabilities(tokens: Tokens, marginals: list[FloatArray], position: int) -> None:
    """Raise at the first number that is no probability; the first count of states is token number `position`."""
    for index, marginal in enumerate(marginals):
        fine = (marginal >= 0.0) & (marginal <= 1.0 + ROUNDING)
        if not fine.all():
            message = f"the marginal of variable {index}: probabilities are numbers from 0 to 1"
            tokens.fail(message, position + 1 + int(fine.argmin()))
        position += 1 + len(marginal)


def _split(numbers: FloatArray) -> list[FloatArray] | None:
    """Return the numbers by variable, or None if the counts among them do not fit."""
    marginals: list[FloatArray] = []
    position = 1
    while position < len(numbers):
        size = numbers[position]
        if not (size >= 1 and size == np.floor(size) and position + size < len(numbers)):
            return None
        marginals.append(numbers[position + 1 : position + 1 + int(size)])
        position += 1 + int(size)
    return marginals if len(numbers) and len(marginals) == numbers[0] else None


def write_pr(result: Snapshot, file: BinaryIO, path: Path) -> None:
    """Write log10 of the partition function (of the evidence, for Bayesian networks)."""
    if not math.isfinite(result.log_z):
        message = "log Z is not known: the run was stopped before every factor was updated once, or its targets leave "
        raise FormatError(path, f"{message}out a part of the model")
    file.write(f"PR\n{result.log_z / math.log(10)!r}\n".encode("ascii"))


def write_mpe(states: Sequence[int], file: BinaryIO) -> None:
    """Write a joint state, given by the numbers of states in the order of variables."""
    file.write(f"MPE\n{' '.join(map(str, [len(states), *states]))}\n".encode("ascii"))


def read_pr(path: Path) -> float:
    """Read log10 of a partition function."""
    with open_tokens(path) as tokens:
        if tokens.word("PR").upper() != "PR":
            tokens.fail("a file of a partition function starts with PR", tokens.position - 1)
        value = float(tokens.numbers(1, "log10 of Z")[0])
        tokens.finish("log10 of Z")
        return value
