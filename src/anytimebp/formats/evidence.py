"""Evidence by names, as JSON: `{"weather": "rain", "ground": [3, 4]}`, a label or a list of allowed labels each."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from anytimebp.errors import EvidenceError, FormatError
from anytimebp.formats.input_file import read_at_most
from anytimebp.formats.tokens import without_bom
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.graph import FactorGraph

MOST_BYTES = 2**25  # of text; what it states may take thirty times as much memory

MOST_DIGITS = 1000  # of a whole number


def read_json_evidence(path: Path, graph: FactorGraph) -> dict[str, object]:
    """Read evidence and check it against the model."""
    data, _ = read_at_most(path, MOST_BYTES)
    evidence = evidence_in_json(without_bom(data, path), path)
    try:
        read_evidence_mapping(evidence, graph.variables)
    except EvidenceError as error:
        raise FormatError(path, str(error)) from None
    return evidence


def evidence_in_json(text: str | bytes, path: Path, line: int | None = None) -> dict[str, object]:
    """Return the evidence that a JSON text states. It is not checked against a model.

    Args:
        text: An object of names and labels.
        path: The file that it is from.
        line: The line of the file that it is; None if it is the whole file.
    """
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise FormatError(path, f"not JSON: {error.msg}", line or error.lineno) from None
    except EvidenceError as error:
        raise FormatError(path, str(error), line) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"not JSON: {error}", line) from None
    if not isinstance(found, dict):
        raise FormatError(path, f"evidence is an object of names and labels, got {type(found).__name__}", line)
    try:
        return {name: frozenset(value) if isinstance(value, list) else value for name, value in found.items()}
    except TypeError as error:  # a list in a list
        raise FormatError(path, f"no label is a list or an object: {error}", line) from None


def _whole(text: str) -> int:
    """Return a whole number; Python itself refuses to read very long ones, with an error that names no cause."""
    if len(text) > MOST_DIGITS:
        msg = f"no state has a label of {len(text):,} digits: {text[:20]}..."
        raise EvidenceError(msg)
    return int(text)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return names and values as a mapping; refuse repeated names, of which Python's JSON keeps only the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        msg = f"variable {twice!r} is observed twice"
        raise EvidenceError(msg)
    return found
