"""Evidence: from a file, and from options of the command line."""

from __future__ import annotations

from pathlib import Path

import click

from anytimebp.cli.paths import read_given_evidence
from anytimebp.formats.evidence import MOST_DIGITS
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.graph import FactorGraph

SHOWN = 5  # observations that are written out


def read_observed(file: Path | None, words: tuple[str, ...], graph: FactorGraph) -> dict[str, object]:
    """Return the evidence of a file and of words `NAME=STATE`."""
    evidence = read_given_evidence(file, graph) if file else {}
    for word in words:
        name, label = _split(word, graph)
        if name in evidence:
            message = f"--observe: variable {name!r} is observed already"
            raise click.UsageError(message)
        evidence[name] = label
    return evidence


def _split(word: str, graph: FactorGraph) -> tuple[str, object]:
    """Return the name and the label in `NAME=STATE`; both may hold equals signs of their own."""
    positions = [k for k, character in enumerate(word) if character == "="]
    if not positions:
        message = f"--observe takes NAME=STATE, got {word!r}"
        raise click.UsageError(message)
    known = [k for k in positions if graph.variables.find(word[:k]) is not None]
    meant = [(word[:k], label) for k in known for label in _labels(graph, word[:k], word[k + 1 :])]
    if len(meant) > 1:
        message = f"--observe {word!r} can be read in {len(meant)} ways; use an evidence file (.json)"
        raise click.UsageError(message)
    if meant:
        return meant[0]
    name = word[: known[0]] if known else word[: positions[0]]
    label = word[len(name) + 1 :]
    variable = graph.variables[name]  # says so if there is no such variable
    return name, _whole(label, name) if isinstance(variable.labels, range) and label.isdecimal() else label


def _labels(graph: FactorGraph, name: str, text: str) -> list[object]:
    """Return the labels that a text may mean; labels need not be text."""
    labels = graph.variables[name].labels
    if isinstance(labels, range):
        return [int(text)] if text.isascii() and text.isdigit() and _whole(text, name) in labels else []
    return [label for label in labels if str(label) == text]


def label_of(graph: FactorGraph, name: str, text: str) -> object:
    """Return the label that a text means; the text itself where there is none, or more than one."""
    found = _labels(graph, name, text)
    return found[0] if len(found) == 1 else text


def _whole(text: str, name: str) -> int:
    """Return a whole number; Python itself refuses to read very long ones."""
    if len(text) > MOST_DIGITS:
        message = f"--observe: variable {name!r} has no state that is a number of {len(text):,} digits: {text[:20]}..."
        raise click.UsageError(message)
    return int(text)


def fixed_variables(evidence: dict[str, object], graph: FactorGraph) -> set[int]:
    """Return the indices of variables that have only one state left."""
    seen = read_evidence_mapping(evidence, graph.variables)
    return {index for index, known in seen.items() if known.states is not None and len(known.states) == 1}


def describe_evidence(evidence: dict[str, object]) -> str:
    """Return what is observed, for people."""
    if not evidence:
        return "none"
    known = [f"{name} = {_text(value)}" for name, value in list(evidence.items())[:SHOWN]]
    more = [f"and {len(evidence) - SHOWN:,} more"] if len(evidence) > SHOWN else []
    return ", ".join(known + more)


def _text(value: object) -> str:
    return " or ".join(sorted(map(str, value))) if isinstance(value, frozenset) else str(value)
