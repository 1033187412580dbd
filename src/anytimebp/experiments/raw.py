"""Raw results: one CSV file per experiment, a row per measured moment, whole runs only.

A run's rows are added in one go, and the last of them says how the run ended. So whatever was interrupted can go on:
rows after the last ending are those of a write that was cut short, and are dropped.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, get_type_hints

from anytimebp.errors import FormatError
from anytimebp.experiments.sampling import Curve, Point
from anytimebp.formats.whole_file import whole_file


class Key(NamedTuple):
    """Which run: `size` is the number of states or entities, `seed` that of the model and of random methods."""

    family: str
    size: int
    seed: int
    contender: str


COLUMNS = (*Key._fields, *Point._fields, "ended")
KINDS = (*get_type_hints(Key).values(), *get_type_hints(Point).values(), str)
HEADER = ",".join(COLUMNS) + "\n"


class RawFile:
    """The finished runs of an experiment, on disk and in memory.

    Args:
        path: The file; made with the first run, and read if it is there.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there, and cut off what was left unfinished."""
        self.path = path
        self.curves: dict[Key, Curve] = {}
        if path.exists():
            text = read_text(path)
            self.curves, whole = _read(path, text)
            if whole != len(text):
                with whole_file(path) as file:
                    file.write(text[:whole].encode())

    def add(self, key: Key, curve: Curve) -> None:
        """Add a run that is finished."""
        endings = [""] * (len(curve.points) - 1) + [curve.ended]
        lines = [
            ",".join([*map(str, key), *map(_shorten, point), ended]) + "\n"
            for point, ended in zip(curve.points, endings, strict=True)
        ]
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write("".join(lines) if self.curves else HEADER + "".join(lines))
        self.curves[key] = curve


def read_text(path: Path) -> str:
    """Return the text of a file of raw results.

    Raises:
        FormatError: It is not text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(path, f"this is not text in UTF-8 ({error.reason} at byte {error.start})") from None


def _shorten(value: float) -> str:
    """Return a number with the digits that mean something."""
    return str(value) if isinstance(value, int) else f"{value:.5g}"


def _read(path: Path, text: str) -> tuple[dict[Key, Curve], int]:
    """Return the finished runs, and how many characters of the file belong to them."""
    lines = text.splitlines(keepends=True)
    if lines and not HEADER.startswith(lines[0]):
        raise FormatError(path, f"line 1: expected the columns {HEADER.strip()}; is this another file?")
    curves: dict[Key, Curve] = {}
    points: list[Point] = []
    last: Key | None = None
    read, whole = len(HEADER), 0
    for number, line in enumerate(lines[1:], start=2):
        if not line.endswith("\n"):
            break
        key, point, ended = _parse(path, number, line)
        if points and key != last:
            raise FormatError(path, f"line {number}: the run before has no end; did two evaluations write at a time?")
        last = key
        read += len(line)
        points.append(point)
        if ended:
            curves[key] = Curve(points, ended)
            points, whole = [], read
    return curves, whole


def _parse(path: Path, number: int, line: str) -> tuple[Key, Point, str]:
    """Return the run and the moment that a line tells of, and how the run ended if it did."""
    try:
        cells = [kind(cell) for kind, cell in zip(KINDS, line.rstrip("\n").split(","), strict=True)]
    except ValueError as error:
        raise FormatError(path, f"line {number}: {error}") from None
    split = len(Key._fields)
    return Key(*cells[:split]), Point(*cells[split:-1]), cells[-1]
