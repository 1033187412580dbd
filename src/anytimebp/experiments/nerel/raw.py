"""The raw rows of the experiment on disk: a CSV file, documents added whole as they are finished."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from anytimebp.errors import FormatError
from anytimebp.experiments.nerel.task import Row, contenders
from anytimebp.formats.whole_file import whole_file


def read_rows(path: Path) -> list[Row]:
    """Return the rows of finished documents, as texts; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    if rows and not {"seed", "document", "contender"} <= rows[0].keys():
        raise FormatError(path, "line 1: expected columns seed, document and contender; is this another file?")
    whole = len(contenders())
    finished = [group for group in _documents(rows) if len(group) == whole and None not in group[-1].values()]
    return [row for group in finished for row in group]


def append_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add the rows of a document; what an interrupted write has left behind goes."""
    before = read_rows(path)
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
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
