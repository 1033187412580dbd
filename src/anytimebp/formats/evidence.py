"""Evidence by names, as JSON: `{"weather": "rain", "ground": [3, 4]}`, a label or a list of allowed labels each."""

from __future__ import annotations

import json
from pathlib import Path

from anytimebp.errors import EvidenceError, FormatError
from anytimebp.formats.tokens import without_bom
from anytimebp.formats.whole_file import open_input
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.graph import FactorGraph


def read_json_evidence(path: Path, graph: FactorGraph) -> dict[str, object]:
    """Read evidence and check it against the model."""
    with open_input(path) as (file, _):
        data = without_bom(file.read(), path)
    try:
        found = json.loads(data)
    except json.JSONDecodeError as error:
        raise FormatError(path, f"not JSON: {error.msg}", error.lineno) from None
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
