"""The raw rows of the experiment on disk: a CSV file, documents added whole as they are finished."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from anytimebp.errors import FormatError
from anytimebp.experiments.nerel.task import Row, contenders
from anytimebp.experiments.raw import read_text
from anytimebp.formats.whole_file import whole_file

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
    """Return the rows of finished documents, as texts; none if there is no file.

    Raises:
        FormatError: It is another file, or a number is none; names the line.
    """
    if not path.exists():
        return []
    text = read_text(path)
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
    before = read_rows(path)
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(before)
    writer.writerows(rows)
    with whole_file(path) as file:
        file.write(buffer.getvalue().encode())


def _documents(rows: Sequence[Row]) -> list[list[Row]]:
    """Return rows document by document."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row["seed"]), str(row["document"])), []).append(row)
    return list(groups.values())
