"""Documents of NEREL: how they are read, and which ordered pairs of entities may be related.

Spans of entities are given. Types and relations are what the task is about, so candidates go by places only.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytimebp import FormatError, OptionError

DOCUMENTS, LABELS = "nerel_compact.jsonl.gz", "annotation.conf"
SPLITS = ("train", "dev", "test")
NONE = "none"
NEAR = 8  # entities further apart in text order are no candidates; 10 would be half as many pairs again
CHARACTERS = 150  # nor are those with more characters between them


@dataclass(frozen=True)
class Entity:
    """A mention: its type and where it stands, from the first character to behind the last, gaps included."""

    name: str
    type: str
    start: int
    end: int
    surface: str


@dataclass(frozen=True)
class Document:
    """A text, its entities in text order (the outer of nested ones first) and the relations between them.

    Attributes:
        relations: Triples of the relation and the positions of both entities.
    """

    name: str
    split: str
    text: str
    entities: tuple[Entity, ...]
    relations: frozenset[tuple[str, int, int]]


@dataclass(frozen=True)
class Labels:
    """The states of both kinds of variables; "none" is the first relation."""

    types: tuple[str, ...]
    relations: tuple[str, ...]


def read_labels(folder: Path) -> Labels:
    """Read the types and relations that `annotation.conf` lists.

    Raises:
        OptionError: The file is not there.
        FormatError: It lists no types or no relations.
    """
    sections: dict[str, list[str]] = {}
    section: list[str] = []
    path = _existing(folder, LABELS)
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[] \t"), [])
        elif line.strip() and not line.startswith(("<", "#")):
            section.append(line.split()[0])
    for name in ("entities", "relations"):
        if not sections.get(name):
            raise FormatError(path, f"expected a section [{name}] that is not empty")
    return Labels(tuple(sections["entities"]), (NONE, *sections["relations"]))


def read_documents(folder: Path, labels: Labels) -> list[Document]:
    """Read all documents, in the order of the file.

    Raises:
        OptionError: The file is not there.
        FormatError: A line is no document, or uses labels that `labels` does not have; names the line.
    """
    path = _existing(folder, DOCUMENTS)
    documents = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    documents.append(_document(line, labels, path, number))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FormatError(path, f"cannot be read as text packed with gzip: {error}") from error
    return documents


def fingerprint(folder: Path) -> str:
    """Return a few letters that tell the documents and labels of a folder from others.

    Raises:
        OptionError: A file is not there.
    """
    sums = [sha256(_existing(folder, name).read_bytes()).hexdigest() for name in (DOCUMENTS, LABELS)]
    return sha256("".join(sums).encode()).hexdigest()[:12]


def candidate_pairs(document: Document) -> NDArray[np.int64]:
    """Return the ordered pairs that get a relation variable, as positions of entities.

    Both orders of every two entities with at most `NEAR` steps in text order and `CHARACTERS` characters between them.
    Nested entities have none between them, so that they are candidates.

    Returns:
        Positions of first and second entity, of shape (pairs, 2), sorted.
    """
    entities = document.entities
    pairs = []
    for first, entity in enumerate(entities):
        for second in range(first + 1, min(first + NEAR + 1, len(entities))):
            if entities[second].start - entity.end <= CHARACTERS:
                pairs += [(first, second), (second, first)]
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def gold_relations(document: Document) -> dict[tuple[int, int], list[str]]:
    """Return the relations of every related ordered pair, sorted; a few pairs have two."""
    related: dict[tuple[int, int], list[str]] = {}
    for relation, first, second in sorted(document.relations):
        related.setdefault((first, second), []).append(relation)
    return related


def count_reachable(document: Document, pairs: NDArray[np.int64]) -> int:
    """Return how many true relations a labelling of these pairs with one relation each can find."""
    candidates = {(int(first), int(second)) for first, second in pairs}
    return sum(pair in candidates for pair in gold_relations(document))


def _existing(folder: Path, name: str) -> Path:
    path = Path(folder) / name
    if not path.is_file():
        msg = f"the folder of NEREL needs a file {name}, and there is none at {path}"
        raise OptionError(msg)
    return path


def _document(line: str, labels: Labels, path: Path, number: int) -> Document:
    """Make a document of a line; whatever is wrong with it becomes a FormatError with its number."""
    try:
        raw = json.loads(line)
        if raw["split"] not in SPLITS:
            msg = f"the split is {raw['split']!r}, not one of {', '.join(SPLITS)}"
            raise ValueError(msg)  # noqa: TRY301
        entities = sorted((_entity(fields, labels, raw["text"]) for fields in raw["entities"]), key=_text_order)
        place = {entity.name: position for position, entity in enumerate(entities)}
        if len(place) < len(entities):
            msg = "two entities have the same id"
            raise ValueError(msg)  # noqa: TRY301
        related = {(_known(name, labels.relations), place[one], place[two]) for name, one, two in raw["relations"]}
        return Document(str(raw["id"]), raw["split"], raw["text"], tuple(entities), frozenset(related))
    except KeyError as error:
        raise FormatError(path, f"there is no {error} among the fields or entities", number) from error
    except (ValueError, TypeError, IndexError) as error:
        raise FormatError(path, f"this is not a document of NEREL: {error}", number) from error


def _entity(fields: Any, labels: Labels, text: str) -> Entity:
    name, label, spans, surface = fields
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    if not 0 <= start < end <= len(text):
        msg = f"entity {name} reaches from {start} to {end} in a text of {len(text)} characters"
        raise ValueError(msg)
    return Entity(name, _known(label, labels.types), start, end, surface)


def _known(label: str, known: tuple[str, ...]) -> str:
    if label not in known or label == NONE:
        msg = f"{label!r} is not a label of {LABELS}"
        raise ValueError(msg)
    return label


def _text_order(entity: Entity) -> tuple[int, int]:
    return entity.start, -entity.end
