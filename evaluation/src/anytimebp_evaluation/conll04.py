"""Sentences of CoNLL04 as documents of the joint task: four types of entities, five relations, spans given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anytimebp import FormatError, OptionError
from anytimebp_evaluation.nerel.documents import NONE, SPLITS, Document, Entity, Labels

TYPES = "conll04_types.json"


def read_conll04(folder: Path) -> tuple[Labels, list[Document]]:
    """Read the labels, and the sentences of all splits.

    Raises:
        OptionError: A file is not there.
        FormatError: A file is not what it should be.
    """
    known = _read(folder, TYPES)
    labels = Labels(tuple(known["entities"]), (NONE, *known["relations"]))
    documents = []
    for split in SPLITS:
        for number, raw in enumerate(_read(folder, f"conll04_{split}.json")):
            try:
                documents.append(_document(raw, split, number))
            except (KeyError, IndexError, ValueError, TypeError) as error:
                path = Path(folder) / f"conll04_{split}.json"
                raise FormatError(path, f"sentence {number} is not as expected: {error!r}") from error
    return labels, documents


def _read(folder: Path, name: str) -> Any:
    path = Path(folder) / name
    if not path.is_file():
        msg = f"the folder of CoNLL04 needs a file {name}, and there is none at {path}"
        raise OptionError(msg)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(path, f"cannot be read as JSON: {error}") from error


def _document(raw: Any, split: str, number: int) -> Document:
    """Make a document of a sentence, its words with a space between them."""
    text, starts = " ".join(raw["tokens"]), []
    place = 0
    for token in raw["tokens"]:
        starts.append(place)
        place += len(token) + 1
    entities: list[Entity] = []
    first = 0
    for k, tag in enumerate(raw["tags"]):  # B begins, I goes on, L ends, U is one word, O is none
        kind, _, label = tag.partition("-")
        if kind in {"B", "U"}:
            first = k
        if kind in {"L", "U"}:
            start, end = starts[first], starts[k] + len(raw["tokens"][k])
            entities.append(Entity(f"T{len(entities)}", label, start, end, text[start:end]))
    related = frozenset((own["type"], own["head"], own["tail"]) for own in raw["relations"])
    if any(not 0 <= place < len(entities) for _, *pair in related for place in pair):
        msg = "a relation of an entity that is not there"
        raise ValueError(msg)
    return Document(f"{split} {number}", split, text, tuple(entities), related)
