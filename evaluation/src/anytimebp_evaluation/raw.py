"""Raw results: one CSV file per experiment, a row per measured moment, whole runs only; compressed in the end.

Of runs that are followed to an error, only the moments that tell when errors were reached are kept (`milestones`).
A run's rows are added in one go, and the last of them says how the run ended. So whatever was interrupted can go on:
rows after the last ending are those of a write that was cut short, and are dropped.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, get_type_hints

from anytimebp import FormatError
from anytimebp.formats.whole_file import whole_file
from anytimebp_evaluation.packed import pack, read_parts
from anytimebp_evaluation.sampling import Curve, Point


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
        path: The file that runs are added to; read if it is there, and so is what `packed` has made of it.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there, and cut off what was left unfinished."""
        self.path = path
        self.curves: dict[Key, Curve] = {}
        for part, text in read_parts(path).items():
            curves, whole = _read(part, text)
            self.curves |= curves
            if part == path and whole != len(text):
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
            file.write("".join(lines) if file.tell() else HEADER + "".join(lines))
        self.curves[key] = curve

    def pack(self) -> None:
        """Compress what is there."""
        pack(self.path)


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
