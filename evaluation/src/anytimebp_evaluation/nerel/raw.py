"""The raw rows of the experiment on disk: a CSV file, documents added whole as they are finished; see `packed`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from anytimebp import FormatError
from anytimebp.formats.whole_file import whole_file
from anytimebp_evaluation.nerel.task import Row, contenders
from anytimebp_evaluation.packed import pack, read_parts

WORDS = ("document", "split", "contender", "stop_reason")
COLUMNS = (
    "seed",
    *WORDS[:3],
    *("budget_fraction", "budget_seconds", "seconds"),
    *("types_right", "types_total", "true_positives", "false_positives", "false_negatives"),
    *("l2", "stop_reason", "work"),
    *("n_types", "n_relations", "n_entities", "n_pairs", "relations_reachable"),
    *("train_documents", "table_weight", "joint_none", "local_none"),
)
"""Of the file; all but WORDS are numbers."""


def read_rows(path: Path) -> list[Row]:
    """Return the rows of finished documents, as texts; none if there are no files.

    Raises:
        FormatError: It is another file, or a number is none; names the line.
    """
    return [row for part, text in read_parts(path).items() for row in _rows(part, text)]


def _rows(path: Path, text: str) -> list[Row]:
    """Return the rows of the documents that are whole."""
    reader = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))
    if reader.fieldnames is not None and tuple(reader.fieldnames) != COLUMNS:
        raise FormatError(path, f"line 1: expected the columns {','.join(COLUMNS)}; is this another file?")
    rows: list[Row] = [dict(_checked(path, reader.line_num, row)) for row in reader]
    whole = len(contenders())
    return [row for group in _documents(rows) if len(group) == whole for row in group]


def _checked(path: Path, number: int, row: dict[str, str]) -> dict[str, str]:
    """Return a row whose numbers are numbers."""
    try:
        for name in COLUMNS:
            if name not in WORDS:
                float(row[name])
    except (ValueError, TypeError) as error:
        raise FormatError(path, f"line {number}: {error}") from None
    return row


def append_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add the rows of a document; what an interrupted write has left behind goes."""
    before = _rows(path, read_parts(path).get(path, ""))
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(before)
    writer.writerows(rows)
    with whole_file(path) as file:
        file.write(buffer.getvalue().encode())


def pack_rows(path: Path) -> None:
    """Compress the rows of finished documents."""
    if path.exists():
        append_rows(path, ())
    pack(path)


def _documents(rows: Sequence[Row]) -> list[list[Row]]:
    """Return rows document by document."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row["seed"]), str(row["document"])), []).append(row)
    return list(groups.values())
