"""Evidence by names, as JSON: `{"weather": "rain", "ground": [3, 4]}`, a label or a list of allowed labels each."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from anytimebp.errors import EvidenceError, FormatError
from anytimebp.formats.tokens import without_bom
from anytimebp.formats.whole_file import read_at_most
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.graph import FactorGraph

MOST_BYTES = 100_000_000  # a small file may unpack to any number


def read_json_evidence(path: Path, graph: FactorGraph) -> dict[str, object]:
    """Read evidence and check it against the model."""
    data = without_bom(read_at_most(path, MOST_BYTES), path)
    try:
        found = json.loads(data, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise FormatError(path, f"not JSON: {error.msg}", error.lineno) from None
    except EvidenceError as error:
        raise FormatError(path, str(error)) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise FormatError(path, f"evidence is an object of names and labels, got {type(found).__name__}")
    try:
        evidence = {name: frozenset(value) if isinstance(value, list) else value for name, value in found.items()}
        read_evidence_mapping(evidence, graph.variables)
    except (EvidenceError, TypeError) as error:
        raise FormatError(path, str(error)) from None
    return evidence


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return names and values as a mapping; JSON itself would keep the last of those that share a name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        msg = f"variable {twice!r} is observed twice"
        raise EvidenceError(msg)
    return found
